//! How a secret looks in base64, which programs print as if it hid something.
//!
//! Of a text that is encoded with others around it only the letters in the middle are its own, and there are three ways they
//! can fall. Other encodings (hexadecimal, percent signs, a digest) are not looked for; docs/secrets.md says so.

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
