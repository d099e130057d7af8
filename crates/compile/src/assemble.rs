//! From files to a program: declares, extends, expands, checks keys, and resolves requisites.

use crate::declare::{self, Declared, Draft, Item, Place};
use crate::diagnostics::Diagnostics;
use crate::exclude::{self, Excluded};
use crate::load::{File, Loaded};
use crate::requisite::{self, Relation, RequisiteTarget};
use crate::salt_kinds::FOREIGN;
use crate::salt_values::Reading;
use crate::target::{Asking, Index, ResolvedTarget};
use crate::template::glob;
use crate::{
    Inputs, attributes, extend, meanings, names, ordered, salt_context, salt_parameters, salt_values,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use zester_model::catalog::{Catalog, Kind};
use zester_model::diagnostic::{Diagnostic, Kind as DiagnosticKind};
use zester_model::keywords;
use zester_model::name::StateName;
use zester_model::node::Node;
use zester_model::program::{Attributes, Edge, Param, Program, State};
use zester_model::requisite::EdgeKind;
use zester_model::source::{Sources, Span};
use zester_model::suggest::{did_you_mean, nearest};

/// From so many states on, only a few unknown targets get suggestions: each looks at every name.
const SUGGEST_FREELY_BELOW: usize = 20_000;

/// A requisite that waits to be resolved.
struct Wanted {
    from: usize,
    relation: Relation,
    inverse: bool,
    target: RequisiteTarget,
    at: Span,
    /// Index of the file that says so.
    file: usize,
}

pub fn assemble(inputs: &Inputs<'_>, loaded: &mut Loaded) -> Program {
    let catalog = inputs.catalog;
    // What a file that could not be read would have declared must not be reported as missing.
    let Loaded { files, sources, diagnostics, complete, .. } = loaded;
    let (files, sources, complete) = (&*files, &*sources, *complete);
    let mut declared = Declared::default();
    for (index, file) in files.iter().enumerate() {
        declare::declare(&Place { catalog, file, index }, &mut declared, diagnostics);
    }
    let mut drafts = declared.drafts;
    let mut unknown_extensions = Diagnostics::default();
    extend::apply(&mut drafts, declared.extensions, catalog, &mut unknown_extensions);
    if complete {
        diagnostics.extend(unknown_extensions.finish());
    }
    meanings::words(&drafts, files, diagnostics);
    let drafts = names::expand(drafts, catalog, diagnostics);
    let mut unknown_exclusions = Diagnostics::default();
    let (mut drafts, excluded) = exclude::apply(drafts, &declared.exclusions, files, &mut unknown_exclusions);
    if complete {
        diagnostics.extend(unknown_exclusions.finish());
    }
    names::unite(&mut drafts, catalog, diagnostics);
    for draft in drafts.iter_mut().filter(|draft| !draft.broken) {
        declare::check_kind(draft, catalog, diagnostics);
    }
    duplicates(&mut drafts, diagnostics);
    let view = View { catalog, files, sources, excluded: &excluded, complete };
    use_others(&mut drafts, &view, diagnostics);
    let (mut states, wanted) = check_all(&drafts, &view, diagnostics);
    known_functions(&states, inputs, diagnostics);
    resolve(&drafts, &mut states, wanted, &view, diagnostics);
    states.iter_mut().for_each(once);
    meanings::relations(&drafts, &states, files, diagnostics);
    ordered::chain(&drafts, &mut states);
    Program { states }
}

struct View<'a> {
    catalog: &'a Catalog,
    files: &'a [File],
    sources: &'a Sources,
    excluded: &'a [Excluded],
    complete: bool,
}

impl View<'_> {
    fn index<'d>(&'d self, drafts: &'d [Draft]) -> Index<'d> {
        Index::new(drafts, self.excluded, self.catalog, self.files)
    }

    fn kind(&self, draft: &Draft) -> Option<&Kind> {
        if draft.foreign { Some(&*FOREIGN) } else { self.catalog.get(&draft.kind) }
    }

    fn path(&self, file: usize) -> &str {
        self.files.get(file).map_or("", |file| &file.path)
    }

    fn is_salt(&self, file: usize) -> bool {
        self.files.get(file).is_some_and(File::is_salt)
    }

    /// What a state says in a file.
    fn asking(&self, draft: &Draft, file: usize) -> Asking<'_> {
        Asking { written_in: self.path(file), state_of: self.path(draft.file) }
    }
}

fn full_name(draft: &Draft) -> String {
    format!("{}:{}", draft.kind, draft.id)
}

/// Where the name of a state stands: its entry of `names`, or its `module.function`.
fn named_at(draft: &Draft) -> Span {
    let entry = draft.items.last().filter(|_| draft.declared != draft.id);
    entry.map_or(draft.span, |entry| entry.at)
}

/// S-24: the second of two states with one name is reported and left out.
fn duplicates(drafts: &mut [Draft], diagnostics: &mut Diagnostics) {
    let mut seen: HashMap<(Arc<str>, Arc<str>), Span> = HashMap::with_capacity(drafts.len());
    for draft in drafts {
        let key = (draft.kind.clone(), draft.id.clone());
        match seen.get(&key) {
            // The id stands twice in its file, which was reported there.
            Some(first)
                if first.file == draft.span.file
                    && diagnostics.has_key_twice(&draft.declared, first.file) =>
            {
                draft.broken = true;
            }
            Some(first) => {
                let message = format!("dag: duplicate state \"{}\"", full_name(draft));
                let diagnostic = Diagnostic::new(DiagnosticKind::Dag, message).at(named_at(draft));
                let diagnostic =
                    diagnostic.hint("give one of them another id, or change the first with `extend`");
                diagnostics.push(diagnostic.label(*first, "first declared here"));
                draft.broken = true;
            }
            None => {
                seen.insert(key, named_at(draft));
            }
        }
    }
}

/// `use` (S-41): parameters of the target that the state does not set itself.
fn use_others(drafts: &mut [Draft], view: &View<'_>, diagnostics: &mut Diagnostics) {
    let is_use = |item: &Item| matches!(requisite::relation(&item.key), Some((Relation::Use, _)));
    if !drafts.iter().any(|draft| draft.items.iter().any(is_use)) {
        return;
    }
    let mut copies: Vec<(usize, usize)> = Vec::new();
    let index = view.index(drafts);
    for (at, draft) in drafts.iter().enumerate() {
        for item in draft.items.iter().filter(|item| is_use(item)) {
            let inverse = &*item.key == "use_in";
            for (target, span) in requisite::targets(&item.key, &item.value, diagnostics) {
                match index.resolve(&target, view.asking(draft, item.file)) {
                    ResolvedTarget::States(found) if inverse => {
                        copies.extend(found.iter().map(|other| (*other, at)))
                    }
                    ResolvedTarget::States(found) => copies.extend(found.iter().map(|other| (at, *other))),
                    found => report(&found, drafts, (draft, span), view, diagnostics),
                }
            }
        }
    }
    for (to, from) in copies {
        let Some(source) = drafts.get(from).cloned() else { continue };
        let Some(draft) = drafts.get_mut(to) else { continue };
        let Some(kind) = view.kind(draft) else { continue };
        for item in source.items {
            let meant = kind.canonical_name(&item.key);
            let own = |old: &Item| kind.canonical_name(&old.key) == meant;
            let fits = kind.parameter(&item.key).is_some() && meant != kind.primary
                || attributes::is_one(&item.key) && &*item.key != "names";
            if fits && !draft.items.iter().any(own) {
                draft.items.push(item);
            }
        }
    }
}

/// Sorts every item of every draft into parameters, attributes and requisites.
fn check_all(drafts: &[Draft], view: &View<'_>, diagnostics: &mut Diagnostics) -> (Vec<State>, Vec<Wanted>) {
    let mut wanted = Vec::new();
    let mut states = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.iter().enumerate() {
        let mut state = State {
            name: StateName::new(&draft.kind, &draft.id),
            span: draft.span,
            sls: draft.sls.clone(),
            params: Vec::with_capacity(draft.items.len() + 1),
            edges: Vec::new(),
            prereq: Vec::new(),
            attributes: Attributes::default(),
            broken: true,
        };
        if let Some(kind) = view.kind(draft).filter(|_| !draft.broken) {
            let before = diagnostics.count();
            let mut extra: Vec<&Item> = Vec::new();
            for item in &draft.items {
                let lenient = view.is_salt(item.file);
                if lenient && salt_context::is_extra(item, draft, kind) {
                    extra.push(item);
                    continue;
                }
                diagnostics_of_words(item, draft, kind, diagnostics);
                if lenient && kind.parameter(&item.key).is_none() {
                    attributes::guards_of_nothing(item, diagnostics);
                }
                if let Err(diagnostic) =
                    sort((item, lenient), index, kind, &mut state, &mut wanted, diagnostics)
                {
                    diagnostics.push(diagnostic);
                }
            }
            salt_context::hand_over(&extra, kind, &mut state, diagnostics);
            match salt_values::needless_together(kind.name, &state) {
                Some(needless) if draft.lenient => {
                    diagnostics
                        .advise(Diagnostic { kind: DiagnosticKind::Lint, ..needless }.hint("remove it"));
                }
                Some(needless) => diagnostics.push(needless),
                None => {}
            }
            // What is missing may be what was misspelt.
            let misspelt = diagnostics.count() > before;
            state.broken =
                !fill(draft, kind, &mut state, (!misspelt).then_some(diagnostics)) || draft.foreign;
        }
        states.push(state);
    }
    (states, wanted)
}

/// Words that do nothing here, for `lint`.
fn diagnostics_of_words(item: &Item, draft: &Draft, kind: &Kind, diagnostics: &mut Diagnostics) {
    if kind.parameter(&item.key).is_none()
        && let Some(advice) = attributes::needless(item).filter(|_| !draft.broken)
    {
        diagnostics.advise(advice);
    }
}

/// Functions that guards ask must exist: that one does not would show only when the state runs.
fn known_functions(states: &[State], inputs: &Inputs<'_>, diagnostics: &mut Diagnostics) {
    let mut asks = states.iter().flat_map(|state| &state.attributes.asks).peekable();
    if asks.peek().is_none() {
        return;
    }
    let known = inputs.functions.names();
    for ask in asks.filter(|ask| !known.contains(&ask.function)) {
        let diagnostic =
            Diagnostic::new(DiagnosticKind::State, format!("unknown function `{}`", ask.function)).at(ask.at);
        let hint = did_you_mean(&ask.function, known.iter().map(String::as_str));
        let diagnostic = diagnostic.maybe_hint(hint).note("`zester doc` lists the functions");
        diagnostics.push(diagnostic.code("unknown_function"));
    }
}

fn sort(
    (item, lenient): (&Item, bool),
    index: usize,
    kind: &Kind,
    state: &mut State,
    wanted: &mut Vec<Wanted>,
    diagnostics: &mut Diagnostics,
) -> Result<(), Diagnostic> {
    if let Some((relation, inverse)) = requisite::relation(&item.key) {
        if relation != Relation::Use {
            for (target, at) in requisite::targets(&item.key, &item.value, diagnostics) {
                wanted.push(Wanted { from: index, relation, inverse, target, at, file: item.file });
            }
        }
        return Ok(());
    }
    let parameter = kind.parameter(&item.key);
    if parameter.is_none()
        && let Some(read) = attributes::read(item, lenient, &mut state.attributes)
    {
        return read;
    }
    if parameter.is_none() && !kind.open {
        return match salt_parameters::passed_over(kind.name, item).filter(|_| lenient) {
            Some(advice) => {
                diagnostics.advise(advice);
                Ok(())
            }
            None => Err(unknown_parameter(item, kind)),
        };
    }
    let name = kind.canonical_name(&item.key);
    let again = state.params.iter().position(|param| param.name == name);
    if let Some(at) = again.filter(|_| lenient) {
        let first = state.params.remove(at);
        let message = format!("`{name}` is given twice: the last one counts");
        let advice = Diagnostic::new(DiagnosticKind::Lint, message).at(item.at).code("parameter_twice");
        diagnostics.advise(advice.label(first.key, "first given here").hint("keep one of them"));
    }
    if let Some(first) = state.params.iter().find(|param| param.name == name) {
        let also = if *item.key == *name { String::new() } else { format!(" (`{}`)", item.key) };
        let message = format!("`{name}`{also} is given twice");
        let diagnostic = Diagnostic::new(DiagnosticKind::State, message).at(item.at);
        return Err(diagnostic.label(first.key, "first given here"));
    }
    let (word, mut value) = (item.key.clone(), item.value.clone());
    match parameter.filter(|_| lenient).map(|parameter| salt_values::read(kind.name, parameter, item)) {
        Some(Reading::Unset(advice)) => {
            diagnostics.advise(advice);
            return Ok(());
        }
        Some(Reading::Instead(other)) => value = other,
        Some(Reading::AsIs) | None => {}
    }
    if !lenient && kind.instead_of_primary.contains(&name) && value.as_list().is_some_and(<[Node]>::is_empty)
    {
        let message = format!("`{}` of {} names nothing", item.key, kind.name);
        return Err(Diagnostic::new(DiagnosticKind::State, message).at(value.span));
    }
    state.params.push(Param { name: name.to_string(), word, key: item.at, value });
    Ok(())
}

fn unknown_parameter(item: &Item, kind: &Kind) -> Diagnostic {
    let own =
        kind.parameters.iter().flat_map(|it| std::iter::once(it.name).chain(it.aliases.iter().copied()));
    let generic = keywords::ATTRIBUTES.iter().map(|attribute| attribute.word);
    let generic = generic.chain(keywords::REQUISITES.iter().map(|requisite| requisite.word));
    let hint = salt_parameters::advice(kind.name, &item.key)
        .map(str::to_string)
        .or_else(|| did_you_mean(&item.key, own.clone()))
        .or_else(|| did_you_mean(&item.key, generic));
    Diagnostic::new(DiagnosticKind::State, format!("unknown parameter `{}` of {}", item.key, kind.name))
        .at(item.at)
        .maybe_hint(hint)
        .note(format!("`zester doc {}` lists the parameters", kind.name))
        .code("unknown_parameter")
}

/// Gives the primary parameter its default, the id, and reports what is required and missing. Whether all is there.
fn fill(draft: &Draft, kind: &Kind, state: &mut State, mut diagnostics: Option<&mut Diagnostics>) -> bool {
    let has = |state: &State, name: &str| state.params.iter().any(|param| param.name == name);
    // `module.run` in its dotted form names its target in a key of its own.
    let dotted = kind.open && state.params.iter().any(|param| param.name.contains('.'));
    if !has(state, kind.primary) && !dotted {
        let value = Node::text(draft.span, draft.id.clone());
        state.params.push(Param::new(kind.primary, draft.span, value));
    }
    let mut whole = true;
    for parameter in kind.parameters.iter().filter(|it| it.required && it.name != kind.primary) {
        if !has(state, parameter.name) {
            whole = false;
            let message = format!("{} needs `{}`", kind.name, parameter.name);
            let diagnostic = Diagnostic::new(DiagnosticKind::State, message).at(draft.span);
            if let Some(diagnostics) = &mut diagnostics {
                diagnostics.push(diagnostic.note(format!("`zester doc {}` lists the parameters", kind.name)));
            }
        }
    }
    whole
}

fn resolve(
    drafts: &[Draft],
    states: &mut [State],
    wanted: Vec<Wanted>,
    view: &View<'_>,
    diagnostics: &mut Diagnostics,
) {
    if wanted.is_empty() {
        return;
    }
    let index = view.index(drafts);
    for want in wanted {
        let Some(draft) = drafts.get(want.from) else { continue };
        let asking = view.asking(draft, want.file);
        let whole_file = want.target.module.as_deref() == Some("sls");
        let own = match want.inverse && whole_file && view.is_salt(want.file) {
            true => index.own_states(&want.target.id, asking.written_in).map(ResolvedTarget::States),
            false => None,
        };
        match own.unwrap_or_else(|| index.resolve(&want.target, asking)) {
            ResolvedTarget::States(found) => {
                if found.len() > 1 && index.is_forgiven(&want.target, asking) {
                    diagnostics.advise(all_of_them(&found, drafts, &want));
                }
                for other in found {
                    // "Every state of that file", or of that pattern, does not mean the one that says so.
                    if !((whole_file || glob::is_one(&want.target.id)) && other == want.from) {
                        connect(states, &want, other);
                    }
                }
            }
            found => report(&found, drafts, (draft, want.at), view, diagnostics),
        }
    }
}

/// An `.sls` file names several states by one id.
fn all_of_them(found: &[usize], drafts: &[Draft], want: &Wanted) -> Diagnostic {
    let several: Vec<&Draft> = found.iter().filter_map(|at| drafts.get(*at)).collect();
    let message = format!("`{}` means {} states here: all of them", want.target.id, several.len());
    let advice = Diagnostic::new(DiagnosticKind::Lint, message).at(want.at).code("id_twice");
    let hint =
        several.first().map_or_else(String::new, |it| format!("name one in full: `{}`", full_name(it)));
    several.iter().take(4).fold(advice.hint(hint), |advice, it| {
        advice.label(it.span, format!("{} is declared here", full_name(it)))
    })
}

fn connect(states: &mut [State], want: &Wanted, other: usize) {
    let (waiter, target) = if want.inverse { (other, want.from) } else { (want.from, other) };
    match want.relation {
        Relation::Edge(kind) => edge(states, waiter, Edge { target, kind, span: want.at }),
        Relation::Prereq => {
            if let Some(state) = states.get_mut(waiter) {
                state.prereq.push(target);
            }
            edge(states, target, Edge { target: waiter, kind: EdgeKind::Require, span: want.at });
        }
        Relation::Use => {}
    }
}

fn edge(states: &mut [State], waiter: usize, edge: Edge) {
    if let Some(state) = states.get_mut(waiter) {
        state.edges.push(edge);
    }
}

/// A target named twice is waited for once. Done at the end and by table: one state may wait for all others.
fn once(state: &mut State) {
    if state.edges.len() > 1 {
        let mut seen = HashSet::with_capacity(state.edges.len());
        state.edges.retain(|edge| seen.insert((edge.target, edge.kind)));
    }
    if state.prereq.len() > 1 {
        let mut seen = HashSet::with_capacity(state.prereq.len());
        state.prereq.retain(|target| seen.insert(*target));
    }
}

/// Reports a target that is not exactly what a requisite needs.
fn report(
    found: &ResolvedTarget,
    drafts: &[Draft],
    (draft, at): (&Draft, Span),
    view: &View<'_>,
    diagnostics: &mut Diagnostics,
) {
    match found {
        ResolvedTarget::States(_) | ResolvedTarget::Broken => {}
        ResolvedTarget::Ambiguous(several) => {
            let names: Vec<String> = several
                .iter()
                .filter_map(|at| drafts.get(*at))
                .map(|it| format!("\"{}\"", full_name(it)))
                .collect();
            let message = format!("dag: state \"{}\" requires one of {}", full_name(draft), names.join(", "));
            let mut diagnostic =
                Diagnostic::new(DiagnosticKind::Dag, message).at(at).hint("name the one that is meant");
            for other in several.iter().take(4).filter_map(|at| drafts.get(*at)) {
                diagnostic = diagnostic.label(other.span, format!("{} is declared here", full_name(other)));
            }
            diagnostics.push(diagnostic);
        }
        ResolvedTarget::Unknown(_) if !view.complete => {}
        ResolvedTarget::Unknown(name) if view.excluded.iter().any(|it| it.is(name)) => {
            let message =
                format!("dag: state \"{}\" requires \"{name}\", which is excluded", full_name(draft));
            let mut diagnostic = Diagnostic::new(DiagnosticKind::Dag, message).at(at);
            for excluded in view.excluded.iter().filter(|it| it.is(name)).take(1) {
                diagnostic = diagnostic.label(excluded.at, "excluded here");
            }
            diagnostics.push(diagnostic);
        }
        ResolvedTarget::Unknown(name) => {
            let message = format!("dag: state \"{}\" requires unknown state \"{name}\"", full_name(draft));
            let diagnostic = Diagnostic::new(DiagnosticKind::Dag, message).at(at).code("unknown_state");
            let suggest = drafts.len() < SUGGEST_FREELY_BELOW || diagnostics.is_empty();
            let near = if suggest && !diagnostics.is_full() { near(name, drafts) } else { Vec::new() };
            diagnostics.push(suggestion(diagnostic, &near, view));
        }
    }
}

/// The states whose full name, or whose id, comes closest.
fn near<'d>(name: &str, drafts: &'d [Draft]) -> Vec<&'d Draft> {
    let drafts: Vec<&Draft> = drafts.iter().filter(|draft| !draft.kind.is_empty()).collect();
    let full: Vec<String> = drafts.iter().map(|draft| full_name(draft)).collect();
    let by_name = nearest(name, full.iter().map(String::as_str), 3);
    let mut found: Vec<&Draft> =
        by_name.iter().filter_map(|near| drafts.iter().find(|it| full_name(it) == *near)).copied().collect();
    if found.is_empty() {
        let id = name.split_once(':').map_or(name, |(_, id)| id);
        let by_id = nearest(id, drafts.iter().map(|draft| &*draft.id), 3);
        found = by_id.iter().filter_map(|near| drafts.iter().find(|it| &*it.id == *near)).copied().collect();
    }
    found
}

fn suggestion(mut diagnostic: Diagnostic, near: &[&Draft], view: &View<'_>) -> Diagnostic {
    let names: Vec<String> = near
        .iter()
        .map(|draft| format!("`{}` ({})", full_name(draft), view.sources.place(draft.span)))
        .collect();
    if let Some((last, rest)) = names.split_last() {
        let list = if rest.is_empty() { last.clone() } else { format!("{} or {last}", rest.join(", ")) };
        diagnostic = diagnostic.hint(format!("did you mean {list}?"));
    }
    for draft in near {
        diagnostic = diagnostic.label(draft.span, format!("{} is declared here", full_name(draft)));
    }
    diagnostic
}
