//! The settings of a run (D-6): read from a file or a directory, or from the snapshot of the last good ones, with what was
//! given for this run laid over them.

mod origin;
mod overrides;
mod snapshot;

pub use origin::{Origin, document};
pub use overrides::Override;
pub use snapshot::SNAPSHOT;

use crate::error::Error;
use crate::own_work;
use crate::tree::DirTree;
use serde_json::{Map, Value as Json};
use snapshot::Snapshot;
use std::io::Read;
use std::path::{Path, PathBuf};
use zester_compile::{Functions, Inputs, SettingsAsk, SettingsFiles, Tree};
use zester_host::Fault;
use zester_model::catalog::Catalog;
use zester_model::diagnostic::Diagnostic;
use zester_model::limits;
use zester_model::merge::Merge;
use zester_model::node::Node;
use zester_model::source::Sources;

pub use zester_compile::merge;

/// Below the settings directory: what a master's `settings_ext` says of each peel, a file each. It lies over the assigned
/// files, as Salt's external pillar does.
pub const EXTERNAL_DIR: &str = "_ext";
/// How published settings are called in messages, wherever the peel keeps them.
const PUBLISHED_NAME: &str = "settings";

/// Walks `a:b:c` through maps, and through lists by number.
pub fn walk<'a>(root: &'a Json, key: &str) -> Option<&'a Json> {
    key.split(':').try_fold(root, |at, part| match at {
        Json::Object(map) => map.get(part),
        Json::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Which settings a run is to have.
#[derive(Clone, Debug, Default)]
pub struct SettingsRequest {
    /// A file or a directory.
    pub path: Option<PathBuf>,
    pub merge: Merge,
    /// For this run, over all others.
    pub overrides: Vec<Override>,
    /// The path is where a peel keeps what was published.
    pub published: bool,
    /// Where a peel keeps the last good ones.
    pub snapshot: Option<PathBuf>,
    /// Whoever asks has no use for any.
    pub unread: bool,
}

/// Settings as a run sees them.
#[derive(Clone, Debug)]
pub struct Settings {
    pub values: Json,
    pub origins: Vec<Origin>,
    /// What somebody should know: they are old, or could not be kept.
    pub warnings: Vec<String>,
    pub advice: Vec<Diagnostic>,
    pub sources: Sources,
    /// What is wrong with what a peel does by itself. It keeps no state from running.
    pub own_work: Vec<Diagnostic>,
    /// For a day without files: not yet on disk, for nobody knows whether the secrets in them open.
    unkept: Option<(PathBuf, Snapshot)>,
}

/// What settings files may see while they are rendered.
pub struct Reading<'a> {
    pub facts: &'a Json,
    pub functions: &'a dyn Functions,
    pub id: &'a str,
    /// What a master says of this peel, where it is not in the directory: on the master itself.
    pub external: Option<&'a str>,
}

/// Settings before those for one run are laid over them.
struct Merged {
    root: Node,
    sources: Sources,
    warnings: Vec<String>,
    advice: Vec<Diagnostic>,
    unkept: Option<(PathBuf, Snapshot)>,
}

/// The one way to the settings of a run, here and on a peel: files, else the snapshot, then what was given for this run.
/// Files that are there and wrong are an error, whatever the snapshot holds: no run has half of them, nor old ones unasked.
pub fn resolve(
    request: &SettingsRequest,
    default: Option<PathBuf>,
    reading: &Reading<'_>,
) -> Result<Settings, Error> {
    let merged = match request.unread {
        true => Merged::nothing(),
        false => Merged::find(request, default, reading)?,
    };
    let Merged { mut root, mut sources, warnings, advice, unkept } = merged;
    for given in &request.overrides {
        let span = origin::at_line(sources.add(&given.given, ""), origin::NO_LINE);
        Merge::Recurse.lay(&mut root, &Node::from_json(span, &given.nested()));
    }
    let origins = Origin::all(&root, &sources);
    let own_work = own_work::problems(&root);
    Ok(Settings { values: root.to_json(), origins, warnings, advice, sources, own_work, unkept })
}

impl Settings {
    /// Keeps them as the last good ones, as the files hold them. That they cannot be kept does not make them wrong.
    pub fn keep(&mut self) {
        let Some((file, snapshot)) = self.unkept.take() else { return };
        if let Err(error) = snapshot.write(&file) {
            self.warnings.push(format!("the settings could not be kept for an offline start: {error}"));
        }
    }
}

impl Merged {
    fn nothing() -> Merged {
        let (root, sources) = origin::nodes(&origin::empty(), &[]);
        Merged { root, sources, warnings: Vec::new(), advice: Vec::new(), unkept: None }
    }

    fn find(
        request: &SettingsRequest,
        default: Option<PathBuf>,
        reading: &Reading<'_>,
    ) -> Result<Merged, Error> {
        let named = request.path.is_some();
        let path = request.path.clone().or(default);
        let there = path.as_deref().is_some_and(Path::exists);
        let kept = match &request.snapshot {
            Some(file) if !(there && request.published) => Snapshot::read(file, reading.id)?,
            _ => None,
        };
        match (path, kept) {
            // What a master published counts for more than what the machine has of its own.
            (_, Some(kept)) if kept.published || !there => Ok(Merged::of_snapshot(&kept)),
            (Some(path), _) if there || named => {
                let settings = read(&path, request, reading)?;
                Ok(Merged::of_files(settings, request, reading.id))
            }
            _ => Ok(Merged::nothing()),
        }
    }

    fn of_files(settings: zester_compile::Settings, request: &SettingsRequest, id: &str) -> Merged {
        let zester_compile::Settings { root, sources, advice } = settings;
        let unkept = request.snapshot.clone().map(|file| {
            let (settings, origins) = (root.to_json(), Origin::all(&root, &sources));
            (file, Snapshot { id: id.to_string(), published: request.published, settings, origins })
        });
        Merged { root, sources, warnings: Vec::new(), advice, unkept }
    }

    fn of_snapshot(kept: &Snapshot) -> Merged {
        let (root, sources) = origin::nodes(&kept.settings, &kept.origins);
        let warning = "no settings files are here; the last good settings are used".to_string();
        Merged { root, sources, warnings: vec![warning], advice: Vec::new(), unkept: None }
    }
}

/// Reads `--settings FILE|DIR`. A directory with a `top.zy` (or `top.sls`) assigns files by target; without one all
/// files count, in the order of their names. Either way they go through the loader of states: templates, `include:`,
/// first lines, a position in every error (S-48).
fn read(
    path: &Path,
    request: &SettingsRequest,
    reading: &Reading<'_>,
) -> Result<zester_compile::Settings, Error> {
    let meta = std::fs::metadata(path).map_err(|error| Error::io("read the settings", path, error))?;
    let ask = |files, over| SettingsAsk { files, over, merge: request.merge };
    if !meta.is_dir() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let directory = path.parent().unwrap_or(Path::new(""));
        let beside =
            DirTree::of_settings(if directory == Path::new("") { Path::new(".") } else { directory });
        let tree = Named { path, name: &name, beside };
        let ask = ask(SettingsFiles::These(vec![name.clone()]), Vec::new());
        return load(&tree, &directory.display().to_string(), &ask, reading);
    }
    let assigned = ["top.zy", "top.sls"].iter().any(|top| path.join(top).symlink_metadata().is_ok());
    let files = match assigned {
        true => SettingsFiles::Assigned,
        false => SettingsFiles::These(files_in(path)?),
    };
    let tree = WithExternal { tree: DirTree::of_settings(path), reading };
    let external = external_file(reading.id).filter(|file| tree.exists(file));
    let shown = match request.published {
        true => PUBLISHED_NAME.to_string(),
        false => path.display().to_string(),
    };
    load(&tree, &shown, &ask(files, external.into_iter().collect()), reading)
}

/// Where the external settings of a peel stand below the directory; none for an id that is no plain name.
pub fn external_file(id: &str) -> Option<String> {
    let plain = !id.is_empty() && !id.starts_with('.') && !id.contains(['/', '\\']);
    plain.then(|| format!("{EXTERNAL_DIR}/{id}.zy"))
}

fn load(
    tree: &dyn Tree,
    shown: &str,
    ask: &SettingsAsk,
    reading: &Reading<'_>,
) -> Result<zester_compile::Settings, Error> {
    let inputs = Inputs {
        tree,
        tree_name: shown,
        catalog: &Catalog::default(),
        facts: reading.facts,
        settings: &Json::Object(Map::new()),
        functions: reading.functions,
        id: reading.id,
        ordered: false,
        environment: zester_compile::BASE,
    };
    zester_compile::settings(&inputs, ask)
        .map_err(|(sources, diagnostics)| Error::Diagnostics { diagnostics, sources: Box::new(sources) })
}

/// A settings directory, and what a master says of one peel besides.
struct WithExternal<'a> {
    tree: DirTree,
    reading: &'a Reading<'a>,
}

impl Tree for WithExternal<'_> {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        match self.reading.external {
            Some(text) if external_file(self.reading.id).as_deref() == Some(path) => Ok(Some(text.into())),
            _ => self.tree.read(path),
        }
    }

    fn called(&self) -> &'static str {
        self.tree.called()
    }

    fn files(&self) -> Vec<String> {
        self.tree.files()
    }
}

/// One file that the user named, whatever it is (a link, a pipe), and the directory beside it for what it includes.
struct Named<'a> {
    path: &'a Path,
    name: &'a str,
    beside: DirTree,
}

impl Tree for Named<'_> {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        if path != self.name {
            return self.beside.read(path);
        }
        let fail = |error| Fault::io("read", self.path, error).message;
        let file = std::fs::File::open(self.path).map_err(fail)?;
        let mut bytes = Vec::new();
        let most = limits::SOURCE_BYTES_MAX as u64;
        std::io::Read::take(file, most + 1).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > most {
            return Err(format!("it has more than {most} bytes"));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| format!("{path} is not UTF-8 text"))
    }

    fn called(&self) -> &'static str {
        self.beside.called()
    }

    fn files(&self) -> Vec<String> {
        self.beside.files()
    }
}

/// The settings files of a directory without a top file, by name. Those of its directories are for `include:`.
fn files_in(directory: &Path) -> Result<Vec<String>, Error> {
    let fail = |error| Error::io("list the settings", directory, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let ending = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // `is_dir` follows links, and what cannot be looked at is for the reader to complain about. A hidden file is an
        // editor's (`.#x.zy`).
        let meant = ["zy", "sls", "yaml", "yml", "json"].contains(&ending) && !name.starts_with('.');
        if meant && !path.is_dir() {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_compile::CallError;
    use zester_rule::rule;

    #[test]
    fn keys_walk_maps_and_lists() {
        let root = json!({"a": {"b": [1, {"c": 2}]}});
        assert_eq!(walk(&root, "a:b:1:c"), Some(&json!(2)));
        assert_eq!(walk(&root, "a:x"), None);
    }

    struct NoFunctions;

    impl Functions for NoFunctions {
        fn call(&self, name: &str, _: Vec<Json>, _: Map<String, Json>) -> Result<Json, CallError> {
            Err(format!("no {name}").into())
        }
        fn names(&self) -> Vec<String> {
            Vec::new()
        }
    }

    /// Reads what files in a fresh directory make, given the path below it that the user names.
    fn of(files: &[(&str, &str)], named: &str) -> Result<Json, Vec<String>> {
        asked(files, named, &SettingsRequest::default())
    }

    fn asked(files: &[(&str, &str)], named: &str, request: &SettingsRequest) -> Result<Json, Vec<String>> {
        let temp = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = temp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let facts = json!({"os": "Debian"});
        let reading = Reading { facts: &facts, functions: &NoFunctions, id: "web-1", external: None };
        let root = temp.path().display().to_string();
        let request = SettingsRequest { path: Some(temp.path().join(named)), ..request.clone() };
        resolve(&request, None, &reading).map(|settings| settings.values).map_err(|error| match error {
            Error::Diagnostics { diagnostics, sources } => {
                let line = |diagnostic: &zester_model::diagnostic::Diagnostic| {
                    let place = diagnostic.span.map(|span| sources.place(span)).unwrap_or_default();
                    format!("{}: {}", place.replace(&root, ""), diagnostic.message)
                };
                diagnostics.iter().map(line).collect()
            }
            other => vec![other.to_string()],
        })
    }

    #[test]
    #[rule("S-48")]
    fn s48_a_directory_without_a_top_file_is_all_its_files_in_order_and_what_they_include() {
        let files = [
            ("s/20-b.yaml", "a: 2\nos: {{ facts.os }}\n"),
            ("s/10-a.zy", "include: [more.deep]\na: 1\n"),
            ("s/more/deep.sls", "a: 0\ndeep: true\n"),
            ("s/more/other.sls", "never: true\n"),
            ("s/30.json", "{\"json\": 1}"),
            ("s/notes.txt", "no: setting\n"),
            ("s/.#20-b.yaml", "somebody@host.4711:1\n"),
        ];
        assert_eq!(of(&files, "s"), Ok(json!({"a": 2, "deep": true, "os": "Debian", "json": 1})));
        assert_eq!(of(&files, "s/10-a.zy"), Ok(json!({"a": 1, "deep": true})));
    }

    #[test]
    #[rule("S-48")]
    fn s48_a_top_file_of_either_name_keeps_the_settings_of_other_machines_out() {
        for top in ["top.zy", "top.sls"] {
            let files = [
                ("web.sls", "role: web\n"),
                ("db.sls", "password: secret\n"),
                (top, "base:\n  'web*': [web]\n  'db*': [db]\n"),
            ];
            assert_eq!(of(&files, ""), Ok(json!({"role": "web"})), "{top}");
        }
        let both = [("top.zy", ""), ("top.sls", "")];
        assert_eq!(of(&both, ""), Err(vec![": both `top.zy` and `top.sls` exist".to_string()]));
    }

    #[test]
    #[rule("S-48")]
    fn s48_errors_have_places_in_the_file_as_the_user_named_it() {
        let files =
            [("s/a.zy", "#!jinja|yaml|nacl\na: 1\n"), ("s/b.zy", "include: [../x.zy]\nb: {{ nope }}\n")];
        assert_eq!(
            of(&files, "s"),
            Err(vec![
                "/s/a.zy:1:1: unknown renderer `nacl`".to_string(),
                "/s/b.zy:2:7: `nope` is undefined".to_string()
            ])
        );
        let outside = [("s/b.zy", "include:\n  - ../x.zy\n")];
        assert_eq!(
            of(&outside, "s/b.zy"),
            Err(vec!["/s/b.zy:2:5: `../x.zy` leaves the settings directory".to_string()])
        );
    }

    /// A settings directory that a peel keeps, and its snapshot beside it.
    struct Kept {
        temp: tempfile::TempDir,
    }

    impl Kept {
        fn new() -> Kept {
            let temp = tempfile::tempdir().unwrap();
            std::fs::create_dir(temp.path().join("tree")).unwrap();
            Kept { temp }
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.temp.path().join("tree").join(name), text).unwrap();
        }

        fn snapshot(&self) -> PathBuf {
            self.temp.path().join(SNAPSHOT)
        }

        fn resolve(&self, published: bool, tree: &str) -> Result<Settings, Error> {
            let request = SettingsRequest {
                path: Some(self.temp.path().join(tree)),
                published,
                snapshot: Some(self.snapshot()),
                ..SettingsRequest::default()
            };
            let facts = json!({});
            let reading = Reading { facts: &facts, functions: &NoFunctions, id: "web-1", external: None };
            let mut settings = resolve(&request, None, &reading)?;
            settings.keep();
            Ok(settings)
        }
    }

    #[test]
    #[rule("D-6")]
    fn d6_the_last_good_settings_are_kept_for_the_owner_alone_and_used_where_the_files_are_gone() {
        use std::os::unix::fs::PermissionsExt;
        let kept = Kept::new();
        kept.write("a.zy", "role: web\nn:\n  w: 4\n");
        let first = kept.resolve(true, "tree").unwrap();
        assert_eq!(first.values, json!({"role": "web", "n": {"w": 4}}));
        assert_eq!(first.origins[1].place(), "settings/a.zy:3");
        let mode = std::fs::metadata(kept.snapshot()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let offline = kept.resolve(true, "gone").unwrap();
        assert_eq!((&offline.values, &offline.origins), (&first.values, &first.origins));
        assert_eq!(offline.warnings, ["no settings files are here; the last good settings are used"]);
        // The machine's own are less than what was published.
        std::fs::create_dir(kept.temp.path().join("own")).unwrap();
        std::fs::write(kept.temp.path().join("own/a.zy"), "role: db\n").unwrap();
        assert_eq!(kept.resolve(false, "own").unwrap().values["role"], json!("web"));
    }

    #[test]
    #[rule("D-6")]
    fn d6_files_that_are_wrong_are_an_error_whatever_the_snapshot_holds() {
        let kept = Kept::new();
        kept.write("a.zy", "role: web\n");
        kept.resolve(true, "tree").unwrap();
        let before = std::fs::read(kept.snapshot()).unwrap();
        kept.write("b.zy", "x: {{ nope }}\n");
        let Err(Error::Diagnostics { diagnostics, sources }) = kept.resolve(true, "tree") else {
            panic!("half of the settings are used")
        };
        let at = diagnostics[0].span.map(|span| sources.place(span)).unwrap();
        assert_eq!(at, "settings/b.zy:1:7");
        assert_eq!(std::fs::read(kept.snapshot()).unwrap(), before, "what is wrong is not kept");
    }

    #[test]
    #[rule("D-6")]
    fn d6_a_damaged_snapshot_lets_nothing_run_and_does_not_disturb_files_that_are_there() {
        let kept = Kept::new();
        kept.write("a.zy", "role: web\n");
        kept.resolve(true, "tree").unwrap();
        let whole = std::fs::read(kept.snapshot()).unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for damaged in [&whole[..whole.len() / 2], &whole[..3], &[][..], &flipped[..]] {
            std::fs::write(kept.snapshot(), damaged).unwrap();
            let why = kept.resolve(true, "gone").unwrap_err().to_string();
            assert!(why.contains("are damaged; nothing runs until settings are published again"), "{why}");
            assert!(kept.resolve(true, "tree").is_ok());
        }
        assert_eq!(std::fs::read(kept.snapshot()).unwrap(), whole, "it is whole again");
    }

    #[test]
    #[rule("D-6")]
    fn d6_what_is_given_for_one_run_lies_over_everything_and_is_not_kept() {
        let kept = Kept::new();
        kept.write("a.zy", "n:\n  w: 4\n  l: [1, 2]\n");
        let given = ["n:w=8", "n:l=[3]", "new:key=x"].map(|text| Override::parse(text).unwrap());
        let request = SettingsRequest {
            path: Some(kept.temp.path().join("tree")),
            merge: Merge::Overwrite,
            overrides: given.to_vec(),
            snapshot: Some(kept.snapshot()),
            ..SettingsRequest::default()
        };
        let facts = json!({});
        let reading = Reading { facts: &facts, functions: &NoFunctions, id: "web-1", external: None };
        let mut settings = resolve(&request, None, &reading).unwrap();
        settings.keep();
        assert_eq!(settings.values, json!({"n": {"w": 8, "l": [3]}, "new": {"key": "x"}}));
        assert_eq!(settings.origins[0].place(), "--setting n:w=8");
        let snapshot = Snapshot::read(&kept.snapshot(), "web-1").unwrap().unwrap();
        assert_eq!(snapshot.settings, json!({"n": {"w": 4, "l": [1, 2]}}));
        assert_eq!(
            Snapshot::read(&kept.snapshot(), "db-1").unwrap(),
            None,
            "those of another peel are not ours"
        );
    }

    #[test]
    #[rule("D-6")]
    fn d6_what_a_master_says_of_this_peel_lies_over_the_assigned_files_and_is_no_template() {
        let files = [
            ("s/top.zy", "'*': [base]\n"),
            ("s/base.zy", "role: web\nn: {a: 1}\n"),
            ("s/_ext/web-1.zy", "#!yaml\nn: {b: '{{ 1 }}'}\nrole: db\n"),
            ("s/_ext/web-2.zy", "#!yaml\nsecret: other\n"),
        ];
        assert_eq!(of(&files, "s"), Ok(json!({"role": "db", "n": {"a": 1, "b": "{{ 1 }}"}})));
        assert_eq!(external_file("../x"), None);
    }

    #[test]
    #[rule("D-6")]
    fn d6_the_strategy_can_be_chosen() {
        let files = [("s/a.zy", "l: [1]\nm: {x: 1}\n"), ("s/b.zy", "l: [2]\nm: {y: 2}\n")];
        let with = |merge| asked(&files, "s", &SettingsRequest { merge, ..SettingsRequest::default() });
        assert_eq!(with(Merge::Smart), Ok(json!({"l": [2], "m": {"x": 1, "y": 2}})));
        assert_eq!(with(Merge::Aggregate), Ok(json!({"l": [1, 2], "m": {"x": 1, "y": 2}})));
        assert_eq!(with(Merge::Overwrite), Ok(json!({"l": [2], "m": {"y": 2}})));
    }
}
