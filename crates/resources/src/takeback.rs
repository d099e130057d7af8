//! Taking back a change of a state, aspect by aspect.
//!
//! Of a thing with several aspects (a service runs, and starts with the machine) a revert brings back those that were
//! changed. What somebody did since to the others is theirs; what somebody did to one that was changed is in the way.

use serde_json::{Map, Value as Json};

/// What a revert finds.
#[derive(Debug, PartialEq)]
pub(crate) enum TakenBack {
    /// Whatever was changed is as it was before.
    Nothing,
    /// It is to be like this again.
    To(Json),
    /// Somebody else has been here: what, in words.
    Changed(String),
}

/// `ours`: what is neither as it was nor as it was left is to go all the same.
pub(crate) fn take_back(now: &Json, from: &Json, to: &Json, ours: bool) -> TakenBack {
    let mut changed = Vec::new();
    let back = merged(now, from, to, ours, "", &mut changed);
    match changed.is_empty() {
        _ if back == *now && changed.is_empty() => TakenBack::Nothing,
        true => TakenBack::To(back),
        false => TakenBack::Changed(changed.concat()),
    }
}

fn merged(now: &Json, from: &Json, to: &Json, ours: bool, name: &str, changed: &mut Vec<String>) -> Json {
    if from == to {
        return now.clone();
    }
    if let (Json::Object(now), Json::Object(from), Json::Object(to)) = (now, from, to) {
        let names = now.keys().chain(from.keys()).chain(to.keys());
        let at = |map: &Map<String, Json>, name: &String| map.get(name).cloned().unwrap_or_default();
        let mut back = Map::new();
        for name in names {
            if back.contains_key(name) {
                continue;
            }
            let value = merged(&at(now, name), &at(from, name), &at(to, name), ours, name, changed);
            if !value.is_null() || now.contains_key(name) || from.contains_key(name) {
                back.insert(name.clone(), value);
            }
        }
        return Json::Object(back);
    }
    if now == from || now == to || ours {
        return from.clone();
    }
    let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
    changed.push(name);
    now.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("S-31")]
    fn s31_only_what_was_changed_is_taken_back_and_only_where_it_is_still_so() {
        let from = json!({"running": false, "enabled": false, "mask": "no"});
        let to = json!({"running": true, "enabled": true, "mask": "no"});
        let back = |now: Json, ours| take_back(&now, &from, &to, ours);
        assert_eq!(back(to.clone(), false), TakenBack::To(from.clone()));
        assert_eq!(back(from.clone(), false), TakenBack::Nothing);
        // One aspect never came about, and somebody changed one that is not ours.
        let half = json!({"running": true, "enabled": false, "mask": "yes"});
        let rest = json!({"running": false, "enabled": false, "mask": "yes"});
        assert_eq!(back(half, false), TakenBack::To(rest));
        let other = json!({"running": "crashed", "enabled": true, "mask": "no"});
        assert_eq!(back(other.clone(), false), TakenBack::Changed(" (running)".into()));
        assert_eq!(back(other, true), TakenBack::To(from));
    }

    #[test]
    #[rule("S-31")]
    fn s31_what_has_no_aspects_is_compared_as_a_whole() {
        let (none, some) = (json!("absent"), json!({"present": {"uid": 7, "shell": "/bin/sh"}}));
        assert_eq!(take_back(&some, &none, &some, false), TakenBack::To(none.clone()));
        assert_eq!(take_back(&none, &none, &some, false), TakenBack::Nothing);
        let theirs = json!({"present": {"uid": 7, "shell": "/bin/zsh"}});
        assert_eq!(take_back(&theirs, &none, &some, false), TakenBack::Changed(String::new()));
        assert_eq!(take_back(&theirs, &none, &some, true), TakenBack::To(none));
        // Changed in place: aspect by aspect, also below the name of its variant.
        let moved = json!({"present": {"uid": 8, "shell": "/bin/sh"}});
        let theirs = json!({"present": {"uid": 8, "shell": "/bin/zsh"}});
        let back = json!({"present": {"uid": 7, "shell": "/bin/zsh"}});
        assert_eq!(take_back(&theirs, &some, &moved, false), TakenBack::To(back));
    }
}
