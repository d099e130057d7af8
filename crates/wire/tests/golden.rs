//! The exact bytes of every type. `ZESTER_BLESS=1` writes files that are missing; it never overwrites one: old bytes must
//! stay readable, so a changed type gets a new file beside the old.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod examples;

use examples::{Visit, each};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use zester_rule::rule;
use zester_wire::{Job, Message, decode, encode};

fn golden(name: &str, ending: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{name}.v1.{ending}"))
}

fn hex(bytes: &[u8]) -> String {
    let lines: Vec<String> =
        bytes.chunks(48).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    lines.join("\n") + "\n"
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// The pinned text, written first if it may be and is not there.
fn pinned(path: &Path, now: &str) -> String {
    if !path.exists() && std::env::var_os("ZESTER_BLESS").is_some() {
        std::fs::write(path, now).unwrap();
    }
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

struct Check(BTreeSet<String>);

impl Visit for Check {
    fn one<T: Message + PartialEq + std::fmt::Debug>(&mut self, name: &str, example: T) {
        let bytes = encode(&example).unwrap();
        let path = golden(name, "msgpack.hex");
        let old = pinned(&path, &hex(&bytes));
        assert_eq!(hex(&bytes), old, "{name}: other bytes than {}", path.display());
        assert_eq!(decode::<T>(&unhex(&old)).unwrap(), example, "{name}: old bytes read as something else");
        // The same for people, who review a change of the key set here.
        let json =
            serde_json::to_string_pretty(&rmp_serde::from_slice::<Json>(&bytes).unwrap().0).unwrap() + "\n";
        assert_eq!(json, pinned(&golden(name, "json"), &json), "{name}");
        self.0.insert(format!("{name}.v1.msgpack.hex"));
        self.0.insert(format!("{name}.v1.json"));
    }
}

/// MessagePack as JSON, with bytes as lists of numbers.
struct Json(serde_json::Value);

impl<'de> serde::Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let value = rmpv::Value::deserialize(deserializer)?;
        serde_json::to_value(value).map(Json).map_err(serde::de::Error::custom)
    }
}

#[test]
fn every_type_keeps_its_bytes() {
    let mut check = Check(BTreeSet::new());
    each(&mut check);
    let dir = golden("x", "x");
    let there: BTreeSet<String> = std::fs::read_dir(dir.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, check.0, "a golden file without an example, or the other way round");
}

/// The names that the spec gives.
#[test]
#[rule("J-1")]
fn j1_the_job_record_has_the_keys_of_the_spec() {
    let text = std::fs::read_to_string(golden("job", "json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    for key in "jid function args state_id targets target_expr timeout deadline status created updated user owner epoch \
                dispatch_epoch reclaim_count return_count success_count metadata v"
        .split_whitespace()
    {
        assert!(keys.contains(key), "{key}");
    }
}

#[test]
#[rule("R-1")]
fn r1_the_event_has_exactly_the_keys_of_the_spec() {
    let text = std::fs::read_to_string(golden("event", "json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["id", "tag", "data", "ts", "v", "origin", "depth"]);
}

/// Masters of two releases write one record by turns.
#[test]
fn an_older_master_keeps_what_it_does_not_know() {
    let mut map = match rmp_serde::from_slice::<rmpv::Value>(&encode(&examples::job()).unwrap()).unwrap() {
        rmpv::Value::Map(map) => map,
        other => panic!("{other}"),
    };
    map.push(("shard".into(), rmpv::Value::Binary(vec![0, 255])));
    map.push(("labels".into(), rmpv::Value::Map(vec![("tier".into(), 3.into())])));
    let newer = rmp_serde::to_vec_named(&rmpv::Value::Map(map)).unwrap();
    let read: Job = decode(&newer).unwrap();
    assert_eq!(read.rest.len(), 2);
    let again: Job = decode(&encode(&read).unwrap()).unwrap();
    assert_eq!(again, read);
    assert_eq!(again.rest["shard"], rmpv::Value::Binary(vec![0, 255]));
}
