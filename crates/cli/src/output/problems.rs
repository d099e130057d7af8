//! Problems as the best compilers show them (C-7).

use super::paint::Paint;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::ops::Range;
use zester_model::problem::{Kind, Problem};
use zester_model::source::{SourceFile, Sources, Span};

/// How many lines of a file are handed to the renderer around what it points at.
const CONTEXT_LINES: usize = 1;

/// All problems, one after the other.
pub fn text(problems: &[Problem], sources: &Sources, paint: Paint) -> String {
    let shown: Vec<String> = problems.iter().map(|problem| one(problem, sources, paint)).collect();
    shown.join("\n")
}

/// What `lint` says at its end.
pub fn lint_text(problems: &[Problem], sources: &Sources, checked: usize, paint: Paint) -> String {
    let errors = problems.iter().filter(|problem| problem.kind != Kind::Lint).count();
    let files = if checked == 1 { "1 file".to_string() } else { format!("{checked} files") };
    let advice = problems.len() - errors;
    let summary = match (errors, advice) {
        (0, 0) => format!("{} {files}, no problems", paint.green("✓")),
        _ => format!("{files}: {errors} {}, {advice} advice", if errors == 1 { "error" } else { "errors" }),
    };
    match problems {
        [] => format!("{summary}\n"),
        _ => format!("{}\n{summary}\n", text(problems, sources, paint)),
    }
}

fn one(problem: &Problem, sources: &Sources, paint: Paint) -> String {
    let level = if problem.kind == Kind::Lint { Level::WARNING } else { Level::ERROR };
    let mut group = Group::with_title(level.primary_title(problem.message.as_str()));
    for piece in pieces(problem, sources) {
        let mut snippet =
            Snippet::source(piece.text).line_start(piece.first_line).path(piece.path).fold(true);
        for mark in piece.marks {
            let kind = if mark.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            snippet = snippet.annotation(kind.span(mark.range).label(mark.label));
        }
        group = group.element(snippet);
    }
    let under_caret = problem.span.is_some_and(|span| sources.get(span.file).is_some());
    if let (Some(hint), false) = (&problem.hint, under_caret) {
        group = group.element(Level::HELP.message(hint.as_str()));
    }
    for note in &problem.notes {
        group = group.element(Level::NOTE.no_name().message(note.as_str()));
    }
    let renderer = if paint.is_on() { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[group]) + "\n"
}

struct Mark {
    range: Range<usize>,
    label: Option<String>,
    primary: bool,
}

struct Piece {
    path: String,
    text: String,
    first_line: usize,
    marks: Vec<Mark>,
}

/// What to show of each file: the lines that are pointed at and what lies between them; the primary file first.
fn pieces(problem: &Problem, sources: &Sources) -> Vec<Piece> {
    let primary = problem.span.iter().map(|span| (*span, problem.hint.clone(), true));
    let labels = problem.labels.iter().map(|label| (label.span, Some(label.text.clone()), false));
    let mut by_file: Vec<(Span, Vec<(Span, Option<String>, bool)>)> = Vec::new();
    for mark in primary.chain(labels) {
        match by_file.iter_mut().find(|(span, _)| span.file == mark.0.file) {
            Some((_, marks)) => marks.push(mark),
            None => by_file.push((mark.0, vec![mark])),
        }
    }
    by_file.into_iter().filter_map(|(span, marks)| piece(sources.get(span.file)?, &marks)).collect()
}

fn piece(file: &SourceFile, marks: &[(Span, Option<String>, bool)]) -> Option<Piece> {
    let lines: Vec<&str> = file.text.split('\n').collect();
    let first = marks.iter().map(|(span, ..)| span.line as usize).min()?.saturating_sub(CONTEXT_LINES).max(1);
    let last = marks.iter().map(|(span, ..)| span.line as usize).max()?.min(lines.len());
    let shown = lines.get(first - 1..last.max(first)).unwrap_or(&[""]);
    let text = shown.join("\n");
    let marks = marks
        .iter()
        .map(|(span, label, primary)| Mark {
            range: range_of(shown, (span.line as usize).saturating_sub(first), span),
            label: label.clone(),
            primary: *primary,
        })
        .collect();
    Some(Piece { path: file.path.clone(), text, first_line: first, marks })
}

/// The bytes that a span covers in the joined lines.
fn range_of(lines: &[&str], row: usize, span: &Span) -> Range<usize> {
    let before: usize = lines.iter().take(row).map(|line| line.len() + 1).sum();
    let line = lines.get(row).copied().unwrap_or("");
    let byte_at = |character: usize| line.char_indices().nth(character).map_or(line.len(), |(at, _)| at);
    let from = (span.column as usize).saturating_sub(1);
    let start = byte_at(from);
    let end = byte_at(from + span.len.max(1) as usize).max(start);
    before + start..before + end
}
