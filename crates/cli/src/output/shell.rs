//! A call as its user could type it again: quoted for a shell, and no longer than there is room.

use serde_json::Value as Json;
use zester_wire::Job;

/// `'web*' file.managed /etc/motd 'content=hello world' --test`
pub fn call(job: &Job) -> String {
    let mut words = vec![quoted(&job.target_expr), quoted(&job.function)];
    words.extend(Some(&job.state_id).filter(|id| !id.is_empty()).map(|id| quoted(id)));
    words.extend(job.positionals.iter().map(|value| quoted(&typed(value))));
    words.extend(job.args.iter().map(|(key, value)| quoted(&format!("{key}={}", typed(value)))));
    if job.test {
        words.push("--test".into());
    }
    words.join(" ")
}

/// Words travel as they were typed; what a rule of the reactor gave has a type.
fn typed(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    if !word.chars().any(char::is_control) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    // A script of many lines, on one.
    let mut out = String::from("$'");
    for letter in word.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            letter if letter.is_control() => out.push_str(&format!("\\u{:04x}", letter as u32)),
            letter => out.push(letter),
        }
    }
    out.push('\'');
    out
}

/// So many letters of it at most, the last of them a mark that there are more.
pub fn cut(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_shown_as_it_could_be_typed_again() {
        let args = json!({ "content": "hello world", "mode": "0644", "tags": ["a"] });
        let job = Job {
            target_expr: "web* and G@os:Debian".into(),
            function: "file.managed".into(),
            state_id: "/etc/motd".into(),
            args: args.as_object().unwrap().clone(),
            test: true,
            ..crate::output::job_text::tests::job(&[])
        };
        let shown = call(&job);
        assert!(shown.starts_with("'web* and G@os:Debian' file.managed /etc/motd "), "{shown}");
        for wanted in [" 'content=hello world'", " mode=0644", " 'tags=[\"a\"]'", " --test"] {
            assert!(shown.contains(wanted), "{wanted}: {shown}");
        }
    }

    #[test]
    fn words_are_quoted_only_where_a_shell_would_read_them_otherwise() {
        for (word, shown) in [
            ("web-01", "web-01"),
            ("", "''"),
            ("*", "'*'"),
            ("it's", "'it'\\''s'"),
            ("one\ntwo's\\", "$'one\\ntwo\\'s\\\\'"),
            ("\x1b[2J", "$'\\u001b[2J'"),
            ("a $HOME", "'a $HOME'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
        assert_eq!((cut("abcdef", 4), cut("abcd", 4)), ("abc…".to_string(), "abcd".to_string()));
    }
}
