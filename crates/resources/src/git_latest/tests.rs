use crate::context::{Applying, Checking};
use crate::laws::{Case, FewFiles, Promise, bind_json, furnish};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::process::fake::{Scripted, exit};
use zester_host::real::Real;
use zester_host::{Fault, Query};

const ONE: &str = "1111111111111111111111111111111111111111";

pub(crate) fn cases() -> Vec<Case> {
    let case = |kind: &'static str, mut params: Json, promise, world: String| {
        params["name"] = json!("https://host/repo.git");
        params["target"] = json!("/w");
        Case::new(kind, params, promise, move |host| {
            furnish(host, &world);
            let listed = format!("{ONE}\tHEAD\n{ONE}\trefs/heads/main\n");
            // What would change the machine changes nothing here, so it is due every time.
            Arc::new(Scripted::new().with(move |launch| {
                let line = zester_host::process::fake::command_line(launch);
                Some(Ok(exit(0, if line.contains("ls-remote") { &listed } else { "" }, "")))
            }))
        })
    };
    let there = format!(
        "d /w 0755\nd /w/.git 0755\nf /w/.git/HEAD 0644 ref: refs/heads/main\nf /w/.git/packed-refs 0644 {ONE} refs/heads/main"
    );
    let detached = format!("d /w 0755\nd /w/.git 0755\nf /w/.git/HEAD 0644 {ONE}");
    vec![
        case("git.latest", json!({}), Promise::Acts, String::new()),
        case("git.latest", json!({}), Promise::Clean, there.clone()),
        case("git.latest", json!({ "rev": "none" }), Promise::Fails, String::new()),
        case("git.latest", json!({}), Promise::Fails, "d /w 0755\nf /w/x 0644 x".into()),
        case("git.cloned", json!({}), Promise::Acts, String::new()),
        case("git.cloned", json!({}), Promise::Clean, detached.clone()),
        case("git.detached", json!({ "rev": ONE }), Promise::Acts, there),
        case("git.detached", json!({ "rev": ONE }), Promise::Clean, detached),
    ]
}

fn git(directory: &Path, words: &[&str]) -> String {
    let done = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(words)
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_string()
}

/// Checks, and applies what is due; `None` where nothing is.
async fn brought(kind: &'static str, params: &Json) -> Result<Option<String>, Fault> {
    let bound = bind_json(kind, params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    let (host, processes, cancel) = (Real::new(), Runner::new(), CancellationToken::new());
    let query = Query::through(&processes);
    let cx = Checking { host: &host, query, files: &FewFiles, forced: None, dry_run: false, cancel: &cancel };
    let Some(drift) = bound.check(&cx).await? else { return Ok(None) };
    bound.apply(&drift, &Applying::new(&host, &processes, &cancel)).await.map(|change| Some(change.diff))
}

#[tokio::test]
async fn a_working_copy_follows_its_repository() {
    if Command::new("git").arg("--version").output().is_err() {
        zester_testkit::skip!("there is no git here");
    }
    let temp = tempfile::tempdir().unwrap();
    let origin = temp.path().join("origin");
    std::fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "-q"]);
    std::fs::write(origin.join("f"), "one").unwrap();
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "-qm", "one"]);
    git(&origin, &["tag", "-a", "v1", "-m", "v1"]);
    let one = git(&origin, &["rev-parse", "HEAD"]);
    let copy = temp.path().join("copy");
    let name = origin.display().to_string();
    let latest = json!({ "name": name, "target": copy });
    assert!(brought("git.latest", &latest).await.unwrap().unwrap().starts_with("cloned "));
    assert_eq!(std::fs::read_to_string(copy.join("f")).unwrap(), "one");
    assert_eq!(brought("git.latest", &latest).await.unwrap(), None);
    assert_eq!(brought("git.cloned", &latest).await.unwrap(), None);
    std::fs::write(origin.join("f"), "two").unwrap();
    git(&origin, &["commit", "-qam", "two"]);
    let two = git(&origin, &["rev-parse", "HEAD"]);
    let diff = brought("git.latest", &latest).await.unwrap().unwrap();
    assert!(diff.contains(&format!("{} → {}", &one[..12], &two[..12])), "{diff}");
    assert_eq!(std::fs::read_to_string(copy.join("f")).unwrap(), "two");
    let tagged = json!({ "name": name, "target": copy, "rev": "v1" });
    brought("git.detached", &tagged).await.unwrap().unwrap();
    assert_eq!(
        (git(&copy, &["rev-parse", "HEAD"]), brought("git.detached", &tagged).await.unwrap()),
        (one, None)
    );
    // Local commits are in the way until they may be thrown away.
    brought("git.latest", &latest).await.unwrap().unwrap();
    std::fs::write(copy.join("f"), "mine").unwrap();
    git(&copy, &["commit", "-qam", "mine"]);
    let fault = brought("git.latest", &latest).await.unwrap_err();
    assert!(fault.message.contains("has commits of its own that") && fault.touched, "{fault}");
    let forced = json!({ "name": name, "target": copy, "force_reset": true });
    brought("git.latest", &forced).await.unwrap().unwrap();
    assert_eq!(git(&copy, &["rev-parse", "HEAD"]), two);
    // So are those of the branch while another is checked out, and those that are on none.
    std::fs::write(copy.join("f"), "mine").unwrap();
    git(&copy, &["commit", "-qam", "mine"]);
    let mine = git(&copy, &["rev-parse", "HEAD"]);
    git(&copy, &["checkout", "-qb", "other", "v1"]);
    let fault = brought("git.latest", &latest).await.unwrap_err();
    assert!(fault.message.contains("has commits of its own that"), "{fault}");
    assert_eq!(git(&copy, &["rev-parse", "main"]), mine);
    git(&copy, &["checkout", "-q", "--detach", "main"]);
    git(&copy, &["branch", "-qf", "main", &two]);
    let fault = brought("git.latest", &latest).await.unwrap_err();
    assert!(fault.hint.as_ref().unwrap().contains("force_reset"), "{fault}");
    assert_eq!(git(&copy, &["rev-parse", "HEAD"]), mine);
    brought("git.latest", &forced).await.unwrap().unwrap();
    assert_eq!(git(&copy, &["rev-parse", "HEAD"]), two);
    // `git.detached` gives them up no more than `git.latest` does.
    git(&copy, &["checkout", "-q", "--detach", "main"]);
    std::fs::write(copy.join("f"), "on none").unwrap();
    git(&copy, &["commit", "-qam", "on none"]);
    let alone = git(&copy, &["rev-parse", "HEAD"]);
    let fault = brought("git.detached", &tagged).await.unwrap_err();
    assert!(fault.hint.as_ref().unwrap().contains("force_checkout"), "{fault}");
    assert_eq!(git(&copy, &["rev-parse", "HEAD"]), alone);
    let forced = json!({ "name": name, "target": copy, "rev": "v1", "force_checkout": true });
    brought("git.detached", &forced).await.unwrap().unwrap();
    let none =
        brought("git.latest", &json!({ "name": name, "target": copy, "rev": "nope" })).await.unwrap_err();
    assert!(none.message.contains("has no branch or tag `nope`"), "{none}");
}

#[test]
fn what_git_would_take_for_an_option_or_everybody_could_read_is_refused() {
    for (name, words) in
        [("--upload-pack=x", "begins like an option"), ("https://me:pw@host/r", "a password in an address")]
    {
        let said = bind_json("git.latest", &json!({ "name": name, "target": "/w" })).err().unwrap();
        assert!(said[0].message.contains(words), "{said:?}");
    }
    assert!(
        bind_json("git.latest", &json!({ "name": "https://host/r", "target": "/w", "rev": "-x" })).is_err()
    );
    assert!(bind_json("git.latest", &json!({ "name": "git@host:r.git", "target": "/w" })).is_ok());
}
