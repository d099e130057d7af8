//! How a secret looks to everybody who must not see it (D-15).
//!
//! Templates, parameters, diffs and journals never hold a secret, only a *placeholder* for it: a token between two
//! characters of a private plane. Whoever forgets to reveal it gets the token, and whoever forgets to hide it shows the
//! token. Only the registry of the run (crate `secret`) knows what it stands for.

/// Stands wherever a secret would be shown.
pub const SHOWN: &str = "<secret>";

/// The ends of a placeholder. In plane 16, beside the characters that mark places in rendered text.
pub const OPEN: char = '\u{107f01}';
pub const CLOSE: char = '\u{107f02}';
/// Begins the JSON form of a value that is still sealed; no text of a user begins with it.
pub const SEALED: char = '\u{107f03}';

/// Around a message of gpg.
pub const PGP_BEGIN: &str = "-----BEGIN PGP MESSAGE-----";
pub const PGP_END: &str = "-----END PGP MESSAGE-----";

/// Whether a text holds a message for gpg, or what is left of one.
pub fn holds_pgp_message(text: &str) -> bool {
    text.contains(PGP_BEGIN)
}

/// A shorter secret is not looked for in what commands print: every other word would be one.
pub const HIDDEN_LETTERS_MIN: usize = 4;

/// Whether a text holds a placeholder, or what a filter left of one.
pub fn holds_placeholder(text: &str) -> bool {
    text.contains([OPEN, CLOSE])
}

/// Whether it is all of one placeholder and nothing else.
pub fn is_placeholder(text: &str) -> bool {
    let inner = text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE));
    inner.is_some_and(|inner| !holds_placeholder(inner))
}

/// A text with its placeholders shown as `<secret>`.
pub fn without_placeholders(text: &str) -> std::borrow::Cow<'_, str> {
    if !holds_placeholder(text) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find([OPEN, CLOSE]) {
        shown.push_str(rest.get(..at).unwrap_or_default());
        shown.push_str(SHOWN);
        let behind = rest.get(at..).unwrap_or_default();
        // What a filter damaged ends where it can: a lonely mark hides itself.
        let whole = behind.strip_prefix(OPEN).and_then(|inner| inner.split_once(CLOSE));
        rest = match whole {
            Some((inner, rest)) if !inner.contains(OPEN) => rest,
            _ => behind.strip_prefix([OPEN, CLOSE]).unwrap_or_default(),
        };
    }
    shown.push_str(rest);
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_shown_as_what_they_are_and_nothing_else_changes() {
        let one = format!("{OPEN}zQ12{CLOSE}");
        assert_eq!(without_placeholders("plain"), "plain");
        assert_eq!(without_placeholders(&format!("a {one} b {one}")), "a <secret> b <secret>");
        assert_eq!(without_placeholders(&format!("cut {OPEN}zQ1")), "cut <secret>zQ1");
        assert!(is_placeholder(&one) && !is_placeholder(&format!("{one} ")));
    }
}
