//! `zester reactor`

mod replay;

pub use replay::Report;

use super::event::{event_data, key_glob};
use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::watching::{client_failure, patiently};
use crate::output::{reaction_tree_text, reactor_text};
use serde_json::{Value as Json, json};
use std::time::Duration;
use zester_client::{Client, EventTree, JobTree, LedgerQuery, ReactionTree};
use zester_model::suggest::did_you_mean;
use zester_reactor::{Decision, DropReason};
use zester_wire::{LedgerEntry, RuleList, RuleStatus};

/// What the reactor does about events: test, list, look back
///
/// Rules are files of the reactor directory (`top.zy` says which events meet which). They reach every master by `zester publish`;
/// `zester lint DIR` checks them before.
#[derive(clap::Args, Debug)]
pub struct Reactor {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// What the rules would do about an event; nothing is executed
    ///
    /// Exit code 2 where a rule cannot be rendered or says something that is not an action.
    #[command(after_help = TEST_EXAMPLES)]
    Test {
        /// The key of the event: ORIGIN/TAG
        #[arg(value_name = "KEY")]
        key: String,
        /// One value of its data; may be repeated
        #[arg(long = "data", value_name = "k=v")]
        words: Vec<String>,
        /// Its data as one JSON object
        #[arg(long, value_name = "JSON")]
        event_json: Option<String>,
        #[command(flatten)]
        connect: Connect,
    },
    /// The rules in use, with their guards
    Rules {
        /// Only those that match this key, and why the others do not
        #[arg(long, value_name = "KEY")]
        why: Option<String>,
        #[command(flatten)]
        connect: Connect,
    },
    /// What was decided about events: which rules, what came of it, and why not
    History {
        /// Only of this rule: reactor.restart
        #[arg(long, value_name = "RULE")]
        rule: Option<String>,
        /// Only of this event, by its id or the beginning of it
        #[arg(long, value_name = "ID")]
        event: Option<String>,
        /// Only of events from this origin: a peel, _master or _admin
        #[arg(long, value_name = "ORIGIN")]
        source: Option<String>,
        /// Only with this result: dispatched, throttled, ratelimit, …
        #[arg(long, value_name = "WORD")]
        result: Option<String>,
        /// How far back
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = zester_model::duration::parse)]
        since: Duration,
        /// How many, the newest
        #[arg(long, value_name = "N", default_value_t = 200)]
        limit: usize,
        #[command(flatten)]
        connect: Connect,
    },
    /// All that came of one event, as a tree: rules, jobs, returns, further events
    Show {
        /// Its id, or the beginning of it
        #[arg(value_name = "EVENT-ID")]
        id: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// What other rules would have made of past events, and how that differs from what happened
    ///
    /// Nothing is executed. Events are taken from the stream, in their order and at their times; guards are those of the
    /// configuration here (`--set reactor.storm_rate=10` tries another), and facts are those of now.
    Replay {
        /// The directory of the rules, with its `top.zy`
        #[arg(long, value_name = "DIR")]
        rules: std::path::PathBuf,
        /// How far back
        #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = zester_model::duration::parse)]
        since: Duration,
        #[command(flatten)]
        connect: Connect,
    },
    /// The breakers, which stop a rule that reacts too often
    Breaker {
        #[command(subcommand)]
        verb: BreakerVerb,
    },
}

#[derive(clap::Subcommand, Debug)]
pub enum BreakerVerb {
    /// Let a stopped rule react again, at every master
    Close {
        /// The rule as `top.zy` writes it: reactor.restart
        #[arg(value_name = "RULE")]
        rule: String,
        #[command(flatten)]
        connect: Connect,
    },
}

const TEST_EXAMPLES: &str = "Examples:
  zester reactor test web-01/beacon/web-01/service --data service=nginx --data running=false
  zester reactor test _admin/deploy/done --event-json '{\"version\": \"1.4.2\"}'";

pub fn run(args: Reactor, app: &mut App) -> answer::Result {
    let app = &*app;
    app.block_on(async move {
        let (Verb::Test { connect, .. }
        | Verb::Rules { connect, .. }
        | Verb::History { connect, .. }
        | Verb::Show { connect, .. }
        | Verb::Replay { connect, .. }
        | Verb::Breaker { verb: BreakerVerb::Close { connect, .. } }) = &args.verb;
        // Before anybody is asked.
        let data = match &args.verb {
            Verb::Test { words, event_json, .. } => event_data(words, event_json.as_deref())?,
            Verb::History { result: Some(word), .. } => is_result(word).map(|()| serde_json::Map::new())?,
            _ => serde_json::Map::new(),
        };
        let client = connect.client(app).await?;
        let answer = match &args.verb {
            Verb::Test { key, .. } => test(app, &client, key, data).await,
            Verb::Rules { why, .. } => rules(app, &client, why.as_deref()).await,
            Verb::History { rule, event, source, result, since, limit, .. } => {
                let word = |given: &Option<String>| given.clone().unwrap_or_default();
                let query = LedgerQuery {
                    rule: word(rule),
                    event: word(event),
                    source: word(source),
                    result: word(result),
                };
                history(app, &client, &query, *since, *limit).await
            }
            Verb::Show { id, .. } => show(app, &client, id).await,
            Verb::Replay { rules, since, .. } => replay::run(app, &client, *since, rules).await,
            Verb::Breaker { verb: BreakerVerb::Close { rule, .. } } => close(app, &client, rule).await,
        };
        let answer = answer.map_err(|failure| connect.explained(app, failure));
        let _closed = client.link().bus().close().await;
        answer
    })
}

async fn test(app: &App, client: &Client, key: &str, data: serde_json::Map<String, Json>) -> answer::Result {
    let reply = patiently(app, client.test_reactor(key, data)).await.map_err(client_failure)?;
    let text = reactor_text::tested(key, &reply, app.output.paint());
    let wrong = reply.rules.iter().any(|rule| !rule.errors.is_empty());
    let mut json = serde_json::to_value(&reply).unwrap_or_default();
    if let Some(map) = json.as_object_mut() {
        map.remove("v");
        map.insert("key".into(), key.into());
    }
    Ok((Answer::Document { json, text }, if wrong { Exit::Failed } else { Exit::Good }))
}

async fn rules(app: &App, client: &Client, key: Option<&str>) -> answer::Result {
    let list = patiently(app, client.reactor_rules()).await.map_err(client_failure)?;
    let now = client.link().now();
    let (matching, others) = match key {
        None => (list.rules.iter().collect(), Vec::new()),
        Some(key) => list.rules.iter().partition::<Vec<&RuleStatus>, _>(|rule| matches(rule, key)),
    };
    let text = match key {
        None => reactor_text::rules(&list, now, app.output.paint()),
        Some(key) => reactor_text::why(key, &matching, &others, now, app.output.paint()),
    };
    let RuleList { revision, master, more, problems, .. } = &list;
    let mut json = json!({
        "revision": revision, "master": master, "rules": matching, "more": more, "problems": problems,
    });
    if let (Some(key), Some(map)) = (key, json.as_object_mut()) {
        map.insert("key".into(), key.into());
        map.insert("not_matching".into(), json!(others));
    }
    Ok((Answer::Document { json, text }, Exit::Good))
}

fn matches(rule: &RuleStatus, key: &str) -> bool {
    key_glob(&rule.glob).is_ok_and(|glob| glob.matches(key))
}

async fn history(
    app: &App,
    client: &Client,
    query: &LedgerQuery,
    since: Duration,
    limit: usize,
) -> answer::Result {
    let mut entries = client.ledger(since, query).await.map_err(client_failure)?;
    let more = entries.len().saturating_sub(limit);
    entries.drain(..more);
    let documents: Vec<Json> = entries.iter().map(entry_document).collect();
    let text = reactor_text::history(&entries, more, since, app.output.paint());
    Ok((Answer::Document { json: json!({ "decisions": documents, "more": more }), text }, Exit::Good))
}

/// Whether the ledger knows this word: with a typo nothing would match, as if nothing had happened.
fn is_result(word: &str) -> Result<(), Failure> {
    let decisions = Decision::ALL.into_iter().map(Decision::as_str);
    let known: Vec<&str> = decisions.chain(DropReason::ALL.into_iter().map(DropReason::as_str)).collect();
    if known.contains(&word) {
        return Ok(());
    }
    let hint =
        did_you_mean(word, known.iter().copied()).unwrap_or_else(|| format!("there is {}", known.join(", ")));
    Err(Failure::usage(format!("`{word}` is no result; {hint}")))
}

fn entry_document(entry: &LedgerEntry) -> Json {
    let LedgerEntry { at, origin, tag, event_id, sequence, depth, rule, block, decision, reason, .. } = entry;
    json!({
        "at": at, "key": format!("{origin}/{tag}"), "origin": origin, "tag": tag, "event_id": event_id,
        "sequence": sequence, "depth": depth, "rule": rule, "block": block, "decision": decision,
        "reason": reason, "jid": entry.jid, "event_sent": entry.event_sent, "master": entry.master,
        "unwritten": entry.unwritten,
    })
}

async fn show(app: &App, client: &Client, id: &str) -> answer::Result {
    let Some(tree) = client.reaction_tree(id).await.map_err(client_failure)? else {
        let why =
            format!("there is no event `{id}`; `zester event watch --since 1h --format json` shows ids");
        return Err(Failure::usage(why));
    };
    let text = reaction_tree_text::text(&tree, app.output.paint());
    Ok((Answer::Document { json: tree_document(&tree), text }, Exit::Good))
}

fn tree_document(tree: &EventTree) -> Json {
    let mut json = match &tree.event {
        Some(seen) => super::event::document(seen),
        None => json!({ "id": tree.id }),
    };
    if let Some(map) = json.as_object_mut() {
        map.insert("reactions".into(), tree.reactions.iter().map(reaction_document).collect());
        map.insert("cut".into(), tree.cut.into());
    }
    json
}

fn reaction_document(reaction: &ReactionTree) -> Json {
    let entry = &reaction.entry;
    json!({
        "at": entry.at, "rule": entry.rule, "block": entry.block, "decision": entry.decision,
        "reason": entry.reason, "again": reaction.again, "jid": entry.jid,
        "job": reaction.job.as_ref().map(job_document), "event": reaction.sent.as_ref().map(tree_document),
    })
}

fn job_document(job: &JobTree) -> Json {
    let returns: serde_json::Map<String, Json> = job
        .returns
        .iter()
        .map(|(peel, ret)| (peel.to_string(), json!({ "success": ret.success, "error": ret.error })))
        .collect();
    json!({
        "jid": job.job.jid.as_str(), "status": job.job.status.as_str(), "function": job.job.function,
        "target": job.job.target_expr, "returns": returns,
        "events": job.events.iter().map(tree_document).collect::<Vec<_>>(),
    })
}

async fn close(app: &App, client: &Client, rule: &str) -> answer::Result {
    let told = patiently(app, client.close_breaker(rule, &ask::user())).await.map_err(client_failure)?;
    let text = format!("{told}\n");
    Ok((Answer::Document { json: json!({ "rule": rule, "message": told }), text }, Exit::Good))
}
