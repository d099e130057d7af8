//! A compiled set of states: what the compiler hands to the graph, the resources and the runner.

use crate::name::StateName;
use crate::node::Node;
use crate::requisite::EdgeKind;
use crate::source::Span;
use std::sync::Arc;
use std::time::Duration;

/// All states of one run, in the order of their declaration. One with problems is handed on as far as it goes, so that the
/// later stages can report theirs too.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub states: Vec<State>,
}

/// One state, with every name resolved.
#[derive(Clone, Debug)]
pub struct State {
    pub name: StateName,
    /// The `module.function` key that declares it.
    pub span: Span,
    /// The reference of the file it comes from: `web.config`.
    pub sls: Arc<str>,
    /// Parameters under their own names (aliases resolved), the primary one filled in.
    pub params: Vec<Param>,
    /// What it waits for.
    pub edges: Vec<Edge>,
    /// Runs only if one of these would change (S-15); the edges of their `require` stand on them.
    pub prereq: Vec<usize>,
    pub attributes: Attributes,
    /// Something is wrong with it and was reported; it only stands here so that indexes hold. Never in a program that
    /// compiled without problems.
    pub broken: bool,
}

/// One parameter with the place of its key.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its own name, or one of its others: whoever binds it resolves them.
    pub name: String,
    /// The word that the user wrote for it: `contents` where the name is `content`. For everything but the resource
    /// itself they are one parameter.
    pub word: Arc<str>,
    pub key: Span,
    pub value: Node,
}

impl Param {
    /// A parameter that goes by the name it was written under.
    pub fn new(name: &str, key: Span, value: Node) -> Param {
        Param { name: name.to_string(), word: name.into(), key, value }
    }
}

/// A wait for another state, by its index in [`Program::states`].
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Edge {
    pub target: usize,
    pub kind: EdgeKind,
    /// Where the requisite is written.
    pub span: Span,
}

/// What any state may carry beside its parameters (spec 10, section 3).
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    pub order: i64,
    pub failhard: bool,
    pub retry: Option<Retry>,
    /// The pause before another try is longer by up to this, by chance.
    pub retry_splay: Duration,
    /// Shell commands that must all exit 0.
    pub onlyif: Vec<String>,
    /// Shell commands of which none may exit 0.
    pub unless: Vec<String>,
    /// Functions that `onlyif` and `unless` ask.
    pub asks: Vec<FunctionGuard>,
    /// Shell commands that must all exit 0 after a change; else the state has failed.
    pub check_cmd: Vec<String>,
    /// Waits for what obviously comes first, unasked (S-58).
    pub auto_order: bool,
}

impl Attributes {
    /// Whether something must be asked before the state is looked at.
    pub fn is_guarded(&self) -> bool {
        !(self.onlyif.is_empty() && self.unless.is_empty() && self.asks.is_empty())
    }
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes {
            order: 0,
            failhard: false,
            retry: None,
            retry_splay: Duration::ZERO,
            onlyif: Vec::new(),
            unless: Vec::new(),
            asks: Vec::new(),
            check_cmd: Vec::new(),
            auto_order: true,
        }
    }
}

/// A function in the place of a guard's command: `{fun: file.exists, args: [/etc/x]}` (S-47).
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionGuard {
    pub function: String,
    pub args: Vec<serde_json::Value>,
    pub named: serde_json::Map<String, serde_json::Value>,
    /// Which part of the answer counts (`get_return`), `a:b` goes deeper.
    pub part: Option<String>,
    /// Whether the answer must be true (`onlyif`) or must not (`unless`).
    pub wanted: bool,
    pub at: Span,
}

/// `retry:`: how many more tries after a failure, and the pause before each.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Retry {
    pub attempts: u32,
    pub interval: Duration,
}
