//! The live view of a call on the fleet: a line for each peel as it returns and, on a terminal, a last line that says who
//! is still missing and what they do.

use super::peel_text::{self, PeelShown};
use super::screen::screen;
use super::{Output, fleet_text, to_stdout};
use crate::fleet::outcome::PeelResult;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;
use zester_wire::{JobStatus, PeelId, Progress, Return};

/// Peels that the last line names; the rest is counted.
const WAITED_NAMED: usize = 3;

/// What a peel that has not returned does, as far as is known.
enum Activity {
    NoAck,
    /// Without a master nobody acknowledges anything.
    Asked,
    Queued(u32),
    Running,
    States {
        done: u64,
        total: u64,
        last: String,
    },
}

impl Activity {
    fn words(&self) -> String {
        match self {
            Activity::NoAck => "no ack".to_string(),
            Activity::Asked => "asked".to_string(),
            Activity::Queued(ahead) => format!("queued behind {ahead}"),
            Activity::Running => "running".to_string(),
            Activity::States { done, total: 0, last } => format!("{done} states, {last}"),
            Activity::States { done, total, last } => format!("{done} of {total} states, {last}"),
        }
    }
}

pub struct View {
    output: Output,
    shown: PeelShown,
    /// How the job ended, where it was over before it was looked at.
    ended_as: JobStatus,
    total: usize,
    waiting: BTreeMap<PeelId, Activity>,
    bar: Option<ProgressBar>,
    /// Every end is printed as an object of its own (C-1).
    stream: bool,
}

impl View {
    pub fn new(output: &Output, function: &str, targets: &[PeelId]) -> View {
        let live = output.is_text() && std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let mut view = View {
            output: output.clone(),
            shown: fleet_text::peel_shown(function, targets, true),
            ended_as: JobStatus::Running,
            total: targets.len(),
            waiting: targets.iter().map(|peel| (peel.clone(), Activity::NoAck)).collect(),
            bar: live.then(|| last_line(output.paint_stderr().is_on())),
            stream: false,
        };
        view.show();
        view
    }

    /// The same as a stream for machines: one object a line for each peel that ends.
    pub fn streaming(output: &Output, function: &str, targets: &[PeelId]) -> View {
        let mut view = View::new(output, function, targets);
        view.stream = true;
        view
    }

    /// Of a job that stood so when the view began.
    pub fn of_job(mut self, status: JobStatus) -> View {
        self.ended_as = status;
        self
    }

    /// Of a call without a master.
    pub fn direct(output: &Output, function: &str, targets: &[PeelId]) -> View {
        let mut view = View::new(output, function, targets);
        view.shown = fleet_text::peel_shown(function, targets, false);
        view.waiting.values_mut().for_each(|activity| *activity = Activity::Asked);
        view.show();
        view
    }

    pub fn acked(&mut self, peel: &PeelId, ahead: u32) {
        if let Some(activity) = self.waiting.get_mut(peel) {
            *activity = if ahead == 0 { Activity::Running } else { Activity::Queued(ahead) };
            self.show();
        }
    }

    pub fn progress(&mut self, progress: &Progress) {
        let Some(activity) = self.waiting.get_mut(&progress.peel) else { return };
        // Out of order, or of an earlier moment.
        if matches!(activity, Activity::States { done, .. } if *done >= progress.seq) {
            return;
        }
        let last = progress.state.get("name").and_then(|name| name.as_str()).unwrap_or_default();
        *activity = Activity::States { done: progress.seq, total: progress.total, last: last.to_string() };
        self.show();
    }

    pub fn returned(&mut self, ret: &Return) {
        self.ended(&ret.peel, &PeelResult::of_return_in(ret, self.ended_as));
    }

    /// A peel is done with, however.
    pub fn ended(&mut self, peel: &PeelId, result: &PeelResult) {
        self.waiting.remove(peel);
        if !self.output.is_text() {
            if self.stream {
                self.output.object(&streamed(peel, result));
            }
            return;
        }
        let lines = peel_text::peel(peel, result, self.shown, self.output.paint());
        match &self.bar {
            Some(bar) => bar.suspend(|| to_stdout(&lines)),
            None => to_stdout(&lines),
        };
        self.show();
    }

    /// A peel is not awaited any more; the end says why.
    pub fn given_up(&mut self, peel: &PeelId) {
        self.waiting.remove(peel);
        self.show();
    }

    /// Takes the last line away: something else is about to be printed.
    pub fn pause(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self) {
        let Some(bar) = &self.bar else { return };
        let done = self.total.saturating_sub(self.waiting.len());
        let named = self.waiting.iter().take(WAITED_NAMED);
        let named: Vec<String> =
            named.map(|(peel, activity)| format!("{peel} ({})", activity.words())).collect();
        let more = self.waiting.len().saturating_sub(WAITED_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        bar.set_message(super::control::one_line(&match named.is_empty() {
            true => format!("{done}/{}  waiting for the master to end the job", self.total),
            false => format!("{done}/{}  waiting for {}{more}", self.total, named.join(", ")),
        }));
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.pause();
    }
}

/// The peel's part of the document of C-2, with its name.
fn streamed(peel: &PeelId, result: &PeelResult) -> Json {
    let mut object = json!({ "peel": peel.as_str() });
    if let (Some(object), Json::Object(fields)) = (object.as_object_mut(), result.document()) {
        object.extend(fields);
    }
    object
}

fn last_line(colour: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, screen());
    let template = match colour {
        true => " {spinner:.cyan} {elapsed}  {wide_msg:.dim}",
        false => " {spinner} {elapsed}  {wide_msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::outcome::PeelStatus;
    use zester_rule::rule;

    #[test]
    #[rule("C-1")]
    fn c1_a_stream_has_one_object_for_each_peel() {
        let result = PeelResult::without(PeelStatus::Missing, "never acknowledged the job");
        let object = streamed(&PeelId::parse("web-1").unwrap(), &result);
        let wanted = json!({
            "peel": "web-1", "status": "missing", "duration_ms": null,
            "error": "never acknowledged the job", "return": null,
        });
        assert_eq!(object, wanted);
    }
}
