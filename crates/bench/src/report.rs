//! What was found, for people and for `target/bench.json`.

use serde_json::{Value as Json, json};
use std::path::Path;

pub struct Report {
    lines: Vec<Json>,
}

impl Report {
    pub fn new() -> Report {
        Report { lines: Vec::new() }
    }

    /// One claim: what was measured, and the bound it is held to.
    #[allow(clippy::print_stdout)] // it is a tool for a terminal
    pub fn claim(&mut self, name: &str, value: f64, unit: &str, at_most: f64, notes: Json) {
        let holds = value <= at_most;
        let mark = if holds { "ok  " } else { "OVER" };
        let shown: Vec<String> = notes
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| match value.as_f64() {
                Some(number) => format!("{key} {number:.1}"),
                None => format!("{key} {value}"),
            })
            .collect();
        println!("{mark} {name:<52} {value:>8.2} {unit:<5} (at most {at_most})   {}", shown.join(", "));
        self.lines.push(json!({
            "name": name, "value": value, "unit": unit, "at_most": at_most, "holds": holds, "notes": notes,
        }));
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = format!("{:#}\n", json!({ "claims": self.lines }));
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn all_hold(&self) -> bool {
        self.lines.iter().all(|line| line["holds"] == true)
    }
}
