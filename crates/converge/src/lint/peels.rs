//! Compiling a tree for the peels of a fleet, before it is published (D-12).
//!
//! What the top file gives a peel, in each environment, is compiled for it with what that includes. Whatever else is in the tree
//! may be meant for machines that nobody knows yet: of such a file only its syntax counts, which is the same everywhere. All
//! ends when the time is over; what was looked at by then counts, and how much that was is told.

use super::{LintReport, all_files};
use crate::error::Error;
use crate::functions::{Access, CallContext, TemplateFunctions};
use crate::gpg;
use crate::inputs::{Inputs, Renderers};
use crate::local_host::LocalHost;
use crate::plan::Plan;
use crate::secrets;
use crate::settings::{self, Reading, Settings, SettingsRequest};
use crate::tree::DirTree;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use zester_compile::{Ask, BASE};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::merge::Merge;
use zester_model::source::Sources;
use zester_secret::PublicKey;

/// The fact that a peel publishes its public key as.
const PUBLIC_KEY: &str = "public_key";
/// Peels that a tree is compiled for.
pub const PEELS_MAX: usize = 1_000;
/// How long it may take.
pub const TIME_MAX: Duration = Duration::from_secs(30);

/// The names of a top file.
const TOPS: [&str; 2] = ["top.zy", "top.sls"];

/// One machine that will get the tree.
#[derive(Clone, Debug)]
pub struct KnownPeel<'a> {
    pub id: &'a str,
    pub facts: &'a Json,
    /// What `settings_ext` says of it.
    pub external: Option<String>,
}

/// What is compiled.
pub struct TreeToLint<'a> {
    pub root: &'a Path,
    /// How messages name it.
    pub name: &'a str,
    pub settings: Option<&'a Path>,
    pub merge: Merge,
}

pub struct PeelsReport {
    pub report: LintReport,
    /// For whom something does not compile.
    pub broken: BTreeSet<String>,
    /// For how many peels everything was compiled.
    pub checked: usize,
    /// Secrets that peels get and cannot open, each with its place.
    pub sealed_for_others: Vec<String>,
}

struct Lint<'a> {
    tree: &'a TreeToLint<'a>,
    local_host: &'a LocalHost,
    cancel: &'a CancellationToken,
    end: Instant,
    found: LintReport,
    broken: BTreeSet<String>,
    /// For whom something could not be compiled here, because it asks the machine itself.
    unchecked: BTreeSet<String>,
    /// By the place of the secret: who gets it, and what is told.
    sealed_for_others: BTreeMap<String, (Vec<String>, String)>,
}

/// A peel with the settings that it gets.
struct Prepared<'a> {
    peel: &'a KnownPeel<'a>,
    settings: Json,
}

/// Compiles a tree of states.
pub fn states(
    tree: &TreeToLint<'_>,
    peels: &[KnownPeel<'_>],
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<PeelsReport, Error> {
    let mut lint = Lint::new(tree, local_host, cancel);
    let files = all_files(tree.root)?;
    lint.found.checked = files.len();
    let mut prepared = Vec::new();
    for peel in peels.iter().take(PEELS_MAX) {
        if lint.is_over() {
            break;
        }
        match lint.resolved(peel) {
            Ok(found) => prepared.push(Prepared { peel, settings: found.values }),
            Err(error) => lint.settings_failed(peel, error)?,
        }
    }
    // Taken off again at the end.
    let mut checked = lint.unchecked.len();
    let has_top = files.iter().any(|file| TOPS.contains(&file.as_str()));
    for prepared in &prepared {
        if lint.is_over() {
            break;
        }
        let environments = if has_top { lint.environments(prepared) } else { Vec::new() };
        for environment in environments {
            if lint.compile(prepared, &Ask::Highstate, &environment) {
                lint.broken.insert(prepared.peel.id.to_string());
            }
        }
        checked += 1;
    }
    // Without a top file everything is asked for by name.
    for file in files.iter().filter(|_| !has_top) {
        lint.compile_for_anybody(file, &prepared);
    }
    lint.syntax_of(&files);
    Ok(lint.end(checked))
}

/// Renders a tree of settings for every peel.
pub fn settings(
    tree: &TreeToLint<'_>,
    peels: &[KnownPeel<'_>],
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<PeelsReport, Error> {
    let tree = TreeToLint { settings: Some(tree.root), ..*tree };
    let mut lint = Lint::new(&tree, local_host, cancel);
    let mut checked = 0;
    for peel in peels.iter().take(PEELS_MAX) {
        if lint.is_over() {
            break;
        }
        match lint.resolved(peel) {
            Ok(found) => {
                lint.look_for_unsealed(peel, &found.values);
                lint.look_who_opens(peel, &found.values);
                lint.look_at_own_work(peel, found);
            }
            Err(error) => lint.settings_failed(peel, error)?,
        }
        checked += 1;
    }
    lint.syntax_of(&all_files(tree.root)?);
    Ok(lint.end(checked))
}

impl<'a> Lint<'a> {
    fn new(tree: &'a TreeToLint<'a>, local_host: &'a LocalHost, cancel: &'a CancellationToken) -> Lint<'a> {
        let found = LintReport { diagnostics: Vec::new(), sources: Sources::default(), checked: 0 };
        Lint {
            tree,
            local_host,
            cancel,
            end: Instant::now() + TIME_MAX,
            found,
            broken: BTreeSet::new(),
            unchecked: BTreeSet::new(),
            sealed_for_others: BTreeMap::new(),
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end || self.cancel.is_cancelled()
    }

    fn resolved(&self, peel: &KnownPeel<'_>) -> Result<Settings, Error> {
        let none = Json::Object(Map::new());
        let path = self.tree.settings.filter(|path| path.exists());
        let place = CallContext::here(self.local_host, peel.facts, &none, self.cancel);
        let functions = TemplateFunctions { place, allowed: Access::Told, renderers: Renderers::default() };
        let request = SettingsRequest {
            path: path.map(Path::to_path_buf),
            merge: self.tree.merge,
            ..SettingsRequest::default()
        };
        let external = peel.external.as_deref();
        let reading = Reading { facts: peel.facts, functions: &functions, id: peel.id, external };
        settings::resolve(&request, None, &reading)
    }

    /// A secret that nobody sealed, however the files made it: what looks for it in their text may overlook one.
    fn look_for_unsealed(&mut self, peel: &KnownPeel<'_>, settings: &Json) {
        for found in zester_secret::unsealed_in(settings) {
            self.broken.insert(peel.id.to_string());
            let message = match found.place {
                Some(place) => format!("{place}: {}", found.message),
                None => found.message,
            };
            if self.found.diagnostics.iter().all(|known| known.message != message) {
                let told = Diagnostic::new(Kind::Template, message).hint(found.hint);
                self.found.diagnostics.push(told);
            }
        }
    }

    /// A schedule or beacons that the peel would refuse: it would go on with those before, and say so in its log alone.
    fn look_at_own_work(&mut self, peel: &KnownPeel<'_>, settings: Settings) {
        // What nobody sealed would stand in the sentence; it is told already.
        let is_sealed = zester_secret::unsealed_in(&settings.values).is_empty();
        if is_sealed && !settings.own_work.is_empty() {
            self.broken.insert(peel.id.to_string());
            self.found.adopt(settings.own_work, &settings.sources);
        }
    }

    /// Secrets that this peel gets and that are sealed for others: its runs would fail.
    fn look_who_opens(&mut self, peel: &KnownPeel<'_>, settings: &Json) {
        let key = peel.facts.get(PUBLIC_KEY).and_then(Json::as_str);
        let key = key.and_then(|key| PublicKey::parse(key).ok());
        for found in zester_secret::sealed_for_others(settings, peel.id, key.as_ref()) {
            let place = found.place.unwrap_or(found.setting);
            let (peels, _) =
                self.sealed_for_others.entry(place).or_insert_with(|| (Vec::new(), found.message));
            peels.push(peel.id.to_string());
        }
    }

    fn settings_failed(&mut self, peel: &KnownPeel<'_>, error: Error) -> Result<(), Error> {
        let Error::Diagnostics { diagnostics, sources } = error else { return Err(error) };
        let errors = self.of_the_tree(diagnostics, peel.id);
        if !errors.is_empty() {
            self.broken.insert(peel.id.to_string());
        }
        self.found.adopt(errors, &sources);
        Ok(())
    }

    /// Those of the top file. What is wrong with it is found by compiling it.
    fn environments(&self, prepared: &Prepared<'_>) -> Vec<String> {
        let inputs = self.inputs(prepared, &Ask::Highstate, BASE);
        let found =
            inputs.with(self.local_host, self.cancel, |lent| zester_compile::environments(lent, None));
        let names = |all: Vec<zester_compile::Environment>| all.into_iter().map(|one| one.name).collect();
        found.map_or_else(|_| vec![BASE.to_string()], names)
    }

    fn inputs(&self, prepared: &Prepared<'_>, ask: &Ask, environment: &str) -> Inputs {
        let mut settings = prepared.settings.clone();
        // Nobody here could open them.
        let secrets = secrets::open(&mut settings, None, &mut gpg::nobody).unwrap_or_default();
        Inputs {
            tree: DirTree::new(self.tree.root),
            tree_name: self.tree.name.to_string(),
            ask: ask.clone(),
            facts: prepared.peel.facts.clone(),
            settings,
            secrets: std::sync::Arc::new(secrets),
            origins: Vec::new(),
            given: Vec::new(),
            settings_advice: Vec::new(),
            settings_sources: Sources::default(),
            id: prepared.peel.id.to_string(),
            ordered: false,
            environment: environment.to_string(),
            access: Access::Told,
            renderers: Renderers::default(),
            warnings: Vec::new(),
        }
    }

    /// A file may be meant for some machines only; one that no known machine can do with is wrong.
    fn compile_for_anybody(&mut self, file: &str, prepared: &[Prepared<'_>]) {
        let ask = Ask::References(vec![file.to_string()]);
        let mut first = None;
        for one in prepared {
            if self.is_over() {
                return;
            }
            match self.compiled(one, &ask, BASE) {
                Some(found) => first.get_or_insert(found),
                None => return,
            };
        }
        if let Some((diagnostics, sources)) = first {
            self.found.adopt(diagnostics, &sources);
            self.broken.extend(prepared.iter().map(|one| one.peel.id.to_string()));
        }
    }

    /// Whether it does not compile; then it is told.
    fn compile(&mut self, prepared: &Prepared<'_>, ask: &Ask, environment: &str) -> bool {
        let Some((diagnostics, sources)) = self.compiled(prepared, ask, environment) else { return false };
        self.found.adopt(diagnostics, &sources);
        true
    }

    /// What is wrong with it. None where nothing is.
    fn compiled(
        &mut self,
        prepared: &Prepared<'_>,
        ask: &Ask,
        environment: &str,
    ) -> Option<(Vec<Diagnostic>, Sources)> {
        let inputs = self.inputs(prepared, ask, environment);
        let compiled = inputs.with(self.local_host, self.cancel, |lent| zester_compile::compile(lent, ask));
        let sources = compiled.sources.clone();
        let mut diagnostics = Plan::diagnostics(compiled);
        diagnostics.retain(is_error);
        let mut diagnostics = self.of_the_tree(diagnostics, prepared.peel.id);
        for diagnostic in &mut diagnostics {
            secrets::hide_in_diagnostic(diagnostic, &inputs.secrets);
        }
        (!diagnostics.is_empty()).then_some((diagnostics, sources))
    }

    /// What a template asks of its own machine nobody can know here, and this machine tells nothing of itself: not checked.
    fn of_the_tree(&mut self, diagnostics: Vec<Diagnostic>, peel: &str) -> Vec<Diagnostic> {
        let (elsewhere, errors): (Vec<_>, Vec<_>) =
            diagnostics.into_iter().partition(|diagnostic| diagnostic.kind == Kind::Elsewhere);
        if !elsewhere.is_empty() {
            self.unchecked.insert(peel.to_string());
        }
        errors
    }

    /// Files that were given to nobody, or to nobody known. What is wrong with the others is found already.
    fn syntax_of(&mut self, files: &[String]) {
        let spans = self.found.diagnostics.iter().filter_map(|diagnostic| diagnostic.span);
        let told: BTreeSet<String> = spans
            .filter_map(|span| self.found.sources.get(span.file))
            .map(|source| source.path.to_string())
            .collect();
        for file in files {
            let path = self.tree.root.join(file);
            let named = [format!("{}/{file}", self.tree.name), path.display().to_string()];
            if named.iter().any(|name| told.contains(name)) {
                continue;
            }
            let is_small =
                std::fs::metadata(&path).is_ok_and(|found| found.len() <= limits::SOURCE_BYTES_MAX as u64);
            let Some(text) = is_small.then(|| std::fs::read_to_string(&path).ok()).flatten() else {
                continue;
            };
            let mut sources = Sources::default();
            let id = sources.add(&named[0], text.as_str());
            self.found.adopt(zester_compile::syntax(id, &text), &sources);
        }
    }

    fn end(self, checked: usize) -> PeelsReport {
        let mut report = self.found;
        report
            .diagnostics
            .sort_by_key(|diagnostic| diagnostic.span.map(|span| (span.file, span.line, span.column)));
        report.diagnostics.truncate(limits::DIAGNOSTICS_MAX);
        let checked = checked.saturating_sub(self.unchecked.len());
        let others = self.sealed_for_others.into_iter().map(|(place, (peels, message))| {
            let more = match peels.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("{place}: {message}{more}")
        });
        PeelsReport { report, broken: self.broken, checked, sealed_for_others: others.collect() }
    }
}

/// Advice keeps nobody from publishing.
fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.kind != Kind::Lint
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;
    use zester_rule::rule;
    use zester_secret::{PrivateKey, Sealed};

    fn lint(files: &[(&str, &str)], peels: &[(&str, Json)]) -> (usize, Vec<String>, usize, String) {
        let temp = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(temp.path().join(name), text).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: runtime.handle().clone(),
            events: None,
        };
        let tree = TreeToLint { root: temp.path(), name: "states", settings: None, merge: Merge::default() };
        let peels: Vec<KnownPeel<'_>> =
            peels.iter().map(|(id, facts)| KnownPeel { id, facts, external: None }).collect();
        let found = states(&tree, &peels, &local_host, &CancellationToken::new()).unwrap();
        let place = |diagnostic: &Diagnostic| {
            let span = diagnostic.span.map(|span| found.report.sources.place(span));
            format!("{} {}", span.unwrap_or_default(), diagnostic.message)
        };
        let told: Vec<String> = found.report.diagnostics.iter().map(place).collect();
        let broken = found.broken.into_iter().collect();
        (found.report.diagnostics.len(), broken, found.checked, told.join("\n"))
    }

    const ON_DEBIAN: &str =
        "a:\n  {% if grains.os == 'Debian' %}test.nopp{% else %}test.nop{% endif %}: []\n";

    #[test]
    #[rule("D-12")]
    fn d12_those_that_a_file_breaks_for_are_named() {
        let peels = [
            ("deb-1", json!({"os": "Debian", "host": "deb-1"})),
            ("deb-2", json!({"os": "Debian", "host": "deb-2"})),
            ("rpm-1", json!({"os": "Fedora", "host": "rpm-1"})),
        ];
        let files = [("top.zy", "'*': [web]\n"), ("web.zy", ON_DEBIAN)];
        let (errors, broken, checked, told) = lint(&files, &peels);
        assert_eq!((errors, checked), (1, 3), "{told}");
        assert_eq!(broken, ["deb-1", "deb-2"]);
        assert!(told.starts_with("states/web.zy:2:"), "{told}");
        let (errors, broken, checked, _) = lint(&files, &peels[2..]);
        assert_eq!((errors, broken.len(), checked), (0, 0, 1));
    }

    #[test]
    #[rule("D-12")]
    fn d12_the_top_file_is_compiled_for_every_peel_by_its_name() {
        let files = [
            ("top.zy", "base:\n  'deb-2': [one, two]\n  '*': [one]\n"),
            ("one.zy", "same:\n  test.nop: []\n"),
            ("two.zy", "same:\n  test.nop: []\n"),
        ];
        let peels = [("deb-1", json!({"os": "Debian"})), ("deb-2", json!({"os": "Debian"}))];
        let (errors, broken, _, told) = lint(&files, &peels);
        assert_eq!(broken, ["deb-2"], "{told}");
        assert!(errors > 0 && told.contains("same"), "{told}");
    }

    #[test]
    #[rule("D-12")]
    fn d12_what_a_peel_never_gets_need_not_compile_for_it() {
        let db = "a:\n  test.nop:\n    - name: {{ grains.db.name }}\n";
        let files = [("top.zy", "base:\n  'db-*': [main]\n"), ("main.zy", "include: [db]\n"), ("db.zy", db)];
        let web = ("web-1", json!({"os": "Debian"}));
        let (errors, broken, checked, told) =
            lint(&files, &[("db-1", json!({"db": {"name": "x"}})), web.clone()]);
        assert_eq!((errors, broken.len(), checked), (0, 0, 2), "{told}");
        let (errors, broken, _, told) = lint(&files, &[("db-2", json!({"os": "Debian"})), web]);
        assert!(errors > 0, "{told}");
        assert_eq!(broken, ["db-2"]);
    }

    #[test]
    #[rule("D-12")]
    fn d12_of_a_file_that_nobody_known_gets_only_the_syntax_counts() {
        let peel = [("web-1", json!({"os": "Debian"}))];
        for peels in [&peel[..], &[]] {
            let one = |text| lint(&[("top.zy", "'db-*': [db]\n"), ("db.zy", text)], peels);
            assert_eq!(one("a:\n  test.nop:\n    - name: {{ grains.db.name }}\n").0, 0);
            assert_eq!(one("a:\n  test.nopp: []\n").0, 0);
            for broken in ["a:\n  - b\n c: [\n", "{% if x %}\na: {}\n", "#!mako\n"] {
                let (errors, peels, _, told) = one(broken);
                assert_eq!((errors, peels.len()), (1, 0), "{broken}: {told}");
                assert!(told.starts_with("states/db.zy:"), "{told}");
            }
        }
    }

    #[test]
    #[rule("D-6", "D-12")]
    fn d6_a_secret_that_is_sealed_for_others_than_those_that_get_it_is_told_with_its_place() {
        let mut random = crate::secrets::Random::default();
        let key = PrivateKey::make(&mut |bytes| random.fill(bytes)).public();
        let to = [("web-1".to_string(), key.clone())];
        let sealed = Sealed::seal("x", &to, None, &mut |bytes| random.fill(bytes)).unwrap();
        let block: String = sealed.to_string().lines().map(|line| format!("  {line}\n")).collect();
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("top.zy"), "'web-*': [db]\n").unwrap();
        std::fs::write(temp.path().join("db.zy"), format!("a: 1\np: !secret |\n{block}")).unwrap();
        let facts = json!({"public_key": key.to_string()});
        let told = |peels: &[(&str, Json)]| {
            let peels: Vec<KnownPeel<'_>> =
                peels.iter().map(|(id, facts)| KnownPeel { id, facts, external: None }).collect();
            let tree =
                TreeToLint { root: temp.path(), name: "settings", settings: None, merge: Merge::default() };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let local_host = LocalHost {
                files: Arc::new(zester_host::real::Real::new()),
                processes: Arc::new(zester_host::process::Runner::new()),
                handle: runtime.handle().clone(),
                events: None,
            };
            let found = settings(&tree, &peels, &local_host, &CancellationToken::new()).unwrap();
            assert!(found.report.diagnostics.is_empty() && found.broken.is_empty(), "it is no error");
            found.sealed_for_others
        };
        assert!(told(&[("web-1", facts.clone()), ("other", json!({}))]).is_empty());
        let found = told(&[("web-1", facts), ("web-2", json!({})), ("web-3", json!({}))]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("db.zy:2:"), "{found:?}");
        let words = "the secret `p` is sealed for web-1, not for web-2 (and 1 more)";
        assert!(found[0].ends_with(words), "{found:?}");
    }

    #[test]
    #[rule("D-10", "D-12")]
    fn d12_a_schedule_or_beacon_that_a_peel_would_refuse_is_told_at_its_place() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("top.zy"), "'web-*': [own]\n").unwrap();
        let own = "schedule:\n  a: {function: test.pign, interval: 5m}\n  b: {function: test.ping, cron: x}\nbeacons:\n  disc: {}\n";
        std::fs::write(temp.path().join("own.zy"), own).unwrap();
        let tree =
            TreeToLint { root: temp.path(), name: "settings", settings: None, merge: Merge::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: runtime.handle().clone(),
            events: None,
        };
        let facts = json!({});
        let peels = ["web-1", "db-1"].map(|id| KnownPeel { id, facts: &facts, external: None });
        let found = settings(&tree, &peels, &local_host, &CancellationToken::new()).unwrap();
        assert_eq!(found.broken.into_iter().collect::<Vec<_>>(), ["web-1"]);
        let place = |one: &Diagnostic| found.report.sources.place(one.span.unwrap());
        let places: Vec<String> = found.report.diagnostics.iter().map(place).collect();
        let ends = ["own.zy:2:17", "own.zy:3:34", "own.zy:5:3"];
        assert_eq!(places.len(), ends.len(), "{places:?}");
        for (place, end) in places.iter().zip(ends) {
            assert!(place.ends_with(end), "{places:?}");
        }
    }

    /// The scanner of the text cannot see what only a rendered file shows.
    #[test]
    #[rule("D-6")]
    fn d6_a_secret_that_nobody_sealed_is_an_error_however_a_template_made_it() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("top.zy"), "'web-*': [db]\n").unwrap();
        std::fs::write(temp.path().join("db.zy"), "{% set mark = '!' ~ 'secret' %}\np: {{ mark }} hunter2\n")
            .unwrap();
        let tree =
            TreeToLint { root: temp.path(), name: "settings", settings: None, merge: Merge::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: runtime.handle().clone(),
            events: None,
        };
        let facts = json!({});
        let peels = ["web-1", "web-2"].map(|id| KnownPeel { id, facts: &facts, external: None });
        let found = settings(&tree, &peels, &local_host, &CancellationToken::new()).unwrap();
        assert_eq!(found.broken.len(), 2);
        let [told] = found.report.diagnostics.as_slice() else { panic!("{:?}", found.report.diagnostics) };
        assert!(told.message.contains("db.zy:2:") && told.message.contains("is not sealed"), "{told:?}");
        assert!(!told.message.contains("hunter2"), "{told:?}");
    }

    #[test]
    #[rule("D-12")]
    fn d12_a_template_sees_nothing_of_the_master_and_counts_as_not_checked() {
        let peels = [("web-1", json!({"os": "Debian"}))];
        for call in ["file.read']('/etc/passwd", "cmd.which']('sh", "environ.get']('PATH", "cmd.run']('id"] {
            let web = format!("{{% set x = salt['{call}') %}}\na:\n  test.nopp: []\n");
            let (errors, broken, checked, told) =
                lint(&[("top.zy", "'*': [web]\n"), ("web.zy", &web)], &peels);
            assert_eq!((errors, broken.len(), checked), (0, 0, 0), "{call}: {told}");
        }
        let web = "a:\n  test.nop:\n    - name: {{ salt['grains.get']('os') }}\n";
        assert_eq!(lint(&[("top.zy", "'*': [web]\n"), ("web.zy", web)], &peels).2, 1);
    }
}
