//! What a run is made from: the states dir, the references, facts and settings.

use crate::error::Error;
use crate::fact_programs;
use crate::functions::{Access, CallContext, TemplateFunctions};
use crate::gpg;
use crate::local_host::LocalHost;
use crate::managed_paths::ManagedPaths;
use crate::secrets;
use crate::settings::{self, Origin, SettingsRequest};
use crate::tree::DirTree;
use serde_json::{Map, Value as Json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_compile::{Ask, Environment};
use zester_host::{Fault, FaultKind};
use zester_model::diagnostic::Diagnostic;
use zester_model::outcome::Details;
use zester_model::source::{FileId, Sources};
use zester_resources::context::{SourceEntry, StateFileSource};
use zester_secret::{Damaged, Revealed, Secrets};

/// Where states are when nothing says otherwise and there is no `./states` (C-9).
const STATES_DIR: &str = "/srv/zester/states";
const SETTINGS_DIR: &str = "/srv/zester/settings";
/// Custom facts: YAML or JSON files and executables.
const FACTS_DIR: &str = "/etc/zester/facts.d";

/// What the user asked for, before anything was read.
#[derive(Clone, Debug)]
pub struct CompileRequest {
    /// Empty: the highstate.
    pub references: Vec<String>,
    pub states: Option<PathBuf>,
    pub settings: SettingsRequest,
    /// Laid over the collected facts.
    pub facts: Option<PathBuf>,
    pub id: Option<String>,
    pub ordered: bool,
    /// Which level of the top file counts; none: `base`.
    pub environment: Option<String>,
    /// Of these states those of one id, and what they require (`state.sls_id`).
    pub only: Option<String>,
    /// What templates may call.
    pub access: Access,
    pub renderers: Renderers,
    /// Where the key is that opens secrets; without it they stay closed, for those who only look at files.
    pub data_dir: Option<PathBuf>,
}

/// Renderers that run only where the machine's configuration says so (S-54).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Renderers {
    /// `#!py`
    pub python: bool,
}

/// Everything a compile sees.
pub struct Inputs {
    pub tree: DirTree,
    /// How the states dir is named in messages.
    pub tree_name: String,
    pub ask: Ask,
    pub facts: Json,
    /// With placeholders for what is secret.
    pub settings: Json,
    /// Where each setting comes from.
    pub origins: Vec<Origin>,
    /// Settings that were given for this run, as they were given.
    pub given: Vec<String>,
    /// What is seldom meant in the settings, and what is wrong with what a peel does by itself, for `lint`.
    pub settings_advice: Vec<Diagnostic>,
    pub settings_sources: Sources,
    pub secrets: Arc<Secrets>,
    pub id: String,
    pub ordered: bool,
    pub environment: String,
    pub access: Access,
    pub renderers: Renderers,
    /// Custom facts that could not be read, settings that are old.
    pub warnings: Vec<String>,
}

impl Inputs {
    pub fn gather(
        request: &CompileRequest,
        local_host: &LocalHost,
        cancel: &CancellationToken,
    ) -> Result<Inputs, Error> {
        let (root, ask) = locate(&request.references, request.states.as_deref())?;
        Inputs::gather_in(root, ask, request, local_host, cancel)
    }

    /// For one function, which needs no states dir.
    pub fn gather_anywhere(
        request: &CompileRequest,
        local_host: &LocalHost,
        cancel: &CancellationToken,
    ) -> Result<Inputs, Error> {
        let (root, ask) = locate(&[], None).unwrap_or_else(|_| (PathBuf::from("."), Ask::Highstate));
        Inputs::gather_in(root, ask, request, local_host, cancel)
    }

    fn gather_in(
        root: PathBuf,
        ask: Ask,
        request: &CompileRequest,
        local_host: &LocalHost,
        cancel: &CancellationToken,
    ) -> Result<Inputs, Error> {
        let id = request.id.clone().unwrap_or_else(default_id);
        let (facts, mut warnings) = facts(&id, request.facts.as_deref(), local_host, cancel)?;
        let none = Json::Object(Map::new());
        let place = CallContext::here(local_host, &facts, &none, cancel);
        let renderers = request.renderers;
        let functions = TemplateFunctions { place, allowed: request.access, renderers };
        let reading = settings::Reading { facts: &facts, functions: &functions, id: &id, external: None };
        let mut found = settings::resolve(&request.settings, default_settings_dir(&root), &reading)?;
        let mut gpg = |message: &str| gpg::open(message, local_host, cancel);
        let secrets = secrets::open(&mut found.values, request.data_dir.as_deref(), &mut gpg)?;
        if cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        // Only what opens is good.
        found.keep();
        if secrets::by_name::is_in(&found.values) {
            let opened = found.values.clone();
            secrets::by_name::look_up(&mut found.values, &opened)?;
        }
        warnings.extend(found.warnings);
        let settings = found.values;
        Ok(Inputs {
            tree_name: shown(&root),
            tree: DirTree::new(&root),
            ask,
            facts,
            settings,
            secrets: Arc::new(secrets),
            origins: found.origins,
            settings_advice: [found.advice, found.own_work].concat(),
            settings_sources: found.sources,
            given: request.settings.overrides.iter().map(|one| one.given.clone()).collect(),
            id,
            ordered: request.ordered,
            environment: request.environment.clone().unwrap_or_else(|| zester_compile::BASE.into()),
            access: request.access,
            renderers,
            warnings,
        })
    }

    /// What the top file gives this machine in each environment, or in the one that is asked for. Blocks.
    pub fn environments(
        request: &CompileRequest,
        local_host: &LocalHost,
        cancel: &CancellationToken,
    ) -> Result<Vec<Environment>, Error> {
        let inputs = Inputs::gather(request, local_host, cancel)?;
        let only = request.environment.as_deref();
        let found = inputs.with(local_host, cancel, |lent| zester_compile::environments(lent, only));
        found.map_err(|(sources, diagnostics)| {
            let error = Error::Diagnostics { diagnostics, sources: Box::new(sources) };
            secrets::hidden(error, &inputs.secrets)
        })
    }

    /// Lends everything to the compiler.
    pub fn with<T>(
        &self,
        local_host: &LocalHost,
        cancel: &CancellationToken,
        work: impl FnOnce(&zester_compile::Inputs<'_>) -> T,
    ) -> T {
        let local_host = &local_host.with_secrets(&self.secrets, false);
        let place = CallContext::here(local_host, &self.facts, &self.settings, cancel);
        let functions = TemplateFunctions { place, allowed: self.access, renderers: self.renderers };
        work(&zester_compile::Inputs {
            tree: &self.tree,
            tree_name: &self.tree_name,
            catalog: zester_resources::catalog(),
            facts: &self.facts,
            settings: &self.settings,
            functions: &functions,
            id: &self.id,
            ordered: self.ordered,
            environment: &self.environment,
        })
    }
}

/// The states dir where nobody names one (C-9): `./states`, else the machine's. None where neither exists.
pub fn default_states_dir() -> Option<PathBuf> {
    [Path::new("states"), Path::new(STATES_DIR)].into_iter().find(|dir| dir.is_dir()).map(Path::to_path_buf)
}

/// The default peel id: the hostname with dots as `-`.
pub fn default_id() -> String {
    let name = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|_| "localhost".into()).replace('.', "-")
}

/// How the names of state files end.
const ENDINGS: [&str; 4] = [".zy", ".sls", ".yaml", ".yml"];

fn is_path(reference: &str) -> bool {
    reference.contains('/') || ENDINGS.iter().any(|ending| reference.ends_with(ending))
}

/// Finds the states dir and turns paths of the command line into paths below it (S-4).
fn locate(references: &[String], states: Option<&Path>) -> Result<(PathBuf, Ask), Error> {
    let mut root = match states {
        Some(root) if root.is_dir() => root.to_path_buf(),
        Some(root) => {
            return Err(Error::other(format!("the states directory {} does not exist", root.display())));
        }
        None => default_states_dir().unwrap_or_else(|| PathBuf::from(STATES_DIR)),
    };
    let mut asked = Vec::new();
    for reference in references {
        if !is_path(reference) {
            asked.push(reference.clone());
            continue;
        }
        let path = Path::new(reference);
        let real = path.canonicalize().map_err(|error| Error::io("find the state file", path, error))?;
        if real.is_file() && !ENDINGS.iter().any(|ending| reference.ends_with(ending)) {
            return Err(Error::other(format!(
                "{reference} is no state file: the names of those end in {}",
                ENDINGS.join(", ")
            )));
        }
        let below = |root: &Path| {
            let root = root.canonicalize().ok()?;
            real.strip_prefix(root).ok().map(|below| below.to_string_lossy().into_owned())
        };
        let itself = || {
            let next = "name a state file, or a reference below it, as in `web.config`";
            Error::other(format!("{reference} is a directory and no reference; {next}"))
        };
        match below(&root) {
            Some(inside) if inside.is_empty() => return Err(itself()),
            Some(inside) => asked.push(inside),
            None if states.is_none() && asked.is_empty() => {
                root = path
                    .parent()
                    .filter(|dir| !dir.as_os_str().is_empty())
                    .unwrap_or(Path::new("."))
                    .to_path_buf();
                asked.push(below(&root).filter(|inside| !inside.is_empty()).ok_or_else(itself)?);
            }
            None => {
                let message = format!("{reference} is outside the states directory {}", root.display());
                return Err(Error::other(message));
            }
        }
    }
    if !root.is_dir() {
        return Err(Error::other(format!(
            "there is no states directory: neither ./states nor {STATES_DIR} exists; name one with --states DIR (of `zester peel run` or `zester up`, on a fleet)"
        )));
    }
    Ok((root, if references.is_empty() { Ask::Highstate } else { Ask::References(asked) }))
}

/// The settings where nobody names any: beside the states.
fn default_settings_dir(root: &Path) -> Option<PathBuf> {
    let beside =
        if root == Path::new("states") { PathBuf::from("settings") } else { PathBuf::from(SETTINGS_DIR) };
    beside.is_dir().then_some(beside)
}

/// Looks ahead for the first [`facts`] of this process.
pub fn look_ahead() {
    zester_facts::look_ahead();
}

/// What the machine says of itself, with custom facts and those of `over` laid over it; and what was wrong on the way.
/// Blocks: custom facts may be programs.
pub fn facts(
    id: &str,
    over: Option<&Path>,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<(Json, Vec<String>), Error> {
    facts_with(Path::new(FACTS_DIR), id, over, local_host, cancel)
}

/// The same with the custom facts of this directory.
fn facts_with(
    custom: &Path,
    id: &str,
    over: Option<&Path>,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<(Json, Vec<String>), Error> {
    let parse = |text: &str| yaml(text);
    let run = |path: &Path, bounds| fact_programs::run(path, bounds, local_host, cancel);
    let collected = zester_facts::collect(id, custom.is_dir().then_some(custom), &parse, &run);
    if cancel.is_cancelled() {
        return Err(Error::Canceled);
    }
    let mut facts = Json::Object(collected.facts);
    if let Some(path) = over {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io("read the facts", path, error))?;
        let mut sources = Sources::default();
        let file = sources.add(&path.display().to_string(), text.as_str());
        let node = zester_compile::parse_yaml(file, &text)
            .map_err(|diagnostics| Error::Diagnostics { diagnostics, sources: Box::new(sources) })?;
        if node.as_map().is_none() {
            return Err(Error::other(format!("{} must hold a map of facts", path.display())));
        }
        settings::merge(&mut facts, node.to_json());
    }
    Ok((facts, collected.warnings))
}

/// YAML text as plain data, for callers that have no file to point into.
pub fn yaml(text: &str) -> Result<Json, String> {
    match zester_compile::parse_yaml(FileId(0), text) {
        Ok(node) => Ok(node.to_json()),
        Err(diagnostics) => {
            Err(diagnostics.first().map(|diagnostic| diagnostic.message.clone()).unwrap_or_default())
        }
    }
}

/// A path as the user would name it.
fn shown(root: &Path) -> String {
    if let Some(name) = published_name(root) {
        return name.to_string();
    }
    let text = root.display().to_string();
    text.strip_prefix("./").unwrap_or(&text).trim_end_matches('/').to_string()
}

/// A published tree lies under its hash, in `states.trees`; whoever wrote its files knows them as `states`.
fn published_name(root: &Path) -> Option<&str> {
    let hash = root.file_name()?.to_str()?;
    let trees = root.parent()?.file_name()?.to_str()?.strip_suffix(".trees")?;
    (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(trees)
}

/// Files and templates of the states dir for the resources of a run.
pub struct StateFiles {
    pub inputs: Arc<Inputs>,
    pub local_host: LocalHost,
    pub cancel: CancellationToken,
    pub managed: Arc<ManagedPaths>,
}

impl StateFileSource for StateFiles {
    fn read(&self, uri: &str) -> Result<Vec<u8>, Fault> {
        self.inputs.tree.read_bytes(uri)
    }

    fn render(&self, name: &str, text: &str, context: &Details) -> Result<String, Fault> {
        // A template may call a command, which waits on the runtime we stand on.
        let rendered = tokio::task::block_in_place(|| {
            self.inputs.with(&self.local_host, &self.cancel, |inputs| {
                zester_compile::render(inputs, name, text, context)
            })
        });
        rendered.map_err(|(sources, diagnostics)| {
            let lines: Vec<String> = diagnostics
                .iter()
                .map(|diagnostic| match diagnostic.span {
                    Some(span) => format!("{}: {}", sources.place(span), diagnostic.report(&sources).message),
                    None => diagnostic.report(&sources).message,
                })
                .collect();
            Fault::new(FaultKind::Unsupported, lines.join("; "))
        })
    }

    fn setting(&self, key: &str) -> Option<Json> {
        settings::walk(&self.inputs.settings, key).cloned()
    }

    fn parse_yaml(&self, text: &str) -> Result<Json, Fault> {
        yaml(text).map_err(|why| Fault::new(FaultKind::Unsupported, why))
    }

    fn to_yaml(&self, value: &Json) -> Result<String, Fault> {
        Ok(zester_compile::emit_yaml(value))
    }

    fn fact(&self, key: &str) -> Option<Json> {
        settings::walk(&self.inputs.facts, key).cloned()
    }

    fn mode(&self, uri: &str) -> Result<u32, Fault> {
        self.inputs.tree.mode(uri)
    }

    fn list(&self, uri: &str) -> Result<Vec<SourceEntry>, Fault> {
        self.inputs.tree.list(uri)
    }

    fn managed_below(&self, directory: &Path) -> Result<Vec<PathBuf>, Fault> {
        self.managed.below(directory)
    }

    fn fillers_of(&self, names: &[&Path]) -> usize {
        self.managed.fillers_of(names)
    }

    fn reveal(&self, content: Vec<u8>) -> Result<Revealed, Fault> {
        let damaged = |why: Damaged| Fault::new(FaultKind::Unsupported, why.to_string());
        self.inputs.secrets.reveal(content).map_err(damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    fn a_published_tree_is_named_as_its_writers_know_it() {
        let hash = "0f".repeat(32);
        assert_eq!(shown(Path::new(&format!("/var/lib/zester/states.trees/{hash}"))), "states");
        assert_eq!(shown(Path::new("/srv/states.trees/mine")), "/srv/states.trees/mine");
        assert_eq!(shown(Path::new("./states/")), "states");
    }

    #[test]
    #[rule("S-4")]
    fn s4_a_path_to_something_else_is_called_no_state_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name).display().to_string();
        std::fs::write(path("hostname"), "web-01\n").unwrap();
        std::fs::write(path("web.zy"), "").unwrap();
        let error = locate(&[path("hostname")], None).unwrap_err().to_string();
        assert!(
            error.ends_with("hostname is no state file: the names of those end in .zy, .sls, .yaml, .yml"),
            "{error}"
        );
        for directory in ["/".to_string(), "./".into()] {
            let error = locate(std::slice::from_ref(&directory), None).unwrap_err().to_string();
            assert!(error.contains("is a directory and no reference; name a state file"), "{error}");
        }
        let (root, ask) = locate(&[path("web.zy")], None).unwrap();
        assert_eq!(root, temp.path());
        assert!(matches!(ask, Ask::References(names) if names == ["web.zy"]));
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("S-46")]
    async fn s46_a_cancel_ends_the_program_of_a_fact_and_begins_no_other() {
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let at = temp.path().display();
        let custom = temp.path().join("facts.d");
        std::fs::create_dir(&custom).unwrap();
        // The first ends by itself after the cancel, if nobody ends it.
        let first = format!("touch {at}/begun; until test -e {at}/go; do sleep 0.01; done; echo '{{}}'");
        for (name, body) in [("10-first", first), ("20-second", format!("touch {at}/second; echo '{{}}'"))] {
            std::fs::write(custom.join(name), format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(custom.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let (cancel, begun, go) =
            (CancellationToken::new(), temp.path().join("begun"), temp.path().join("go"));
        let canceler = cancel.clone();
        let canceling = std::thread::spawn(move || {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
            while !begun.exists() && std::time::Instant::now() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            canceler.cancel();
            std::fs::write(go, "").unwrap();
        });
        let told = tokio::task::block_in_place(|| facts_with(&custom, "here", None, &local_host, &cancel));
        canceling.join().unwrap();
        assert!(matches!(told, Err(Error::Canceled)));
        assert!(temp.path().join("begun").exists());
        assert!(!temp.path().join("second").exists(), "a canceled run went on to the next program");
    }
}
