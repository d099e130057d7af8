//! The built-in reference for people.

use super::paint::Paint;
use super::wrap::WIDTH;
use std::fmt::Write;
use zester_converge::functions::Function;
use zester_converge::functions::acting::Acting;
use zester_converge::tree_functions::TreeFunction;
use zester_model::catalog::Kind;

/// Every kind and function, a line each.
pub fn index(
    kinds: &[&Kind],
    functions: &[&Function],
    acting: &[&Acting],
    trees: &[&TreeFunction],
    paint: Paint,
) -> String {
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
    if !acting.is_empty() {
        let title =
            paint.bold("Functions that act, each a run of a kind, for `zester call` and on the fleet");
        let _ = writeln!(out, "{}{title}", if out.is_empty() { "" } else { "\n" });
        for function in acting {
            let _ = writeln!(out, "  {}", function.doc);
        }
    }
    if !trees.is_empty() {
        let title = paint.bold("Functions of state files, for `zester call` and on the fleet");
        let _ = writeln!(out, "{}{title}", if out.is_empty() { "" } else { "\n" });
        for function in trees {
            let _ = writeln!(out, "  {}", function.doc);
        }
    }
    let _ = writeln!(
        out,
        "\n`zester doc NAME` shows one of them whole; `zester doc requisites` and `zester doc templates`"
    );
    let _ = writeln!(out, "explain the language.");
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

/// A page of the docs for a terminal: titles bold, tables as aligned columns, paragraphs as they are.
pub fn plain_markdown(page: &str, paint: Paint) -> String {
    let mut out = String::new();
    let mut table: Vec<Vec<String>> = Vec::new();
    for line in page.lines().chain([""]) {
        if let Some(row) = line.strip_prefix('|') {
            let cells: Vec<String> =
                row.trim_end_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
            if !cells.iter().all(|cell| cell.chars().all(|c| c == '-')) {
                table.push(cells);
            }
            continue;
        }
        aligned(&mut out, &std::mem::take(&mut table));
        match line.strip_prefix("# ") {
            Some(title) => {
                let _ = writeln!(out, "{}", paint.bold(title));
            }
            None => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out.trim_end().to_string() + "\n"
}

/// Columns where they fit on a line, else a list: the first cell, and under it the others with what stands above them.
fn aligned(out: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    if widths.iter().map(|width| width + 2).sum::<usize>() > WIDTH {
        return listed(out, rows);
    }
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
    }
}

fn listed(out: &mut String, rows: &[Vec<String>]) {
    let Some((titles, rows)) = rows.split_first() else { return };
    for row in rows {
        for (at, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            let _ = match (at, titles.get(at)) {
                (0, _) => writeln!(out, "  {cell}"),
                (_, Some(title)) if titles.len() > 2 => writeln!(out, "      {title}: {cell}"),
                _ => writeln!(out, "      {cell}"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_too_wide_is_a_list() {
        let paint = Paint::new(false);
        let narrow = plain_markdown("| a | b |\n|---|---|\n| one | two |\n", paint);
        assert_eq!(narrow, "  a    b\n  one  two\n");
        let long = "word ".repeat(15);
        let wide = plain_markdown(&format!("| a | b | c |\n|---|---|---|\n| one | {long}| |\n"), paint);
        assert_eq!(wide, format!("  one\n      b: {}\n", long.trim_end()));
        let two = plain_markdown(&format!("| a | b |\n|---|---|\n| one | {long}x |\n"), paint);
        assert_eq!(two, format!("  one\n      {long}x\n"));
    }
}
