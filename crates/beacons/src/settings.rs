//! The key `beacons` of the settings: what is wrong with it is told with its place.

use crate::level::When;
use crate::limits::{BEACONS_MAX, INTERVAL_MIN, NAME_BYTES_MAX};
use crate::params::Time;
use crate::{Beacon, KINDS, KindEntry, kinds};
use std::time::Duration;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::{Mismatch, Node};
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;

/// The words that every beacon has.
const WORDS: &[&str] =
    &["beacon", "beacon_module", "interval", "for", "onchange", "emit_at_start", "enabled"];

/// One beacon that is to run.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What its events are called after.
    pub name: String,
    /// Which kind of beacon it is.
    pub kind: &'static str,
    pub interval: Duration,
    pub when: When,
    /// As it was written: another value is another beacon.
    pub value: serde_json::Value,
    own: Node,
}

impl Entry {
    /// A new beacon, which has seen nothing yet.
    pub fn build(&self) -> Result<Box<dyn Beacon>, String> {
        let kind = find(self.kind).ok_or_else(|| format!("there is no beacon `{}`", self.kind))?;
        (kind.build)(&self.own, self.when).map_err(|mismatch| mismatch.message)
    }
}

/// Something that is wrong with the beacons of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct BeaconError {
    /// The keys that lead to it, for settings that have no places.
    pub path: Vec<String>,
    pub span: Span,
    pub message: String,
    pub hint: Option<String>,
}

impl BeaconError {
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::new(Kind::Config, self.message.clone()).at(self.span).maybe_hint(self.hint.clone())
    }

    /// In one sentence, with the keys that lead to it.
    pub fn sentence(&self) -> String {
        let keys: Vec<&str> =
            std::iter::once("beacons").chain(self.path.iter().map(String::as_str)).collect();
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("`{}`: {}{hint}", keys.join(":"), self.message)
    }
}

fn find(name: &str) -> Option<&'static KindEntry> {
    KINDS.iter().find(|kind| kind.name == name || kind.aliases.contains(&name))
}

/// Reads all beacons, or everything that is wrong with them. Those that are not enabled are left out.
pub fn read(node: &Node) -> Result<Vec<Entry>, Vec<BeaconError>> {
    if node.is_null() {
        return Ok(Vec::new());
    }
    let wrong = |path: &[&str], span: Span, mismatch: Mismatch| BeaconError {
        path: path.iter().map(ToString::to_string).collect(),
        span: mismatch.span.unwrap_or(span),
        message: mismatch.message,
        hint: mismatch.hint,
    };
    let Some(map) = node.as_map() else {
        let message = format!("expected a map of beacons, found {}", node.describe());
        return Err(vec![wrong(&[], node.span, Mismatch::new(message))]);
    };
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    if map.len() > BEACONS_MAX {
        let message = format!("there are {} beacons; {BEACONS_MAX} are the most", map.len());
        problems.push(wrong(&[], node.span, Mismatch::new(message)));
    }
    for (key, value) in map {
        let name = key.as_text().unwrap_or_default();
        match entry(name, key, value) {
            Ok(found) => entries.extend(found),
            Err(mismatch) => problems.push(wrong(&[name], value.span, mismatch)),
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}

/// None where it is not enabled.
fn entry(name: &str, key: &Node, value: &Node) -> Result<Option<Entry>, Mismatch> {
    check_name(name).map_err(|mismatch| mismatch.or_at(key.span))?;
    let pairs = pairs(value)?;
    let word = |word: &str| pairs.iter().find(|(key, _)| key.as_text() == Some(word)).map(|(_, value)| value);
    let kind_node = word("beacon").or_else(|| word("beacon_module"));
    let kind_name = kind_node.and_then(Node::as_text).unwrap_or(name);
    let Some(kind) = find(kind_name) else {
        let mismatch = Mismatch::new(format!("there is no beacon `{kind_name}`"));
        let hint = did_you_mean(kind_name, kinds())
            .unwrap_or_else(|| "a name of your own needs the kind beside it: `beacon: disk`".into());
        return Err(Mismatch { hint: Some(hint), ..mismatch }.or_at(kind_node.unwrap_or(key).span));
    };
    let truth = |name: &str, default: bool| {
        word(name)
            .map_or(Ok(default), |node| node.read::<bool>().map_err(|mismatch| mismatch.or_at(node.span)))
    };
    let time = |name: &str, default: Duration| {
        word(name).map_or(Ok(default), |node| {
            node.read::<Time>().map(|time| time.0).map_err(|mismatch| mismatch.or_at(node.span))
        })
    };
    let interval = time("interval", kind.interval)?;
    if interval < INTERVAL_MIN {
        let span = word("interval").map_or(value.span, |node| node.span);
        return Err(Mismatch::new(format!("a beacon looks every {INTERVAL_MIN:?} at most")).or_at(span));
    }
    let when = When {
        hold: time("for", Duration::ZERO)?,
        onchange: truth("onchange", true)?,
        emit_at_start: truth("emit_at_start", false)?,
    };
    let enabled = truth("enabled", true)?;
    let own: Vec<(Node, Node)> = pairs
        .iter()
        .filter(|(key, _)| key.as_text().is_none_or(|word| !WORDS.contains(&word)))
        .cloned()
        .collect();
    let own = Node::map(value.span, own);
    // Tried out here, so that what is wrong is told before anything is replaced.
    drop((kind.build)(&own, when).map_err(|mismatch| of_all(mismatch, &pairs).or_at(value.span))?);
    let entry = Entry { name: name.into(), kind: kind.name, interval, when, value: value.to_json(), own };
    Ok(Some(entry).filter(|_| enabled))
}

/// A slip of the pen may be of a word that every beacon has.
fn of_all(mismatch: Mismatch, pairs: &[(Node, Node)]) -> Mismatch {
    let unknown = mismatch.message.strip_prefix("unknown key `").and_then(|rest| rest.strip_suffix('`'));
    let hint = unknown.and_then(|word| did_you_mean(word, WORDS.iter().copied()));
    let place = pairs.iter().find(|(key, _)| key.as_text() == unknown).map(|(key, _)| key.span);
    Mismatch { hint: hint.or(mismatch.hint), span: mismatch.span.or(place), message: mismatch.message }
}

/// Letters of a subject.
fn check_name(name: &str) -> Result<(), Mismatch> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(plain) {
        return Ok(());
    }
    let mismatch = Mismatch::new(format!("`{name}` cannot name a beacon"));
    Err(Mismatch { hint: Some("it has letters, digits, `_` and `-`".into()), ..mismatch })
}

/// A map, or Salt's list of maps.
fn pairs(value: &Node) -> Result<Vec<(Node, Node)>, Mismatch> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    if let Some(map) = value.as_map() {
        return Ok(map.to_vec());
    }
    let wrong = |node: &Node| {
        Mismatch::new(format!("expected a map or a list of maps, found {}", node.describe())).or_at(node.span)
    };
    let mut pairs: Vec<(Node, Node)> = Vec::new();
    for item in value.as_list().ok_or_else(|| wrong(value))? {
        for (key, value) in item.as_map().ok_or_else(|| wrong(item))? {
            if pairs.iter().any(|(known, _)| known.as_text() == key.as_text()) {
                let name = key.as_text().unwrap_or_default();
                return Err(Mismatch::new(format!("`{name}` is given twice")).or_at(key.span));
            }
            pairs.push((key.clone(), value.clone()));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_model::source::{FileId, Sources};
    use zester_rule::rule;

    fn read_text(text: &str) -> Result<Vec<Entry>, Vec<String>> {
        let mut sources = Sources::default();
        let file = sources.add("b.zy", text);
        let node = zester_compile::parse_yaml(file, text).unwrap();
        read(&node).map_err(|problems| {
            let told = |one: &BeaconError| format!("{}: {}", sources.place(one.span), one.sentence());
            problems.iter().map(told).collect()
        })
    }

    #[test]
    #[rule("R-17")]
    fn r17_beacons_are_written_as_a_map_or_as_salt_does() {
        let plain = read_text("service: {services: [nginx, db], interval: 10s, for: 1m}").unwrap();
        let salt =
            read_text("service:\n  - services:\n      nginx: {}\n      db:\n  - interval: 10\n  - for: 60\n")
                .unwrap();
        for entries in [plain, salt] {
            let entry = &entries[0];
            assert_eq!((entry.name.as_str(), entry.kind), ("service", "service"));
            assert_eq!((entry.interval.as_secs(), entry.when.hold.as_secs()), (10, 60));
            assert!(entry.when.onchange && !entry.when.emit_at_start);
            assert!(entry.build().is_ok());
        }
        assert!(read_text("~").unwrap().is_empty());
        assert!(read_text("disk: {mounts: {/: 90%}, enabled: false}").unwrap().is_empty());
    }

    #[test]
    fn one_kind_may_have_several_names() {
        let entries =
            read_text("root: {beacon: disk, mounts: {/: 90}}\ndiskusage: {mounts: {/var: 80%}}").unwrap();
        let names: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
        assert_eq!(names, [("root", "disk"), ("diskusage", "disk")]);
    }

    #[test]
    #[rule("R-21")]
    fn r21_what_is_wrong_is_told_at_its_place_with_its_keys() {
        for (text, wanted) in [
            ("[a]", "b.zy:1:1: `beacons`: expected a map of beacons, found a list"),
            (
                "serivce: {services: [x]}",
                "b.zy:1:1: `beacons:serivce`: there is no beacon `serivce`; did you mean `service`?",
            ),
            (
                "web: {services: [x]}",
                "b.zy:1:1: `beacons:web`: there is no beacon `web`; a name of your own needs the kind beside it: `beacon: disk`",
            ),
            (
                "service: {service: [x]}",
                "b.zy:1:11: `beacons:service`: unknown key `service`; did you mean `services`?",
            ),
            (
                "service: {services: [x], intervall: 5}",
                "b.zy:1:26: `beacons:service`: unknown key `intervall`; did you mean `interval`?",
            ),
            ("service: {services: []}", "b.zy:1:21: `beacons:service`: it names nothing to watch"),
            ("service: {}", "b.zy:1:10: `beacons:service`: `services` is missing"),
            ("service: {services: [-x]}", "b.zy:1:10: `beacons:service`: `-x` cannot name a service"),
            (
                "service: {services: [x], interval: 10ms}",
                "b.zy:1:36: `beacons:service`: a beacon looks every 1s at most",
            ),
            (
                "service: {services: [x], for: soon}",
                "b.zy:1:31: `beacons:service`: `soon` is not a duration: a number is missing; write `30s`, `5m`, `2h30m` or `500ms`",
            ),
            (
                "disk: {mounts: {/: 120%}}",
                "b.zy:1:20: `beacons:disk`: `120%` is no share; write it from 0% to 100%",
            ),
            ("log: {file: /x, match: '('}", "b.zy:1:6: `beacons:log`: `(` is no pattern: unclosed group"),
            (
                "a.b: {}",
                "b.zy:1:1: `beacons:a.b`: `a.b` cannot name a beacon; it has letters, digits, `_` and `-`",
            ),
        ] {
            assert_eq!(read_text(text).unwrap_err(), [wanted], "{text}");
        }
        let both = read_text("a: {}\nservice: {}").unwrap_err();
        assert_eq!(both.len(), 2, "all of it at once: {both:?}");
    }

    #[test]
    fn the_beacons_of_the_examples_are_good() {
        let directory =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reactor/settings");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let node = zester_compile::parse_yaml(FileId(0), &text).unwrap();
            let pairs = node.as_map().unwrap();
            let beacons = pairs.iter().find(|(key, _)| key.as_text() == Some("beacons"));
            names.extend(
                beacons.into_iter().flat_map(|(_, value)| read(value).unwrap()).map(|entry| entry.name),
            );
        }
        names.sort();
        assert_eq!(names, ["certificate", "disk", "service"]);
    }

    #[test]
    fn beacons_that_have_no_places_are_read_too() {
        let node = Node::from_json(Span::start_of(FileId(0)), &json!({"memory": {"percent": 90}}));
        assert_eq!(read(&node).unwrap()[0].value, json!({"percent": 90}));
    }
}
