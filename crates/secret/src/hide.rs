//! Keeping secrets out of what is shown: placeholders and, in what commands print, the secrets themselves.

use crate::registry::Secrets;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::sync::Arc;
use zeroize::Zeroizing;
use zester_model::secret::{HIDDEN_LETTERS_MIN, SHOWN, holds_placeholder, without_placeholders};

/// A line of a secret of several lines (a key in PEM) is looked for by itself from this length on: programs print it
/// indented, or one line at a time.
const LINE_LETTERS_MIN: usize = 8;

/// The texts that are not to be seen, the longest first.
#[derive(Default)]
pub(crate) struct Known(Vec<Zeroizing<String>>);

impl Known {
    pub(crate) fn add(&mut self, value: &str) {
        let lines = value.lines().map(str::trim).filter(|line| line.chars().count() >= LINE_LETTERS_MIN);
        let lines: Vec<&str> = if value.trim().contains('\n') { lines.collect() } else { Vec::new() };
        let whole =
            [value, value.trim()].into_iter().filter(|text| text.chars().count() >= HIDDEN_LETTERS_MIN);
        whole.chain(lines).for_each(|text| self.add_one(text));
    }

    pub(crate) fn add_one(&mut self, text: &str) {
        if !self.0.iter().any(|known| known.as_str() == text) {
            let at = self.0.partition_point(|known| known.len() >= text.len());
            self.0.insert(at, Zeroizing::new(text.to_string()));
        }
    }

    /// The first place where one begins, and how long it is there.
    fn find(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        // Of two that begin at one place the longer one counts; those come first.
        let found = self.0.iter().filter_map(|text| Some((find(bytes, text.as_bytes())?, text.len())));
        found.min_by_key(|(at, _)| *at)
    }

    /// Where the end of the bytes may be the beginning of one.
    fn begun(&self, bytes: &[u8]) -> usize {
        let held = |text: &Zeroizing<String>| {
            let most = bytes.len().min(text.len().saturating_sub(1));
            (1..=most)
                .rev()
                .find(|length| text.as_bytes().get(..*length) == bytes.get(bytes.len() - length..))
        };
        bytes.len() - self.0.iter().filter_map(held).max().unwrap_or(0)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        let at = from + rest.iter().position(|byte| *byte == first)?;
        if bytes.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

impl Secrets {
    /// A text as it may be shown.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let text = without_placeholders(text);
        if self.known().find(text.as_bytes()).is_none() {
            return text;
        }
        let mut shown = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((at, length)) = self.known().find(rest) {
            shown.extend_from_slice(rest.get(..at).unwrap_or_default());
            shown.extend_from_slice(SHOWN.as_bytes());
            rest = rest.get(at + length..).unwrap_or_default();
        }
        shown.extend_from_slice(rest);
        Cow::Owned(String::from_utf8_lossy(&shown).into_owned())
    }

    /// The same in place.
    pub fn hide_in(&self, text: &mut String) {
        if let Cow::Owned(shown) = self.hide(text) {
            *text = shown;
        }
    }

    /// Every text in a document. Of the names of fields only placeholders go: the rest is ours, or what the user wrote in
    /// the clear, and a secret such as `name` must not take a document apart.
    pub fn hide_in_json(&self, document: &mut Json) {
        match document {
            Json::String(text) => self.hide_in(text),
            Json::Array(items) => items.iter_mut().for_each(|item| self.hide_in_json(item)),
            Json::Object(map) => {
                if map.keys().any(|name| holds_placeholder(name)) {
                    for (name, value) in std::mem::take(map) {
                        let shown = without_placeholders(&name).into_owned();
                        map.insert(free_name(shown, |name| map.contains_key(name)), value);
                    }
                }
                map.values_mut().for_each(|value| self.hide_in_json(value));
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
}

/// Two names may differ in nothing but the secret in them: both are told of.
pub fn free_name(shown: String, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(&shown) {
        return shown;
    }
    let mut numbered = (2_u64..).map(|number| format!("{shown} ({number})"));
    numbered.find(|name| !is_taken(name)).unwrap_or_default()
}

/// Hides secrets in a stream, however it is cut.
pub struct Redactor {
    secrets: Arc<Secrets>,
    /// Placeholders come where the secrets were.
    puts_back: bool,
    /// What may be the beginning of a secret.
    held: Vec<u8>,
}

impl Redactor {
    pub fn new(secrets: Arc<Secrets>) -> Redactor {
        Redactor { secrets, puts_back: false, held: Vec::new() }
    }

    /// Puts the placeholders back, for those who go on with the text: a secret stays one. A single line of a secret has no
    /// placeholder, and is hidden.
    pub fn putting_back(secrets: Arc<Secrets>) -> Redactor {
        Redactor { secrets, puts_back: true, held: Vec::new() }
    }

    /// What may be shown after this piece.
    pub fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        self.pass(false)
    }

    /// What is left at the end.
    pub fn finish(mut self) -> Vec<u8> {
        self.pass(true)
    }

    fn pass(&mut self, at_end: bool) -> Vec<u8> {
        let known = self.secrets.known();
        let mut shown = Vec::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        loop {
            // One that is whole may be the beginning of a longer one.
            let open = if at_end { rest.len() } else { known.begun(rest) };
            match known.find(rest) {
                Some((at, length)) if at < open => {
                    let found = rest.get(at..at + length).unwrap_or_default();
                    let back = self.secrets.placeholder_of(found).filter(|_| self.puts_back);
                    shown.extend_from_slice(rest.get(..at).unwrap_or_default());
                    shown.extend_from_slice(back.unwrap_or(SHOWN).as_bytes());
                    rest = rest.get(at + length..).unwrap_or_default();
                }
                _ => {
                    shown.extend_from_slice(rest.get(..open).unwrap_or_default());
                    self.held = rest.get(open..).unwrap_or_default().to_vec();
                    return shown;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::tests::chance;
    use proptest::prelude::*;
    use serde_json::json;
    use zester_rule::rule;

    fn of(values: &[&str]) -> (Secrets, Vec<String>) {
        let (mut secrets, mut chance) = (Secrets::default(), chance(1));
        let placeholders =
            values.iter().map(|value| secrets.add(value.to_string().into(), &mut chance)).collect();
        (secrets, placeholders)
    }

    #[test]
    #[rule("D-15", "I-10")]
    fn d15_placeholders_and_secrets_are_shown_as_secret() {
        let (secrets, placeholders) = of(&["hunter2", "hunter22", "abc"]);
        let text = format!("{} hunter2 hunter22 abc", placeholders[0]);
        // Three letters are in every other word.
        assert_eq!(secrets.hide(&text), "<secret> <secret> <secret> abc");
        let mut document = json!({"hunter2": ["hunter2", {"a": format!("x{}", placeholders[2])}], "n": 1});
        secrets.hide_in_json(&mut document);
        assert_eq!(document, json!({"hunter2": ["<secret>", {"a": "x<secret>"}], "n": 1}));
        let (one, two) = (placeholders[0].as_str(), placeholders[1].as_str());
        let mut document = json!([{one: 1, two: {one: "hunter2"}, "n": 1}]);
        secrets.hide_in_json(&mut document);
        assert_eq!(document, json!([{"<secret>": 1, "<secret> (2)": {"<secret>": "<secret>"}, "n": 1}]));
    }

    #[test]
    #[rule("D-15", "I-10")]
    fn d15_a_secret_in_base64_is_one_too_and_comes_back_as_it_was() {
        let (secrets, _) = of(&["hunter2"]);
        let secrets = Arc::new(secrets);
        // `hunter2`, `hunter2\n`, `user:hunter2`.
        for encoded in ["aHVudGVyMg==", "aHVudGVyMgo=", "dXNlcjpodW50ZXIy"] {
            let shown = secrets.hide(encoded);
            assert!(
                shown.contains("<secret>") && !shown.contains("W50ZX") && !shown.contains("VudGVy"),
                "{shown}"
            );
            let mut redactor = Redactor::putting_back(secrets.clone());
            let mut text = redactor.take(encoded.as_bytes());
            text.extend(redactor.finish());
            assert!(
                !text.starts_with(encoded.as_bytes()) && !String::from_utf8_lossy(&text).contains("<secret>")
            );
            assert_eq!(secrets.reveal(text).ok().unwrap().bytes(), encoded.as_bytes());
        }
    }

    #[test]
    #[rule("D-15", "I-10")]
    fn d15_a_secret_is_hidden_with_the_escapes_of_json_and_of_a_url() {
        let (secrets, _) = of(&["p\"ss/w ü"]);
        for shown in
            ["p\"ss/w ü", r#"p\"ss/w ü"#, r#"p\"ss\/w \u00fc"#, "p%22ss%2Fw%20%C3%BC", "p%22ss%2fw+%c3%bc"]
        {
            assert_eq!(secrets.hide(&format!("a={shown}&b")), "a=<secret>&b");
        }
    }

    #[test]
    fn the_lines_of_a_long_secret_are_hidden_one_by_one() {
        let (secrets, _) = of(&["-----BEGIN KEY-----\nMIIEowIBAAKC\nabc\n-----END KEY-----\n"]);
        assert_eq!(secrets.hide("  MIIEowIBAAKC\n  abc"), "  <secret>\n  abc");
    }

    fn streamed(secrets: &Arc<Secrets>, pieces: &[&[u8]]) -> String {
        let mut redactor = Redactor::new(secrets.clone());
        let mut shown: Vec<u8> = pieces.iter().flat_map(|piece| redactor.take(piece)).collect();
        shown.extend(redactor.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    #[rule("D-15")]
    fn d15_a_secret_is_hidden_in_a_stream_and_nothing_is_held_back_needlessly() {
        let (secrets, _) = of(&["hunter2", "hunter2-long"]);
        let secrets = Arc::new(secrets);
        assert_eq!(
            streamed(&secrets, &[b"a hun", b"ter2 b hunter2", b"-lo", b"ng c hunte"]),
            "a <secret> b <secret> c hunte"
        );
        let mut redactor = Redactor::new(secrets);
        assert_eq!(redactor.take(b"password: "), b"password: ");
        assert_eq!(redactor.take(b"hunter2\n"), b"<secret>\n");
    }

    #[test]
    #[rule("D-15")]
    fn d15_who_goes_on_with_a_text_gets_placeholders_for_the_secrets_in_it() {
        let (secrets, placeholders) = of(&["hunter2", "-----BEGIN-----\nMIIEowIBAAKC\n-----END-----\n"]);
        let secrets = Arc::new(secrets);
        let mut redactor = Redactor::putting_back(secrets.clone());
        let mut text = redactor.take(b"a=hun");
        text.extend(redactor.take(b"ter2 -----BEGIN-----\nMIIEowIBAAKC\n-----END-----\nline MIIEowIBAAKC"));
        text.extend(redactor.finish());
        let wanted = format!("a={} {}line <secret>", placeholders[0], placeholders[1]);
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }

    proptest! {
        #[test]
        #[rule("D-15")]
        fn d15_however_a_stream_is_cut_no_secret_comes_through(
            words in proptest::collection::vec(prop_oneof!["[a-c ]{0,5}", Just("abcab".to_string()), Just("bcabca".to_string())], 0..12),
            cuts in proptest::collection::vec(1usize..7, 1..20),
        ) {
            let (secrets, _) = of(&["abcab", "bcabca"]);
            let secrets = Arc::new(secrets);
            let text = words.concat();
            let (mut pieces, mut rest, mut cuts) = (Vec::new(), text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            let shown = streamed(&secrets, &pieces);
            prop_assert!(!shown.contains("abcab") && !shown.contains("bcabca"));
        }
    }
}
