use super::*;
use crate::laws::{Case, Promise};
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::Runner;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::real::Real;
use zester_host::{
    BoxFuture, Exit, HostRead, HostWrite, Launch, NewFile, OutputSink, Owner, Processes, Query,
};
use zester_rule::rule;

/// Where the small update-alternatives of the laws keeps its one group, as JSON.
const ADMIN_FILE: &str = "/var/lib/dpkg/alternatives";

fn read(host: &Overlay) -> Group {
    serde_json::from_slice(&host.read(ADMIN_FILE.as_ref(), 1 << 16).unwrap()).unwrap()
}

fn write(host: &Overlay, group: &Group) {
    let content = serde_json::to_vec(group).unwrap();
    let file = NewFile { content: &content, mode: 0o644, owner: Owner { uid: 0, gid: 0 } };
    host.put_file(ADMIN_FILE.as_ref(), &file).unwrap();
}

fn queried(group: &Group) -> String {
    let value = group.value.clone().unwrap_or("none".into());
    let status = if group.auto { "auto" } else { "manual" };
    let mut text = format!("Name: editor\nLink: {}\nStatus: {status}\nValue: {value}\n", group.link);
    for (path, choice) in &group.choices {
        text.push_str(&format!("\nAlternative: {path}\nPriority: {}\n", choice.priority));
    }
    text
}

fn answer(host: &Overlay, line: &str) -> Exit {
    let words: Vec<&str> = line.split_whitespace().collect();
    let now = read(host);
    match &words[1..] {
        ["--query", _] if now.choices.is_empty() => {
            return exit(2, "", "update-alternatives: error: no alternatives for editor\n");
        }
        ["--query", _] => return exit(0, &queried(&now), ""),
        ["--install", link, _, path, priority] => {
            write(host, &now.with(link, path, priority.parse().unwrap()))
        }
        ["--remove", _, path] => write(host, &now.without(path)),
        ["--set", _, path] => write(host, &Group { auto: false, value: Some(path.to_string()), ..now }),
        ["--auto", _] => write(host, &Group { auto: true, ..now }.settled()),
        other => panic!("{other:?}"),
    }
    exit(0, "", "")
}

/// `ed 10 vi 20 =ed`: programs with their priorities, and the one that somebody chose.
fn world(host: &Arc<Overlay>, words: &str) -> Arc<dyn Processes> {
    for directory in ["/var", "/var/lib", "/var/lib/dpkg"] {
        host.make_directory(directory.as_ref(), 0o755, Owner { uid: 0, gid: 0 }).unwrap();
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut group = Group::default();
    for pair in words.chunks(2) {
        match pair {
            [name, priority] => {
                group = group.with("/usr/bin/editor", &format!("/bin/{name}"), priority.parse().unwrap());
            }
            [chosen] => {
                group.auto = false;
                group.value = Some(format!("/bin/{}", chosen.trim_start_matches('=')));
            }
            _ => {}
        }
    }
    write(host, &group);
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| Some(Ok(answer(&*host.upgrade()?, &command_line(launch))))))
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |kind, params, promise, words: &'static str| {
        Case::new(kind, params, promise, move |host| world(host, words))
    };
    let install = json!({ "name": "editor", "link": "/usr/bin/editor", "path": "/bin/vi", "priority": 20 });
    let vi = json!({ "name": "editor", "path": "/bin/vi" });
    let name = json!({ "name": "editor" });
    vec![
        case("alternatives.install", install.clone(), Promise::Converges, ""),
        case("alternatives.install", install.clone(), Promise::Converges, "ed 10"),
        case("alternatives.install", install.clone(), Promise::Converges, "vi 5"),
        case("alternatives.install", install, Promise::Clean, "ed 10 vi 20 =ed"),
        case("alternatives.remove", vi.clone(), Promise::Converges, "ed 10 vi 20"),
        case("alternatives.remove", vi.clone(), Promise::Clean, "ed 10"),
        case("alternatives.set", vi.clone(), Promise::Converges, "ed 30 vi 20"),
        case("alternatives.set", vi.clone(), Promise::Clean, "ed 30 vi 20 =vi"),
        case("alternatives.set", vi, Promise::Fails, "ed 10"),
        case("alternatives.auto", name.clone(), Promise::Converges, "ed 30 vi 20 =vi"),
        case("alternatives.auto", name.clone(), Promise::Clean, "ed 10"),
        case("alternatives.auto", name, Promise::Fails, ""),
    ]
}

/// As dpkg 1.21 of Debian 12 prints it.
#[test]
fn what_update_alternatives_tells_is_read() {
    let text = "Name: editor\nLink: /usr/bin/editor\nSlaves:\n editor.1.gz /usr/share/man/man1/editor.1.gz\nStatus: manual\n\
                Best: /bin/nano\nValue: /bin/ed\n\nAlternative: /bin/ed\nPriority: -100\nSlaves:\n editor.1.gz /usr/share/man/man1/ed.1.gz\n\n\
                Alternative: /bin/nano\nPriority: 40\nSlaves:\n";
    let group = parse(text);
    assert_eq!(
        (group.link.as_str(), group.auto, group.value.as_deref()),
        ("/usr/bin/editor", false, Some("/bin/ed"))
    );
    assert_eq!(group.choices["/bin/ed"].priority, -100);
    assert_eq!(group.choices["/bin/ed"].slaves["editor.1.gz"], "/usr/share/man/man1/ed.1.gz");
    assert_eq!(group.slaves["editor.1.gz"], "/usr/share/man/man1/editor.1.gz");
    assert!(group.choices["/bin/nano"].slaves.is_empty());
}

/// The real tool, with directories of the test's own.
struct Aside {
    runner: Runner,
    words: [String; 4],
}

impl Processes for Aside {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a tokio_util::sync::CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        let mut launch = launch.clone();
        if let zester_host::Program::Argv(words) = &mut launch.program {
            words.splice(1..1, self.words.iter().cloned());
        }
        Box::pin(async move { self.runner.run(&launch, live, cancel).await })
    }
}

#[tokio::test]
#[rule("S-31")]
async fn s31_the_real_update_alternatives_converges_and_reverts() {
    use crate::context::{Applying, Checking, Reverting};
    use crate::laws::{FewFiles, MemoryBlobStore, bind_json};
    if !Path::new("/usr/bin/update-alternatives").exists() {
        zester_testkit::skip!("needs update-alternatives");
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    for name in ["alt", "admin", "bin"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    for name in ["bin/ed", "bin/vi"] {
        std::fs::write(at(name), "").unwrap();
    }
    let words = ["--altdir".to_string(), at("alt"), "--admindir".to_string(), at("admin")];
    let (host, tool) = (Real::new(), Aside { runner: Runner::new(), words });
    let cancel = tokio_util::sync::CancellationToken::new();
    let apply = async |kind: &str, params: serde_json::Value| {
        let bound = bind_json(kind, &params).ok().unwrap();
        let query = Query::through(&tool);
        let cx =
            Checking { host: &host, query, files: &FewFiles, forced: None, dry_run: false, cancel: &cancel };
        let drift = bound.check(&cx).await.unwrap()?;
        let record = bound.undo_record(&drift).unwrap();
        bound.apply(&drift, &Applying::new(&host, &tool, &cancel)).await.unwrap();
        assert!(bound.check(&cx).await.unwrap().is_none(), "{kind} is not clean");
        Some(record)
    };
    let leads = || std::fs::canonicalize(at("editor")).map(|path| path.file_name().unwrap().to_owned()).ok();
    let install = |name: &str, priority: i64| json!({ "name": "zester-test-editor", "link": at("editor"), "path": at(name), "priority": priority });
    let first = apply("alternatives.install", install("bin/ed", 10)).await.unwrap();
    assert_eq!(leads(), Some("ed".into()));
    apply("alternatives.install", install("bin/vi", 20)).await.unwrap();
    assert_eq!(leads(), Some("vi".into()));
    let named = |name: &str| json!({ "name": "zester-test-editor", "path": at(name) });
    let chosen = apply("alternatives.set", named("bin/ed")).await.unwrap();
    assert_eq!(leads(), Some("ed".into()));
    let blobs = MemoryBlobStore::default();
    let left = Default::default();
    let cx = Reverting {
        host: &host,
        processes: &tool,
        blobs: &blobs,
        cancel: &cancel,
        force: false,
        left: &left,
    };
    assert!(crate::revert("alternatives.set", &chosen, &cx).await.unwrap().changed);
    assert_eq!(leads(), Some("vi".into()));
    apply("alternatives.remove", named("bin/vi")).await.unwrap();
    assert_eq!(leads(), Some("ed".into()));
    assert!(crate::revert("alternatives.install", &first, &cx).await.unwrap().changed);
    assert_eq!(leads(), None);
}
