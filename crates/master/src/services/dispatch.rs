//! `zester.dispatch`: from a request to a job that has an owner.

use super::rights::must_be_allowed;
use super::{index_is_ready, must_be_fresh};
use crate::audit;
use crate::core::Core;
use crate::index::Resolved;
use crate::job::{self, JobMessage, Requester, Unstarted};
use crate::limits::{JOBS_MAX, TARGETS_MAX, UNKNOWN_PEELS_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zester_bus::Message;
use zester_identity::Principal;
use zester_identity::audit::Decided;
use zester_jobs::Owner;
use zester_model::target::Target;
use zester_policy::{Call, Wanted};
use zester_wire::{
    DispatchReply, DispatchRequest, Job, JobStatus, PeelId, Refusal, RefusalKind, TargetList, UnixMillis,
    VERSION,
};

pub async fn handle(core: Arc<Core>, message: Message, received: UnixMillis) {
    let Some(opened) = core.link.open::<DispatchRequest>(&message.subject, &message.payload) else { return };
    let room = || core.shares.take(opened.principal.as_ref(), core.link.dropped());
    if let Err(refusal) = must_be_fresh(&opened, received).and_then(|()| room()) {
        let error = Some(refusal);
        let reply = DispatchReply { v: VERSION, jid: None, targets: Vec::new(), error, offline: None };
        return core.answer(message.reply.as_deref(), &reply).await;
    }
    let unknown = unknown_of(&core, &opened.message.target_expr);
    let mut request = opened.message;
    if let Some(who) = &opened.principal {
        // Whose request it is, the key says; the word inside is only a word.
        request.user.clone_from(&who.name);
    }
    let requester = Requester::dispatch(request, message.reply, received);
    let asked =
        AskedBy { act: "dispatch", who: opened.principal, rule: None, request: opened.id.to_string() };
    begin(&core, requester, opened.envelope, unknown, asked).await;
}

/// Who asked for a job, for what they may and for the log.
pub struct AskedBy {
    pub act: &'static str,
    pub who: Option<Principal>,
    /// The rule, where a reaction asked.
    pub rule: Option<String>,
    /// The id of the message that asked.
    pub request: String,
}

impl AskedBy {
    fn decided(&self, request: &DispatchRequest, count: usize, refused: &str) -> Decided {
        let (who, key) = match &self.rule {
            Some(rule) => (format!("rule {rule}"), String::new()),
            None => audit::by(self.who.as_ref(), &request.user),
        };
        let test = if request.test { " --test" } else { "" };
        let peels = if count == 1 { "peel" } else { "peels" };
        let DispatchRequest { jid, function, target_expr, .. } = request;
        let about = format!("{jid} {function}{test} on `{target_expr}` ({count} {peels})");
        Decided {
            act: self.act,
            who,
            key,
            about,
            refused: refused.to_string(),
            request: self.request.clone(),
        }
    }
}

/// Names in the lists of an expression that no peel has. Where not all peels are known yet, nobody is called unknown.
fn unknown_of(core: &Core, expression: &str) -> Vec<PeelId> {
    let Ok(target) = Target::parse(expression) else { return Vec::new() };
    let listed = target.listed().into_iter().filter_map(|name| PeelId::parse(name).ok());
    unknown(core, listed)
}

/// Those of these that no peel is called.
pub fn unknown(core: &Core, names: impl Iterator<Item = PeelId>) -> Vec<PeelId> {
    if !core.index.is_current() {
        return Vec::new();
    }
    let facts = core.index.snapshot();
    let is_known = |name: &PeelId| facts.contains_key(name) || core.index.is_online(name);
    names.filter(|name| !is_known(name)).take(UNKNOWN_PEELS_MAX).collect()
}

/// Starts what was asked for, or says why not. `unknown`: names that were listed and that no peel has, for the record; so are peels
/// of whom nobody can say whether they are meant.
pub async fn begin(
    core: &Arc<Core>,
    requester: Requester,
    envelope: Vec<u8>,
    unknown: Vec<PeelId>,
    asked: AskedBy,
) {
    // A job that is under way here answers for itself: its targets may match no more.
    if let Some(handle) = core.running.get(&requester.request.jid) {
        return hand_over(core, &handle, requester).await;
    }
    match targets(core, &requester.request).await {
        Ok(Resolved { peels: targets, undecided }) => {
            let wanted = Wanted::Call { call: Call::from(&requester.request), direct: false };
            if let Err(refusal) = must_be_allowed(core, asked.who.as_ref(), &wanted, &targets) {
                core.audit.note(asked.decided(&requester.request, targets.len(), &refusal.message));
                return refuse(core, requester, refusal).await;
            }
            let untold = unknown.into_iter().chain(undecided).take(UNKNOWN_PEELS_MAX).collect();
            begin_on(core, requester, envelope, untold, targets, asked).await;
        }
        Err(refusal) => refuse(core, requester, refusal).await,
    }
}

/// The same for targets that were resolved.
pub async fn begin_on(
    core: &Arc<Core>,
    requester: Requester,
    envelope: Vec<u8>,
    unknown: Vec<PeelId>,
    targets: Vec<PeelId>,
    asked: AskedBy,
) {
    if let Some(handle) = core.running.get(&requester.request.jid) {
        return hand_over(core, &handle, requester).await;
    }
    // A store that is known to take nothing is not tried: so it is certain that nothing was written (J-28).
    if let Some(refusal) = core.stores.refusal() {
        return refuse(core, requester, refusal).await;
    }
    // A target is asked, whoever knows it.
    let unknown_peels = unknown.into_iter().filter(|name| !targets.contains(name)).collect();
    let decided = asked.decided(&requester.request, targets.len(), "");
    let job = job_of(core, &requester.request, targets, envelope);
    let job = Job { claim_until: requester.claim_until, unknown_peels, ..job };
    let owner = Owner::dispatch(job, core.id.clone(), core.timing.clone());
    match job::start(core, owner, false, Some(requester)).await {
        Ok(()) => core.audit.note(decided),
        Err(Unstarted::UnderWay(requester)) => {
            let Some(requester) = requester else { return };
            match core.running.get(&requester.request.jid) {
                Some(handle) => hand_over(core, &handle, *requester).await,
                None => just_ended(core, *requester).await,
            }
        }
        Err(Unstarted::TooMany(requester)) => {
            let Some(requester) = requester else { return };
            let why = format!("{JOBS_MAX} jobs are running, which is the limit; ask again later");
            ask_again(core, *requester, &why).await;
        }
        Err(Unstarted::Stopping(requester)) => {
            let Some(requester) = requester else { return };
            ask_again(core, *requester, "this master stops; ask again").await;
        }
        Err(Unstarted::Refused(requester, refusal)) => {
            let Some(requester) = requester else { return };
            requester.refuse(core, refusal).await;
        }
    }
}

/// Refuses a request that was not begun, unless a copy of it was meanwhile.
async fn refuse(core: &Core, requester: Requester, refusal: Refusal) {
    let Requester { request, claim_until, .. } = &requester;
    match core.running.refuse_new(&request.jid, refusal, *claim_until, core.link.now()) {
        Ok(refusal) => requester.refuse(core, refusal).await,
        Err(handle) => hand_over(core, &handle, requester).await,
    }
}

async fn hand_over(core: &Core, handle: &job::Handle, requester: Requester) {
    if let Err(JobMessage::Asked(requester)) = handle.hand(JobMessage::Asked(Box::new(requester))).await {
        just_ended(core, *requester).await;
    }
}

/// How it ended is not known here any more; its record says it to whoever asks next.
async fn just_ended(core: &Core, requester: Requester) {
    requester.refuse(core, Requester::in_doubt("the job has just ended here; ask again")).await;
}

async fn ask_again(core: &Core, requester: Requester, why: &str) {
    requester.refuse(core, Requester::unavailable(why)).await;
}

/// Whom a request means. Peels that are named one by one need not be known: they may come, and else are unreachable.
async fn targets(core: &Core, request: &DispatchRequest) -> Result<Resolved, Refusal> {
    let resolved = if request.targets.is_empty() {
        index_is_ready(core)?;
        core.index.resolve_aside(&request.target_expr).await?
    } else {
        let distinct: BTreeSet<&PeelId> = request.targets.iter().collect();
        if distinct.len() < request.targets.len() {
            return Err(Refusal::new(RefusalKind::Invalid, "a peel is named twice among the targets"));
        }
        Resolved { peels: request.targets.clone(), undecided: Vec::new() }
    };
    let targets = &resolved.peels;
    if targets.is_empty() {
        let known = core.index.len();
        let peels = if known == 1 { "peel is" } else { "peels are" };
        let undecided = resolved.undecided_words().map_or_else(String::new, |words| format!("; {words}"));
        let message = format!("no peel matches `{}`{undecided}", request.target_expr);
        let hint = format!("{known} {peels} known, `zester peel list` shows them");
        return Err(Refusal { hint, ..Refusal::new(RefusalKind::NoTargets, message) });
    }
    if targets.len() > TARGETS_MAX {
        let message = format!("{} peels match; one job has at most {TARGETS_MAX}", targets.len());
        return Err(Refusal::new(RefusalKind::Invalid, message));
    }
    Ok(resolved)
}

fn job_of(core: &Core, request: &DispatchRequest, targets: Vec<PeelId>, envelope: Vec<u8>) -> Job {
    // An older client signs the names too; they are not sent to all.
    let envelope = if request.may_be_passed_on() { envelope } else { Vec::new() };
    let target_expr = request.recorded_expr();
    let target_digest = request.target_digest.clone().filter(|digest| digest.count > 0);
    let target_list = TargetList::of(&targets);
    let request = request.clone();
    Job {
        v: VERSION,
        jid: request.jid,
        function: request.function,
        args: request.args,
        state_id: request.state_id,
        targets,
        target_expr,
        timeout: request.timeout,
        deadline: UnixMillis(0),
        status: JobStatus::Pending,
        created: UnixMillis(0),
        updated: UnixMillis(0),
        user: request.user,
        owner: core.id.clone(),
        epoch: 0,
        dispatch_epoch: 0,
        reclaim_count: 0,
        return_count: 0,
        success_count: 0,
        metadata: request.metadata,
        positionals: request.positionals,
        test: request.test,
        reason: String::new(),
        missing: BTreeMap::new(),
        unknown_peels: Vec::new(),
        request: envelope,
        target_digest,
        target_list,
        claim_until: UnixMillis(0),
        rest: BTreeMap::new(),
    }
}
