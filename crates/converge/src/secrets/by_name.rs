//! Secrets by the name of their setting, for those who keep settings longer than a run lasts.
//!
//! A placeholder means something in one run only. Who reads the settings today and runs something with a value of them tomorrow
//! (the schedule of a peel) keeps instead where the secret stands: a placeholder by name, which holds nothing, may go to disk,
//! and is shown as any other. Each run looks up what stands there and has the secret as if it had been written into its states.

use crate::error::Error;
use crate::raw_arguments::{RawArguments, RawValue};
use serde_json::Value as Json;
use zester_model::secret::{CLOSE, OPEN, holds_placeholder, is_placeholder};

/// The only settings whose secrets are kept by name. Whoever may send a job can write such a name into it.
pub(crate) const KEPT: &str = "schedule";

/// Puts names where secrets of the schedule are, for whoever keeps these settings.
pub(crate) fn name_all(settings: &mut Json) {
    if let Some(kept) = settings.get_mut(KEPT) {
        name(kept, &format!("/{KEPT}"));
    }
}

fn name(value: &mut Json, pointer: &str) {
    match value {
        Json::String(text) if is_placeholder(text) => *text = format!("{OPEN}{pointer}{CLOSE}"),
        Json::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                name(item, &format!("{pointer}/{index}"));
            }
        }
        Json::Object(map) => {
            for (key, item) in map.iter_mut() {
                // As RFC 6901 writes it.
                name(item, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")));
            }
        }
        _ => {}
    }
}

/// The pointer of a placeholder by name.
fn pointer_of(text: &str) -> Option<&str> {
    let inner = text.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    let below = inner.strip_prefix('/')?.strip_prefix(KEPT)?;
    (below.starts_with('/') && !holds_placeholder(inner)).then_some(inner)
}

/// Whether a value holds a placeholder by name.
pub(crate) fn is_in(value: &Json) -> bool {
    match value {
        Json::String(text) => pointer_of(text).is_some(),
        Json::Array(items) => items.iter().any(is_in),
        Json::Object(map) => map.values().any(is_in),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Puts what stands in the settings of this run where a name is.
pub(crate) fn look_up(value: &mut Json, settings: &Json) -> Result<(), Error> {
    match value {
        Json::String(text) => {
            if let Some(pointer) = pointer_of(text) {
                let found =
                    settings.pointer(pointer).and_then(Json::as_str).filter(|text| is_placeholder(text));
                *text = found.ok_or_else(|| gone(pointer))?.to_string();
            }
            Ok(())
        }
        Json::Array(items) => items.iter_mut().try_for_each(|item| look_up(item, settings)),
        Json::Object(map) => map.values_mut().try_for_each(|item| look_up(item, settings)),
        Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
    }
}

/// The same in the words of a call.
pub(crate) fn look_up_words(words: &RawArguments, settings: &Json) -> Result<RawArguments, Error> {
    let looked_up = |word: &RawValue| match word {
        RawValue::Letters(letters) => {
            let mut value = Json::String(letters.clone());
            look_up(&mut value, settings)?;
            Ok(RawValue::Letters(value.as_str().unwrap_or_default().to_string()))
        }
        RawValue::Value(value) => {
            let mut value = value.clone();
            look_up(&mut value, settings)?;
            Ok(RawValue::Value(value))
        }
    };
    let positional = words.positional.iter().map(looked_up).collect::<Result<_, Error>>()?;
    let named = words.named.iter().map(|(key, word)| Ok((key.clone(), looked_up(word)?)));
    Ok(RawArguments { positional, named: named.collect::<Result<_, Error>>()? })
}

fn gone(pointer: &str) -> Error {
    let parts = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    let name = parts.collect::<Vec<_>>().join(":");
    Error::other(format!(
        "the settings have no secret `{name}` any more; write it there again, or take the entry out of the schedule"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("D-10", "D-15")]
    fn d10_a_secret_of_the_schedule_is_kept_by_name_and_looked_up_by_each_run() {
        let placeholder = |token: &str| format!("{OPEN}zQ{token}{CLOSE}");
        let settings = |token: &str| {
            let env = json!({"TO/KEN~": placeholder(token), "PLAIN": "x"});
            json!({"schedule": {"a": {"args": ["ls", placeholder(token)], "kwargs": {"env": env}}}, "p": placeholder(token)})
        };
        let mut kept = settings("1");
        name_all(&mut kept);
        assert_eq!(kept["p"], json!(placeholder("1")), "only the schedule is kept");
        let named = kept["schedule"]["a"].clone();
        assert!(is_in(&named) && !named.to_string().contains("zQ1"), "{named}");
        assert_eq!(
            zester_model::secret::without_placeholders(named["args"][1].as_str().unwrap()),
            "<secret>"
        );
        // The next run has others for the same secrets.
        let mut run = named.clone();
        look_up(&mut run, &settings("2")).unwrap();
        assert_eq!(run, settings("2")["schedule"]["a"]);
        let mut words = RawArguments::default();
        words.positional.push(RawValue::Letters(named["args"][1].as_str().unwrap().into()));
        words.named.push(("env".into(), RawValue::Value(named["kwargs"]["env"].clone())));
        let words = look_up_words(&words, &settings("3")).unwrap();
        assert_eq!(words.positional, [RawValue::Letters(placeholder("3"))]);
        assert_eq!(
            words.named[0].1,
            RawValue::Value(settings("3")["schedule"]["a"]["kwargs"]["env"].clone())
        );
        let why =
            look_up(&mut named.clone(), &json!({"schedule": {"a": "hunter2"}})).unwrap_err().to_string();
        assert!(why.starts_with("the settings have no secret `schedule:a:args:1` any more; "), "{why}");
    }

    #[test]
    #[rule("D-15")]
    fn d15_a_name_leads_to_secrets_of_the_schedule_alone() {
        let settings = json!({"db": {"password": format!("{OPEN}zQ1{CLOSE}")}, "schedule": {"a": "plain"}});
        for pointer in ["/db/password", "/schedule", "/schedule-of-others/x", "zQ1"] {
            let written = json!(format!("{OPEN}{pointer}{CLOSE}"));
            let mut value = written.clone();
            look_up(&mut value, &settings).unwrap();
            assert_eq!(value, written, "nothing stands behind it: it is never revealed");
        }
        // What is no secret does not become one.
        let mut plain = json!(format!("{OPEN}/schedule/a{CLOSE}"));
        assert!(look_up(&mut plain, &settings).is_err());
    }
}
