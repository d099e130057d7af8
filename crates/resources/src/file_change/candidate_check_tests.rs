use crate::Drift;
use crate::context::{Applying, CandidateCheck, Change};
use crate::file_managed::Bench;
use crate::laws::bind_json;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;
use zester_host::faulty::{Faulty, Plan};
use zester_host::process::fake::Scripted;
use zester_host::real::Real;
use zester_host::{BoxFuture, Fault, FaultKind, HostWrite};
use zester_rule::rule;

/// Looks at its candidate while so many others look at theirs.
struct Together {
    all: Arc<Barrier>,
    passes: bool,
}

impl CandidateCheck for Together {
    fn pass<'a>(&'a self, candidate: &'a Path) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            assert!(candidate.exists());
            self.all.wait().await;
            let refused = || Fault::new(FaultKind::CommandFailed, "not like this");
            self.passes.then_some(()).ok_or_else(refused)
        })
    }
}

async fn found(bench: &Bench, params: &Json) -> (Box<dyn crate::Bound>, Drift) {
    let bound = bind_json("file.managed", params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    let drift = bench.check(&*bound).await.unwrap().expect("something to do");
    (bound, drift)
}

/// Applies all of them at once, of which only some have a candidate that passes.
async fn apply_together(bench: &Bench, states: Vec<(Json, bool)>) -> Vec<(Result<Change, Fault>, Json)> {
    let all = Arc::new(Barrier::new(states.len()));
    let mut found_states = Vec::new();
    for (params, passes) in &states {
        found_states.push((found(bench, params).await, *passes));
    }
    let mut running = Vec::new();
    for ((bound, drift), passes) in found_states {
        let (host, all) = (bench.host.clone(), all.clone());
        running.push(tokio::spawn(async move {
            let (processes, cancel) = (Scripted::new(), CancellationToken::new());
            let check = Together { all, passes };
            let cx = Applying { candidate_check: Some(&check), ..Applying::new(&*host, &processes, &cancel) };
            let applied = bound.apply(&drift, &cx).await;
            let of_drift = bound.undo_record(&drift).unwrap();
            let undo = match &applied {
                Ok(change) => change.undo.clone().unwrap_or(of_drift),
                Err(fault) => fault.undo.as_deref().cloned().unwrap_or(of_drift),
            };
            (applied, undo)
        }));
    }
    let mut ended = Vec::new();
    for one in running {
        ended.push(one.await.unwrap());
    }
    ended
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-43", "S-58")]
async fn s43_candidates_share_a_directory_that_makedirs_makes() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let bench = Bench::on("file.managed", Arc::new(Real::new()));
    let state = |number: usize| {
        let path = top.join(format!("a/b/{number}"));
        (json!({ "path": path, "content": "new", "makedirs": true }), true)
    };
    let ended = apply_together(&bench, (0..6).map(state).collect()).await;
    for (applied, _) in &ended {
        assert!(applied.is_ok(), "{applied:?}");
    }
    let makers = ended.iter().filter(|(_, undo)| undo.get("made").is_some()).count();
    assert!(makers <= 2, "each directory has one maker");
    for (_, undo) in ended {
        assert!(bench.revert(&undo, false).await.unwrap());
    }
    assert_eq!(std::fs::read_dir(&top).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-43")]
async fn s43_who_fails_leaves_only_directories_that_others_use_and_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let bench = Bench::on("file.managed", Arc::new(Real::new()));
    let state = |name: &str, passes: bool| {
        (json!({ "path": top.join("a/b").join(name), "content": "new", "makedirs": true }), passes)
    };
    let alone = apply_together(&bench, vec![state("bad", false)]).await;
    assert!(!alone[0].0.as_ref().unwrap_err().touched);
    assert!(!top.join("a").exists());
    let ended = apply_together(&bench, vec![state("bad", false), state("good", true)]).await;
    assert_eq!(ended[0].0.as_ref().unwrap_err().message, "not like this");
    ended[1].0.as_ref().unwrap();
    let names: Vec<_> =
        std::fs::read_dir(top.join("a/b")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["good"]);
    for (_, undo) in ended.into_iter().rev() {
        bench.revert(&undo, false).await.unwrap();
    }
    assert_eq!(std::fs::read_dir(&top).unwrap().count(), 0);
}

#[tokio::test]
#[rule("S-43")]
async fn s43_of_parents_that_cannot_all_be_made_none_is_left() {
    let bench = Bench::of("file.managed", "");
    let (bound, drift) = found(&bench, &json!({ "path": "/a/b/f", "content": "x", "makedirs": true })).await;
    let (processes, cancel) = (Scripted::new(), CancellationToken::new());
    let check = Together { all: Arc::new(Barrier::new(1)), passes: true };
    // The first call makes `/a`, the second fails to make `/a/b`.
    let faulty = Faulty::new(&*bench.host, &processes, Plan::Once(1));
    let scratch: &dyn HostWrite = &faulty;
    let cx = Applying {
        scratch,
        candidate_check: Some(&check),
        ..Applying::new(&*bench.host, &processes, &cancel)
    };
    let fault = bound.apply(&drift, &cx).await.unwrap_err();
    assert!(fault.message.contains("injected fault in call 1, make_directory"), "{fault}");
    assert!(bench.host.stat("/a".as_ref()).unwrap().is_none());
}

#[tokio::test]
#[rule("S-43")]
async fn s43_what_another_process_tries_is_neither_taken_for_ours_nor_swept() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let bench = Bench::on("file.managed", Arc::new(Real::new()));
    let path = top.join("f");
    let candidate = super::candidate_check::candidates(&path).next().unwrap();
    let theirs = bench.host.reserve(&candidate).unwrap();
    std::fs::write(&candidate, "theirs").unwrap();
    let ended = apply_together(&bench, vec![(json!({ "path": &path, "content": "ours" }), true)]).await;
    ended[0].0.as_ref().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "ours");
    assert!(bench.revert(&ended[0].1, false).await.unwrap());
    assert_eq!(std::fs::read_to_string(&candidate).unwrap(), "theirs");
    // They are killed.
    drop(theirs);
    bench.revert(&ended[0].1, false).await.unwrap();
    assert_eq!(std::fs::read_dir(&top).unwrap().count(), 0);
}
