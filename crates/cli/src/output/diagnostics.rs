//! Problems as the best compilers show them (C-7).

use super::paint::Paint;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::ops::Range;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::source::{SourceFile, Sources, Span};

/// How many lines of a file are handed to the renderer around what it points at.
const CONTEXT_LINES: usize = 1;

/// All problems, one after the other.
pub fn text(diagnostics: &[Diagnostic], sources: &Sources, paint: Paint) -> String {
    let shown: Vec<String> = diagnostics.iter().map(|diagnostic| one(diagnostic, sources, paint)).collect();
    shown.join("\n")
}

/// What `lint` says at its end.
pub fn lint_text(diagnostics: &[Diagnostic], sources: &Sources, checked: usize, paint: Paint) -> String {
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.kind != Kind::Lint).count();
    let files = if checked == 1 { "1 file".to_string() } else { format!("{checked} files") };
    let advice = diagnostics.len() - errors;
    let summary = match (errors, advice) {
        (0, 0) => format!("{} {files}, no problems", paint.green("✓")),
        _ => format!("{files}: {}, {}", plural(errors, "error"), plural(advice, "warning")),
    };
    match diagnostics {
        [] => format!("{summary}\n"),
        _ => format!("{}\n{summary}\n", text(diagnostics, sources, paint)),
    }
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn one(diagnostic: &Diagnostic, sources: &Sources, paint: Paint) -> String {
    let level = if diagnostic.kind == Kind::Lint { Level::WARNING } else { Level::ERROR };
    let mut group = Group::with_title(level.primary_title(diagnostic.message.as_str()));
    for piece in pieces(diagnostic, sources) {
        let mut snippet =
            Snippet::source(piece.text).line_start(piece.first_line).path(piece.path).fold(true);
        for mark in piece.marks {
            let kind = if mark.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            snippet = snippet.annotation(kind.span(mark.range).label(mark.label));
        }
        group = group.element(snippet);
    }
    let under_caret = diagnostic.span.is_some_and(|span| sources.get(span.file).is_some());
    if let (Some(hint), false) = (&diagnostic.hint, under_caret) {
        group = group.element(Level::HELP.message(hint.as_str()));
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.no_name().message(note.as_str()));
    }
    let renderer = if paint.is_on() { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[group]) + "\n"
}

/// A place to point at, before it is known which bytes that is.
struct Pointer {
    span: Span,
    label: Option<String>,
    primary: bool,
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
fn pieces(diagnostic: &Diagnostic, sources: &Sources) -> Vec<Piece> {
    let primary = diagnostic.span.map(|span| Pointer { span, label: diagnostic.hint.clone(), primary: true });
    let labels = diagnostic.labels.iter().map(|label| Pointer {
        span: label.span,
        label: Some(label.text.clone()),
        primary: false,
    });
    let mut by_file: Vec<Vec<Pointer>> = Vec::new();
    for pointer in primary.into_iter().chain(labels) {
        let same =
            |pointers: &&mut Vec<Pointer>| pointers.iter().any(|other| other.span.file == pointer.span.file);
        match by_file.iter_mut().find(same) {
            Some(pointers) => pointers.push(pointer),
            None => by_file.push(vec![pointer]),
        }
    }
    by_file.iter().filter_map(|pointers| piece(sources.get(pointers.first()?.span.file)?, pointers)).collect()
}

fn piece(file: &SourceFile, pointers: &[Pointer]) -> Option<Piece> {
    let lines: Vec<&str> = file.text.split('\n').collect();
    let rows = pointers.iter().map(|pointer| pointer.span.line as usize);
    let first = rows.clone().min()?.saturating_sub(CONTEXT_LINES).max(1);
    let last = rows.max()?.min(lines.len());
    let shown = lines.get(first - 1..last.max(first)).unwrap_or(&[""]);
    let marks = pointers
        .iter()
        .map(|pointer| Mark {
            range: range_of(shown, (pointer.span.line as usize).saturating_sub(first), &pointer.span),
            label: pointer.label.clone(),
            primary: pointer.primary,
        })
        .collect();
    Some(Piece { path: file.path.clone(), text: shown.join("\n"), first_line: first, marks })
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
