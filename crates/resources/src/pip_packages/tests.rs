use super::*;
use crate::laws::{Case, Promise, bind_json, furnish, put_text};
use serde_json::json;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, exit};
use zester_host::{Exit, HostRead, Launch, Processes, Program};

const INSTALLED: &str = "/books/pip";

/// A small `pip`: what is installed lies in a file; the index has `a` 1.0 and 1.5, and `b` 2.0, which needs `a`.
fn answer(host: &Arc<Overlay>, launch: &Launch) -> Option<Exit> {
    let Program::Argv(words) = &launch.program else { return None };
    let bytes = host.read(INSTALLED.as_ref(), 1 << 20).unwrap();
    let mut book: BTreeMap<String, String> = serde_json::from_slice(&bytes).unwrap();
    let mut told = String::new();
    let names = words.iter().skip(2).filter(|word| !word.starts_with('-'));
    match words[1].as_str() {
        "list" => {
            let outdated = words.iter().any(|word| word == "--outdated");
            let listed =
                book.iter().filter(|(name, version)| !outdated || (*name == "a" && *version == "1.0"));
            let listed = listed
                .map(|(name, version)| json!({ "name": name, "version": version, "latest_version": "1.5" }));
            return Some(exit(0, &json!(listed.collect::<Vec<_>>()).to_string(), ""));
        }
        "uninstall" => names.for_each(|name| drop(book.remove(name))),
        "install" => {
            let before = book.clone();
            for name in names {
                let (name, version) = name.split_once("==").unwrap_or((name, ""));
                match (name, version) {
                    ("a", "1.0" | "1.5") => drop(book.insert("a".into(), version.into())),
                    ("a", _) => drop(book.insert("a".into(), "1.5".into())),
                    ("b", _) => {
                        book.insert("b".into(), "2.0".into());
                        book.entry("a".into()).or_insert("1.5".into());
                    }
                    _ => return Some(exit(1, "", "ERROR: No matching distribution found\n")),
                }
            }
            let came = book.iter().filter(|(name, version)| before.get(*name) != Some(version));
            let came: Vec<String> = came.map(|(name, version)| format!("{name}-{version}")).collect();
            told = format!("Successfully installed {}\n", came.join(" "));
        }
        _ => return None,
    }
    put_text(host, INSTALLED, &serde_json::to_string(&book).unwrap());
    Some(exit(0, &told, ""))
}

fn world(host: &Arc<Overlay>, book: &serde_json::Value) -> Arc<dyn Processes> {
    furnish(host, "d /books 0755");
    put_text(host, "/books/requirements.txt", "# all\na>=1.2\n");
    put_text(host, INSTALLED, &book.to_string());
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| answer(&host.upgrade()?, launch).map(Ok)))
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |kind, params, promise, book: serde_json::Value| {
        Case::new(kind, params, promise, move |host| world(host, &book)).with_books(&["/books"])
    };
    let one = || json!({ "a": "1.0" });
    vec![
        case("pip.installed", json!({ "name": "a" }), Promise::Converges, json!({})),
        case("pip.installed", json!({ "name": "A" }), Promise::Clean, one()),
        case("pip.installed", json!({ "name": "a==1.5" }), Promise::Converges, one()),
        case("pip.installed", json!({ "name": "a>=1.0,<2", "bin_env": "/srv/env" }), Promise::Clean, one()),
        case("pip.installed", json!({ "name": "b" }), Promise::Converges, json!({})),
        case("pip.installed", json!({ "name": "a", "upgrade": true }), Promise::Converges, one()),
        case("pip.installed", json!({ "name": "a", "upgrade": true }), Promise::Clean, json!({ "a": "1.5" })),
        case("pip.installed", json!({ "name": "x", "pkgs": ["a==1.0", "b"] }), Promise::Converges, json!({})),
        case(
            "pip.installed",
            json!({ "name": "x", "requirements": "/books/requirements.txt" }),
            Promise::Clean,
            json!({ "a": "1.5" }),
        ),
        case(
            "pip.installed",
            json!({ "name": "x", "requirements": "/books/none.txt" }),
            Promise::Fails,
            one(),
        ),
        case("pip.installed", json!({ "name": "none" }), Promise::Fails, one()),
        case("pip.removed", json!({ "name": "a" }), Promise::Converges, one()),
        case("pip.removed", json!({ "name": "a" }), Promise::Clean, json!({ "b": "2.0" })),
    ]
}

#[test]
fn what_pip_could_not_find_again_is_refused() {
    let told = |params| {
        bind_json("pip.installed", &params)
            .err()
            .map(|told| format!("{} {:?}", told[0].message, told[0].hint))
    };
    assert!(told(json!({ "name": "https://example.com/x.whl" })).unwrap().contains("#egg=NAME"));
    assert!(told(json!({ "name": "x", "pkgs": ["a", "b=1"] })).unwrap().contains("write it like `==1.2`"));
    assert!(
        told(json!({ "name": "x", "requirements": "https://host/r.txt" }))
            .unwrap()
            .contains("cannot be a source")
    );
    assert_eq!(told(json!({ "name": "a", "bin_env": "/srv/env/bin/pip3.11" })), None);
    assert_eq!(pip_of(Some(&Absolute("/srv/env/bin/pip3.11".into()))), "/srv/env/bin/pip3.11");
    assert_eq!(pip_of(Some(&Absolute("/srv/env".into()))), "/srv/env/bin/pip");
}
