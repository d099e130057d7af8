//! What the machine says of itself, written when it changed (D-7).

use super::presence::BackgroundDone;
use crate::work::Work;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use zester_link::Link;
use zester_wire::{FactsRecord, Key, PeelId, VERSION};

/// Writes the facts if the bus has others. Reads what it has where that is not known: another life may have written it.
pub(super) async fn publish(
    link: Link,
    work: Arc<dyn Work>,
    peel: PeelId,
    known: Option<String>,
) -> BackgroundDone {
    let facts = work.facts().await;
    let (own, hash) = (Value::Object(facts.clone()), hash_of(&facts));
    let key = Key::Facts(peel.clone());
    let there = match known {
        Some(known) => Some(known),
        None => {
            let read = link.get::<FactsRecord>(&key).await;
            read.ok().flatten().map(|found| found.value.hash)
        }
    };
    if there.as_ref() == Some(&hash) {
        return BackgroundDone::Facts { facts: own, published: Ok(hash) };
    }
    let record = FactsRecord { v: VERSION, peel, ts: link.now(), hash: hash.clone(), facts };
    let published = match link.put(&key, &record).await {
        Ok(_) => Ok(hash),
        Err(error) => {
            tracing::warn!("the facts were not published, they will be: {error}");
            Err(error.to_string())
        }
    };
    BackgroundDone::Facts { facts: own, published }
}

pub(super) fn os_of(facts: &Value) -> String {
    facts.get("os").and_then(Value::as_str).unwrap_or_default().to_string()
}

/// The same facts have the same hash, in whatever order they were found.
fn hash_of(facts: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_sorted(&Value::Object(facts.clone()), &mut text);
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        let _infallible = write!(hex, "{byte:02x}");
    }
    hex
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            text.push('{');
            for (key, value) in sorted {
                let _infallible = write!(text, "{}:", Value::String(key.clone()));
                write_sorted(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        plain => {
            let _infallible = write!(text, "{plain}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_the_order_of_facts_does_not_change_their_hash() {
        let hash = |value: Value| hash_of(value.as_object().unwrap());
        assert_eq!(
            hash(json!({"a": 1, "b": {"c": 2, "d": 3}})),
            hash(json!({"b": {"d": 3, "c": 2}, "a": 1}))
        );
        assert_ne!(hash(json!({"a": 1})), hash(json!({"a": "1"})));
        assert_ne!(hash(json!({"a": [1, 2]})), hash(json!({"a": [2, 1]})));
    }
}
