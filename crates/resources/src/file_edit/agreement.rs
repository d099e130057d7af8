//! Check and apply agree, for every edit and any text that may be there before.

use super::try_edit::{bench, put, text_of};
use crate::file_managed::Bench;
use crate::laws::bind_json;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use zester_host::overlay::Overlay;
use zester_rule::rule;

/// Edits about texts that hold the words of [`texts`].
fn edits() -> Vec<(&'static str, Json)> {
    vec![
        ("file.append", json!({ "text": ["key = 1", "two\nlines"] })),
        ("file.append", json!({ "text": "key = 1", "ignore_whitespace": false })),
        ("file.prepend", json!({ "text": ["key = 1", "two\nlines"] })),
        ("file.prepend", json!({ "text": "# top", "header": true })),
        ("file.line", json!({ "mode": "ensure", "content": "new", "after": "^top" })),
        ("file.line", json!({ "mode": "ensure", "content": "new", "before": "^end" })),
        ("file.line", json!({ "mode": "ensure", "content": "new", "after": "^top", "before": "^end" })),
        ("file.line", json!({ "mode": "insert", "content": "new", "location": "start" })),
        ("file.line", json!({ "mode": "insert", "content": "new", "location": "end", "indent": false })),
        ("file.line", json!({ "mode": "replace", "match": "key", "content": "key = 9" })),
        ("file.line", json!({ "mode": "delete", "match": "key|lines" })),
        ("file.replace", json!({ "pattern": r"^(\s*)key\s*=.*$", "repl": r"\1key = 9" })),
        ("file.replace", json!({ "pattern": "^key.*$", "repl": "key = 9", "append_if_not_found": true })),
        ("file.replace", json!({ "pattern": "^none$", "repl": "a\nb", "prepend_if_not_found": true })),
        (
            "file.blockreplace",
            json!({ "marker_start": "top", "marker_end": "end", "content": "x\ny", "append_if_not_found": true }),
        ),
        (
            "file.blockreplace",
            json!({ "marker_start": "<<", "marker_end": ">>", "content": "x", "insert_after_match": "top" }),
        ),
        (
            "file.blockreplace",
            json!({ "marker_start": "<<", "marker_end": ">>", "content": "x", "append_newline": false, "prepend_if_not_found": true }),
        ),
        ("ini.options_present", json!({ "sections": { "sec": { "key": "9", "two": "yes" }, "key": "8" } })),
        ("ini.options_present", json!({ "sections": { "sec": { "key": "9" } }, "strict": true })),
        ("ini.options_absent", json!({ "sections": { "sec": ["key"], "key": "" } })),
        ("ini.sections_present", json!({ "sections": ["sec", "other"] })),
        ("ini.sections_absent", json!({ "sections": ["sec"] })),
        ("file.comment", json!({ "regex": "^key" })),
        ("file.uncomment", json!({ "regex": "^key", "ignore_missing": true })),
        (
            "file.keyvalue",
            json!({ "key": "key", "value": "9", "uncomment": "#", "append_if_not_found": true }),
        ),
        (
            "file.keyvalue",
            json!({ "key_values": { "key": "9", "two": "8" }, "separator": " ", "count": 0, "prepend_if_not_found": true }),
        ),
    ]
}

/// A text of lines that the edits know, in any order, with any ends.
fn texts() -> impl Strategy<Value = Option<String>> {
    let line = prop::sample::select(vec![
        "top",
        "end",
        "key = 1",
        "key=1",
        "  key  =  2",
        "#key = 3",
        "# key 4",
        "two",
        "lines",
        "new",
        "# top",
        "<<",
        ">>",
        "x",
        "",
        "  ",
        "ünïcode",
        "key 5",
        "[sec]",
        "[other]",
    ]);
    let end = prop::sample::select(vec!["\n", "\r\n"]);
    (prop::collection::vec(line, 0..9), end, any::<bool>(), 0..20u8).prop_map(|(lines, end, ended, there)| {
        let text = lines.join(end);
        (there > 0).then(|| if ended && !text.is_empty() { text + end } else { text })
    })
}

async fn agrees(kind: &'static str, params: &Json, before: Option<&str>, drifted: &str) {
    let bench: Bench = bench(kind, before);
    let bound = bind_json(kind, params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    let Ok(found) = bench.check(&*bound).await else {
        assert_eq!(text_of(&bench).as_deref(), before);
        return;
    };
    let Some(drift) = found else { return };
    assert!(!bound.explain(&drift, false).diff.is_empty(), "{kind} {params}");
    let dry = Overlay::over(bench.host.clone());
    bound.predict(&drift, &dry).unwrap();
    let (_, record) = bench.apply(params.clone()).await;
    let after = text_of(&bench).unwrap();
    assert_ne!(Some(&*after), before, "{kind} {params}: nothing changed");
    let predicted = zester_host::HostRead::read(&dry, "/f".as_ref(), 1 << 20).unwrap();
    assert_eq!(String::from_utf8_lossy(&predicted), after, "{kind} {params}: the dry run said otherwise");
    assert!(
        bench.check(&*bound).await.unwrap().is_none(),
        "{kind} {params}: {before:?} → {after:?} is not clean"
    );
    assert!(bench.revert(&record, false).await.unwrap());
    assert_eq!(text_of(&bench).as_deref(), before, "{kind} {params}: not restored");
    // Drift by hand is found, mended and found no more.
    put(&bench, drifted);
    if let Ok(Some(_)) = bench.check(&*bound).await {
        bench.apply(params.clone()).await;
        assert_ne!(text_of(&bench).as_deref(), Some(drifted), "{kind} {params}");
    }
    if bench.check(&*bound).await.is_ok() {
        assert!(
            bench.check(&*bound).await.unwrap().is_none(),
            "{kind} {params}: {drifted:?} does not settle"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    #[rule("S-30")]
    fn s30_check_and_apply_agree_for_every_edit(before in texts(), drifted in texts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (kind, mut params) in edits() {
            params["path"] = json!("/f");
            runtime.block_on(agrees(kind, &params, before.as_deref(), drifted.as_deref().unwrap_or("x")));
        }
    }
}
