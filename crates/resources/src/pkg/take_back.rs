//! The revert of package states: what was new goes, what went comes back, and never goes what was there before (S-31).

use super::installed_packages::Installed;
use super::manager::{self, Job, PackageManager};
use super::record::PackageDrift;
use super::session::Session;
use super::wanted::Wanted;
use super::wish::Options;
use crate::context::{Applying, Change, Reverting};
use serde_json::json;
use zester_host::{Fault, FaultKind, Query, Question};

/// What it takes to undo one record, as things stand.
#[derive(Default)]
struct Back {
    remove: Vec<String>,
    install: Vec<Wanted>,
    /// Another version was there before; with the one that is there now.
    versions: Vec<(Wanted, String)>,
    hold: Vec<String>,
    unhold: Vec<String>,
}

impl Back {
    fn of(record: &PackageDrift, now: &Installed) -> Back {
        let mut back = Back::default();
        for (name, moved) in &record.moves {
            match (&moved.old, &moved.new, now.get(name)) {
                (None, _, Some(_)) => back.remove.push(name.clone()),
                (Some(old), None, None) => back.install.push(Wanted::exactly(name, old)),
                (Some(old), Some(new), Some(there)) if new == there => {
                    back.versions.push((Wanted::exactly(name, old), new.clone()));
                }
                _ => {}
            }
        }
        for (name, on) in record.holds.iter().filter(|(name, on)| now.is_held(name) == **on) {
            if *on { &mut back.unhold } else { &mut back.hold }.push(name.clone());
        }
        back
    }

    fn is_empty(&self) -> bool {
        let Back { remove, install, versions, hold, unhold } = self;
        remove.is_empty() && install.is_empty() && versions.is_empty() && hold.is_empty() && unhold.is_empty()
    }

    fn take(&mut self, other: &Back) {
        self.remove.extend(other.remove.iter().cloned());
        self.install.extend(other.install.iter().cloned());
        self.versions.extend(other.versions.iter().cloned());
        self.hold.extend(other.hold.iter().cloned());
        self.unhold.extend(other.unhold.iter().cloned());
    }
}

/// Undoes the records of states that are reverted side by side, in one transaction: what several of them brought goes with
/// the last that needs it.
pub(crate) async fn revert(records: &[&PackageDrift], cx: &Reverting<'_>) -> Vec<Result<Change, Fault>> {
    match revert_all(records, cx).await {
        Ok(changes) => changes.into_iter().map(Ok).collect(),
        // One of them may be to blame alone.
        Err(fault) if records.len() > 1 && !fault.touched && fault.kind != FaultKind::Canceled => {
            let mut reverted = Vec::new();
            for record in records {
                let alone = revert_all(&[record], cx).await;
                reverted.push(alone.map(|mut changes| changes.pop().unwrap_or_default()));
            }
            reverted
        }
        Err(fault) => records.iter().map(|_| Err(fault.shared())).collect(),
    }
}

async fn revert_all(records: &[&PackageDrift], cx: &Reverting<'_>) -> Result<Vec<Change>, Fault> {
    let applying = Applying::new(cx.host, cx.processes, cx.cancel);
    let manager = manager::manager(cx.host)?;
    let mut session = Session::take(&applying, &*manager).await?;
    let now = session.installed().await?;
    let backs: Vec<Back> = records.iter().map(|record| Back::of(record, &now)).collect();
    let mut all = Back::default();
    backs.iter().for_each(|back| all.take(back));
    if all.is_empty() {
        return Ok(backs.iter().map(|_| Change::default()).collect());
    }
    if !cx.force && !all.remove.is_empty() {
        refuse_if_needed_by_others(&all.remove, &now, &*manager, cx).await?;
    }
    session.hold(&all.unhold, false).await?;
    let options = Options { recommends: Some(false), ..Options::default() };
    let job = Job { install: all.install.clone(), remove: all.remove.clone(), options, ..Job::default() };
    if !job.install.is_empty() || !job.remove.is_empty() {
        session.run(&job, None, false).await.map_err(|refusal| refusal.fault)?;
    }
    let stays = versions_back(&mut session, &*manager, &all).await?;
    session.hold(&all.hold, true).await?;
    Ok(backs.iter().map(|back| told(back, &stays)).collect())
}

/// The versions that were there before, as far as they can still be had; those that stay.
async fn versions_back(
    session: &mut Session<'_>,
    manager: &dyn PackageManager,
    all: &Back,
) -> Result<Vec<String>, Fault> {
    let mut stays = Vec::new();
    let install: Vec<Wanted> = all.versions.iter().map(|(wanted, _)| wanted.clone()).collect();
    if install.is_empty() {
        return Ok(stays);
    }
    let options = Options { recommends: Some(false), update_holds: true, ..Options::default() };
    let job = Job { install, options, ..Job::default() };
    let Err(refusal) = session.run(&job, Some(false), false).await else { return Ok(stays) };
    if !manager.is_stale(&refusal.fault) {
        return Err(refusal.fault.touched());
    }
    for wanted in &job.install {
        let alone = Job { install: vec![wanted.clone()], ..job.clone() };
        match session.run(&alone, Some(false), false).await {
            Ok(()) => {}
            Err(refusal) if manager.is_stale(&refusal.fault) => stays.push(wanted.name.clone()),
            Err(refusal) => return Err(refusal.fault.touched()),
        }
    }
    Ok(stays)
}

fn told(back: &Back, stays: &[String]) -> Change {
    let mut change = Change::default();
    let mut lines: Vec<String> = back.remove.iter().map(|name| format!("{name}: removed")).collect();
    let version = |wanted: &Wanted| wanted.version.clone().unwrap_or_default();
    lines.extend(back.install.iter().map(|one| format!("{}={}: installed again", one.name, version(one))));
    change.changed = !lines.is_empty() || !back.hold.is_empty() || !back.unhold.is_empty();
    for (wanted, now) in &back.versions {
        if stays.contains(&wanted.name) {
            lines.push(format!("{}: stays {now}; {} can no longer be had", wanted.name, version(wanted)));
        } else {
            change.changed = true;
            lines.push(format!("{}: {now} → {}", wanted.name, version(wanted)));
        }
    }
    lines.extend(back.hold.iter().map(|name| format!("{name}: held again")));
    lines.extend(back.unhold.iter().map(|name| format!("{name}: no longer held")));
    change.diff = lines.join("\n");
    if !back.remove.is_empty() {
        change.details.insert("removed".into(), json!(back.remove));
    }
    change
}

/// What somebody installed since may need what we brought; it is not ours to remove.
async fn refuse_if_needed_by_others(
    ours: &[String],
    now: &Installed,
    manager: &dyn PackageManager,
    cx: &Reverting<'_>,
) -> Result<(), Fault> {
    let query = Query::through(cx.processes);
    let job = Job { remove: ours.to_vec(), ..Job::default() };
    let mut others = Vec::new();
    for call in manager.calls(&job, now)? {
        let question = Question::Read { tool: call.tool, words: &call.question };
        let exit = query.ask(question, cx.cancel).await?;
        let planned = manager.read_plan(&call, &exit, now).map_err(|refusal| refusal.fault)?;
        others.extend(planned.into_iter().map(|planned| planned.name).filter(|name| !ours.contains(name)));
    }
    if others.is_empty() {
        return Ok(());
    }
    let message = format!("removing {} would also remove {}", ours.join(", "), others.join(", "));
    Err(Fault::new(FaultKind::ChangedSince, message).hint("`--force` removes them all"))
}
