//! A compiler for tests: files are JSON, and `{{ data.KEY }}` in a text is replaced after parsing.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use zester_model::diagnostic::Diagnostic;
use zester_model::node::Node;
use zester_model::source::{FileId, Span};
use zester_reactor::{
    Delivered, EventContext, Gates, Guards, Passed, Payload, ReactionTemplate, RuleCompiler, RuleSet,
};
use zester_wire::{Event, Subject, Tag, UnixMillis};

pub const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

pub fn span() -> Span {
    Span::new(FileId(0), 1, 1, 1)
}

pub fn node(value: &Value) -> Node {
    Node::from_json(span(), value)
}

pub struct Double;

struct Template(Value);

impl RuleCompiler for Double {
    fn yaml(&self, path: &str, text: &str) -> Result<Node, Vec<String>> {
        let value = serde_json::from_str(text).map_err(|error| vec![format!("{path}: {error}")])?;
        Ok(node(&value))
    }

    fn template(
        &self,
        path: &str,
        text: &str,
        _: &BTreeMap<String, String>,
    ) -> Result<Arc<dyn ReactionTemplate>, Vec<String>> {
        let value = serde_json::from_str(text).map_err(|error| vec![format!("{path}: {error}")])?;
        Ok(Arc::new(Template(value)))
    }

    fn explain(&self, path: &str, _: &str, diagnostics: &[Diagnostic]) -> Vec<String> {
        let told = |one: &Diagnostic| {
            let hint = one.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
            format!("{path}:{}: {}{hint}", one.span.map_or(0, |span| span.line), one.message)
        };
        diagnostics.iter().map(told).collect()
    }
}

impl ReactionTemplate for Template {
    fn render(&self, context: &EventContext) -> Result<Node, Vec<String>> {
        if self.0 == json!("broken") {
            return Err(vec!["it does not render".into()]);
        }
        Ok(node(&replaced(&self.0, &context.event["data"])))
    }
}

fn replaced(value: &Value, data: &Value) -> Value {
    match value {
        Value::String(text) => {
            match text.strip_prefix("{{ data.").and_then(|rest| rest.strip_suffix(" }}")) {
                Some(key) => data[key].clone(),
                None => value.clone(),
            }
        }
        Value::Array(items) => items.iter().map(|item| replaced(item, data)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, item)| (key.clone(), replaced(item, data))).collect())
        }
        other => other.clone(),
    }
}

pub fn files(of: &[(&str, Value)]) -> BTreeMap<String, String> {
    of.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect()
}

pub fn rules(of: &[(&str, Value)]) -> Arc<RuleSet> {
    Arc::new(RuleSet::load(1, &files(of), &Double).unwrap())
}

pub fn data(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

pub fn event(id: &str, tag: &str, of: Value) -> Event {
    let tag = Tag::parse(tag).unwrap();
    Event { id: id.into(), tag, data: data(of), ts: NOW, v: 1, origin: String::new(), depth: 0 }
}

pub fn delivered(subject: &str, sequence: u64) -> Delivered<'_> {
    Delivered { subject, sequence, stored: NOW, deliveries: 1 }
}

pub fn read(event: Event) -> impl FnOnce(&Subject) -> Payload {
    |_| Payload::Read { event, signed: NOW }
}

/// An event of `web-1` that passed the gates.
pub fn passed(event: Event, sequence: u64) -> Arc<Passed> {
    let subject = format!("zester.event.web-1.send.{}", event.tag.as_str().replace('/', "."));
    let mut gates = Gates::new(Guards { source_rate_limit: 0, max_chain_depth: 0, ..Guards::default() });
    Arc::new(gates.judge(&delivered(&subject, sequence), read(event), NOW).unwrap())
}
