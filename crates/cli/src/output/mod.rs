//! The one place that prints.

pub mod control;
pub mod diagnostics;
pub mod enroll_text;
pub mod event_text;
pub mod fleet_live;
pub mod fleet_text;
pub mod job_text;
pub mod live;
pub mod manual;
pub mod migrate_report;
pub mod paint;
pub mod peel_text;
pub mod picture;
pub mod publish_text;
pub mod reaction_tree_text;
pub mod reactor_text;
pub mod run_text;
pub mod schedule_text;
mod screen;
pub mod settings_text;
pub mod shell;
pub mod target_text;
pub mod wrap;

use crate::answer::{Answer, Failure, problems_document};
use crate::arguments::Format;
use crate::config::Config;
use crate::exit::Exit;
use paint::Paint;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use zester_converge::Error;

/// How and where this command prints.
#[derive(Clone)]
pub struct Output {
    given: Option<Format>,
    format: Format,
    no_color: bool,
    paint: Paint,
}

impl Output {
    pub fn new(given: Option<Format>, no_color: bool) -> Output {
        let no_color = no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let paint = Paint::new(!no_color && std::io::stdout().is_terminal());
        Output { given, format: given.unwrap_or(Format::Text), no_color, paint }
    }

    /// What the configuration says where the command line is silent.
    pub fn configure(&mut self, config: &Config) -> Result<(), String> {
        if let (None, Some(format)) = (self.given, &config.format) {
            self.format = match format.as_str() {
                "text" => Format::Text,
                "json" => Format::Json,
                "yaml" => Format::Yaml,
                other => {
                    return Err(format!("format: {other} in the configuration is none of text, json, yaml"));
                }
            };
        }
        if config.color == Some(false) {
            self.no_color = true;
            self.paint = Paint::new(false);
        }
        Ok(())
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    pub fn paint(&self) -> Paint {
        self.paint
    }

    /// Colour for what goes to stderr.
    pub fn paint_stderr(&self) -> Paint {
        Paint::new(!self.no_color && std::io::stderr().is_terminal())
    }

    /// A line beside the answer.
    pub fn notice(&self, text: &str) {
        to_stderr(&format!("{} {text}\n", self.paint_stderr().dim("zester:")));
    }

    pub fn answer(&self, answer: Answer, exit: Exit) -> Exit {
        let document = match &answer {
            Answer::Run { result, .. } => self.document(result),
            Answer::Document { json, .. } => self.document(json),
            Answer::Text(text) => Some(text.clone()),
            Answer::Diagnostics { diagnostics, sources, .. } => {
                self.document(&problems_document(diagnostics, sources))
            }
        };
        match (document, answer) {
            (Some(document), _) => write_out(&document),
            (None, Answer::Run { result, plan, undoable }) => {
                to_stdout(&run_text::ending(&result, plan.as_deref(), undoable, self.paint))
            }
            (None, Answer::Document { text, .. } | Answer::Text(text)) => to_stdout(&text),
            (None, Answer::Diagnostics { diagnostics, sources, checked }) => {
                to_stdout(&diagnostics::lint_text(&diagnostics, &sources, checked, self.paint))
            }
        }
        self.exit_for(exit)
    }

    /// One object of a stream: a line of JSON, or a document of YAML (C-1). Nothing for people.
    pub fn object(&self, value: &impl Serialize) {
        let text = match self.format {
            Format::Json => serde_json::to_string(value).ok().map(|text| text + "\n"),
            Format::Yaml => yaml(value).map(|text| format!("---\n{text}")),
            _ => None,
        };
        if let Some(text) = text {
            write_out(&text);
        }
    }

    pub fn failure(&self, failure: &Failure) -> Exit {
        match self.document(&failure.document()) {
            Some(text) => write_out(&text),
            None => to_stderr(&self.failure_text(failure)),
        }
        self.exit_for(failure.exit)
    }

    /// The exit code is the run's, whatever could be printed; but what was good and could not be told is a failure
    /// (C-13).
    fn exit_for(&self, exit: Exit) -> Exit {
        let lost = LOST.lock().unwrap_or_else(PoisonError::into_inner).take();
        after(lost.map_or(Ok(()), Err), exit)
    }

    fn failure_text(&self, failure: &Failure) -> String {
        let paint = self.paint_stderr();
        match &failure.error {
            Error::Diagnostics { diagnostics, sources } => {
                let count = diagnostics.len();
                let noun = if count == 1 { "error" } else { "errors" };
                format!(
                    "{}\n{count} {noun}; nothing was run\n",
                    diagnostics::text(diagnostics, sources, paint)
                )
            }
            error => format!("{} {error}\n", paint.red("error:")),
        }
    }

    /// The document in the asked format; `None` for people.
    fn document(&self, value: &impl Serialize) -> Option<String> {
        match self.format {
            Format::Json => serde_json::to_string_pretty(value).ok().map(|text| text + "\n"),
            Format::Yaml => yaml(value),
            Format::Text | Format::Dot | Format::Svg | Format::Html => None,
        }
    }
}

fn yaml(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok().map(|value| zester_compile::emit_yaml(&value))
}

/// The first write of the answer that failed.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes text for people, with what would steer their terminal shown as letters.
pub fn to_stdout(text: &str) {
    write_out(&control::shown(text, io::stdout().is_terminal()));
}

/// Writes the answer, or a part of it. What cannot be written is remembered for the end: the work goes on.
fn write_out(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|_| out.flush()) {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Whether whoever read the answer has gone: nobody needs the rest of one that has no end.
pub fn reader_is_gone() -> bool {
    let lost = LOST.lock().unwrap_or_else(PoisonError::into_inner);
    lost.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// How it ends after the answer was written, or could not be. A reader that has gone is in its right.
pub fn after(written: io::Result<()>, exit: Exit) -> Exit {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            to_stderr(&format!("error: the output could not be written: {}\n", reason(&error)));
            if exit == Exit::Good { Exit::Failed } else { exit }
        }
        _ => exit,
    }
}

/// The system's words without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// Writes beside the answer; there is nobody to tell if that fails.
pub fn to_stderr(text: &str) {
    let mut out = io::stderr().lock();
    let text = control::shown(text, out.is_terminal());
    let _ = out.write_all(text.as_bytes()).and_then(|_| out.flush());
}

/// `310ms`, `4.2s`, `3m 20s`, `2h 5m`, `3d`.
pub fn duration_words(millis: u64) -> String {
    let seconds = millis / 1000;
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{:.1}s", millis as f64 / 1000.0),
        60_000..3_600_000 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600_000..86_400_000 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A plain answer for people: a text as it is, anything deeper as YAML.
pub fn plain(json: &serde_json::Value) -> String {
    match json {
        serde_json::Value::String(text) => format!("{text}\n"),
        serde_json::Value::Null => String::new(),
        other => zester_compile::emit_yaml(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("C-13")]
    fn c13_what_could_not_be_printed_never_turns_a_failure_into_a_success() {
        let full = || Err(io::Error::from_raw_os_error(28));
        let gone = || Err(io::Error::from(io::ErrorKind::BrokenPipe));
        for exit in [Exit::Usage, Exit::Failed, Exit::Missing, Exit::Interrupted] {
            assert_eq!(after(full(), exit), exit);
            assert_eq!(after(gone(), exit), exit);
        }
        assert_eq!(after(full(), Exit::Good), Exit::Failed);
        assert_eq!(after(gone(), Exit::Good), Exit::Good, "a reader may have read enough");
        assert_eq!(after(Ok(()), Exit::Good), Exit::Good);
    }

    #[test]
    #[rule("C-13")]
    fn c13_the_reason_is_told_without_numbers() {
        assert_eq!(reason(&io::Error::from_raw_os_error(28)), "no space left on device");
    }
}
