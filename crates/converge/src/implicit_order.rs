//! Who owns what, and what obviously comes first.
//!
//! Two states that want different things of one path, package or account are a mistake (S-57), unless the user said
//! which comes first. Edits of one file are none: they run as declared, after the state that decides about the file. And some
//! orders need no saying: a file comes after the state of its directory, its user, its group (S-58). Both follow from what the states claim, before anything is looked at, and become `auto` edges, which give way
//! where they would close a cycle.

mod clearing;

use crate::plan::Resources;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::program::{Edge, Program, State};
use zester_model::requisite::EdgeKind;
use zester_model::source::Sources;
use zester_resources::claims::{Claim, Claims, ManagedItem};

/// What a path means on a machine; `true`: where a link at its end leads.
pub type RealPathOf<'a> = dyn Fn(&Path, bool) -> PathBuf + 'a;

/// What came of it beside the edges.
#[derive(Default)]
pub struct ImplicitOrder {
    /// States that contradict each other: nothing may run.
    pub diagnostics: Vec<Diagnostic>,
    /// States of Salt files that contradict each other, and how that was taken: told at every run.
    pub warnings: Vec<Diagnostic>,
    /// What is seldom meant, for `lint`.
    pub advice: Vec<Diagnostic>,
}

/// Adds the `auto` edges to the program, and says which states contradict each other. `bound` runs in step with the
/// states; those that could not be bound claim nothing.
///
/// `meant` tells what a path means on the machine that the states are for, if there is one: where a link leads, two names
/// are one thing as well. What lies behind a link that the run itself would make nobody knows yet.
pub fn add_implicit_order(
    program: &mut Program,
    bound: &Resources,
    sources: &Sources,
    meant: Option<&RealPathOf<'_>>,
) -> ImplicitOrder {
    let claims: Vec<Claims> =
        bound.iter().map(|state| state.as_ref().map(|state| state.claims()).unwrap_or_default()).collect();
    let owners = Owners::of(&claims);
    let mut implicit = ImplicitOrder::default();
    let mut added = ImplicitEdges::default();
    for item in &owners.shared {
        let holders = owners.holders(item);
        one_owner(program, sources, item, holders, &mut added, &mut implicit);
    }
    let editors = Editors::of(&claims);
    editors.one_after_the_other(&owners, &mut added);
    // On most machines every path means itself, and nothing is to be gone through a second time.
    let means_another = |meant: &&RealPathOf<'_>| {
        claims.iter().flat_map(Claims::paths).any(|(path, follows)| meant(path, follows) != path)
    };
    let by_meaning = meant
        .filter(means_another)
        .map(|meant| claims.iter().map(|claims| claims.with_paths(meant)).collect::<Vec<Claims>>());
    if let Some(by_meaning) = &by_meaning {
        let really = Owners::of(by_meaning);
        let states = |holders: &[Holder<'_>]| holders.iter().map(|(state, _)| *state).collect::<Vec<_>>();
        for item in &really.shared {
            let holders = really.holders(item);
            // What is shared by its name was told above.
            if states(holders) != states(owners.holders(item)) {
                one_owner(program, sources, item, holders, &mut added, &mut implicit);
            }
        }
        Editors::of(by_meaning).one_after_the_other(&really, &mut added);
    }
    let really = by_meaning.as_ref().unwrap_or(&claims);
    clearing::refuse_what_others_fill(program, sources, really, &mut implicit);
    let makers = DirMakers::of(&claims, &owners);
    for (state, claims) in claims.iter().enumerate() {
        if program.states.get(state).is_some_and(|state| state.attributes.auto_order) {
            after_parents_and_accounts(state, claims, &owners, &makers, &mut added);
            after_what_it_needs(state, claims, &owners, &makers, &mut added);
            editors.after_edits_of_needs(state, claims, &mut added);
        }
    }
    added.add_to(program);
    implicit
}

/// A state that decides about a thing, and what it wants of it.
type Holder<'a> = (usize, &'a Claim);

/// Which states decide about each thing, as declared. Paths stand apart: each is asked for with all that lie above it.
struct Owners<'a> {
    by_path: HashMap<&'a Path, Vec<Holder<'a>>>,
    by_thing: HashMap<&'a ManagedItem, Vec<Holder<'a>>>,
    /// Those that share a directory with others, and put things into it all the same: what is unpacked there.
    filling: HashMap<&'a Path, Vec<usize>>,
    /// The things that several decide about, in the order in which they are declared for the second time.
    shared: Vec<&'a ManagedItem>,
}

impl<'a> Owners<'a> {
    fn of(claims: &'a [Claims]) -> Owners<'a> {
        let (by_path, by_thing, filling) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut owners = Owners { by_path, by_thing, filling, shared: Vec::new() };
        for (state, claims) in claims.iter().enumerate() {
            for path in claims.edits.iter().filter(|_| claims.fills) {
                owners.filling.entry(path).or_default().push(state);
            }
            for owned in &claims.owned {
                let holders = match &owned.item {
                    ManagedItem::Path(path) => owners.by_path.entry(path).or_default(),
                    item => owners.by_thing.entry(item).or_default(),
                };
                // `pkgs` may name one package twice.
                if holders.last().is_some_and(|(last, _)| *last == state) {
                    continue;
                }
                holders.push((state, owned));
                if holders.len() == 2 {
                    owners.shared.push(&owned.item);
                }
            }
        }
        owners
    }

    fn holders(&self, item: &ManagedItem) -> &[Holder<'a>] {
        match item {
            ManagedItem::Path(path) => self.of_path(path),
            item => self.by_thing.get(item).map_or(&[], Vec::as_slice),
        }
    }

    fn of_path(&self, path: &Path) -> &[Holder<'a>] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// Whoever decides about a directory, or puts things into it: both come before what lies inside (S-58).
    fn managers(&self, path: &Path) -> Vec<usize> {
        let deciding = self.of_path(path).iter().map(|(state, _)| *state);
        deciding.chain(self.filling.get(path).into_iter().flatten().copied()).collect()
    }

    /// Those of the first of these paths that has any.
    fn nearest<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Vec<usize> {
        paths.map(|path| self.managers(path)).find(|managers| !managers.is_empty()).unwrap_or_default()
    }
}

/// The states that edit each file, as declared.
struct Editors<'a>(HashMap<&'a Path, Vec<usize>>);

impl<'a> Editors<'a> {
    fn of(claims: &'a [Claims]) -> Editors<'a> {
        let mut by_path: HashMap<&Path, Vec<usize>> = HashMap::new();
        for (state, claims) in claims.iter().enumerate() {
            for path in &claims.edits {
                by_path.entry(path).or_default().push(state);
            }
        }
        Editors(by_path)
    }

    /// S-57: after the states that decide about the file, and then as declared, so that none loses the work of another.
    fn one_after_the_other(&self, owners: &Owners<'_>, added: &mut ImplicitEdges) {
        for (path, editors) in &self.0 {
            for (at, state) in editors.iter().enumerate() {
                added.all(*state, owners.of_path(path));
                if let Some(before) = at.checked_sub(1).and_then(|before| editors.get(before)) {
                    added.one(*state, *before);
                }
            }
        }
    }

    /// S-58: whoever reads a file reads it once it is edited.
    fn after_edits_of_needs(&self, state: usize, claims: &Claims, added: &mut ImplicitEdges) {
        for editor in claims.needs.iter().filter_map(|path| self.0.get(path.as_path())).flatten() {
            added.one(state, *editor);
        }
    }
}

/// The directories that no state decides about and that `makedirs` makes on the way: for each, how it would look, and the
/// first state that would make it so.
struct DirMakers<'a> {
    by_path: HashMap<&'a Path, Vec<(&'a str, usize)>>,
}

impl<'a> DirMakers<'a> {
    fn of(claims: &'a [Claims], owners: &Owners<'_>) -> DirMakers<'a> {
        let mut by_path: HashMap<&Path, Vec<(&str, usize)>> = HashMap::new();
        for (state, claims) in claims.iter().enumerate() {
            let Some(how) = &claims.makes_parents else { continue };
            for path in paths_of(claims) {
                for parent in unowned_parents(path, owners) {
                    let looks = by_path.entry(parent).or_default();
                    if !looks.iter().any(|(host, _)| host == how) {
                        looks.push((how, state));
                    }
                }
            }
        }
        DirMakers { by_path }
    }

    /// Whom a state waits for that makes this directory as well, but would have it look otherwise: the first of those
    /// that come before it. So it is not chance what a shared directory looks like.
    fn before(&self, parent: &Path, how: &str) -> Option<usize> {
        let looks = self.by_path.get(parent)?;
        let own = looks.iter().position(|(host, _)| *host == how)?;
        looks.get(own.checked_sub(1)?).map(|(_, state)| *state)
    }

    fn first(&self, directory: &Path) -> Option<usize> {
        self.by_path.get(directory)?.first().map(|(_, state)| *state)
    }
}

fn path_of(owned: &Claim) -> Option<&Path> {
    match &owned.item {
        ManagedItem::Path(path) => Some(path),
        _ => None,
    }
}

/// The paths that a state makes or changes something at.
fn paths_of(claims: &Claims) -> impl Iterator<Item = &Path> {
    claims.owned.iter().filter_map(path_of).chain(claims.edits.iter().map(|path| path.as_path()))
}

/// The directories above a path, up to the first that a state decides about; `/` is always there.
fn unowned_parents<'a>(path: &'a Path, owners: &Owners<'_>) -> impl Iterator<Item = &'a Path> {
    path.ancestors()
        .skip(1)
        .take_while(|parent| parent.parent().is_some() && owners.managers(parent).is_empty())
}

/// S-58: after the states of its nearest directory, its user and its group, and after whoever makes its directory on the
/// way.
fn after_parents_and_accounts(
    state: usize,
    claims: &Claims,
    owners: &Owners<'_>,
    makers: &DirMakers<'_>,
    added: &mut ImplicitEdges,
) {
    for account in &claims.accounts {
        added.all(state, owners.holders(account));
    }
    for path in paths_of(claims) {
        let nearest = owners.nearest(path.ancestors().skip(1));
        nearest.into_iter().for_each(|before| added.one(state, before));
        match &claims.makes_parents {
            Some(how) => {
                let others = unowned_parents(path, owners).filter_map(|parent| makers.before(parent, how));
                others.for_each(|other| added.one(state, other));
            }
            None => {
                let maker = path.parent().and_then(|parent| makers.first(parent));
                maker.into_iter().for_each(|other| added.one(state, other));
            }
        }
    }
}

/// S-58: after whoever decides about a path that it reads, or that shows whether it was done, and about the directory that it
/// works in; else about the nearest directory above, or after whoever makes that on the way. A command that creates a
/// directory does not wait for one that would make it on the way: it would find its work done.
fn after_what_it_needs(
    state: usize,
    claims: &Claims,
    owners: &Owners<'_>,
    makers: &DirMakers<'_>,
    added: &mut ImplicitEdges,
) {
    let parent =
        |path: &'_ Path| path.parent().filter(|_| makers.first(path).is_none()).map(Path::to_path_buf);
    let needs = claims.needs.iter().map(|path| (path, parent(path)));
    let works_in = claims.works_in.iter().map(|path| (path, Some(path.clone())));
    for (path, directory) in needs.chain(works_in) {
        let nearest = owners.nearest(path.ancestors());
        nearest.into_iter().for_each(|before| added.one(state, before));
        let maker = directory.and_then(|directory| makers.first(&directory));
        maker.into_iter().for_each(|other| added.one(state, other));
    }
}

/// S-57: several states decide about one thing. Whatever they want, they run one after the other, as declared.
fn one_owner(
    program: &Program,
    sources: &Sources,
    item: &ManagedItem,
    holders: &[Holder<'_>],
    added: &mut ImplicitEdges,
    implicit: &mut ImplicitOrder,
) {
    for (at, (later, owned)) in holders.iter().enumerate() {
        let earlier = holders.get(..at).unwrap_or_default();
        let Some((before, _)) = earlier.last() else { continue };
        added.one(*later, *before);
        let disagreeing = earlier.iter().find_map(|(state, other)| Some((*state, owned.disagrees(other)?)));
        let (first, aspect) = match disagreeing {
            Some((state, aspect)) => (state, Some(aspect)),
            None => (*before, None),
        };
        let (Some(state), Some(other)) = (program.states.get(*later), program.states.get(first)) else {
            continue;
        };
        let ordered = waits_for(program, *later, first) || waits_for(program, first, *later);
        match (aspect, ordered) {
            (None, _) => {
                let message = format!("{} and {} both decide about {item}", other.name, state.name);
                implicit.advice.push(pair(Kind::Lint, message, state, other).hint("keep one of them"));
            }
            (Some(aspect), true) => {
                let message = contradiction(item, aspect, other, state);
                let hint =
                    "a requisite orders them, so every run does both: keep one of them if that is not meant";
                implicit.advice.push(pair(Kind::Lint, message, state, other).hint(hint));
            }
            (Some(aspect), false) if salted(state, sources) && salted(other, sources) => {
                let message = contradiction(item, aspect, other, state);
                let hint = "they run as declared, so the later one wins: keep one of them";
                implicit.warnings.push(pair(Kind::Lint, message, state, other).hint(hint));
            }
            (Some(aspect), false) => {
                let message = contradiction(item, aspect, other, state);
                let hint = "keep one of them, or say with a requisite which comes first";
                implicit.diagnostics.push(pair(Kind::State, message, state, other).hint(hint));
            }
        }
    }
}

fn contradiction(item: &ManagedItem, aspect: &str, first: &State, second: &State) -> String {
    let what = match aspect {
        "is" => String::new(),
        aspect => format!(" ({aspect})"),
    };
    format!("{} and {} want different things of {item}{what}", first.name, second.name)
}

fn pair(kind: Kind, message: String, state: &State, other: &State) -> Diagnostic {
    Diagnostic::new(kind, message).at(state.span).label(other.span, "the other is declared here")
}

/// Whether a state comes from a file that is read as Salt reads it.
fn salted(state: &State, sources: &Sources) -> bool {
    sources.get(state.span.file).is_some_and(|file| file.path.ends_with(".sls"))
}

/// Whether a state waits for another by what the user wrote, directly or not.
fn waits_for(program: &Program, state: usize, other: usize) -> bool {
    let mut seen = HashSet::new();
    let mut rest = vec![state];
    while let Some(at) = rest.pop() {
        let edges = program.states.get(at).map_or(&[] as &[Edge], |state| &state.edges);
        for target in edges.iter().map(|edge| edge.target) {
            if target == other {
                return true;
            }
            if seen.insert(target) {
                rest.push(target);
            }
        }
    }
    false
}

/// The edges to add: who waits for whom.
#[derive(Default)]
struct ImplicitEdges(BTreeSet<(usize, usize)>);

impl ImplicitEdges {
    fn one(&mut self, state: usize, before: usize) {
        if state != before {
            self.0.insert((state, before));
        }
    }

    fn all(&mut self, state: usize, holders: &[Holder<'_>]) {
        holders.iter().for_each(|(holder, _)| self.one(state, *holder));
    }

    /// Where the user orders two states himself, nothing is added.
    fn add_to(self, program: &mut Program) {
        for (state, target) in self.0 {
            let Some(state) = program.states.get_mut(state) else { continue };
            if !state.edges.iter().any(|edge| edge.target == target) {
                state.edges.push(Edge { target, kind: EdgeKind::Auto, span: state.span });
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
