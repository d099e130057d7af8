//! Dropping what the journal remembers of states that no run will hold any more: they were renamed or removed.

use crate::data_dir::DataDir;
use crate::error::Error;
use crate::journal::{Journal, PendingRefresh};
use crate::lock::{Note, RunLock};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_model::outcome::Mode;
use zester_model::suggest::did_you_mean;

/// What was dropped of one state.
#[derive(Debug)]
pub struct Dropped {
    pub state: String,
    /// Its pending refresh.
    pub refresh: Option<PendingRefresh>,
    /// It was listed as not in place, because its `check_cmd` did not pass.
    pub unconfirmed: bool,
}

/// Drops the pending refresh of each of these states and that it is not in place, or nothing if one of them is not listed.
pub async fn forget(
    data_dir: &DataDir,
    states: &[String],
    cancel: &CancellationToken,
) -> Result<Vec<Dropped>, Error> {
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let asked = "status --forget".to_string();
    // No run of its own: it has no id.
    let (run_id, pid, life) = (String::new(), std::process::id(), Runner::new().life());
    let note =
        Note { run_id, mode: Mode::Apply, asked, call: false, before: Vec::new(), pid, life, started_at };
    // A run under way may be about to run it, or to add it.
    let lock = RunLock::take(data_dir, &note, true, cancel, |_| {}).await?;
    let dropped = drop_all(data_dir, states);
    lock.release();
    dropped
}

fn drop_all(data_dir: &DataDir, states: &[String]) -> Result<Vec<Dropped>, Error> {
    let journal = Journal::open(data_dir, "")?;
    let (pending, unconfirmed) = (journal.pending(), journal.unconfirmed());
    let is_listed = |state: &String| pending.contains_key(state) || unconfirmed.contains(state);
    if let Some(state) = states.iter().find(|state| !is_listed(state)) {
        let hint = did_you_mean(state, pending.keys().chain(&unconfirmed).map(String::as_str));
        let hint = hint.unwrap_or("`zester status` lists what is pending".into());
        return Err(Error::other(format!(
            "{state} has no pending refresh and is not listed as not in place; {hint}"
        )));
    }
    let mut dropped = Vec::new();
    for state in states.iter().collect::<BTreeSet<_>>() {
        journal.refreshed(state)?;
        journal.set_unconfirmed(state, false)?;
        let (refresh, unconfirmed) = (pending.get(state).cloned(), unconfirmed.contains(state));
        dropped.push(Dropped { state: state.clone(), refresh, unconfirmed });
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-39")]
    fn s39_a_pending_refresh_can_be_dropped_by_its_name_and_a_wrong_name_drops_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        let journal = Journal::open(&dir, "r1").unwrap();
        let pending = |watcher: &str| (watcher.to_string(), vec!["file.managed:conf".to_string()]);
        journal.finish([], [pending("cmd.run:old"), pending("cmd.run:kept")]).unwrap();
        drop(journal);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let never = CancellationToken::new();
        let forget = |states: &[&str]| {
            let states: Vec<String> = states.iter().map(|state| state.to_string()).collect();
            runtime.block_on(super::forget(&dir, &states, &never))
        };
        let wrong = forget(&["cmd.run:old", "cmd.run:kep"]).unwrap_err().to_string();
        assert!(
            wrong.contains("cmd.run:kep has no pending refresh") && wrong.contains("`cmd.run:kept`"),
            "{wrong}"
        );
        assert_eq!(forget(&["cmd.run:old"]).unwrap()[0].state, "cmd.run:old");
        let left: Vec<String> = Journal::open(&dir, "r2").unwrap().pending().into_keys().collect();
        assert_eq!(left, ["cmd.run:kept"]);
    }

    #[test]
    #[rule("S-43")]
    fn s43_a_state_that_is_not_in_place_can_be_dropped_by_its_name() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        let journal = Journal::open(&dir, "r1").unwrap();
        journal.set_unconfirmed("cmd.run:old", true).unwrap();
        journal.set_unconfirmed("cmd.run:kept", true).unwrap();
        journal.finish([], [("cmd.run:old".to_string(), vec!["file.managed:conf".to_string()])]).unwrap();
        drop(journal);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let never = CancellationToken::new();
        let twice = ["cmd.run:old".to_string(), "cmd.run:old".to_string()];
        let dropped = runtime.block_on(forget(&dir, &twice, &never)).unwrap();
        let told: Vec<_> = dropped.iter().map(|one| (one.refresh.is_some(), one.unconfirmed)).collect();
        assert_eq!(told, [(true, true)]);
        let journal = Journal::open(&dir, "r2").unwrap();
        assert!(journal.pending().is_empty());
        assert_eq!(journal.unconfirmed().into_iter().collect::<Vec<_>>(), ["cmd.run:kept"]);
    }
}
