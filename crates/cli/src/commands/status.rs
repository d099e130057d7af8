//! `zester status`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::Inputs;
use crate::exit::Exit;
use crate::output::control::one_line;
use crate::output::duration_words;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use zester_converge::data_dir::DataDir;
use zester_converge::forget::{self, Dropped};
use zester_converge::history::{self, Stage, Summary};
use zester_converge::journal::{JournalSnapshot, LoggedRun};
use zester_converge::lock::command_word;
use zester_model::outcome::Mode;
use zester_peel::work::StartupFailure;

/// States of one run that are named as what revert could undo; JSON has all of them.
const REVERTIBLE_SHOWN: usize = 10;

/// Show the last runs, pending refreshes, and what revert could undo
///
/// A refresh is pending when a state changed and something that watches it did not get to run; the next run that holds
/// the watcher runs it. A state is not in place while its check_cmd does not pass. With --forget, drops both for a state
/// that no run will hold any more.
#[derive(clap::Args, Debug)]
pub struct Status {
    /// How many runs to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub last: usize,
    /// Drop the pending refresh of this state, or that it is not in place (may be given several times)
    #[arg(long, value_name = "STATE")]
    pub forget: Vec<String>,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Status, app: &mut App) -> answer::Result {
    let directory = app.data_dir(&args.inputs)?;
    if !args.forget.is_empty() {
        return forgotten(&args.forget, &DataDir::open(&directory)?, app);
    }
    let Some(data_dir) = DataDir::existing(&directory)? else {
        let json = json!({ "runs": [], "unlisted_runs": [], "pending_refreshes": {}, "unconfirmed": [], "revertible": [], "damaged": [], "startup_failure": null });
        let text = format!("nothing has run here yet (no data directory {})\n", directory.display());
        return Ok((Answer::Document { json, text }, Exit::Good));
    };
    // In this order: a run that begins in between is in neither.
    let snapshot = JournalSnapshot::read(&data_dir)?;
    let runs = history::with_current(&data_dir, args.last)?;
    let unlisted = history::unlisted(&data_dir, &runs, &snapshot.runs, args.last)?;
    let revertible: Vec<_> = revertible(&snapshot)
        .into_iter()
        .map(|(run_id, state)| json!({ "run_id": run_id, "state": state }))
        .collect();
    let pending: BTreeMap<_, _> =
        snapshot.pending.iter().map(|(watcher, refresh)| (watcher, &refresh.changed)).collect();
    let unconfirmed = &snapshot.unconfirmed;
    let failure = StartupFailure::read(&directory)?;
    let damaged: Vec<String> = damaged(&snapshot).collect();
    let json = json!({
        "runs": runs, "unlisted_runs": unlisted, "pending_refreshes": pending, "unconfirmed": unconfirmed, "revertible": revertible,
        "damaged": damaged, "startup_failure": failure,
    });
    let text = startup_text(failure.as_ref()) + &text(&runs, &unlisted, &snapshot)?;
    Ok((Answer::Document { json, text }, Exit::Good))
}

/// First of all: a machine that did not come up as it should.
fn startup_text(failure: Option<&StartupFailure>) -> String {
    let Some(StartupFailure { function, ended, error, .. }) = failure else { return String::new() };
    let (when, why) = (ago(seconds_since(ended.0 / 1000)), one_line(error));
    format!(
        "startup states failed\n  {when}  {function}: {why}\n  They run again when the peel of this machine starts again.\n\n"
    )
}

fn forgotten(states: &[String], data_dir: &DataDir, app: &App) -> answer::Result {
    let forgetting = forget::forget(data_dir, states, &app.cancel);
    let dropped = app.block_on(async { forgetting.await.map_err(Failure::from) })?;
    let mut text = String::new();
    for Dropped { state, refresh, unconfirmed } in &dropped {
        if let Some(refresh) = refresh {
            let changed: Vec<&str> = refresh.changed.iter().map(String::as_str).collect();
            let because = changed.join(", ");
            text += &format!("{state} has no pending refresh any more (it had one, because of {because})\n");
        }
        if *unconfirmed {
            text += &format!("{state} is not listed any more as not in place\n");
        }
    }
    let pending_work: BTreeMap<_, _> =
        dropped.iter().filter_map(|one| Some((&one.state, &one.refresh.as_ref()?.changed))).collect();
    let unconfirmed: Vec<_> = dropped.iter().filter(|one| one.unconfirmed).map(|one| &one.state).collect();
    let json = json!({ "forgotten": { "pending_refreshes": pending_work, "unconfirmed": unconfirmed } });
    Ok((Answer::Document { json, text }, Exit::Good))
}

/// What of the journal cannot be read, in words.
fn damaged(snapshot: &JournalSnapshot) -> impl Iterator<Item = String> {
    snapshot.notices.iter().cloned().chain(snapshot.damage.iter().map(ToString::to_string))
}

/// Run and state of each thing that can be undone, newest first; a state that was retried once.
fn revertible(snapshot: &JournalSnapshot) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for undo in &snapshot.undos {
        let one = (undo.run_id.as_str(), undo.intent.state.as_str());
        let of_this_run = all.iter().rev().take_while(|(run_id, _)| *run_id == one.0);
        if !of_this_run.into_iter().any(|known| *known == one) {
            all.push(one);
        }
    }
    all
}

fn text(runs: &[Summary], unlisted: &[LoggedRun], snapshot: &JournalSnapshot) -> Result<String, Failure> {
    let mut out = String::new();
    let wrote = (|| {
        writeln!(out, "last runs")?;
        if runs.is_empty() && unlisted.is_empty() {
            writeln!(out, "  none")?;
        }
        for run in unlisted {
            let command = run.command.as_deref().map_or("a run".to_string(), one_line);
            let when = run.started_at.map_or("at an unknown time".to_string(), |at| ago(seconds_since(at)));
            writeln!(out, "  {when}  {command}  result not recorded\n      run {}", run.run_id)?;
        }
        for run in runs {
            let command = command_word(run.mode, run.call);
            writeln!(out, "  {}  {command} {}  {}", when(run), one_line(&run.asked), how(run))?;
            writeln!(out, "      run {}", run.run_id)?;
            for state in &run.failed_states {
                writeln!(out, "      failed: {}", one_line(state))?;
            }
        }
        writeln!(out, "\npending refreshes")?;
        if snapshot.pending.is_empty() {
            writeln!(out, "  none")?;
        }
        for (watcher, refresh) in &snapshot.pending {
            let changed: Vec<String> = refresh.changed.iter().map(|state| one_line(state)).collect();
            let watcher = one_line(watcher);
            writeln!(out, "  {watcher}  because of {}", changed.join(", "))?;
        }
        if !snapshot.pending.is_empty() {
            writeln!(out, "  The next run that holds one of these runs it. If none ever will:")?;
            writeln!(out, "  zester status --forget STATE")?;
        }
        if !snapshot.unconfirmed.is_empty() {
            writeln!(out, "\nnot in place: check_cmd did not pass")?;
        }
        for state in &snapshot.unconfirmed {
            writeln!(out, "  {}", one_line(state))?;
        }
        if !snapshot.unconfirmed.is_empty() {
            writeln!(out, "  The next run that holds one of these asks again. If none ever will:")?;
            writeln!(out, "  zester status --forget STATE")?;
        }
        if damaged(snapshot).next().is_some() {
            writeln!(out, "\ncannot be read")?;
        }
        for words in damaged(snapshot) {
            writeln!(out, "  {}", one_line(&words))?;
        }
        writeln!(out, "\nrevert could undo")?;
        match (snapshot.undos.is_empty(), snapshot.damage.is_empty()) {
            (true, true) => writeln!(out, "  nothing")?,
            (true, false) => writeln!(out, "  nothing that can be read")?,
            (false, _) => {}
        }
        let revertible = revertible(snapshot);
        for of_run in revertible.chunk_by(|one, next| one.0 == next.0) {
            if let Some((run_id, _)) = of_run.first() {
                writeln!(out, "  zester revert --run {run_id}")?;
            }
            for (_, state) in of_run.iter().take(REVERTIBLE_SHOWN) {
                writeln!(out, "      {}", one_line(state))?;
            }
            if of_run.len() > REVERTIBLE_SHOWN {
                writeln!(out, "      … and {} more", of_run.len() - REVERTIBLE_SHOWN)?;
            }
        }
        Ok(())
    })();
    wrote.map_err(|_: std::fmt::Error| Failure::usage("the status could not be written"))?;
    Ok(out)
}

/// `3m 20s ago`; of a run that has not ended, since when it runs or when it began.
fn when(run: &Summary) -> String {
    let seconds = run.ended_at.or(run.started_at).map_or(0, seconds_since);
    match run.state {
        Stage::Running => format!("for {}", duration_words(seconds * 1000)),
        Stage::Ended | Stage::Killed => ago(seconds),
    }
}

fn ago(seconds: u64) -> String {
    match seconds {
        0 => "just now".to_string(),
        seconds => format!("{} ago", duration_words(seconds * 1000)),
    }
}

fn seconds_since(moment: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    now.saturating_sub(moment)
}

fn how(run: &Summary) -> String {
    let verdict = match run.state {
        Stage::Running => return "running".into(),
        Stage::Killed => return "killed before its end".into(),
        Stage::Ended if run.timed_out => "timeout",
        Stage::Ended if run.canceled => "canceled",
        Stage::Ended if run.success => "ok",
        Stage::Ended => "failed",
    };
    let Summary { changed, failed, skipped, states, .. } = run;
    let done = match run.mode {
        Mode::Apply => "changed",
        Mode::Check => "would change",
        // Its summary does not tell the two apart.
        Mode::Revert => "reverted or refreshed",
    };
    format!("{verdict}: {changed} {done}, {failed} failed, {skipped} skipped of {states}")
}
