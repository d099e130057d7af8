//! Subjects, patterns and keys: what is one, and what matches.

use crate::error::{Error, Kind};

fn plain(token: &str) -> bool {
    !token.is_empty()
        && !token.contains(|c: char| c.is_whitespace() || c.is_control() || c == '*' || c == '>')
}

/// A subject that can be published to: tokens between dots, no wildcard.
pub fn check_subject(subject: &str) -> Result<(), Error> {
    if subject.split('.').all(plain) {
        return Ok(());
    }
    Err(Error::new(Kind::Invalid, format!("`{subject}` is not a subject")))
}

/// A pattern: as a subject, but a token may be `*`, and the last one `>`.
pub fn check_pattern(pattern: &str) -> Result<(), Error> {
    let mut tokens = pattern.split('.').peekable();
    while let Some(token) = tokens.next() {
        let last = tokens.peek().is_none();
        if !(plain(token) || token == "*" || (token == ">" && last)) {
            return Err(Error::new(Kind::Invalid, format!("`{pattern}` is not a pattern")));
        }
    }
    Ok(())
}

/// The name of a stream, bucket or queue group: one token.
pub fn check_name(name: &str) -> Result<(), Error> {
    if plain(name) && !name.contains(['.', '/', '\\']) {
        return Ok(());
    }
    Err(Error::new(Kind::Invalid, format!("`{name}` is not a name of a stream or bucket")))
}

/// Whether a subject is one of the pattern's.
pub fn matches(pattern: &str, subject: &str) -> bool {
    let mut wanted = pattern.split('.');
    let mut found = subject.split('.');
    loop {
        match (wanted.next(), found.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(token), Some(other)) if token == other => {}
            _ => return false,
        }
    }
}

/// The pattern of what both patterns match; none when that is nothing.
pub fn intersect(left: &str, right: &str) -> Option<String> {
    let mut left_tokens = left.split('.').peekable();
    let mut right_tokens = right.split('.').peekable();
    let mut tokens: Vec<&str> = Vec::new();
    loop {
        match (left_tokens.peek(), right_tokens.peek()) {
            (None, None) => return Some(tokens.join(".")),
            (Some(&">"), Some(_)) => tokens.extend(right_tokens.by_ref()),
            (Some(_), Some(&">")) => tokens.extend(left_tokens.by_ref()),
            (Some(&"*"), Some(token)) | (Some(token), Some(&"*")) => tokens.push(token),
            (Some(token), Some(other)) if token == other => tokens.push(token),
            _ => return None,
        }
        if left_tokens.next().is_none() | right_tokens.next().is_none() {
            return Some(tokens.join("."));
        }
    }
}

/// What every match begins with.
pub fn fixed_part(pattern: &str) -> &str {
    pattern.find(['*', '>']).map_or(pattern, |at| &pattern[..at])
}

/// The stream behind a bucket.
pub fn stream_of(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// The subject behind a key, or behind a pattern of keys.
pub fn subject_of(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// The key behind a subject.
pub fn key_of<'a>(bucket: &str, subject: &'a str) -> Option<&'a str> {
    subject.strip_prefix("$KV.")?.strip_prefix(bucket)?.strip_prefix('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_the_server_matches() {
        let yes = [("a.b", "a.b"), ("a.*", "a.b"), ("a.>", "a.b.c"), (">", "a"), ("*.b.*", "a.b.c")];
        let no = [("a", "a.b"), ("a.*", "a"), ("a.*", "a.b.c"), ("a.>", "a"), ("a.b", "a.c"), ("a.>", "b.c")];
        for (pattern, subject) in yes {
            assert!(matches(pattern, subject), "{pattern} {subject}");
        }
        for (pattern, subject) in no {
            assert!(!matches(pattern, subject), "{pattern} {subject}");
        }
    }

    #[test]
    fn what_is_no_subject_is_refused() {
        for bad in ["", "a..b", ".a", "a.", "a b", "a.*", "a.>", "a\n"] {
            assert!(check_subject(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "a..b", "a.>.b", "a b", "a*"] {
            assert!(check_pattern(bad).is_err(), "{bad:?}");
        }
        assert!(check_subject("$KV.jobs.active.x").is_ok());
        assert!(check_pattern("zester.job.*.ack.>").is_ok());
        assert!(check_name("a.b").is_err());
    }

    #[test]
    fn two_patterns_meet_in_what_both_match() {
        let meet = |left, right| intersect(left, right);
        assert_eq!(meet("zester.job.*.ack.*", "zester.job.x.>").as_deref(), Some("zester.job.x.ack.*"));
        assert_eq!(meet("zester.job.*.status", "zester.job.x.>").as_deref(), Some("zester.job.x.status"));
        assert_eq!(meet("a.>", "*.b.*").as_deref(), Some("a.b.*"));
        assert_eq!(meet(">", "a").as_deref(), Some("a"));
        assert_eq!(meet("a.b", "a.b").as_deref(), Some("a.b"));
        for (left, right) in [("a", "b"), ("a", "a.b"), ("a.b", "a"), ("a.>", "a"), ("a.*", "b.>")] {
            assert_eq!(meet(left, right), None, "{left} {right}");
        }
    }

    #[test]
    fn a_key_is_found_again_in_its_subject() {
        assert_eq!(key_of("jobs", &subject_of("jobs", "active.x")), Some("active.x"));
        assert_eq!(key_of("jobs", "$KV.jobs2.x"), None);
        assert_eq!(fixed_part("active.*"), "active.");
    }
}
