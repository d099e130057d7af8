//! How a secret looks in base64, which programs print as if it hid something, and as they print it between quotes or in a
//! query: with the escapes of JSON, with percent signs.
//!
//! Of a text that is encoded with others around it only the letters in the middle are its own, and there are three ways they
//! can fall. Other encodings (hexadecimal, a digest) are not looked for; docs/secrets.md says so.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::collections::BTreeSet;
use zeroize::Zeroizing;
use zester_model::secret::HIDDEN_LETTERS_MIN;

/// A longer secret is looked for as it is alone.
const ENCODED_BYTES_MAX: usize = 8 * 1024;
/// What programs wrap the lines of base64 at: PEM, MIME.
const WRAPPED_AT: [usize; 2] = [64, 76];
/// The end of a wrapped text may be a line of few letters, which stands in other texts as well: `Cg==` is any last newline.
const LINE_LETTERS_MIN: usize = 8;

/// Every text in base64 that shows the whole secret, or as much of it as stands in one line.
pub fn in_base64(value: &str) -> Vec<Zeroizing<String>> {
    if value.chars().count() < HIDDEN_LETTERS_MIN || value.len() > ENCODED_BYTES_MAX {
        return Vec::new();
    }
    let mut found: BTreeSet<String> = BTreeSet::new();
    let line = Zeroizing::new(format!("{value}\n"));
    // Alone, or as `echo` prints it.
    for text in [value, line.as_str()] {
        found.extend([STANDARD.encode(text), STANDARD_NO_PAD.encode(text), URL_SAFE_NO_PAD.encode(text)]);
    }
    for before in 0..3 {
        found.extend([middle(&STANDARD_NO_PAD, value, before), middle(&URL_SAFE_NO_PAD, value, before)]);
    }
    let whole = Zeroizing::new(STANDARD.encode(line.as_str()));
    for letters in WRAPPED_AT.into_iter().filter(|letters| whole.len() > *letters) {
        let lines = whole.as_bytes().chunks(letters).map(String::from_utf8_lossy);
        let lines = lines.filter(|line| line.trim_end_matches('=').len() >= LINE_LETTERS_MIN);
        found.extend(lines.map(std::borrow::Cow::into_owned));
    }
    let long = found.into_iter().map(Zeroizing::new).filter(|text| text.len() >= HIDDEN_LETTERS_MIN);
    long.collect()
}

/// Every text that shows the whole secret in the escapes of JSON or of a URL, where that differs from the secret itself.
pub fn escaped(value: &str) -> Vec<Zeroizing<String>> {
    if value.chars().count() < HIDDEN_LETTERS_MIN || value.len() > ENCODED_BYTES_MAX {
        return Vec::new();
    }
    let mut found: BTreeSet<String> = BTreeSet::new();
    for text in [value, value.trim()] {
        for (ascii, slashes) in [(false, false), (false, true), (true, false), (true, true)] {
            found.insert(in_json(text, ascii, slashes));
        }
        // As RFC 3986 has it, as `encodeURIComponent` does, with slashes left, and as forms are sent.
        for kept in ["-._~", "-._~!*'()", "-._~/", "-._*+"] {
            found.extend([in_percent(text, kept, false), in_percent(text, kept, true)]);
        }
    }
    found.retain(|text| text != value && text != value.trim() && text.chars().count() >= HIDDEN_LETTERS_MIN);
    found.into_iter().map(Zeroizing::new).collect()
}

/// `ascii`: other letters by their number. `slashes`: escaped too.
fn in_json(text: &str, ascii: bool, slashes: bool) -> String {
    let quoted = Zeroizing::new(serde_json::Value::from(text).to_string());
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let mut shown = String::with_capacity(inner.len());
    for letter in inner.chars() {
        match letter {
            '/' if slashes => shown.push_str("\\/"),
            letter if ascii && !letter.is_ascii() => {
                let units = letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect::<String>();
                shown.push_str(&units);
            }
            letter => shown.push(letter),
        }
    }
    shown
}

/// `kept` stand as they are, beside letters and digits; with a `+` among them a blank is one.
fn in_percent(text: &str, kept: &str, lower: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for byte in text.bytes() {
        match char::from(byte) {
            ' ' if kept.contains('+') => shown.push('+'),
            letter if letter.is_ascii_alphanumeric() || letter != '+' && kept.contains(letter) => {
                shown.push(letter)
            }
            _ if lower => shown.push_str(&format!("%{byte:02x}")),
            _ => shown.push_str(&format!("%{byte:02X}")),
        }
    }
    shown
}

/// The letters that hold nothing but bits of the value, with so many bytes before it.
fn middle(engine: &impl Engine, value: &str, before: usize) -> String {
    let mut bytes = Zeroizing::new(vec![0; before]);
    bytes.extend_from_slice(value.as_bytes());
    let encoded = Zeroizing::new(engine.encode(bytes.as_slice()));
    let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    encoded.get(first..end).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_base64_is_found_whatever_stands_around_it() {
        let forms = in_base64("hunter2?>~");
        for (before, behind) in [("", ""), ("", "\n"), ("a", "b"), ("ab", ""), ("abc", "\n"), ("user:", "@x")]
        {
            let whole = format!("{before}hunter2?>~{behind}");
            for encoded in [STANDARD.encode(&whole), URL_SAFE_NO_PAD.encode(&whole)] {
                assert!(forms.iter().any(|form| encoded.contains(form.as_str())), "{whole}: {encoded}");
            }
        }
        assert!(in_base64("abc").is_empty());
    }

    #[test]
    fn a_secret_in_the_escapes_of_json_or_of_a_url_is_found() {
        let forms = escaped("p\"q\\r/ü &+\n");
        for shown in [
            r#"p\"q\\r/ü &+\n"#,
            r#"p\"q\\r\/\u00fc &+"#,
            "p%22q%5Cr%2F%C3%BC%20%26%2B",
            "p%22q%5cr%2f%c3%bc+%26%2b%0a",
            "p%22q%5Cr/%C3%BC%20%26%2B",
        ] {
            assert!(
                forms.iter().any(|form| form.as_str() == shown),
                "{shown}: {:?}",
                forms.iter().map(|form| form.as_str()).collect::<Vec<_>>()
            );
        }
        assert!(escaped("hunter2").is_empty(), "it looks the same");
    }

    #[test]
    fn a_short_last_line_is_no_secret() {
        for bytes in [48, 49, 50, 51, 57, 58, 59, 60] {
            let forms = in_base64(&"0123456789".repeat(6)[..bytes]);
            let short = forms.iter().find(|form| form.trim_end_matches('=').len() < LINE_LETTERS_MIN);
            assert!(short.is_none() && forms.len() > 3, "{bytes}: {:?}", short.map(|form| form.as_str()));
        }
    }

    #[test]
    fn the_lines_of_a_long_one_are_found_one_by_one() {
        let value = "0123456789".repeat(20);
        let forms = in_base64(&value);
        let whole = STANDARD.encode(format!("{value}\n"));
        for line in whole.as_bytes().chunks(76) {
            let line = std::str::from_utf8(line).unwrap();
            assert!(forms.iter().any(|form| form.as_str() == line), "{line}");
        }
    }
}
