//! A file as a real Salt compiles it, state by state (`zester migrate --salt-call`).

use super::Finding;
use crate::error::Error;
use crate::local_host::LocalHost;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_compile::Compiled;
use zester_host::Launch;
use zester_model::limits;
use zester_model::program::State;
use zester_resources::shell_words::quoted;

/// How long Salt may take for one file.
const SALT_TIMEOUT: Duration = Duration::from_secs(120);

/// Letters of a value that a message shows.
const VALUE_SHOWN_MAX: usize = 120;

/// The requisites that both sides know by the same words.
const REQUISITES: [&str; 11] = [
    "onchanges",
    "onchanges_any",
    "onfail",
    "onfail_all",
    "onfail_any",
    "prereq",
    "require",
    "require_any",
    "watch",
    "watch_any",
    "listen",
];

/// A real Salt, and the trees that it is to read.
#[derive(Clone, Debug)]
pub struct SaltCall<'a> {
    pub program: &'a Path,
    pub states: &'a Path,
    pub settings: Option<&'a Path>,
}

impl SaltCall<'_> {
    /// What Salt makes of a file: its low states, or why there are none.
    pub fn low(&self, reference: &str, host: &LocalHost, cancel: &CancellationToken) -> Result<Json, Error> {
        let word = |path: &Path| quoted(&path.display().to_string());
        let mut command = format!(
            "{} --local --out json --log-level quiet --file-root {}",
            word(self.program),
            word(self.states)
        );
        if let Some(settings) = self.settings {
            command.push_str(&format!(" --pillar-root {}", word(settings)));
        }
        command.push_str(&format!(" state.show_low_sls {}", quoted(reference)));
        let mut launch = Launch::shell(command);
        launch.timeout = Some(SALT_TIMEOUT);
        launch.output_kept = limits::RENDER_VALUE_BYTES_MAX;
        let exit = host.handle.block_on(host.processes.run(&launch, None, cancel));
        let exit = exit.map_err(|fault| Error::other(format!("{}: {fault}", self.program.display())))?;
        let text = exit.stdout.text.trim();
        let answer: Json = serde_json::from_str(text).map_err(|_| {
            let told = exit.stderr.text.lines().next_back().unwrap_or("nothing").to_string();
            Error::other(format!("{} gave no JSON for {reference}; it said: {told}", self.program.display()))
        })?;
        Ok(answer.get("local").cloned().unwrap_or(answer))
    }
}

/// What differs between Salt's low states and ours.
pub fn compare(reference: &str, low: &Json, compiled: &Compiled) -> Vec<Finding> {
    let Some(chunks) = low.as_array().filter(|list| list.iter().all(Json::is_object)) else {
        let told = low.as_array().and_then(|list| list.first()).unwrap_or(low);
        let told = told.as_str().map_or_else(|| told.to_string(), str::to_string);
        return match compiled.diagnostics.is_empty() {
            true => vec![finding(reference, format!("Salt refuses it: {told}"), false)],
            false => Vec::new(),
        };
    };
    let theirs: BTreeSet<(String, String)> = chunks.iter().map(chunk_name).collect();
    let ours: BTreeSet<(String, String)> = compiled.program.states.iter().map(state_name).collect();
    let mut found = Vec::new();
    for (kind, name) in theirs.difference(&ours) {
        found.push(finding(reference, format!("only Salt has {kind}:{name}"), true));
    }
    for (kind, name) in ours.difference(&theirs) {
        found.push(finding(reference, format!("Salt has no {kind}:{name}"), true));
    }
    found.extend(parameters(reference, chunks, &compiled.program.states));
    if theirs == ours {
        let (mut salt, mut own) = (salt_edges(chunks), own_edges(&compiled.program.states));
        // Salt writes down the `watch` of a kind that has nothing to do about it as `require`.
        let weaker = |(kind, waiter, target): &Edge| match kind.as_str() {
            "watch" => Some(("require".to_string(), waiter.clone(), target.clone())),
            _ => None,
        };
        let watches: Vec<Edge> = own.difference(&salt).cloned().collect();
        for watch in watches {
            if let Some(require) = weaker(&watch).filter(|require| salt.contains(require)) {
                own.remove(&watch);
                if !own.contains(&require) {
                    salt.remove(&require);
                }
            }
        }
        for (kind, waiter, target) in salt.difference(&own) {
            found.push(finding(reference, format!("only Salt has `{kind}` of {waiter} on {target}"), true));
        }
        for (kind, waiter, target) in own.difference(&salt) {
            found.push(finding(reference, format!("Salt has no `{kind}` of {waiter} on {target}"), false));
        }
    }
    found
}

/// What the parameters of states differ in that both have. A parameter that has its own finding, because nobody knows it or
/// it does nothing here, is none of these.
fn parameters(reference: &str, chunks: &[Json], states: &[State]) -> Vec<Finding> {
    let mut found = Vec::new();
    for chunk in chunks {
        let name = chunk_name(chunk);
        let same_name = || states.iter().filter(|state| state_name(state) == name);
        let same_id = same_name().find(|state| state.name.id() == text(chunk, "__id__"));
        let Some(state) = same_id.or_else(|| same_name().next()) else { continue };
        let Some(kind) = zester_resources::catalog().get(state.name.kind()) else { continue };
        for (word, value) in chunk.as_object().into_iter().flatten() {
            let Some(parameter) = kind.parameter(word).filter(|it| it.name != kind.primary) else { continue };
            let own = state.params.iter().find(|param| param.name == parameter.name);
            let own = own.map_or(Json::Null, |param| param.value.to_json());
            // A key beside `context` is in ours, and nowhere in Salt's.
            let more = parameter.name == "context" && holds_all(value, &own);
            if !more && plain(value) != plain(&own) {
                let (kind, name) = &name;
                let message = format!(
                    "`{word}` of {kind}:{name} is {} in Salt, and {} here",
                    shown(value),
                    shown(&own)
                );
                found.push(finding(reference, message, true));
            }
        }
    }
    found
}

/// Whether a map has all that another one has.
fn holds_all(of: &Json, map: &Json) -> bool {
    let (Some(of), Some(map)) = (of.as_object(), map.as_object()) else { return false };
    of.iter().all(|(key, value)| map.get(key).is_some_and(|own| plain(own) == plain(value)))
}

/// A value without what only the way of writing makes different: a number and its digits, yes and true, one and a list of
/// one, a list of maps with one key each and a map, lines and a text of lines, nothing in all its forms.
fn plain(value: &Json) -> Json {
    match value {
        Json::Null | Json::Bool(false) => Json::Null,
        Json::Bool(true) => "true".into(),
        Json::Number(number) => plain(&Json::from(number.to_string())),
        Json::String(text) => {
            let text = text.trim_end_matches('\n');
            let octal = text.len() > 3 && text.bytes().all(|digit| (b'0'..b'8').contains(&digit));
            match text.to_ascii_lowercase().as_str() {
                "" | "false" | "no" | "off" => Json::Null,
                "true" | "yes" | "on" => "true".into(),
                _ if octal => text.trim_start_matches('0').into(),
                _ => text.strip_suffix(".0").unwrap_or(text).into(),
            }
        }
        Json::Array(items) => {
            let single = |item: &Json| item.as_object().is_some_and(|map| map.len() == 1);
            match items.as_slice() {
                [] => Json::Null,
                [one] => plain(one),
                all if all.iter().all(single) => {
                    let maps = all.iter().filter_map(Json::as_object).flatten();
                    Json::Object(maps.map(|(key, value)| (key.clone(), plain(value))).collect())
                }
                all if all.iter().all(|item| !item.is_object() && !item.is_array()) => {
                    let lines: Vec<String> = all
                        .iter()
                        .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_string))
                        .collect();
                    lines.join("\n").into()
                }
                all => all.iter().map(plain).collect(),
            }
        }
        Json::Object(map) if map.is_empty() => Json::Null,
        Json::Object(map) => map.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
    }
}

/// A value in a message.
fn shown(value: &Json) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn finding(reference: &str, message: String, refused: bool) -> Finding {
    Finding {
        reason: "compared".into(),
        place: reference.to_string(),
        message,
        salt: "see the message".into(),
        zester: "see the message".into(),
        instead: String::new(),
        refused,
    }
}

fn text(chunk: &Json, key: &str) -> String {
    chunk
        .get(key)
        .map_or_else(String::new, |value| value.as_str().map_or_else(|| value.to_string(), str::to_string))
}

fn chunk_name(chunk: &Json) -> (String, String) {
    (format!("{}.{}", text(chunk, "state"), text(chunk, "fun")), text(chunk, "name"))
}

/// Kind and primary parameter, which Salt calls the name.
fn state_name(state: &State) -> (String, String) {
    let primary = zester_resources::catalog().get(state.name.kind()).map_or("name", |kind| kind.primary);
    let given =
        state.params.iter().find(|param| param.name == primary).and_then(|param| param.value.as_text());
    (state.name.kind().to_string(), given.unwrap_or(state.name.id()).to_string())
}

type Edge = (String, String, String);

fn salt_edges(chunks: &[Json]) -> BTreeSet<Edge> {
    let shown = |chunk: &Json| {
        let (kind, name) = chunk_name(chunk);
        format!("{kind}:{name}")
    };
    let mut edges = BTreeSet::new();
    for chunk in chunks {
        // `show_low_sls` leaves what stands on the other side as it is written.
        let words = REQUISITES
            .iter()
            .flat_map(|word| [(*word, word.to_string(), false), (*word, format!("{word}_in"), true)]);
        for (word, key, inverse) in words {
            for target in chunk.get(&key).and_then(Json::as_array).into_iter().flatten() {
                let (module, id) = match target {
                    Json::String(id) => (None, id.clone()),
                    Json::Object(map) => match map.iter().next() {
                        Some((module, Json::String(id))) => {
                            (Some(module.split('.').next().unwrap_or(module).to_string()), id.clone())
                        }
                        _ => continue,
                    },
                    _ => continue,
                };
                let fits = |other: &&Json| match module.as_deref() {
                    Some("sls") if inverse => text(other, "__sls__") == id,
                    // A file, and what it was the first to include.
                    Some("sls") => {
                        loaded_by(other).any(|sls| glob(&id, &sls)) && !std::ptr::eq(*other, chunk)
                    }
                    module => {
                        let names = [text(other, "__id__"), text(other, "name")];
                        module.is_none_or(|module| module == "id" || text(other, "state") == module)
                            && names.iter().any(|name| glob(&id, name))
                    }
                };
                let kind = if word == "listen" { "watch" } else { word };
                for other in chunks.iter().filter(fits) {
                    let (waiter, target) = if inverse { (other, chunk) } else { (chunk, other) };
                    edges.insert((kind.to_string(), shown(waiter), shown(target)));
                }
            }
        }
    }
    edges
}

/// The files that a chunk comes by.
fn loaded_by(chunk: &Json) -> impl Iterator<Item = String> {
    let from = chunk.get("__sls_included_from__").and_then(Json::as_array).into_iter().flatten();
    let from: Vec<String> = from.filter_map(Json::as_str).map(str::to_string).collect();
    std::iter::once(text(chunk, "__sls__")).chain(from)
}

/// As Salt looks for ids and names: some are patterns.
fn glob(pattern: &str, name: &str) -> bool {
    pattern == name || pattern.contains(['*', '?', '[']) && zester_compile::glob_matches(pattern, name)
}

fn own_edges(states: &[State]) -> BTreeSet<Edge> {
    let shown = |state: &State| {
        let (kind, name) = state_name(state);
        format!("{kind}:{name}")
    };
    let mut edges = BTreeSet::new();
    for state in states {
        for edge in state.edges.iter().filter(|edge| !edge.kind.only_sequences()) {
            // The other half of a prereq stands on its target and is none of the file's words.
            let half = states.get(edge.target).is_some_and(|other| {
                other.prereq.iter().any(|at| states.get(*at).is_some_and(|it| it.name == state.name))
            });
            if let Some(other) = states.get(edge.target).filter(|_| !half) {
                edges.insert((edge.kind.as_str().to_string(), shown(state), shown(other)));
            }
        }
        for other in state.prereq.iter().filter_map(|at| states.get(*at)) {
            edges.insert(("prereq".to_string(), shown(state), shown(other)));
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("S-56")]
    fn s56_values_that_are_only_written_in_another_way_are_the_same() {
        for (one, other) in [
            (json!(644), json!("0644")),
            (json!(true), json!("yes")),
            (json!(["a"]), json!("a")),
            (json!([{ "a": 1 }, { "b": [] }]), json!({ "a": "1", "b": null })),
            (json!(["x", "y"]), json!("x\ny\n")),
            (json!(false), Json::Null),
        ] {
            assert_eq!(plain(&one), plain(&other), "{one} {other}");
        }
        for (one, other) in
            [(json!(644), json!(600)), (json!(["a", "b"]), json!(["b", "a"])), (json!("a"), json!("A"))]
        {
            assert_ne!(plain(&one), plain(&other), "{one} {other}");
        }
        assert!(holds_all(&json!({ "a": 1 }), &json!({ "a": "1", "b": 2 })));
        assert!(!holds_all(&json!({ "a": 1, "c": 2 }), &json!({ "a": "1", "b": 2 })));
    }
}
