//! `zester.dispatch`: from a request to a job that has an owner.

use super::index_is_ready;
use crate::core::Core;
use crate::job::{self, Asker, Mail, Unstarted};
use crate::limits::{JOBS_MAX, TARGETS_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zester_bus::Message;
use zester_jobs::Owner;
use zester_wire::{
    DispatchRequest, Job, JobStatus, PeelId, Refusal, RefusalKind, TargetList, UnixMillis, VERSION,
};

pub async fn handle(core: Arc<Core>, message: Message, received: UnixMillis) {
    let Some(opened) = core.link.open::<DispatchRequest>(&message.subject, &message.payload) else { return };
    begin(&core, Asker::dispatch(opened.message, message.reply, received), opened.envelope).await;
}

/// Starts what was asked for, or says why not.
pub async fn begin(core: &Arc<Core>, asker: Asker, envelope: Vec<u8>) {
    // A job that is under way here answers for itself: its targets may match no more.
    if let Some(handle) = core.roster.get(&asker.request.jid) {
        return hand_over(core, &handle, asker).await;
    }
    let targets = match targets(core, &asker.request).await {
        Ok(targets) => targets,
        Err(refusal) => return asker.refuse(core, refusal).await,
    };
    // A store that is known to take nothing is not tried: so it is certain that nothing was written (J-28).
    if let Some(refusal) = core.stores.refusal() {
        return asker.refuse(core, refusal).await;
    }
    let job = Job { claim_until: asker.claim_until, ..job_of(core, &asker.request, targets, envelope) };
    let owner = Owner::dispatch(job, core.id.clone(), core.timing.clone());
    match job::start(core, owner, false, Some(asker)).await {
        Ok(()) => {}
        Err(Unstarted::UnderWay(asker)) => {
            let Some(asker) = asker else { return };
            match core.roster.get(&asker.request.jid) {
                Some(handle) => hand_over(core, &handle, *asker).await,
                None => just_ended(core, *asker).await,
            }
        }
        Err(Unstarted::TooMany(asker)) => {
            let Some(asker) = asker else { return };
            let why = format!("{JOBS_MAX} jobs are running, which is the limit; ask again later");
            ask_again(core, *asker, &why).await;
        }
        Err(Unstarted::Stopping(asker)) => {
            let Some(asker) = asker else { return };
            ask_again(core, *asker, "this master stops; ask again").await;
        }
    }
}

async fn hand_over(core: &Core, handle: &job::Handle, asker: Asker) {
    if let Err(Mail::Asked(asker)) = handle.hand(Mail::Asked(Box::new(asker))).await {
        just_ended(core, *asker).await;
    }
}

/// How it ended is not known here any more; its record says it to whoever asks next.
async fn just_ended(core: &Core, asker: Asker) {
    asker.refuse(core, Asker::in_doubt("the job has just ended here; ask again")).await;
}

async fn ask_again(core: &Core, asker: Asker, why: &str) {
    asker.refuse(core, Asker::unavailable(why)).await;
}

/// Whom a request means. Peels that are named one by one need not be known: they may come, and else are unreachable.
async fn targets(core: &Core, request: &DispatchRequest) -> Result<Vec<PeelId>, Refusal> {
    let targets = if request.targets.is_empty() {
        index_is_ready(core)?;
        core.index.resolve_aside(&request.target_expr).await?
    } else {
        let distinct: BTreeSet<&PeelId> = request.targets.iter().collect();
        if distinct.len() < request.targets.len() {
            return Err(Refusal::new(RefusalKind::Invalid, "a peel is named twice among the targets"));
        }
        request.targets.clone()
    };
    if targets.is_empty() {
        let known = core.index.len();
        let peels = if known == 1 { "peel is" } else { "peels are" };
        let message = format!("no peel matches `{}`", request.target_expr);
        let hint = format!("{known} {peels} known, `zester peel list` shows them");
        return Err(Refusal { hint, ..Refusal::new(RefusalKind::NoTargets, message) });
    }
    if targets.len() > TARGETS_MAX {
        let message = format!("{} peels match; one job has at most {TARGETS_MAX}", targets.len());
        return Err(Refusal::new(RefusalKind::Invalid, message));
    }
    Ok(targets)
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
        request: envelope,
        target_digest,
        target_list,
        claim_until: UnixMillis(0),
        rest: BTreeMap::new(),
    }
}
