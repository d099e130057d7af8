use super::*;
use crate::context::{Applying, Reverting};
use crate::laws::{Case, FewFiles, MemoryBlobStore, Promise, bind_json};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_host::overlay::Overlay;
use zester_host::process::Runner;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::real::Real;
use zester_host::{Exit, HostWrite, NewFile, Owner, Processes, Query};
use zester_rule::rule;

fn write(host: &Overlay, answers: &BTreeMap<String, String>) {
    let paragraph = |(name, value): (&String, &String)| {
        format!("Name: {name}\nTemplate: {name}\nValue: {value}\nOwners: web\nFlags: seen\n\n")
    };
    let text: String = answers.iter().map(paragraph).collect();
    let file = NewFile { content: text.as_bytes(), mode: 0o644, owner: Owner { uid: 0, gid: 0 } };
    host.put_file(ANSWERS.as_ref(), &file).unwrap();
}

fn answers(host: &Overlay) -> BTreeMap<String, String> {
    let text = String::from_utf8(host.read(ANSWERS.as_ref(), 1 << 16).unwrap()).unwrap();
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    let field =
        |one: &str, name: &str| one.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_string();
    paragraphs.map(|one| (field(one, "Name: "), field(one, "Value: "))).collect()
}

fn told(host: &Overlay, launch: &Launch) -> Exit {
    let input = String::from_utf8(launch.stdin.clone().unwrap()).unwrap();
    let mut now = answers(host);
    for line in input.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match (command_line(launch).as_str(), words.as_slice()) {
            ("debconf-set-selections", [_, question, _, value]) => {
                now.insert(question.to_string(), value.to_string())
            }
            ("debconf-communicate web" | "debconf-communicate mail", ["SET", question, ..]) => {
                now.insert(question.to_string(), line.splitn(3, ' ').nth(2).unwrap().to_string())
            }
            ("debconf-communicate web" | "debconf-communicate mail", ["UNREGISTER", question]) => {
                now.remove(*question)
            }
            other => panic!("{other:?}"),
        };
    }
    write(host, &now);
    exit(0, "", "")
}

fn world(host: &Arc<Overlay>, known: &[(&str, &str)]) -> Arc<dyn Processes> {
    for directory in ["/var", "/var/cache", "/var/cache/debconf"] {
        host.make_directory(directory.as_ref(), 0o755, Owner { uid: 0, gid: 0 }).unwrap();
    }
    write(host, &known.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect());
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| Some(Ok(told(&*host.upgrade()?, launch)))))
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |data: Json, promise, known: &'static [(&'static str, &'static str)]| {
        let params = json!({ "name": "web", "data": data });
        Case::new("debconf.set", params, promise, move |host| world(host, known))
            .with_books(&["/var/cache/debconf"])
    };
    let in_file = |promise, known: &'static [(&'static str, &'static str)]| {
        Case::new("debconf.set_file", json!({ "name": "x", "source": "/selections" }), promise, move |host| {
            crate::laws::put_text(host, "/selections", "web web/port string 80\nmail mail/on boolean true\n");
            world(host, known)
        })
        .with_books(&["/var/cache/debconf"])
    };
    let port = json!({ "web/port": { "type": "string", "value": 80 } });
    vec![
        case(port.clone(), Promise::Converges, &[]),
        case(port.clone(), Promise::Converges, &[("web/port", "8080"), ("web/host", "x")]),
        case(port, Promise::Clean, &[("web/port", "80")]),
        case(
            json!({ "web/on": { "type": "boolean", "value": true } }),
            Promise::Clean,
            &[("web/on", "true")],
        ),
        in_file(Promise::Converges, &[("mail/on", "false")]),
        in_file(Promise::Converges, &[]),
        in_file(Promise::Clean, &[("mail/on", "true"), ("web/port", "80")]),
        Case::new("debconf.set_file", json!({ "name": "x", "source": "/none" }), Promise::Fails, |host| {
            world(host, &[])
        }),
    ]
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let data =
        json!({ "web/port": { "type": "number", "value": 80 }, "a b": { "type": "string", "value": "" } });
    let told = bind_json("debconf.set", &json!({ "name": "web", "data": data })).err().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(bind_json("debconf.set", &json!({ "name": "web", "data": {} })).is_err());
}

#[tokio::test]
#[rule("D-15")]
async fn d15_neither_a_password_nor_its_hash_is_shown() {
    let data = json!({ "web/secret": { "type": "password", "value": "hush" } });
    let bound = bind_json("debconf.set", &json!({ "name": "web", "data": data })).ok().unwrap();
    for (former, shown) in [(None, "none → ***"), (Some("old"), "*** → ***")] {
        let host = Arc::new(Overlay::empty());
        let processes = world(&host, &[]);
        if let Some(former) = former {
            crate::laws::put_text(&host, PASSWORDS, &format!("Name: web/secret\nValue: {former}\n\n"));
        }
        let cancel = CancellationToken::new();
        let query = Query::through(&*processes);
        let cx =
            Checking { host: &*host, query, files: &FewFiles, forced: None, dry_run: true, cancel: &cancel };
        let drift = bound.check(&cx).await.unwrap().unwrap();
        let told = bound.explain(&drift, false);
        assert_eq!(told.diff, format!("the debconf answers of web: web/secret: {shown}\n"));
        let details = serde_json::to_string(&told.details).unwrap();
        for hash in [sha256_hex(b"hush"), sha256_hex(b"old")] {
            assert!(!details.contains(&hash), "{details}");
        }
    }
}

#[tokio::test]
#[rule("S-31")]
async fn s31_the_real_debconf_takes_answers_and_gives_them_back() {
    if Real::new().me().uid != 0 || !Path::new("/usr/bin/debconf-communicate").exists() {
        zester_testkit::skip!("needs root and debconf");
    }
    struct Purge;
    impl Drop for Purge {
        fn drop(&mut self) {
            let child = Command::new("debconf-communicate")
                .arg("zester-test-pkg")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn();
            let mut child = child.unwrap();
            let _told = std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"PURGE\n");
            let _ended = child.wait();
        }
    }
    let _turn = crate::pkg::real_apt::dpkg_turn();
    let _purge = Purge;
    let (host, runner, cancel) = (Real::new(), Runner::new(), CancellationToken::new());
    let apply = async |value: &str| {
        let data = json!({
            "zester-test-pkg/answer": { "type": "string", "value": value },
            "zester-test-pkg/secret": { "type": "password", "value": "hush" },
        });
        let bound =
            bind_json("debconf.set", &json!({ "name": "zester-test-pkg", "data": data })).ok().unwrap();
        let query = Query::through(&runner);
        let cx =
            Checking { host: &host, query, files: &FewFiles, forced: None, dry_run: false, cancel: &cancel };
        let drift = bound.check(&cx).await.unwrap().unwrap();
        let record = bound.undo_record(&drift).unwrap();
        assert!(!record.to_string().contains("hush"), "{record}");
        bound.apply(&drift, &Applying::new(&host, &runner, &cancel)).await.unwrap();
        assert!(bound.check(&cx).await.unwrap().is_none());
        record
    };
    let first = apply("forty two").await;
    let second = apply("forty three").await;
    let (blobs, left) = (MemoryBlobStore::default(), Default::default());
    let cx = Reverting {
        host: &host,
        processes: &runner,
        blobs: &blobs,
        cancel: &cancel,
        force: false,
        left: &left,
    };
    let answer = || {
        let text = std::fs::read_to_string(ANSWERS).unwrap();
        let found = text.split("\n\n").find(|one| one.contains("Name: zester-test-pkg/answer"))?.to_string();
        found.lines().find_map(|line| line.strip_prefix("Value: ")).map(str::to_string)
    };
    assert!(crate::revert("debconf.set", &second, &cx).await.unwrap().changed);
    assert_eq!(answer().as_deref(), Some("forty two"));
    assert!(crate::revert("debconf.set", &first, &cx).await.unwrap().changed);
    assert_eq!(answer(), None);
}
