//! A panic outside of any state is a bug of ours: one sentence, and never a silent end.
//!
//! Inside a state it is that state's error (S-33), and in a daemon a line of its log, so the usual report, which would
//! tear through a live view, is kept back; what the last panic said is remembered for whoever has to tell it.

use crate::exit::Exit;
use crate::output::to_stderr;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Remembers panics instead of printing them, unless `RUST_BACKTRACE` asks for the whole story.
pub fn keep_quiet() {
    std::panic::set_hook(Box::new(|panic| {
        let what = match panic.payload_as_str() {
            Some(said) => said.lines().next().unwrap_or_default().to_string(),
            None => "a panic".to_string(),
        };
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
        let told = format!("{what}{}", place.unwrap_or_default());
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(told.clone());
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            to_stderr(&format!("{told}\n{trace}\n"));
        }
    }));
}

/// Does the work; if it panics, says so and ends as any other error of ours does.
pub fn told(work: impl FnOnce() -> Exit) -> Exit {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        to_stderr(&format!("{}\n", sentence()));
        Exit::Usage
    })
}

fn sentence() -> String {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
    let last = last.unwrap_or_else(|| "a panic".to_string());
    format!(
        "error: zester stopped because of a bug in zester: {last}\nplease report it; RUST_BACKTRACE=1 shows more"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_outside_a_state_is_told_in_a_sentence_and_is_exit_code_one() {
        keep_quiet();
        let exit = told(|| panic!("index 7 of 3"));
        assert_eq!(exit, Exit::Usage);
        keep_quiet();
        let _ = catch_unwind(|| panic!("index 7 of 3"));
        let sentence = sentence();
        assert!(sentence.starts_with("error: zester stopped because of a bug in zester: index 7 of 3 at "));
        assert!(sentence.contains("bug.rs:"), "{sentence}");
        let _ = std::panic::take_hook();
    }
}
