//! Which peels a reaction means is for its file to say: an event may name one, and never a pattern, an operator or a list.

use serde_json::{Map, Value as Json, json};
use zester_compile::Tree;
use zester_compile::reaction::ReactionFile;
use zester_rule::rule;

struct NoFiles;

impl Tree for NoFiles {
    fn read(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }
}

fn rendered(text: &str, value: &Json) -> Result<Json, String> {
    let file = ReactionFile::parse("a.zy", text, &NoFiles).map_err(|(_, found)| found[0].message.clone())?;
    let mut context = Map::new();
    context.insert("data".into(), json!({ "v": value }));
    let rendered = file.render(&context).map_err(|(_, found)| found[0].message.clone())?;
    Ok(rendered.0.to_json())
}

const FIELDS: [&str; 7] = [
    "a:\n  dispatch.module:\n    target: {{ data.v }}\n",
    "a:\n  dispatch.module:\n    target: \"{{ data.v }}\"\n",
    "a:\n  dispatch.module:\n    - target: web-{{ data.v }}\n",
    "a:\n  local.test.ping:\n    tgt: G@role:{{ data.v }} and not web*\n    tgt_type: compound\n",
    "a:\n  dispatch.module:\n    target: [web-1, '{{ data.v }}']\n",
    "a:\n  dispatch.module: {target: {{ data.v }}}\n",
    "a:\n  dispatch.module:\n    function: &x {{ data.v }}\n    target: *x\n",
];

#[test]
#[rule("R-5")]
fn r5_an_event_cannot_widen_a_target() {
    let hostile = [
        "*", "web*", "web-?", "[a-z]*", "a,b", "a b", "x or *", "or", "NOT", "G@os:x", "E@.*", "(a)", "!a",
        "a\nb", "a:b", "ä",
    ];
    for text in FIELDS {
        for value in hostile {
            let told = rendered(text, &json!(value)).unwrap_err();
            assert!(told.contains("may name one peel"), "{text}{value}: {told}");
        }
        assert!(rendered(text, &json!("db-1.x_2")).is_ok(), "{text}");
    }
    let list = rendered(FIELDS[0], &json!(["a", "*"])).unwrap_err();
    assert!(list.contains("may name one peel"), "{list}");
    assert!(rendered(FIELDS[0], &json!(["a", "b"])).is_ok());
    assert!(rendered(FIELDS[0], &json!({"a": 1})).is_err());
}

/// Everywhere else a `*` is a letter.
#[test]
#[rule("R-5")]
fn r5_patterns_of_the_file_and_letters_elsewhere_are_free() {
    let pattern = "a:\n  dispatch.module:\n    target: 'web* or G@os:Debian'\n    args: [\"{{ data.v }}\"]\n";
    let found = rendered(pattern, &json!("*")).unwrap();
    assert_eq!(found["a"]["dispatch.module"]["args"], json!(["*"]));
    let named = "target {{ data.v }}:\n  log: {message: \"{{ data.v }}\"}\n";
    assert!(rendered(named, &json!("*")).is_ok(), "a block may be called like it");
}

/// `rm -rf /srv/''` is not what a missing value means.
#[test]
#[rule("R-5")]
fn r5_a_missing_value_cannot_be_quoted_into_a_command() {
    let text = "a:\n  log: {message: \"rm /srv/{{ data.gone | quote }} {{ data.v | quote }}\"}\n";
    assert!(rendered(text, &json!("x")).unwrap_err().contains("undefined"));
    let there = text.replace("data.gone", "data.v");
    let told = rendered(&there, &json!("a b")).unwrap();
    assert_eq!(told["a"]["log"]["message"], json!("rm /srv/'a b' 'a b'"));
}
