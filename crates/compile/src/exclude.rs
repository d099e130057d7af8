//! `exclude:` (S-47): takes states and files out again, after everything was loaded and extended.

use crate::declare::{Declared, Draft, Place};
use crate::diagnostics::Diagnostics;
use crate::load::File;
use crate::target::file_name;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::Node;
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;

/// One entry of `exclude:`.
#[derive(Debug)]
pub struct Exclusion {
    what: What,
    pub at: Span,
}

#[derive(Debug)]
enum What {
    /// `- id: nginx`
    Id(String),
    /// `- sls: web.tls`, by its full reference.
    File(String),
    /// `- web.tls`: a file, or else an id.
    Either(String, String),
}

/// A state that is not there because it was excluded.
pub struct Excluded {
    pub draft: Draft,
    pub at: Span,
    /// With its file, not by its id.
    pub with_file: bool,
}

impl Excluded {
    /// Whether a requisite that found nothing may have meant it, by the name that it would have.
    pub fn is(&self, name: &str) -> bool {
        if let Some(file) = name.strip_prefix("sls:") {
            return *self.draft.sls == *file;
        }
        let id = name.split_once(':').map_or(name, |(_, id)| id);
        [name, id].iter().any(|name| goes_by(&self.draft, name))
    }
}

/// Reads the entries of one file.
pub fn read(place: &Place<'_>, value: &Node, declared: &mut Declared, diagnostics: &mut Diagnostics) {
    let full = |reference: &str| file_name(reference, &place.file.path);
    let entries = value.as_list().unwrap_or(std::slice::from_ref(value));
    for node in entries.iter().filter(|node| !node.is_null()) {
        let pair = match node.as_map() {
            Some([(key, name)]) => key.as_text().zip(name.as_text()),
            _ => None,
        };
        let what = match (pair, node.as_text()) {
            (Some(("id", id)), _) => What::Id(id.to_string()),
            (Some(("sls", reference)), _) => What::File(full(reference)),
            (None, Some(text)) => What::Either(full(text), text.to_string()),
            _ => {
                let message = format!("`exclude` lists states and files, not {}", node.describe());
                let diagnostic = Diagnostic::new(Kind::State, message).at(node.span);
                diagnostics.push(diagnostic.hint("write `- sls: web.tls` or `- id: nginx`"));
                continue;
            }
        };
        declared.exclusions.push(Exclusion { what, at: node.span });
    }
}

/// Splits the drafts into those that stay and those that are excluded.
pub fn apply(
    drafts: Vec<Draft>,
    exclusions: &[Exclusion],
    files: &[File],
    diagnostics: &mut Diagnostics,
) -> (Vec<Draft>, Vec<Excluded>) {
    if exclusions.is_empty() {
        return (drafts, Vec::new());
    }
    let has_file = |name: &str| files.iter().any(|file| *file.sls == *name);
    let mut of_file: Vec<(&str, Span)> = Vec::new();
    let mut of_id: Vec<(&str, Span)> = Vec::new();
    for exclusion in exclusions {
        match &exclusion.what {
            What::File(name) | What::Either(name, _) if has_file(name) => of_file.push((name, exclusion.at)),
            What::Id(id) | What::Either(_, id) if drafts.iter().any(|draft| goes_by(draft, id)) => {
                of_id.push((id, exclusion.at));
            }
            what => diagnostics.push(unknown(what, exclusion.at, &drafts, files)),
        }
    }
    let reason = |draft: &Draft| {
        let file = of_file.iter().find(|(name, _)| **name == *draft.sls).map(|(_, at)| (*at, true));
        file.or_else(|| of_id.iter().find(|(id, _)| goes_by(draft, id)).map(|(_, at)| (*at, false)))
    };
    let (mut kept, mut gone) = (Vec::with_capacity(drafts.len()), Vec::new());
    for draft in drafts {
        match reason(&draft) {
            Some((at, with_file)) => gone.push(Excluded { draft, at, with_file }),
            None => kept.push(draft),
        }
    }
    (kept, gone)
}

fn goes_by(draft: &Draft, id: &str) -> bool {
    *draft.id == *id || *draft.declared == *id
}

fn unknown(what: &What, at: Span, drafts: &[Draft], files: &[File]) -> Diagnostic {
    let ids = drafts.iter().map(|draft| &*draft.id);
    let names = files.iter().map(|file| &*file.sls);
    let (message, hint) = match what {
        What::Id(id) => (format!("there is no state `{id}` to exclude"), did_you_mean(id, ids)),
        What::File(name) => {
            (format!("no file `{name}` is loaded that could be excluded"), did_you_mean(name, names))
        }
        What::Either(_, text) => (
            format!("there is no file and no state `{text}` to exclude"),
            did_you_mean(text, ids.chain(names)),
        ),
    };
    Diagnostic::new(Kind::Dag, message).at(at).maybe_hint(hint).code("exclude_unknown")
}
