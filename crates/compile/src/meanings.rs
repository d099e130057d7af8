//! Constructs of files for Salt that run here and mean something else (S-56): the rows of the table that a file can be seen
//! to meet, each with its place. `zester migrate` tells them; a run does not.

use crate::declare::{Draft, Item};
use crate::diagnostics::Diagnostics;
use crate::load::File;
use std::collections::HashMap;
use zester_model::node::Node;
use zester_model::program::State;
use zester_model::requisite::EdgeKind;
use zester_model::source::{FileId, Sources, Span};

/// Words of states, before `names` is expanded.
pub fn words(drafts: &[Draft], files: &[File], diagnostics: &mut Diagnostics) {
    let is_salt = |item: &&Item| files.get(item.file).is_some_and(File::is_salt);
    for item in drafts.iter().flat_map(|draft| &draft.items).filter(is_salt) {
        for row in rows(&item.key, &item.value) {
            diagnostics.differs(row, item.at);
        }
    }
}

/// The rows that a word with its value meets.
fn rows(word: &str, value: &Node) -> Vec<&'static str> {
    let off = value.read::<bool>() == Ok(false);
    match word {
        "failhard" if !off => vec!["failhard"],
        "listen" | "listen_in" => vec!["listen"],
        "names" => vec!["names_ids"],
        "onchanges" | "onchanges_in" => vec!["onchanges_failed"],
        "onfail" | "onfail_in" | "onfail_any" | "onfail_all" => vec!["onfail_skipped"],
        "onlyif" => vec!["test_guards"],
        "order" => vec!["order"],
        "prereq" | "prereq_in" => vec!["prereq"],
        "retry" if !off => vec!["retry_attempts"],
        "unless" if value.as_list().is_some_and(|list| list.len() > 1) => vec!["test_guards", "unless_list"],
        "unless" => vec!["test_guards"],
        _ => Vec::new(),
    }
}

/// What shows only when requisites are resolved. `drafts` and `states` run in step.
pub fn relations(drafts: &[Draft], states: &[State], files: &[File], diagnostics: &mut Diagnostics) {
    for (_, state) in drafts.iter().zip(states).filter(|(draft, _)| draft.lenient && !draft.broken) {
        let watches =
            state.edges.iter().any(|edge| matches!(edge.kind, EdgeKind::Watch | EdgeKind::WatchAny));
        if let Some(creates) = state.params.iter().find(|param| param.name == "creates" && watches) {
            diagnostics.differs("watch_creates", creates.key);
        }
    }
    for at in unordered(drafts, states, files) {
        diagnostics.differs("sequential", at);
    }
}

/// For each file the first state that no requisite puts behind one that stands before it: Salt goes down the page.
fn unordered(drafts: &[Draft], states: &[State], files: &[File]) -> Vec<Span> {
    let mut of_file: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.lenient && !draft.ordered) {
        of_file.entry(draft.file).or_default().push(at);
    }
    let mut found = Vec::new();
    for file in 0..files.len() {
        let Some(members) = of_file.get(&file) else { continue };
        let position: HashMap<usize, usize> =
            members.iter().enumerate().map(|(position, at)| (*at, position)).collect();
        let behind = |at: usize, before: usize| {
            let edges = states.get(at).map_or(&[][..], |state| state.edges.as_slice());
            edges.iter().any(|edge| position.get(&edge.target).is_some_and(|other| *other < before))
        };
        let loose = members.iter().enumerate().skip(1).find(|(position, at)| !behind(**at, *position));
        found.extend(loose.and_then(|(_, at)| states.get(*at)).map(|state| state.span));
    }
    found
}

/// The filter `random`, in whatever was rendered.
pub fn templates(sources: &Sources, diagnostics: &mut Diagnostics) {
    for (file, source) in sources.iter().enumerate().filter(|(_, source)| source.text.contains("random")) {
        for (number, line) in source.text.lines().enumerate() {
            for (at, _) in line.match_indices("random") {
                let piped = line[..at].trim_end().ends_with('|');
                let ends = !line[at..]
                    .chars()
                    .nth("random".len())
                    .is_some_and(|it| it == '_' || it.is_alphanumeric());
                if piped && ends {
                    let column = line[..at].chars().count() as u32 + 1;
                    let span =
                        Span::new(FileId(file as u32), number as u32 + 1, column, "random".len() as u32);
                    diagnostics.differs("jinja_random", span);
                }
            }
        }
    }
}
