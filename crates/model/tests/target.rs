//! Target expressions: a table of what each form means, where mistakes are pointed at, and random expressions against a
//! slow evaluator of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use proptest::prelude::*;
use serde_json::{Value, json};
use zester_model::target::{Subject, Target, TargetError};
use zester_rule::rule;

fn facts() -> Value {
    json!({
        "os": "Debian", "osrelease": "12", "osmajorrelease": 12, "kernelrelease": "6.10.1-amd64",
        "mem_total": 4096, "load": 0.5, "big": 9_007_199_254_740_993_u64, "virtual": true, "nothing": null,
        "roles": ["Web", "cache", 7],
        "ipv6": ["::1", "fe80::1"],
        "a": {"b": {"c": "deep"}, "x.y": "dotted", "list": [{"name": "sda", "size": 10}, {"name": "sdb", "size": 99}]},
        "version": "22.10",
    })
}

fn settings() -> Value {
    json!({"role": "web", "db": {"port": 5432, "names": ["main", "audit"]}})
}

fn matches(text: &str) -> bool {
    let target = Target::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    target.matches(&Subject { id: "web1.example.com", facts: &facts(), settings: &settings() })
}

#[test]
#[rule("D-8")]
fn d8_ids() {
    for text in [
        "*",
        "web*",
        "web?.example.com",
        "web1.example.com",
        "*.com",
        "web[12].*",
        "web[!3].*",
        "*[1-3].e*",
        "E@web",
        "E@web\\d+\\.",
        "E@.*com$",
        "E@(web|db)1",
        "E@web1(.*)",
        "L@db1,web1.example.com",
        "E@web[0-9]{1,2}",
    ] {
        assert!(matches(text), "{text}");
    }
    for text in ["web", "db*", "WEB*", "web[!1].*", "E@eb1", "E@example", "L@web1", "L@web*", "E@(db|mail)1"]
    {
        assert!(!matches(text), "{text}");
    }
}

#[test]
#[rule("D-8")]
fn d8_facts_and_settings() {
    for text in [
        "G@os:Debian",
        "G@os:debian",
        "G@os:DEB*",
        "G@os:deb[a-i]an",
        "G@osrelease:12",
        "G@osmajorrelease:12",
        "G@osmajorrelease:12.0",
        "G@osmajorrelease:1*",
        "G@virtual:True",
        "G@virtual:true",
        "G@nothing:null",
        "G@roles:web",
        "G@roles:CACHE",
        "G@roles:7",
        "G@roles:c*",
        "G@roles.0:web",
        "G@roles:0:web",
        "G@a.b.c:deep",
        "G@a:b:c:deep",
        "G@a:b.c:deep",
        "G@a.x.y:dotted",
        "G@a:x.y:dotted",
        "G@a.b:*",
        "G@a:*",
        "G@a.list.name:sdb",
        "G@a:list:1:name:sdb",
        "G@ipv6:fe80::1",
        "G@ipv6:fe80:*",
        "G@load:0.5",
        "I@role:web",
        "I@db.port:5432",
        "I@db:names:audit",
        "G@big:9007199254740993",
    ] {
        assert!(matches(text), "{text}");
    }
    for text in [
        "G@os:deb",
        "G@os:Ubuntu",
        "G@none:*",
        "G@osmajorrelease:13",
        "G@roles:we",
        "G@roles.1:web",
        "G@a.b.d:deep",
        "G@a.b:deep",
        "G@a.list.0.name:sdb",
        "I@os:Debian",
        "G@role:web",
        "G@version:22.1",
        "G@virtual:1",
        "G@big:9007199254740992",
        "G@roles.9:web",
    ] {
        assert!(!matches(text), "{text}");
    }
}

#[test]
#[rule("D-8")]
fn d8_comparisons() {
    for text in [
        "G@mem_total>=4096",
        "G@mem_total:>=4096",
        "G@mem_total>4095.5",
        "G@mem_total<=4096",
        "G@mem_total<10000",
        "G@osrelease>9",
        "G@osrelease:<=12.0",
        "G@kernelrelease>=6.2",
        "G@kernelrelease<6.11",
        "G@load<1",
        "G@os!=Ubuntu",
        "G@os:!=Ubuntu",
        "G@missing!=x",
        "G@roles!=db",
        "G@a.list.size>=50",
        "G@a:list:size<20",
        "I@db.port>5000",
        "G@os!=ubu*",
        "G@roles>=7",
        "G@os>=debian",
        "G@os>A",
    ] {
        assert!(matches(text), "{text}");
    }
    for text in [
        "G@mem_total>4096",
        "G@mem_total<4096",
        "G@osrelease<9",
        "G@missing>1",
        "G@missing<1",
        "G@os!=debian",
        "G@os!=DEB*",
        "G@roles!=web",
        "G@virtual>0",
        "G@a>1",
        "G@nothing<1",
        "G@mem_total>=lots",
    ] {
        assert!(!matches(text), "{text}");
    }
}

#[test]
#[rule("D-8")]
fn d8_not_binds_before_and_before_or() {
    for (text, expected) in [
        ("web* or db* and nope", true),
        ("(web* or db*) and nope", false),
        ("not db* and web*", true),
        ("not (db* or web*)", false),
        ("not not web*", true),
        ("web* and not G@os:Ubuntu or nope", true),
        ("nope or not nope and web*", true),
        ("(web*)", true),
        ("( E@(web|db)1 )", true),
        ("(E@web\\d)", true),
        ("(G@os:Debian and(web*))or nope", true),
        ("  web*\tand\n*com ", true),
        ("android* or web*", true),
    ] {
        assert_eq!(matches(text), expected, "{text}");
    }
}

fn refused(text: &str) -> TargetError {
    match Target::parse(text) {
        Err(error) => error,
        Ok(_) => panic!("`{text}` was taken"),
    }
}

#[test]
#[rule("D-8")]
fn d8_mistakes_point_at_the_character() {
    let rows: [(&str, usize, &str); 28] = [
        ("{web,db}*", 0, "braces"),
        ("", 0, "empty"),
        ("   ", 0, "empty"),
        ("web* and", 8, "ends where a target should stand"),
        ("web* or or db*", 8, "`or` where a target should stand"),
        ("and web*", 0, "`and` where"),
        ("web* db*", 5, "`and` or `or` is missing before `db*`"),
        ("web* AND db*", 5, "in lower case"),
        ("(web*", 0, "never closed"),
        ("web* and (db* or (x)", 9, "never closed"),
        ("web*)", 4, "closes nothing"),
        ("()", 1, "nothing stands between"),
        ("not", 3, "ends where"),
        ("E@", 0, "nothing follows"),
        ("ü and E@web(", 12, "unclosed group"),
        ("E@we[b", 4, "unclosed character class"),
        ("E@(?:a{1000}){1000}", 2, "too large"),
        ("web[", 3, "not a glob"),
        ("G@os", 4, "has no value"),
        ("G@os=Debian", 11, "write `os:Debian`"),
        ("G@:x", 2, "a key is missing"),
        ("G@>5", 2, "a key is missing"),
        ("G@mem_total>", 12, "a value is missing"),
        ("G@os:[a", 5, "not a glob"),
        ("L@a,,b", 4, "an id is missing"),
        ("L@a, b", 4, "without blanks"),
        ("S@10.0.0.0/8", 0, "known are"),
        ("g@os:Debian", 0, "write `G@`"),
    ];
    for (text, offset, part) in rows {
        let error = refused(text);
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

#[test]
#[rule("D-8")]
fn d8_expressions_are_bounded() {
    assert!(refused(&"(".repeat(100_000)).message.contains("deeper"));
    assert!(refused(&"not ".repeat(100_000)).message.contains("deeper"));
    assert!(Target::parse(&format!("{}x{}", "(".repeat(64), ")".repeat(64))).is_ok());
    assert!(refused(&vec!["x"; 2_000].join(" or ")).message.contains("words"));
    assert!(refused(&"x".repeat(2_000_000)).message.contains("longer"));
    assert!(refused(&format!("G@a{}", ":x".repeat(100))).message.contains("colons"));
    let ids: Vec<String> = (0..10_000).map(|id| format!("peel{id}")).collect();
    assert!(Target::parse(&format!("L@{}", ids.join(","))).is_ok());
}

#[test]
#[rule("D-8")]
fn d8_no_word_however_odd_breaks_the_matchers() {
    let odd = [
        "?".repeat(1_000),
        "[!a]".repeat(250),
        "**/".repeat(300),
        "{".repeat(400),
        format!("{}x{}", "{".repeat(400), "}".repeat(400)),
        format!("{}x{}", "{a,".repeat(200), "}".repeat(200)),
        format!("E@{}x{}", "(".repeat(400), ")".repeat(400)),
        "{a,b}".repeat(200),
        "*a".repeat(500),
        "[a-ü]".repeat(150),
        "x*".repeat(50_000),
        format!("G@{}:x", "a.".repeat(100_000)),
        format!("G@a:{}", "?".repeat(100_000)),
    ];
    let id = "a".repeat(2_000);
    let subject = Subject { id: &id, facts: &facts(), settings: &settings() };
    for text in odd {
        // An answer or an error: never a panic, never minutes.
        if let Ok(target) = Target::parse(&text) {
            target.matches(&subject);
        }
    }
}

#[test]
#[rule("D-6")]
fn d6_what_the_id_alone_decides_is_known() {
    for (text, expected) in [
        ("web*", true),
        ("not (L@a,b or E@x) and *", true),
        ("web* or G@os:x", false),
        ("not I@a:b", false),
        ("G@a>1", false),
    ] {
        assert_eq!(Target::parse(text).unwrap().by_id_only(), expected, "{text}");
    }
}

/// An expression as a tree of words whose meaning is known without the parser.
#[derive(Clone, Debug)]
enum Tree {
    Word(usize),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

type Expectation = fn(&str, &Value, &Value) -> bool;

const WORDS: [(&str, Expectation); 12] = [
    ("*", |_, _, _| true),
    ("web*", |id, _, _| id.starts_with("web")),
    ("*2", |id, _, _| id.ends_with('2')),
    ("d?1", |id, _, _| id.len() == 3 && id.starts_with('d') && id.ends_with('1')),
    ("E@(web|db)[12]", |id, _, _| ["web1", "web2", "db1", "db2"].iter().any(|start| id.starts_with(start))),
    ("L@web1,db2", |id, _, _| id == "web1" || id == "db2"),
    ("G@os:debian", |_, facts, _| facts["os"].as_str().is_some_and(|os| os.to_lowercase() == "debian")),
    ("G@mem>=2", |_, facts, _| facts["mem"].as_i64().is_some_and(|mem| mem >= 2)),
    ("G@os!=Alpine", |_, facts, _| facts["os"].as_str().is_none_or(|os| os.to_lowercase() != "alpine")),
    ("G@net:up:yes", |_, facts, _| facts["net"]["up"] == "yes"),
    ("I@role:w*", |_, _, settings| settings["role"].as_str().is_some_and(|role| role.starts_with('w'))),
    ("G@tags:a", |_, facts, _| facts["tags"].as_array().is_some_and(|tags| tags.contains(&json!("a")))),
];

impl Tree {
    fn holds(&self, id: &str, facts: &Value, settings: &Value) -> bool {
        match self {
            Tree::Word(word) => WORDS[*word].1(id, facts, settings),
            Tree::Not(inner) => !inner.holds(id, facts, settings),
            Tree::And(left, right) => left.holds(id, facts, settings) && right.holds(id, facts, settings),
            Tree::Or(left, right) => left.holds(id, facts, settings) || right.holds(id, facts, settings),
        }
    }

    /// Writes it with parentheses only where the binding (or: 0, and: 1, not: 2) asks for them, or everywhere.
    fn write(&self, outer: u8, generous: bool, out: &mut String) {
        let own = match self {
            Tree::Or(..) => 0,
            Tree::And(..) => 1,
            Tree::Not(_) => 2,
            Tree::Word(_) => 3,
        };
        let wrapped = own < outer || generous;
        if wrapped {
            out.push('(');
        }
        match self {
            Tree::Word(word) => out.push_str(WORDS[*word].0),
            Tree::Not(inner) => {
                out.push_str("not ");
                inner.write(2, generous, out);
            }
            Tree::And(left, right) | Tree::Or(left, right) => {
                left.write(own, generous, out);
                out.push_str(if own == 1 { " and " } else { "  or " });
                right.write(own, generous, out);
            }
        }
        if wrapped {
            out.push(')');
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    (0..WORDS.len()).prop_map(Tree::Word).prop_recursive(5, 32, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|tree| Tree::Not(Box::new(tree))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Tree::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Tree::Or(Box::new(a), Box::new(b))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    #[rule("D-8")]
    fn d8_random_expressions_mean_what_their_tree_means(
        tree in trees(),
        generous in any::<bool>(),
        id in prop::sample::select(vec!["web1", "web2", "web21", "db1", "db2", "d_1", "mail"]),
        os in prop::sample::select(vec![json!("Debian"), json!("alpine"), json!(null), json!(3)]),
        mem in 0..4_i64,
        up in prop::sample::select(vec!["yes", "no"]),
        role in prop::sample::select(vec!["web", "db"]),
        tags in prop::sample::select(vec![json!(["a", "b"]), json!(["b"]), json!([])]),
    ) {
        let facts = json!({"os": os, "mem": mem, "net": {"up": up}, "tags": tags});
        let settings = json!({"role": role});
        let mut text = String::new();
        tree.write(0, generous, &mut text);
        // "Generous" nests as deep as the tree, far below the bound.
        let target = Target::parse(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        let subject = Subject { id, facts: &facts, settings: &settings };
        prop_assert_eq!(target.matches(&subject), tree.holds(id, &facts, &settings), "{}", text);
    }

    #[test]
    #[rule("D-8")]
    fn d8_any_text_gives_an_answer_or_a_place_inside_it(text in "[a-zEGIL@:.,()\\[\\]{}*?<>=! \\\\0-9ü]{0,40}") {
        match Target::parse(&text) {
            Ok(target) => {
                target.matches(&Subject { id: "web1", facts: &facts(), settings: &settings() });
            }
            Err(error) => prop_assert!(text.is_char_boundary(error.offset) && error.offset <= text.len()),
        }
    }
}

#[test]
#[rule("J-21")]
fn j21_exact_ids_are_known_without_asking_anybody() {
    for (text, ids) in [
        ("web-01", Some(vec!["web-01"])),
        ("L@web-02,web-01", Some(vec!["web-01", "web-02"])),
        ("(web-01 or L@db-1,web-01)", Some(vec!["db-1", "web-01"])),
        ("web*", None),
        ("*", None),
        ("web-01 and G@os:Debian", None),
        ("not web-01", None),
        ("L@a,b or E@c", None),
    ] {
        assert_eq!(Target::parse(text).unwrap().exact_ids(), ids, "{text}");
    }
}

#[test]
#[rule("D-8")]
fn d8_a_list_without_its_letter_and_a_foreign_not_get_a_hint() {
    for (text, offset, hint) in [
        ("peel-1,peel-2", 6, "a list of ids is `L@peel-1,peel-2`"),
        ("web* and a,b", 10, "a list of ids is `L@a,b`"),
        ("web*,db*", 4, "write `web* or db*`"),
        ("!peel-1", 0, "write `not peel-1`"),
        ("web* and !db*", 9, "write `not db*`"),
    ] {
        let error = Target::parse(text).unwrap_err();
        assert_eq!((error.offset, error.hint.as_deref()), (offset, Some(hint)), "{text}: {error}");
    }
}
