//! Keeps the rules up to date: whole sets or none, and the last good one stays.

use super::Reactor;
use crate::core::Core;
use crate::limits::{BUS_PAUSE, NOTICES_WAITING, REACTOR_RULES_AWAITED, REACTOR_RULES_EVERY};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::{sleep, timeout};
use zester_bus::{Delivery, Listen, Subscription};
use zester_publish::{Change, Error, MemoryCache, Reader};
use zester_reactor::RuleSet;
use zester_wire::published::notice_token;
use zester_wire::{Published, Subject};

/// Ends when the bus is closed.
pub async fn run(core: Arc<Core>, reactor: Arc<Reactor>) {
    let Ok(what) = notice_token(Published::Reactor) else { return };
    let subject = Subject::Notify { what }.to_string();
    let mut notices = crate::router::subscribe(&core, &subject, &Listen::alone(NOTICES_WAITING)).await;
    let cache = MemoryCache::default();
    loop {
        look(&core, &reactor, &cache).await;
        let every = if reactor.rules().is_some() { REACTOR_RULES_EVERY } else { REACTOR_RULES_AWAITED };
        match timeout(core.link.jittered(every), notices.next()).await {
            Ok(Some(_)) if reactor.rules().is_some() => settled(&core, &reactor, &mut notices).await,
            // The first rules are not waited for.
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => return,
        }
    }
}

/// Until nothing was told for a while, and a moment longer: masters do not all load at once.
async fn settled(core: &Core, reactor: &Reactor, notices: &mut Subscription) {
    let debounce = reactor.reacting.reload_debounce;
    while let Ok(Some(Delivery::Message(_) | Delivery::Missed(_))) = timeout(debounce, notices.next()).await {
    }
    // Up to a quarter less or more of half of it, which stays below it.
    sleep(core.link.jittered(reactor.reacting.reload_jitter / 2)).await;
}

async fn look(core: &Arc<Core>, reactor: &Arc<Reactor>, cache: &MemoryCache) {
    let reader = Reader { link: &core.link, published: Published::Reactor, cache };
    let looked = reader.look().await;
    // What an earlier look found is over with the first that finds something whole.
    if looked.is_ok() && reactor.condition().torn.is_some() {
        reactor.set_torn(None);
    }
    match looked {
        Ok(Change::Nothing | Change::Unchanged) => {}
        Ok(Change::Now { revision, .. }) => load(reactor, cache, revision).await,
        // Without the bus nothing is known to be wrong with the rules.
        Err(Error::Bus(error)) => {
            tracing::debug!("the rules cannot be looked at now: {error}");
            sleep(BUS_PAUSE).await;
        }
        Err(error) => {
            let why = format!("the published rules are not whole: {error}");
            if reactor.condition().torn.as_ref() != Some(&why) {
                tracing::warn!("{why}");
            }
            reactor.set_torn(Some(why));
            sleep(BUS_PAUSE).await;
        }
    }
}

async fn load(reactor: &Arc<Reactor>, cache: &MemoryCache, revision: u64) {
    let mut files = BTreeMap::new();
    for (path, content) in cache.files() {
        match String::from_utf8(content) {
            Ok(text) => {
                files.insert(path.as_str().to_string(), text);
            }
            // What no rule can name may be anything.
            Err(_) if !path.as_str().ends_with(".zy") => {}
            Err(_) => {
                return reactor.set_problems(vec![format!("{}: it is not text", path.as_str())]);
            }
        }
    }
    let compiler = reactor.compiler.clone();
    let loading = move || RuleSet::load(revision, &files, compiler.as_ref());
    let loaded = match reactor.compiler.is_quick() {
        true => loading(),
        false => {
            let loaded = tokio::task::spawn_blocking(loading).await;
            loaded.unwrap_or_else(|_| Err(vec!["reading the rules broke; this is a mistake of ours".into()]))
        }
    };
    match loaded {
        Ok(rules) => {
            for warning in &rules.warnings {
                tracing::warn!("a rule is dangerous:\n{warning}");
            }
            tracing::info!(revision, rules = rules.rules().len(), "new rules are in use");
            reactor.set_rules(rules);
        }
        Err(problems) => {
            tracing::warn!(revision, "the rules do not load; those before stay:\n{}", problems.join("\n"));
            reactor.set_problems(problems);
        }
    }
}
