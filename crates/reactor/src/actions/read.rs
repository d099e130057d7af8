//! From a rendered file to its blocks: all of them, or everything that is wrong with any.

use super::whom::expression;
use super::{Action, Block, Dispatch, Enroll, EnrollVerb, LogLevel};
use crate::limits::{BLOCK_ID_BYTES_MAX, BLOCKS_MAX, LOG_BYTES_MAX};
use crate::rules::problem;
use serde_json::{Map, Value as Json};
use std::time::Duration;
use zester_model::diagnostic::Diagnostic;
use zester_model::duration;
use zester_model::node::{Node, Value};
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;
use zester_model::target::glob::Glob;
use zester_wire::Tag;

const ACTIONS: [&str; 8] = [
    "dispatch.module",
    "dispatch.state",
    "local.",
    "enroll.approve",
    "enroll.reject",
    "enroll.revoke",
    "event.send",
    "log",
];
const MODULE_WORDS: &[&str] =
    &["target", "target_type", "function", "args", "state_id", "timeout", "max_targets", "test"];
const STATE_WORDS: &[&str] =
    &["target", "target_type", "sls", "highstate", "args", "timeout", "max_targets", "test"];
const LOCAL_WORDS: &[&str] = &["tgt", "tgt_type", "arg", "kwarg", "timeout", "max_targets"];
const ENROLL_WORDS: &[&str] = &["id", "require_peel", "require_token", "require_ip", "reason"];
const SEND_WORDS: &[&str] = &["tag", "data"];
const LOG_WORDS: &[&str] = &["message", "level"];

/// Reads the blocks of a rendered file. Nothing at all is no blocks.
pub fn read(node: &Node) -> Result<Vec<Block>, Vec<Diagnostic>> {
    if node.is_null() {
        return Ok(Vec::new());
    }
    let Some(map) = node.as_map() else {
        let why =
            format!("expected blocks by their ids, found {}; write `ID:` and an action", node.describe());
        return Err(vec![problem(node.span, &why)]);
    };
    let mut reader = Reader { problems: Vec::new() };
    if map.len() > BLOCKS_MAX {
        reader.tell(node.span, &format!("{} blocks; a file renders to at most {BLOCKS_MAX}", map.len()));
    }
    let blocks = map.iter().filter_map(|(key, value)| reader.block(key, value)).collect();
    if reader.problems.is_empty() { Ok(blocks) } else { Err(reader.problems) }
}

struct Reader {
    problems: Vec<Diagnostic>,
}

/// The values of one action by their words.
struct Words<'n> {
    span: Span,
    given: Vec<(&'n str, &'n Node)>,
}

impl<'n> Words<'n> {
    fn get(&self, word: &str) -> Option<&'n Node> {
        self.given.iter().find(|(given, _)| *given == word).map(|(_, value)| *value)
    }
}

impl Reader {
    fn tell(&mut self, span: Span, sentence: &str) {
        self.problems.push(problem(span, sentence));
    }

    fn block(&mut self, key: &Node, value: &Node) -> Option<Block> {
        let id = key.as_text().unwrap_or_default();
        if id.is_empty() || id.len() > BLOCK_ID_BYTES_MAX {
            self.tell(key.span, &format!("the id of a block is a text of 1 to {BLOCK_ID_BYTES_MAX} bytes"));
            return None;
        }
        let Some([(word, parameters)]) = value.as_map() else {
            let why = format!("a block has exactly one action, `{id}` has {}", actions_of(value));
            self.tell(value.span, &why);
            return None;
        };
        let before = self.problems.len();
        let action = self.action(word, parameters)?;
        (self.problems.len() == before).then(|| Block { id: id.to_string(), action })
    }

    fn action(&mut self, word: &Node, parameters: &Node) -> Option<Action> {
        let name = word.as_text().unwrap_or_default();
        match name {
            "dispatch.module" => self.module(name, word.span, parameters),
            "dispatch.state" => self.state(name, word.span, parameters),
            "enroll.approve" => self.enroll(EnrollVerb::Approve, word.span, parameters),
            "enroll.reject" => self.enroll(EnrollVerb::Reject, word.span, parameters),
            "enroll.revoke" => self.enroll(EnrollVerb::Revoke, word.span, parameters),
            "event.send" => self.send(word.span, parameters),
            "log" => self.log(word.span, parameters),
            _ => match name.strip_prefix("local.") {
                Some(function) => self.local(name, function, word.span, parameters),
                None => {
                    let hint = did_you_mean(name, ACTIONS).or_else(|| salts(name));
                    let told = problem(word.span, &format!("`{name}` is no action")).maybe_hint(hint);
                    self.problems.push(told);
                    None
                }
            },
        }
    }

    fn module(&mut self, word: &str, at: Span, node: &Node) -> Option<Action> {
        let words = self.words(at, node, MODULE_WORDS)?;
        let target = self.target(&words, "target", "target_type");
        let function = match words.get("function") {
            Some(node) => self.function(node.span, &self.text_of(node)),
            None => self.missing(&words, "function"),
        };
        let (args, mut positionals) = self.args(words.get("args"));
        let mut state_id = self.optional_text(&words, "state_id").unwrap_or_default();
        if state_id.is_empty() {
            state_id = take_first(&mut positionals);
        }
        let rest = self.rest(&words);
        self.dispatch(word, target, function, args, state_id, positionals, rest)
    }

    fn state(&mut self, word: &str, at: Span, node: &Node) -> Option<Action> {
        let words = self.words(at, node, STATE_WORDS)?;
        let target = self.target(&words, "target", "target_type");
        let highstate = words.get("highstate").is_some_and(|node| self.truth(node));
        let references = words.get("sls").map_or_else(Vec::new, |node| self.texts(node));
        let function = match (highstate, references.is_empty()) {
            (true, true) => "state.highstate",
            (false, false) => "state.apply",
            (true, false) => {
                self.tell(words.span, "both `sls` and `highstate`; write one of them");
                "state.apply"
            }
            (false, true) => {
                self.tell(words.span, "`sls` is missing; name states, or write `highstate: true`");
                "state.apply"
            }
        };
        let (args, extra) = self.args(words.get("args"));
        if !extra.is_empty() {
            self.tell(words.span, "the `args` of states are a map of parameters");
        }
        let rest = self.rest(&words);
        let mut references = references.into_iter();
        let state_id = references.next().unwrap_or_default();
        let more = references.map(Json::String).collect();
        self.dispatch(word, target, Some(function.to_string()), args, state_id, more, rest)
    }

    fn local(&mut self, word: &str, function: &str, at: Span, node: &Node) -> Option<Action> {
        let words = self.words(at, node, LOCAL_WORDS)?;
        let target = self.target(&words, "tgt", "tgt_type");
        let function = self.function(at, function);
        let mut positionals = match words.get("arg") {
            Some(node) => node
                .as_list()
                .map_or_else(|| vec![node.to_json()], |list| list.iter().map(Node::to_json).collect()),
            None => Vec::new(),
        };
        if positionals.len() > 1 {
            let span = words.get("arg").map_or(words.span, |node| node.span);
            self.tell(span, "`arg` is one value; write `dispatch.module` with a list of `args`");
        }
        let state_id = take_first(&mut positionals);
        let (args, listed) = self.args(words.get("kwarg"));
        if !listed.is_empty() {
            self.tell(words.span, "`kwarg` is a map of parameters");
        }
        let rest = self.rest(&words);
        self.dispatch(word, target, function, args, state_id, positionals, rest)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one action, each read on its own")]
    fn dispatch(
        &mut self,
        word: &str,
        target: Option<String>,
        function: Option<String>,
        args: Map<String, Json>,
        state_id: String,
        positionals: Vec<Json>,
        (timeout, max_targets, test): (Duration, Option<u64>, bool),
    ) -> Option<Action> {
        let (target, function) = (target?, function?);
        let word = word.to_string();
        let dispatch =
            Dispatch { word, target, function, args, state_id, positionals, timeout, max_targets, test };
        Some(Action::Dispatch(dispatch))
    }

    fn enroll(&mut self, verb: EnrollVerb, at: Span, node: &Node) -> Option<Action> {
        let words = self.words(at, node, ENROLL_WORDS)?;
        let id = self.required_text(&words, "id");
        let require_peel = self.required_text(&words, "require_peel");
        if let (Some(glob), Some(node)) = (&require_peel, words.get("require_peel"))
            && let Err(mistake) = Glob::parse(glob)
        {
            self.tell(node.span, &format!("`{glob}` is not a glob: {}", mistake.message));
        }
        let require_token = self.optional_text(&words, "require_token");
        let require_ip = self.optional_text(&words, "require_ip");
        let reason = self.optional_text(&words, "reason").unwrap_or_default();
        let (id, require_peel) = (id?, require_peel?);
        Some(Action::Enroll(Enroll { verb, id, require_peel, require_token, require_ip, reason }))
    }

    fn send(&mut self, at: Span, node: &Node) -> Option<Action> {
        let words = self.words(at, node, SEND_WORDS)?;
        let tag = self.required_text(&words, "tag")?;
        // Where it is sent, this stands before it; together they must be a tag.
        let parsed = Tag::parse(&format!("reaction/{tag}")).and_then(|_| Tag::parse(&tag));
        let tag = match parsed {
            Ok(tag) => tag,
            Err(bad) => {
                let span = words.get("tag").map_or(words.span, |node| node.span);
                self.tell(span, &bad.to_string());
                return None;
            }
        };
        let (data, listed) = self.args(words.get("data"));
        if !listed.is_empty() {
            self.tell(words.span, "`data` is a map");
        }
        Some(Action::Send { tag, data })
    }

    fn log(&mut self, at: Span, node: &Node) -> Option<Action> {
        // `log: some words` is the short form.
        if let Some(text) = node.as_text() {
            return Some(Action::Log { level: LogLevel::default(), message: shown(text) });
        }
        let words = self.words(at, node, LOG_WORDS)?;
        let message = self.required_text(&words, "message")?;
        let level = match words.get("level") {
            None => LogLevel::default(),
            Some(node) => {
                let word = self.text_of(node);
                match LogLevel::WORDS.into_iter().find(|(known, _)| *known == word) {
                    Some((_, level)) => level,
                    None => {
                        self.tell(
                            node.span,
                            &format!("`{word}` is no level; write `info`, `warning` or `error`"),
                        );
                        return None;
                    }
                }
            }
        };
        Some(Action::Log { level, message: shown(&message) })
    }

    /// A map, or Salt's list of one-key maps.
    fn words<'n>(&mut self, at: Span, node: &'n Node, known: &[&'static str]) -> Option<Words<'n>> {
        let pairs: Vec<&(Node, Node)> = match &node.value {
            Value::Map(map) => map.iter().collect(),
            Value::List(items) => {
                let maps: Vec<&[(Node, Node)]> = items.iter().filter_map(Node::as_map).collect();
                if maps.len() != items.len() {
                    self.tell(node.span, "expected `key: value` in each item of the list");
                    return None;
                }
                maps.into_iter().flatten().collect()
            }
            Value::Scalar(_) if node.is_null() => Vec::new(),
            Value::Scalar(_) => {
                self.tell(node.span, &format!("expected a map of parameters, found {}", node.describe()));
                return None;
            }
        };
        let mut words = Words { span: at, given: Vec::new() };
        for (key, value) in pairs {
            let word = key.as_text().unwrap_or_default();
            if !known.contains(&word) {
                let hint = did_you_mean(word, known.iter().copied())
                    .unwrap_or_else(|| format!("the keys are {}", listed(known)));
                self.problems.push(problem(key.span, &format!("unknown key `{word}`")).hint(hint));
            } else if words.get(word).is_some() {
                self.tell(key.span, &format!("`{word}` is given twice"));
            } else {
                words.given.push((word, value));
            }
        }
        Some(words)
    }

    fn target(&mut self, words: &Words<'_>, word: &str, kind: &str) -> Option<String> {
        let Some(node) = words.get(word) else { return self.missing(words, word) };
        let kind = words.get(kind).map(|node| self.text_of(node));
        let values = self.texts(node);
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        match expression(kind.as_deref(), &values) {
            Ok(expression) => Some(expression),
            Err(why) => {
                self.tell(node.span, &why);
                None
            }
        }
    }

    /// `^[a-z0-9_]+\.[a-z0-9_]+$`
    fn function(&mut self, span: Span, name: &str) -> Option<String> {
        let good = |part: &str| {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            !part.is_empty() && part.bytes().all(fits)
        };
        let fits = name.split_once('.').is_some_and(|(module, function)| good(module) && good(function));
        if !fits {
            self.tell(span, &format!("`{}` is no function; write `module.function`", shown(name)));
        }
        fits.then(|| name.to_string())
    }

    /// A map of parameters, or a list of positionals.
    fn args(&mut self, node: Option<&Node>) -> (Map<String, Json>, Vec<Json>) {
        let nothing = (Map::new(), Vec::new());
        let Some(node) = node.filter(|node| !node.is_null()) else { return nothing };
        match (&node.value, node.to_json()) {
            (Value::Map(_), Json::Object(map)) => (map, Vec::new()),
            (Value::List(_), Json::Array(items)) => (Map::new(), items),
            _ => {
                let found = node.describe();
                self.tell(node.span, &format!("expected a map of parameters or a list, found {found}"));
                nothing
            }
        }
    }

    fn rest(&mut self, words: &Words<'_>) -> (Duration, Option<u64>, bool) {
        let timeout = words.get("timeout").and_then(|node| match duration::parse(&self.text_of(node)) {
            Ok(timeout) => Some(timeout),
            Err(why) => {
                self.tell(node.span, &why);
                None
            }
        });
        let max_targets = words.get("max_targets").and_then(|node| match self.text_of(node).parse() {
            Ok(count) => Some(count),
            Err(_) => {
                self.tell(node.span, &format!("expected a number of peels, found {}", node.describe()));
                None
            }
        });
        let test = words.get("test").is_some_and(|node| self.truth(node));
        (timeout.unwrap_or_default(), max_targets, test)
    }

    fn truth(&mut self, node: &Node) -> bool {
        node.read::<bool>().unwrap_or_else(|mismatch| {
            self.tell(node.span, &mismatch.message);
            false
        })
    }

    fn text_of(&self, node: &Node) -> String {
        node.as_text().unwrap_or_default().to_string()
    }

    /// One text, or a list of them.
    fn texts(&mut self, node: &Node) -> Vec<String> {
        let one = std::slice::from_ref(node);
        let mut texts = Vec::new();
        for item in node.as_list().unwrap_or(one) {
            match item.as_text() {
                Some(text) => texts.push(text.to_string()),
                None => self.tell(item.span, &format!("expected a text, found {}", item.describe())),
            }
        }
        texts
    }

    fn required_text(&mut self, words: &Words<'_>, word: &str) -> Option<String> {
        match words.get(word) {
            Some(_) => self.optional_text(words, word),
            None => self.missing(words, word),
        }
    }

    fn optional_text(&mut self, words: &Words<'_>, word: &str) -> Option<String> {
        let node = words.get(word)?;
        let text = node.as_text();
        if text.is_none_or(str::is_empty) {
            self.tell(node.span, &format!("`{word}` is a text, found {}", node.describe()));
        }
        text.map(str::to_string)
    }

    fn missing(&mut self, words: &Words<'_>, word: &str) -> Option<String> {
        self.tell(words.span, &format!("`{word}` is missing"));
        None
    }
}

/// The first positional, as a job names it: its letters.
fn take_first(positionals: &mut Vec<Json>) -> String {
    if positionals.is_empty() {
        return String::new();
    }
    match positionals.remove(0) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

fn actions_of(value: &Node) -> String {
    match value.as_map() {
        Some([]) => "none".into(),
        Some(map) => format!("{}; give each a block of its own", map.len()),
        None => value.describe(),
    }
}

fn listed(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// Salt's actions that have another name here.
fn salts(name: &str) -> Option<String> {
    let (sort, _) = name.split_once('.')?;
    match sort {
        "cmd" | "tgt" => Some("write `local.MOD.FN`".into()),
        "runner" | "wheel" | "caller" => {
            Some(format!("`{sort}` is Salt's; dispatch a function to a peel instead"))
        }
        _ => Some(format!("the actions are {}", listed(&ACTIONS))),
    }
}

/// A text that is logged or shown, cut.
fn shown(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(LOG_BYTES_MAX)];
    text.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
}
