//! What runs, while it runs.
//!
//! On a terminal, states under way stand at the bottom with a spinner, their time and their last line of output;
//! finished ones are printed above and never move. Elsewhere each level is printed when it has ended, in its own order.

use super::control::one_line;
use super::paint::Paint;
use super::run_text::{self, Shown};
use super::screen::screen;
use super::{Output, to_stderr, to_stdout};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zester_converge::plan::Plan;
use zester_converge::run_loop::Observer;
use zester_model::outcome::{Mode, StateResult};

/// Spinners on the screen at once; the rest is counted in one line.
const SPINNERS_MAX: usize = 10;

pub struct View {
    text: bool,
    shown: Shown,
    paint: Paint,
    paint_stderr: Paint,
    bars: Option<MultiProgress>,
    /// Place of each state in the run, to print a level in order.
    rank: HashMap<String, usize>,
    state: Mutex<State>,
    /// Another run is waited for; nothing of this one has begun.
    waits: AtomicBool,
}

/// How the run says that it waits for another.
const WAITING: &str = "waiting for the lock";

#[derive(Default)]
struct State {
    /// The lines of the level under way, where nobody sees it live, by their place in the run.
    ended: Vec<(usize, String)>,
    running: HashMap<String, ProgressBar>,
    hidden: usize,
    more: Option<ProgressBar>,
}

impl View {
    pub fn new(output: &Output, plan: Option<Arc<Plan>>, mode: Mode, show_output: bool) -> View {
        let text = output.is_text();
        let live = text && std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        let bars = live.then(|| MultiProgress::with_draw_target(screen()));
        let (mut width, mut rank) = (0, HashMap::new());
        if let Some(plan) = plan.as_deref().filter(|_| text) {
            let names = plan.graph.ranked().iter().map(|node| plan.graph.name(*node).as_str());
            width = run_text::name_width(names.clone());
            rank = names.enumerate().map(|(at, name)| (name.to_string(), at)).collect();
            to_stdout(&run_text::heading(plan, mode, output.paint()));
        }
        let (paint, paint_stderr) = (output.paint(), output.paint_stderr());
        let diff_lines = Some(run_text::DIFF_LINES_SHOWN);
        let shown = Shown { mode, width, output: show_output, diff_lines };
        View {
            text,
            shown,
            paint,
            paint_stderr,
            bars,
            rank,
            state: Mutex::default(),
            waits: AtomicBool::new(false),
        }
    }

    /// Another run is waited for; nothing of this one has begun.
    pub fn waits_for_lock(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }

    /// Prints what is left and clears the bottom of the screen.
    pub fn finish(&self) {
        self.flush();
        if let Some(bars) = &self.bars {
            let _ = bars.clear();
        }
    }

    fn flush(&self) {
        let mut ended = std::mem::take(&mut self.lock().ended);
        ended.sort_by_key(|(rank, _)| *rank);
        let lines: String = ended.into_iter().map(|(_, lines)| lines).collect();
        if !lines.is_empty() {
            to_stdout(&lines);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of its own at the bottom. It is hidden until the whole view draws it: alone it would draw over the others.
fn spinner(name: &str, doing: &str, colour: bool) -> ProgressBar {
    let style = ProgressStyle::with_template(match colour {
        true => " {spinner:.cyan} {prefix}  {elapsed}  {wide_msg:.dim}",
        false => " {spinner} {prefix}  {elapsed}  {wide_msg}",
    });
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_prefix(one_line(name));
    bar.set_message(doing.to_string());
    bar
}

impl Observer for View {
    fn level(&self, _: usize, _: usize) {
        self.waits.store(false, Ordering::SeqCst);
        if self.text && self.bars.is_none() {
            self.flush();
        }
    }

    fn started(&self, name: &str, doing: &'static str) {
        self.waits.store(false, Ordering::SeqCst);
        let Some(bars) = &self.bars else { return };
        let colour = self.paint_stderr.is_on();
        let mut state = self.lock();
        if let Some(bar) = state.running.get(name) {
            bar.set_message(doing);
            return;
        }
        if state.running.len() >= SPINNERS_MAX {
            state.hidden += 1;
            let count = state.hidden;
            let more = state.more.get_or_insert_with(|| bars.add(spinner("", "", colour)));
            more.set_message(format!("and {count} more"));
            return;
        }
        let bar = bars.add(spinner(name, doing, colour));
        bar.enable_steady_tick(Duration::from_millis(100));
        state.running.insert(name.to_string(), bar);
    }

    fn ended(&self, result: &StateResult) {
        if !self.text {
            return;
        }
        let Some(bars) = &self.bars else {
            let rank = self.rank.get(&result.name).copied().unwrap_or(usize::MAX);
            let lines = run_text::state(result, self.shown, self.paint);
            self.lock().ended.push((rank, lines));
            return;
        };
        let mut state = self.lock();
        match state.running.remove(&result.name) {
            Some(bar) => {
                bar.finish_and_clear();
                bars.remove(&bar);
            }
            None => state.hidden = state.hidden.saturating_sub(1),
        }
        if state.hidden == 0
            && let Some(more) = state.more.take()
        {
            more.finish_and_clear();
            bars.remove(&more);
        }
        drop(state);
        let lines = run_text::state(result, self.shown, self.paint);
        bars.suspend(|| to_stdout(&lines));
    }

    fn output(&self, name: &str, line: &str) {
        if let Some(bar) = self.lock().running.get(name) {
            bar.set_message(one_line(line.trim_end()));
        }
    }

    fn notice(&self, text: &str) {
        if text.starts_with(WAITING) {
            self.waits.store(true, Ordering::SeqCst);
        }
        let line = format!("{} {text}\n", self.paint_stderr.dim("zester:"));
        match &self.bars {
            Some(bars) => bars.suspend(|| to_stderr(&line)),
            None => to_stderr(&line),
        }
    }
}
