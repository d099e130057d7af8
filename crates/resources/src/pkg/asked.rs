//! What people ask of packages beside states: what is installed, what could be newer; and fresh lists.

use super::manager::{Job, PackageManager, Planned, manager, may_act};
use super::session::missing;
use crate::state::Read;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;
use zester_host::{Fault, HostRead, Launch, Processes, Question};

/// Installed packages with their versions.
pub async fn installed(cx: Read<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let manager = manager(cx.host)?;
    Ok(manager.installed(cx).await?.versions().clone())
}

/// Those that could be newer, with the version that they could have.
pub async fn upgrades(cx: Read<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let planned = planned(cx, &Job { everything: Some(false), ..Job::default() }).await?;
    let newer = planned.into_iter().filter(|one| one.old.is_some());
    Ok(newer.filter_map(|one| Some((one.name, one.new?))).collect())
}

/// The versions that these packages would get if they were brought to the newest; nothing of one that has it.
pub async fn newest(names: &[String], cx: Read<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let planned = planned(cx, &Job { latest: names.to_vec(), ..Job::default() }).await?;
    let own = planned.into_iter().filter(|one| names.contains(&one.name));
    Ok(own.filter_map(|one| Some((one.name, one.new?))).collect())
}

/// Fetches the lists of packages.
pub async fn refresh(
    host: &dyn HostRead,
    processes: &dyn Processes,
    cancel: &CancellationToken,
) -> Result<(), Fault> {
    let manager = manager(host)?;
    may_act(host)?;
    let words = manager.refresh();
    let name = format!("`{}`", words.join(" "));
    let mut launch = Launch::argv(words);
    launch.environment = manager.environment();
    let exit = processes.run(&launch, None, cancel).await.map_err(|fault| missing(&*manager, fault))?;
    match exit.code {
        _ if exit.canceled => Err(Fault::canceled()),
        Some(0) => Ok(()),
        _ => Err(exit.failure(&name)),
    }
}

async fn planned(cx: Read<'_>, job: &Job) -> Result<Vec<Planned>, Fault> {
    let manager = manager(cx.host)?;
    let manager: &dyn PackageManager = &*manager;
    let now = manager.installed(cx).await?;
    let mut planned = Vec::new();
    for call in manager.calls(job, &now)? {
        let question = Question::Read { tool: call.tool, words: &call.question };
        let exit = cx.query.ask(question, cx.cancel).await.map_err(|fault| missing(manager, fault))?;
        planned.extend(manager.read_plan(&call, &exit, &now).map_err(|refusal| refusal.fault)?);
    }
    Ok(planned)
}
