//! What holds for the kinds together.

use super::*;
use crate::laws::bind_json;
use crate::params::params;
use serde_json::json;
use std::collections::BTreeSet;
use zester_model::node::Node;
use zester_model::source::FileId;
use zester_rule::rule;

#[test]
fn every_kind_has_a_case_for_the_laws() {
    let registered: BTreeSet<&str> = bound::entries().iter().map(|entry| entry.kind).collect();
    let cases: BTreeSet<&str> = FILES.iter().flat_map(|(_, cases)| cases()).map(|case| case.kind).collect();
    assert_eq!(registered, cases);
    assert_eq!(registered.len(), bound::entries().len(), "a kind is registered twice");
}

/// The text of a source file and of the files in the folder of its name.
fn text_of_room(file: &std::path::Path) -> String {
    let mut text = std::fs::read_to_string(file).unwrap();
    for inside in std::fs::read_dir(file.with_extension("")).into_iter().flatten().flatten() {
        text.push_str(&std::fs::read_to_string(inside.path()).unwrap());
    }
    text
}

#[test]
fn every_file_that_defines_a_kind_is_registered() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
    let mut defining = BTreeSet::new();
    for file in
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "rs"))
    {
        let name = file.file_stem().unwrap().to_str().unwrap().to_string();
        let text = text_of_room(&file);
        let defines = ["#[params(kind = ", "Registered<ModuleRun> for", "rule_params!("]
            .iter()
            .any(|mark| text.contains(mark));
        // The parameters of rules stand in a macro, which defines none by itself.
        if defines && name != "tests" && name != "netfilter" {
            defining.insert(name);
        }
    }
    let registered: BTreeSet<String> = FILES.iter().map(|(file, _)| file.to_string()).collect();
    assert_eq!(defining, registered);
}

/// The YAML blocks of a manual page.
fn examples(doc: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut current: Option<String> = None;
    for line in doc.lines() {
        match (&mut current, line) {
            (None, "```yaml") => current = Some(String::new()),
            (Some(_), "```") => found.extend(current.take()),
            (Some(text), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    found
}

#[test]
fn every_manual_page_has_a_summary_an_example_and_documented_parameters() {
    for kind in catalog().iter() {
        assert!(kind.summary.ends_with('.'), "{}: {}", kind.name, kind.summary);
        let examples = examples(&kind.doc);
        assert!(!examples.is_empty(), "{} has no example", kind.name);
        assert!(examples.iter().all(|example| example.contains(kind.name)), "{}", kind.name);
        assert!(kind.parameter(kind.primary).is_some(), "{} has no parameter `{}`", kind.name, kind.primary);
        for parameter in &kind.parameters {
            assert!(!parameter.doc.is_empty(), "{} of {} has no doc", parameter.name, kind.name);
            assert!(
                !parameter.takes.is_empty() && parameter.takes != "anything",
                "{} of {}",
                parameter.name,
                kind.name
            );
        }
    }
}

/// The states of all examples of a page: kind and parameters.
fn states_of(doc: &str) -> Vec<(String, serde_json::Value)> {
    let mut found = Vec::new();
    for example in examples(doc) {
        let parsed = zester_compile::parse_yaml(zester_model::source::FileId(0), &example).unwrap().to_json();
        for (id, modules) in parsed.as_object().unwrap() {
            for (module, params) in modules.as_object().unwrap() {
                let mut given = serde_json::Map::new();
                for pair in params.as_array().into_iter().flatten() {
                    given.extend(pair.as_object().unwrap().clone());
                }
                given.retain(|key, _| zester_model::keywords::requisite(key).is_none());
                let primary = catalog().get(module).unwrap().primary;
                given.entry(primary).or_insert_with(|| id.as_str().into());
                found.push((module.clone(), given.into()));
            }
        }
    }
    found
}

#[test]
fn every_example_of_a_manual_page_binds() {
    for kind in catalog().iter() {
        for (module, params) in states_of(&kind.doc) {
            let bound = bind_json(&module, &params);
            assert!(bound.is_ok(), "{}: {:?}", kind.name, bound.err());
        }
    }
}

/// What the examples are about, put on the machines that the laws are tried on.
const THINGS: &[(&str, &str)] = &[
    ("/etc/app/app.conf.dpkg-new", "port = 80\n"),
    ("/etc/app/conf.d/old", ""),
    ("/etc/app.d/old", ""),
    ("/etc/app.d/mine.local", ""),
    ("/etc/dnf/dnf.conf", "[main]\nbest=False\n"),
    ("/etc/docker/daemon.json", "{}"),
    ("/etc/fstab", "/dev/sdb1 /mnt ext4 defaults 0 0\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n"),
    ("/etc/locale.gen", "# de_DE.UTF-8 UTF-8\n"),
    ("/etc/login.defs", "UMASK\t\t022\n"),
    ("/etc/machine-id", "0\n"),
    ("/etc/motd", "hello\n"),
    ("/etc/nginx/mime.types", ""),
    ("/etc/profile.d/app.sh", "export APP_HOME=/opt/app\n"),
    ("/etc/ssh/sshd_config", "#PermitRootLogin yes\nX11Forwarding yes\n"),
    ("/home/app/.profile", ""),
    ("/home/deploy/.profile", ""),
    ("/opt/app-1.2/app", ""),
    ("/run/systemd/system/nginx.active", "inactive"),
    ("/run/systemd/system/nginx.file", "disabled"),
    ("/run/systemd/system/telnet.socket.active", "inactive"),
    ("/run/systemd/system/telnet.socket.file", "disabled"),
    ("/srv/releases/app-2.1.tar", "tar"),
    ("/srv/web/index", ""),
    ("/srv/www/index", ""),
    ("/usr/local/bin/other", ""),
    ("/usr/share/app/app.conf.example", "port = 80\n"),
    ("/var/lib/db/data", ""),
];

/// Examples that no small machine can bring about, and where what they show is shown instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("file.managed https", "a server: sources over https and their digests have tests of their own"),
    ("test.fail_without_changes", "fails, as it says"),
    ("test.fail_with_changes", "fails, as it says"),
    ("test.configurable_test_state", "fails, as it says"),
    ("acl.", "the machine of its laws has rights to other paths; on the real setfacl: real_system/access.rs"),
    ("alternatives.set", "its machine offers other programs; on the real tool: real_system/access.rs"),
    ("event.send", "a bus: the scenarios of the fleet send it"),
    ("firewalld.bind", "its machine has other zones; on the real one: real_system/firewall_daemon.rs"),
    (
        "git.config_unset",
        "its machine has other repositories; on the real git: real_system/version_control.rs",
    ),
    ("git.detached", "a server; on the real git: git_latest/tests.rs"),
    ("iptables.flush", "its machine has other chains; on the real one: real_system/kernel.rs"),
    ("nftables.", "its machine has other tables; on the real one: real_system/kernel.rs"),
    ("pip.installed", "its machine has other packages; on the real pip: real_system/python.rs"),
    ("pkg.", "its machine has other packages; on the real apt: pkg/real_apt.rs"),
    ("sysctl.present", "its machine has other settings; on the real one: real_system/kernel.rs"),
];

/// The row that an example is of: the first word begins its kind, others stand in it.
fn is_elsewhere(example: &str) -> Option<usize> {
    ELSEWHERE.iter().position(|(words, _)| {
        let mut words = words.split(' ');
        words.next().is_some_and(|kind| example.starts_with(kind)) && words.all(|word| example.contains(word))
    })
}

fn furnish_for_examples(module: &str, host: &std::sync::Arc<zester_host::overlay::Overlay>) {
    use zester_host::{Group, HostRead, HostWrite, Owner, User};
    for (path, text) in THINGS {
        let above: Vec<&std::path::Path> = std::path::Path::new(path).ancestors().skip(1).collect();
        for directory in above.into_iter().rev().filter(|directory| host.stat(directory).unwrap().is_none()) {
            host.make_directory(directory, 0o755, Owner { uid: 0, gid: 0 }).unwrap();
        }
        // What the machine of a law has there is what its tools go by.
        if host.stat(path.as_ref()).unwrap().is_none() {
            laws::put_text(host, path, text);
        }
    }
    // Whoever makes accounts makes these.
    let accounts = ["user", "group"].contains(&module.split('.').next().unwrap());
    for (name, id) in [("app", 1801), ("deploy", 1802)].into_iter().filter(|_| !accounts) {
        host.predict_group(Group { name: name.into(), gid: id });
        host.predict_user(User { name: name.into(), uid: id, gid: id, home: format!("/home/{name}").into() });
    }
}

/// On the machines that the laws are tried on, with what the examples are about.
#[test]
fn every_example_of_a_manual_page_runs() {
    let cases: Vec<laws::Case> = FILES.iter().flat_map(|(_, cases)| cases()).collect();
    let (mut lacking, mut used) = (Vec::new(), BTreeSet::new());
    for kind in catalog().iter() {
        for (module, params) in states_of(&kind.doc) {
            let mut worlds = cases.iter().filter(|case| case.kind == module);
            let furnish = |host: &_| furnish_for_examples(&module, host);
            let ran = worlds.any(|world| laws::runs_on(world, &module, &params, &furnish));
            let example = format!("{module} {params}");
            match is_elsewhere(&example) {
                Some(row) if !ran => drop(used.insert(row)),
                None if !ran => lacking.push(example),
                _ => {}
            }
        }
    }
    let needless = (0..ELSEWHERE.len()).filter(|row| !used.contains(row)).map(|row| ELSEWHERE[row].0);
    let needless: Vec<&str> = needless.collect();
    assert_eq!((lacking, needless), (Vec::<String>::new(), Vec::new()));
}

fn diagnostics(kind: &str, params: serde_json::Value) -> Vec<String> {
    let diagnostics = bind_json(kind, &params).err().unwrap_or_default();
    let words = |diagnostic: zester_model::diagnostic::Diagnostic| match diagnostic.hint {
        Some(hint) => format!("{} [{hint}]", diagnostic.message),
        None => diagnostic.message,
    };
    diagnostics.into_iter().map(words).collect()
}

#[test]
#[rule("S-3")]
fn s3_all_wrong_parameters_are_reported_at_once_each_by_its_name() {
    let params = json!({ "path": "relative", "mode": "0999", "makedirs": "maybe", "replace": [] });
    assert_eq!(
        diagnostics("file.managed", params),
        [
            "`path` of file.managed: `relative` is not an absolute path [it begins with `/`]",
            "`mode` of file.managed: `0999` is not a mode [write octal digits like `0644`]",
            "`makedirs` of file.managed: expected true or false, found the text `maybe` [write `true` or `false`]",
            "`replace` of file.managed: expected true or false, found a list [write `true` or `false`]",
        ]
    );
}

#[test]
fn root_and_its_group_are_never_removed() {
    for kind in ["user.absent", "group.absent"] {
        let refused = bind_json(kind, &json!({ "name": "root" })).err().unwrap();
        assert!(refused[0].message.ends_with(&format!("{kind}: root is never removed")), "{kind}");
        assert!(bind_json(kind, &json!({ "name": "rooted" })).is_ok(), "{kind}");
    }
}

#[test]
#[rule("S-3")]
fn s3_a_missing_and_an_unknown_parameter_are_named() {
    assert_eq!(diagnostics("file.symlink", json!({ "path": "/x" })), ["file.symlink: `target` is missing"]);
    let unknown = bind_json("file.managed", &json!({ "path": "/x", "contnet": "y" })).err().unwrap();
    assert_eq!(unknown[0].message, "`contnet` of file.managed: unknown key `contnet`");
    assert!(unknown[0].hint.as_ref().unwrap().contains("content"));
}

#[test]
#[rule("S-2")]
fn s2_name_and_aliases_mean_the_parameter_itself() {
    assert!(
        bind_json("file.managed", &json!({ "name": "/x", "contents": ["a", "b"], "owner": "root" })).is_ok()
    );
    let twice = diagnostics("file.managed", json!({ "name": "/x", "path": "/y" }));
    assert_eq!(twice, ["`path` of file.managed is given twice"]);
}

#[test]
#[rule("S-3")]
fn s3_an_unknown_module_suggests_the_nearest() {
    let unknown = bind_json("file.manged", &json!({})).err().unwrap();
    assert_eq!(unknown[0].hint.as_deref(), Some("did you mean `file.managed`?"));
}

#[test]
#[rule("S-20")]
fn s20_module_run_names_what_is_wrong_with_its_call() {
    assert_eq!(
        diagnostics("module.run", json!({ "name": "no.such" })),
        ["module.run: unknown module `no.such`"]
    );
    assert_eq!(
        diagnostics("module.run", json!({ "name": "module.run" })),
        ["module.run: it cannot run itself"]
    );
    assert_eq!(diagnostics("module.run", json!({ "name": "cmd.run" })), ["cmd.run: `command` is missing"]);
}

#[test]
fn the_schema_knows_every_kind_with_parameters_aliases_and_words() {
    use zester_model::keywords::{ATTRIBUTES, REQUISITES};
    let schema = schema();
    let kinds = &schema["$defs"]["parameters"];
    let common = REQUISITES.iter().map(|it| it.word).chain(ATTRIBUTES.iter().map(|it| it.word));
    let common: Vec<&str> = common.collect();
    for kind in catalog().iter() {
        let known = &kinds[kind.name]["properties"];
        for name in kind.parameters.iter().map(|it| it.name).chain(common.iter().copied()) {
            assert!(known[name]["description"].is_string(), "{name} of {}", kind.name);
        }
        for none in ["prereq_any", "listen_any", "require_any_in", "fire_event"] {
            assert!(known.get(none).is_none(), "{none} of {}", kind.name);
        }
    }
    assert!(kinds["file.managed"]["properties"].get("contents").is_some());
}

#[test]
#[rule("S-4")]
fn s4_a_source_that_leaves_the_states_directory_is_refused_where_it_stands() {
    let at = |kind: &str, source: serde_json::Value| {
        diagnostics(kind, json!({ "path": "/x", "source": source })).join(" / ")
    };
    for source in ["salt://../x", "zester://a/../../x", "../x", "salt:///etc/x", "a/../b"] {
        let found = at("file.managed", json!(source));
        assert!(found.contains(&format!("`{source}` leaves the states directory")), "{found}");
        let script = diagnostics("cmd.script", json!({ "command": "x", "source": source })).join(" / ");
        assert!(script.contains("leaves the states directory"), "{script}");
    }
    for source in ["salt://a..b/x", "/srv/../x", "web/x"] {
        assert_eq!(at("file.managed", json!(source)), "", "{source}");
    }
    assert_eq!(
        at("file.managed", json!("salt://x?saltenv=base")),
        "`source` of file.managed: `salt://x?saltenv=base` names an environment, and there is only one [write `salt://x`]"
    );
}

/// A kind for which one spelling means more.
#[params(kind = "letter.sent", primary = "text", doc = "A letter.")]
struct Letter {
    #[param(alias = "signed_text")]
    text: Option<String>,
    #[param(written = "signed_text")]
    signed: bool,
}

fn letter(params: &[Param]) -> Result<Letter, Vec<Diagnostic>> {
    bind::read(params, Span::start_of(FileId(0)), |_| Vec::new())
}

fn param(name: &str) -> Param {
    let span = Span::start_of(FileId(0));
    Param::new(name, span, Node::text(span, "dear all"))
}

#[test]
#[rule("S-47")]
fn s47_a_kind_is_told_which_of_two_names_was_written() {
    let as_compiled = Param { word: "signed_text".into(), ..param("text") };
    for (written, signed) in [(param("text"), false), (param("signed_text"), true), (as_compiled, true)] {
        let read = letter(&[written]).unwrap();
        assert_eq!((read.text.as_deref(), read.signed), (Some("dear all"), signed));
    }
}

#[test]
#[rule("S-2")]
fn s2_two_names_of_one_parameter_are_that_parameter_twice() {
    let diagnostics = letter(&[param("text"), param("signed_text")]).unwrap_err();
    assert_eq!(diagnostics[0].message, "`text` of letter.sent is given twice");
}
