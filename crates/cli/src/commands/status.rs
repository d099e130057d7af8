//! `zester status`

use crate::answer::{self, Answer};
use crate::app::App;
use crate::arguments::Inputs;
use crate::exit::Exit;
use crate::output::duration_words;
use serde_json::json;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use zester_converge::data_dir::DataDir;
use zester_converge::drive::mode_word;
use zester_converge::history::{self, Summary};
use zester_converge::journal::Glance;

/// Show the last runs, pending refreshes, and what revert could undo
#[derive(clap::Args, Debug)]
pub struct Status {
    /// How many runs to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub last: usize,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Status, app: &mut App) -> answer::Result {
    let directory = app.data_dir(&args.inputs);
    if !directory.is_dir() {
        let json = json!({ "runs": [], "pending_refreshes": {}, "revertible": [] });
        let text = format!("nothing has run here yet (no data directory {})\n", directory.display());
        return Ok((Answer::Document { json, text }, Exit::Good));
    }
    let data_dir = DataDir::open(&directory)?;
    let runs = history::last(&data_dir, args.last)?;
    let glance = Glance::read(&data_dir)?;
    let revertible: Vec<_> = glance
        .undos
        .iter()
        .map(|undo| json!({ "run_id": undo.run_id, "state": undo.intent.state }))
        .collect();
    let json = json!({ "runs": runs, "pending_refreshes": glance.owed, "revertible": revertible });
    Ok((Answer::Document { json, text: text(&runs, &glance)? }, Exit::Good))
}

fn text(runs: &[Summary], glance: &Glance) -> Result<String, answer::Failure> {
    let mut out = String::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let wrote = (|| {
        writeln!(out, "last runs")?;
        if runs.is_empty() {
            writeln!(out, "  none")?;
        }
        for run in runs {
            let ago = match now.saturating_sub(run.ended_at) {
                0 => "just now".to_string(),
                seconds => format!("{} ago", duration_words(seconds * 1000)),
            };
            let verdict = match (run.canceled, run.success) {
                (true, _) => "canceled",
                (false, true) => "ok",
                (false, false) => "failed",
            };
            writeln!(
                out,
                "  {ago}  {} {}  {verdict}: {} changed, {} failed, {} skipped of {}",
                mode_word(run.mode),
                run.asked,
                run.changed,
                run.failed,
                run.skipped,
                run.states
            )?;
            writeln!(out, "      run {}", run.run_id)?;
            for state in &run.failed_states {
                writeln!(out, "      failed: {state}")?;
            }
        }
        writeln!(out, "\npending refreshes")?;
        if glance.owed.is_empty() {
            writeln!(out, "  none")?;
        }
        for (watcher, changed) in &glance.owed {
            let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
            writeln!(
                out,
                "  {watcher}  because {} changed; the next run that holds it will run it",
                changed.join(", ")
            )?;
        }
        writeln!(out, "\nrevert could undo")?;
        if glance.undos.is_empty() {
            writeln!(out, "  nothing")?;
        }
        let mut last = "";
        for undo in &glance.undos {
            if undo.run_id != last {
                writeln!(out, "  zester revert --run {}", undo.run_id)?;
                last = &undo.run_id;
            }
            writeln!(out, "      {}", undo.intent.state)?;
        }
        Ok(())
    })();
    wrote.map_err(|_: std::fmt::Error| answer::Failure::usage("the status could not be written"))?;
    Ok(out)
}
