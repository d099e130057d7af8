//! Which states a target means: by full name, by module and id, by bare id, by primary parameter, by file.

use crate::declare::Draft;
use crate::exclude::Excluded;
use crate::load::File;
use crate::reference::{directory_of, name_of};
use crate::requisite::RequisiteTarget;
use crate::template::glob;
use std::collections::{HashMap, HashSet};
use zester_model::catalog::Catalog;

/// What a module without a function stands for.
const SHORTHAND: [(&str, &str); 8] = [
    ("pkg", "pkg.installed"),
    ("file", "file.managed"),
    ("service", "service.running"),
    ("cmd", "cmd.run"),
    ("exec", "exec.run"),
    ("user", "user.present"),
    ("group", "group.present"),
    ("package", "pkg.installed"),
];

/// All states by the names they can be called by.
pub struct Index<'d> {
    drafts: &'d [Draft],
    by_id: HashMap<&'d str, Vec<usize>>,
    by_declared: HashMap<&'d str, Vec<usize>>,
    by_primary: HashMap<&'d str, Vec<usize>>,
    files: &'d [File],
    /// Files by reference and by path.
    by_sls: HashMap<&'d str, Vec<usize>>,
    by_path: HashMap<&'d str, usize>,
    /// The states of each file.
    in_file: Vec<Vec<usize>>,
    /// The files of which `exclude` left no state, and whether it was the file that was excluded.
    emptied: HashMap<usize, bool>,
}

/// What a target turned out to be.
#[derive(Debug, PartialEq)]
pub enum ResolvedTarget {
    States(Vec<usize>),
    /// Several, of which only one can be meant.
    Ambiguous(Vec<usize>),
    /// The name it would have.
    Unknown(String),
    /// It would be a state about which something was reported already.
    Broken,
}

/// Who names a target.
#[derive(Copy, Clone)]
pub struct Asking<'a> {
    /// The path of the file that names it, which decides how the name is read.
    pub written_in: &'a str,
    /// The path of the file of the state that waits: it does not wait for itself.
    pub state_of: &'a str,
}

impl Asking<'_> {
    fn is_salt(&self) -> bool {
        self.written_in.ends_with(".sls")
    }
}

/// The primary parameter of a draft where it is given and differs from the id.
pub fn primary<'d>(draft: &'d Draft, catalog: &Catalog) -> Option<&'d str> {
    let kind = catalog.get(&draft.kind)?;
    let given = draft.items.iter().find(|item| kind.canonical_name(&item.key) == kind.primary);
    given.and_then(|item| item.value.as_text())
}

/// The full reference that one means in a file at `path`: a leading `.` is relative to it.
pub fn file_name(reference: &str, path: &str) -> String {
    let bare = reference.trim_start_matches('.');
    let dots = reference.len() - bare.len();
    let mut directory = directory_of(path);
    for _ in 1..dots {
        directory = directory_of(directory);
    }
    match (dots, directory) {
        (0, _) | (_, "") => name_of(bare),
        (_, directory) => format!("{}.{bare}", directory.replace('/', ".")),
    }
}

impl<'d> Index<'d> {
    pub fn new(
        drafts: &'d [Draft],
        excluded: &[Excluded],
        catalog: &Catalog,
        files: &'d [File],
    ) -> Index<'d> {
        let mut index = Index {
            drafts,
            by_id: HashMap::with_capacity(drafts.len()),
            by_declared: HashMap::new(),
            by_primary: HashMap::new(),
            files,
            by_sls: HashMap::with_capacity(files.len()),
            by_path: files.iter().enumerate().map(|(at, file)| (file.path.as_str(), at)).collect(),
            in_file: vec![Vec::new(); files.len()],
            emptied: HashMap::new(),
        };
        for (at, file) in files.iter().enumerate() {
            index.by_sls.entry(&*file.sls).or_default().push(at);
        }
        for (at, draft) in drafts.iter().enumerate() {
            index.by_id.entry(&*draft.id).or_default().push(at);
            if draft.declared != draft.id {
                index.by_declared.entry(&*draft.declared).or_default().push(at);
            }
            for id in &draft.also {
                index.by_declared.entry(&**id).or_default().push(at);
            }
            if draft.foreign && draft.lenient {
                let name = draft
                    .items
                    .iter()
                    .find(|item| &*item.key == "name")
                    .and_then(|item| item.value.as_text());
                name.into_iter().for_each(|name| index.by_primary.entry(name).or_default().push(at));
            } else if catalog.get(&draft.kind).is_none() {
                // Nobody knows which of its values a requisite would call it by.
                let values = draft.items.iter().filter_map(|item| item.value.as_text());
                values.for_each(|value| index.by_primary.entry(value).or_default().push(at));
            } else if let Some(value) = primary(draft, catalog).filter(|value| **value != *draft.id) {
                index.by_primary.entry(value).or_default().push(at);
            }
            if let Some(states) = index.in_file.get_mut(draft.file) {
                states.push(at);
            }
        }
        let emptied = |file: usize| index.in_file.get(file).is_some_and(Vec::is_empty);
        let gone = excluded.iter().map(|gone| (gone.draft.file, gone.with_file));
        index.emptied = gone.filter(|(file, _)| emptied(*file)).collect();
        index
    }

    fn draft(&self, at: usize) -> Option<&'d Draft> {
        self.drafts.get(at)
    }

    /// Resolves a target, as the file reads it that names it.
    pub fn resolve(&self, target: &RequisiteTarget, asking: Asking<'_>) -> ResolvedTarget {
        if asking.is_salt() && target.module.as_deref() != Some("sls") {
            let found = self.as_in_salt(target);
            if !found.is_empty() {
                return ResolvedTarget::States(found);
            }
        }
        match target.module.as_deref() {
            Some("sls") if asking.is_salt() && glob::is_one(&target.id) => {
                self.files_like(&target.id, asking)
            }
            Some("sls") => self.file(&target.id, asking),
            _ => self.one(target),
        }
    }

    /// Whether several states were taken where a `.zy` file would have to say which one is meant (S-49).
    pub fn is_forgiven(&self, target: &RequisiteTarget, asking: Asking<'_>) -> bool {
        let exact = target.module.as_deref() != Some("sls") && !glob::is_one(&target.id);
        asking.is_salt() && exact && matches!(self.one(target), ResolvedTarget::Ambiguous(_))
    }

    /// The one state that a target means, or all of a declaration with `names`.
    fn one(&self, target: &RequisiteTarget) -> ResolvedTarget {
        let Some(module) = target.module.as_deref().filter(|module| *module != "id") else {
            return self.bare(&target.id);
        };
        let found = self.typed(module, &target.id);
        match (&found, &target.whole) {
            // `echo a:b` may be an id as it stands.
            (ResolvedTarget::Unknown(_), Some(whole)) => match self.bare(whole) {
                ResolvedTarget::Unknown(_) => found,
                other => other,
            },
            _ => found,
        }
    }

    /// Salt's way: the function of a target does not count, and every state of that id or name is meant.
    fn as_in_salt(&self, target: &RequisiteTarget) -> Vec<usize> {
        let RequisiteTarget { module, id, whole } = target;
        let module = module.as_deref().filter(|module| *module != "id");
        let module = module.map(|module| module.split('.').next().unwrap_or(module));
        let fits = |at: &usize| {
            let draft = self.draft(*at);
            draft.is_some_and(|it| {
                self.is_sound(it) && module.is_none_or(|of| it.kind.split('.').next() == Some(of))
            })
        };
        let named = |id: &str| -> Vec<usize> {
            let tables = [&self.by_id, &self.by_declared, &self.by_primary];
            let mut found: Vec<usize> = match glob::is_one(id) {
                false => tables.iter().filter_map(|table| table.get(id)).flatten().copied().collect(),
                true => {
                    let like = |table: &&HashMap<&str, Vec<usize>>| {
                        let names = table.iter().filter(|(name, _)| glob::matches(id, name));
                        names.flat_map(|(_, states)| states.iter().copied()).collect::<Vec<usize>>()
                    };
                    tables.iter().flat_map(like).collect()
                }
            };
            found.retain(fits);
            found.sort_unstable();
            found.dedup();
            found
        };
        let found = named(id);
        match (found.is_empty(), whole) {
            // `echo a:b` may be an id as it stands; the module was no module then.
            (true, Some(whole)) if whole != id => match glob::is_one(whole) {
                false => self.by_id.get(whole.as_str()).cloned().unwrap_or_default(),
                true => found,
            },
            _ => found,
        }
    }

    /// The states that a file declares itself: what `require_in: [{sls: x}]` reaches in Salt.
    pub fn own_states(&self, reference: &str, path: &str) -> Option<Vec<usize>> {
        let named = self.by_sls.get(file_name(reference, path).as_str())?;
        Some(named.iter().filter_map(|at| self.in_file.get(*at)).flatten().copied().collect())
    }

    fn files_like(&self, pattern: &str, asking: Asking<'_>) -> ResolvedTarget {
        let pattern = file_name(pattern, asking.written_in);
        let like = self.by_sls.iter().filter(|(name, _)| glob::matches(&pattern, name));
        let named: Vec<usize> = like.flat_map(|(_, files)| files.iter().copied()).collect();
        ResolvedTarget::States(self.states_of(&named, asking.state_of))
    }

    fn file(&self, reference: &str, asking: Asking<'_>) -> ResolvedTarget {
        let full = file_name(reference, asking.written_in);
        let Some(named) = self.by_sls.get(full.as_str()) else {
            return ResolvedTarget::Unknown(format!("sls:{reference}"));
        };
        let states = self.states_of(named, asking.state_of);
        let emptied = |file: &usize| self.emptied.get(file).copied();
        // Of a file whose own states are gone by their ids, what it includes is left.
        match named.iter().find_map(emptied) {
            Some(with_file) if with_file || states.is_empty() => {
                ResolvedTarget::Unknown(format!("sls:{full}"))
            }
            _ => ResolvedTarget::States(states),
        }
    }

    /// Every state of the files of one name and of what they include, all the way down. The file that asks (`from`)
    /// does not wait for itself because the one that it names includes it.
    fn states_of(&self, named: &[usize], from: &str) -> Vec<usize> {
        let mut reached = named.to_vec();
        let mut seen: HashSet<usize> = named.iter().copied().collect();
        let mut next = 0;
        while let Some(file) = reached.get(next).and_then(|at| self.files.get(*at)) {
            next += 1;
            let includes = file.includes.iter().filter_map(|path| self.by_path.get(path.as_str()).copied());
            reached.extend(includes.filter(|at| seen.insert(*at)));
        }
        reached.retain(|at| named.contains(at) || self.files.get(*at).is_some_and(|file| file.path != from));
        reached.sort_unstable();
        reached.iter().filter_map(|at| self.in_file.get(*at)).flatten().copied().collect()
    }

    /// The states that a name means, if `fits` accepts their kind; by id, then by declared id, then by primary.
    fn named(&self, id: &str, fits: impl Fn(&str) -> bool) -> (Vec<usize>, bool) {
        let among = |table: &HashMap<&str, Vec<usize>>| -> Vec<usize> {
            let all = table.get(id).map_or(&[][..], Vec::as_slice);
            let fit = |at: &&usize| self.draft(**at).is_some_and(|draft| fits(&draft.kind));
            all.iter().filter(fit).copied().collect()
        };
        let by_id = among(&self.by_id);
        if !by_id.is_empty() {
            return (by_id, false);
        }
        let declared = among(&self.by_declared);
        if !declared.is_empty() {
            return (declared, true);
        }
        (among(&self.by_primary), false)
    }

    /// Whether a requisite can lead to it. A kind that nobody knows may be misspelt; in Salt's files it may well be one.
    fn is_sound(&self, draft: &Draft) -> bool {
        !draft.broken && (!draft.foreign || draft.lenient)
    }

    fn verdict(&self, (states, group): (Vec<usize>, bool)) -> Option<ResolvedTarget> {
        let sound: Vec<usize> = states
            .iter()
            .filter(|at| self.draft(**at).is_some_and(|draft| self.is_sound(draft)))
            .copied()
            .collect();
        match (states.len(), sound.len()) {
            (0, _) => None,
            (_, 0) => Some(ResolvedTarget::Broken),
            (_, 1) => Some(ResolvedTarget::States(sound)),
            _ if group => Some(ResolvedTarget::States(sound)),
            _ => Some(ResolvedTarget::Ambiguous(sound)),
        }
    }

    fn typed(&self, module: &str, id: &str) -> ResolvedTarget {
        let default = SHORTHAND.iter().find(|(short, _)| *short == module).map(|(_, full)| *full);
        let exact = default.unwrap_or(module);
        if let Some(found) = self.verdict(self.named(id, |kind| kind == exact)) {
            return found;
        }
        if !module.contains('.') {
            let family = exact.split('.').next().unwrap_or(module);
            let in_family = |kind: &str| kind.split('.').next() == Some(family);
            if let Some(found) = self.verdict(self.named(id, in_family)) {
                return found;
            }
        }
        self.broken(id).unwrap_or_else(|| ResolvedTarget::Unknown(format!("{exact}:{id}")))
    }

    fn bare(&self, id: &str) -> ResolvedTarget {
        let found = self.verdict(self.named(id, |_| true));
        found.unwrap_or_else(|| ResolvedTarget::Unknown(id.to_string()))
    }

    /// A state of that name whose kind was wrong might be the one that was meant.
    fn broken(&self, id: &str) -> Option<ResolvedTarget> {
        let (states, _) = self.named(id, |_| true);
        let broken = |at: &usize| self.draft(*at).is_some_and(|draft| !self.is_sound(draft));
        states.iter().any(broken).then_some(ResolvedTarget::Broken)
    }
}
