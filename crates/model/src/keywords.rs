//! The words of the state language besides kinds and their parameters: one table, from which the compiler reads, the
//! JSON Schema is made and the docs are checked.

use crate::requisite::EdgeKind;

/// What a requisite asks for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    Edge(EdgeKind),
    /// Before the target, and only if the target would change.
    Prereq,
    /// Take over the target's parameters.
    Use,
}

/// One requisite word.
#[derive(Copy, Clone, Debug)]
pub struct Requisite {
    pub word: &'static str,
    pub relation: Relation,
    /// An `_in` form: the relation is put onto the target.
    pub inverse: bool,
    /// One line.
    pub doc: &'static str,
}

const fn forward(word: &'static str, relation: Relation, doc: &'static str) -> Requisite {
    Requisite { word, relation, inverse: false, doc }
}

const fn edge(word: &'static str, kind: EdgeKind, doc: &'static str) -> Requisite {
    forward(word, Relation::Edge(kind), doc)
}

const fn inverse(word: &'static str, relation: Relation, doc: &'static str) -> Requisite {
    Requisite { word, relation, inverse: true, doc }
}

/// Every requisite that a state may carry; no other word is one.
pub const REQUISITES: [Requisite; 21] = [
    edge("require", EdgeKind::Require, "Waits for these states; skipped if one of them failed."),
    edge("watch", EdgeKind::Watch, "Like `require`; acts again when one of these states changed."),
    edge("listen", EdgeKind::Watch, "The same as `watch`."),
    edge("subscribe", EdgeKind::Watch, "The same as `watch`."),
    edge("onchanges", EdgeKind::Onchanges, "Runs only if one of these states changed."),
    edge("onfail", EdgeKind::Onfail, "Runs only if one of these states failed."),
    forward("prereq", Relation::Prereq, "Runs before these states, and only if one of them would change."),
    forward("use", Relation::Use, "Takes over what these states set and this one does not."),
    edge("require_any", EdgeKind::RequireAny, "Like `require`; one of these states is enough."),
    edge("watch_any", EdgeKind::WatchAny, "Like `watch`; one of these states is enough."),
    edge("onchanges_any", EdgeKind::OnchangesAny, "Like `onchanges`; one of these states is enough."),
    edge("onfail_any", EdgeKind::OnfailAny, "Runs only if one of these states failed."),
    edge("onfail_all", EdgeKind::OnfailAll, "Runs only if all of these states failed."),
    inverse("require_in", Relation::Edge(EdgeKind::Require), "These states get a `require` on this one."),
    inverse("watch_in", Relation::Edge(EdgeKind::Watch), "These states get a `watch` on this one."),
    inverse("listen_in", Relation::Edge(EdgeKind::Watch), "The same as `watch_in`."),
    inverse("subscribe_in", Relation::Edge(EdgeKind::Watch), "The same as `watch_in`."),
    inverse(
        "onchanges_in",
        Relation::Edge(EdgeKind::Onchanges),
        "These states get an `onchanges` on this one.",
    ),
    inverse("onfail_in", Relation::Edge(EdgeKind::Onfail), "These states get an `onfail` on this one."),
    inverse("prereq_in", Relation::Prereq, "These states get a `prereq` on this one."),
    inverse("use_in", Relation::Use, "These states take over what this one sets and they do not."),
];

/// The requisite that a key is; `None` if it is none.
pub fn requisite(key: &str) -> Option<&'static Requisite> {
    REQUISITES.iter().find(|requisite| requisite.word == key)
}

/// What an attribute takes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A shell command or a list of them.
    Commands,
    /// The same; an entry may also be `{fun: mod.fn, args: […]}`.
    Guards,
    Truth,
    Order,
    Retry,
    Names,
}

/// What any state may carry beside its parameters and requisites.
#[derive(Copy, Clone, Debug)]
pub struct Attribute {
    pub word: &'static str,
    pub takes: Takes,
    /// One line.
    pub doc: &'static str,
}

const fn attribute(word: &'static str, takes: Takes, doc: &'static str) -> Attribute {
    Attribute { word, takes, doc }
}

/// Every attribute.
pub const ATTRIBUTES: [Attribute; 13] = [
    attribute("onlyif", Takes::Guards, "Shell commands that must all exit 0, or the state is left alone."),
    attribute(
        "unless",
        Takes::Guards,
        "Shell commands of which none may exit 0, or the state is left alone.",
    ),
    attribute("check_cmd", Takes::Commands, "Shell commands that must all exit 0, or the state has failed."),
    attribute("order", Takes::Order, "A number, `first` or `last`: the order inside a level."),
    attribute("auto_order", Takes::Truth, "`false`: waits for nothing that no requisite names."),
    attribute(
        "retry",
        Takes::Retry,
        "How many more tries after a failure: a number, or `attempts` and `interval`.",
    ),
    attribute("failhard", Takes::Truth, "If it fails, later levels are skipped."),
    attribute("names", Takes::Names, "One state for each name."),
    attribute("parallel", Takes::Truth, "Salt's; states of a level run at the same time anyway."),
    attribute(
        "aggregate",
        Takes::Truth,
        "Salt's; packages that one state lists are installed together anyway.",
    ),
    attribute("reload_modules", Takes::Truth, "Salt's; there is nothing to reload."),
    attribute("reload_grains", Takes::Truth, "Salt's; facts are gathered before a run."),
    attribute("reload_pillar", Takes::Truth, "Salt's; settings are read before a run."),
];

/// The keys of a file that are no state ids.
pub const FILE_KEYS: [(&str, &str); 3] = [
    ("include", "Other files to load."),
    ("extend", "Changes states of this file and of those that it includes."),
    ("exclude", "Takes states and files out again: `- sls: web.tls`, `- id: nginx`."),
];

/// Types of an ordered manifest that stand for one function or another, as `ensure` says.
pub const MANIFEST_TYPES: [&str; 4] = ["exec", "file", "package", "service"];
