use crate::laws::{Case, Promise, bind_json, furnish, put_text};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, exit};
use zester_host::{Exit, HostRead, Launch, Program};

/// A small `git config`: a file of JSON, names and their values.
fn answer(host: &Arc<Overlay>, launch: &Launch) -> Option<Exit> {
    let Program::Argv(words) = &launch.program else { return None };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["git", "config", rest @ ..] = words.as_slice() else { return None };
    let at = rest.iter().position(|word| *word == "--file")? + 1;
    let path = rest[at];
    let there = host.stat(path.as_ref()).unwrap().is_some();
    let text = if there { host.read(path.as_ref(), 1 << 20).unwrap() } else { b"{}".to_vec() };
    let mut book: BTreeMap<String, Vec<String>> = serde_json::from_slice(&text).unwrap();
    match rest {
        ["--null", "--get-all", "--file", _, name] => {
            return Some(match book.get(*name) {
                Some(values) => {
                    exit(0, &values.iter().map(|value| format!("{value}\0")).collect::<String>(), "")
                }
                None => exit(1, "", ""),
            });
        }
        [_, _, "--unset-all", name] => drop(book.remove(*name)),
        [_, _, "--replace-all", name, value] => drop(book.insert(name.to_string(), vec![value.to_string()])),
        [_, _, "--add", name, value] => book.entry(name.to_string()).or_default().push(value.to_string()),
        _ => return None,
    }
    put_text(host, path, &serde_json::to_string(&book).unwrap());
    Some(exit(0, "", ""))
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |kind, mut params: Json, promise, book: Json| {
        params["repo"] = json!("/books/repo");
        Case::new(kind, params, promise, move |host| {
            let world =
                "d /books 0755\nd /books/repo 0755\nd /books/repo/.git 0755\nf /books/repo/.git/HEAD 0644 x";
            furnish(host, world);
            put_text(host, "/books/repo/.git/config", &book.to_string());
            let host = Arc::downgrade(host);
            Arc::new(Scripted::new().with(move |launch| answer(&host.upgrade()?, launch).map(Ok)))
        })
        .with_books(&["/books"])
    };
    let one = || json!({ "user.name": ["web"] });
    let two = || json!({ "remote.origin.fetch": ["a", "b"], "user.name": ["web"] });
    vec![
        case("git.config_set", json!({ "name": "user.name", "value": "web" }), Promise::Clean, one()),
        case("git.config_set", json!({ "name": "user.name", "value": "deploy" }), Promise::Converges, one()),
        case("git.config_set", json!({ "name": "user.email", "value": "a@b" }), Promise::Converges, one()),
        case(
            "git.config_set",
            json!({ "name": "remote.origin.fetch", "multivar": ["c", "a"] }),
            Promise::Converges,
            two(),
        ),
        case("git.config_unset", json!({ "name": "user.name" }), Promise::Converges, one()),
        case("git.config_unset", json!({ "name": "user.email" }), Promise::Clean, one()),
        case("git.config_unset", json!({ "name": "remote.origin.fetch" }), Promise::Fails, two()),
        case(
            "git.config_unset",
            json!({ "name": "remote.origin.fetch", "all": true }),
            Promise::Converges,
            two(),
        ),
        case(
            "git.config_unset",
            json!({ "name": "remote.origin.fetch", "value_regex": "^b" }),
            Promise::Converges,
            two(),
        ),
    ]
}

#[test]
fn what_git_would_not_take_is_refused() {
    let told = |params: Json| {
        let told = bind_json("git.config_set", &params).err().unwrap_or_default();
        told.into_iter().map(|one| one.message).collect::<Vec<_>>().join(" / ")
    };
    for name in ["user", "us er.name", ".name", "user.", "user.1st", "a.b\nc.d"] {
        assert!(
            told(json!({ "name": name, "value": "x", "global": true })).contains("cannot be a name"),
            "{name}"
        );
    }
    for name in ["user.name", "remote.my origin.url", "url.git@host:.insteadOf"] {
        assert_eq!(told(json!({ "name": name, "value": "x", "global": true })), "", "{name}");
    }
    assert!(told(json!({ "name": "user.name", "value": "x" })).contains("whose configuration?"));
    assert!(
        told(json!({ "name": "user.name", "value": "x", "global": true, "repo": "/r" })).contains("only one")
    );
    assert!(told(json!({ "name": "user.name", "global": true })).contains("either `value` or `multivar`"));
}
