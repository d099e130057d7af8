//! The built-in reference for people.

use super::paint::Paint;
use std::fmt::Write;
use zester_converge::functions::Function;
use zester_model::catalog::Kind;

/// Every kind and function, a line each.
pub fn index(kinds: &[&Kind], functions: &[&Function], paint: Paint) -> String {
    let mut out = String::new();
    if !kinds.is_empty() {
        let _ = writeln!(out, "{}", paint.bold("Kinds of state"));
        let width = kinds.iter().map(|kind| kind.name.len()).max().unwrap_or(0);
        for kind in kinds {
            let _ = writeln!(
                out,
                "  {}{}  {}",
                paint.cyan(kind.name),
                " ".repeat(width - kind.name.len()),
                kind.summary
            );
        }
    }
    if !functions.is_empty() {
        let _ = writeln!(
            out,
            "{}{}",
            if kinds.is_empty() { "" } else { "\n" },
            paint.bold("Functions for `zester call` and templates")
        );
        for function in functions {
            let _ = writeln!(out, "  {}", function.doc);
        }
    }
    let _ = writeln!(out, "\n`zester doc NAME` shows one of them whole.");
    out
}

/// The manual page of one kind.
pub fn page(kind: &Kind, paint: Paint) -> String {
    let mut out = format!("{}  {}\n\n", paint.bold(kind.name), kind.summary);
    for line in kind.doc.trim().lines().skip(1).skip_while(|line| line.trim().is_empty()) {
        if line.starts_with("```") {
            continue;
        }
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\n{}", paint.bold("Parameters"));
    for parameter in &kind.parameters {
        let mut marks = vec![parameter.takes.clone()];
        if parameter.name == kind.primary {
            marks.push("defaults to the state id".into());
        } else if parameter.required {
            marks.push("required".into());
        }
        if !parameter.aliases.is_empty() {
            marks.push(format!("also {}", parameter.aliases.join(", ")));
        }
        let _ = writeln!(
            out,
            "  {}  {}",
            paint.cyan(parameter.name),
            paint.dim(&format!("({})", marks.join("; ")))
        );
        for line in parameter.doc.lines() {
            let _ = writeln!(out, "      {line}");
        }
    }
    out.push_str("\nEvery state also takes the requisites (require, watch, onchanges, onfail, prereq and their _in forms),\n");
    out.push_str("onlyif, unless, check_cmd, order, retry and failhard.\n");
    out
}
