//! Globs over ids and values: `*`, `?`, `[seq]`, `[!seq]`, as in Salt, where `*` crosses everything.
//!
//! Not the `globset` crate: its matcher is made for paths, counts bytes where we mean characters, and panics on a pattern
//! that its regular expression cannot hold, whereas patterns come to us over the wire.

/// A parsed glob.
#[derive(Clone, Debug)]
pub struct Glob {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Star,
    Any,
    Exactly(char),
    OneOf { ranges: Vec<(char, char)>, negated: bool },
}

/// What is wrong with a glob, and at which byte.
#[derive(Debug, PartialEq)]
pub struct Mistake {
    pub offset: usize,
    pub message: &'static str,
}

/// Whether a text has to be read as a glob at all.
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

impl Glob {
    pub fn parse(pattern: &str) -> Result<Glob, Mistake> {
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(character) = pattern[at..].chars().next() {
            let offset = at;
            at += character.len_utf8();
            let part = match character {
                // Two stars in a row say no more than one, and would only cost.
                '*' if parts.last() == Some(&Part::Star) => continue,
                '*' => Part::Star,
                '?' => Part::Any,
                '[' => class(pattern, &mut at)?,
                '\\' => match pattern[at..].chars().next() {
                    Some(escaped) => {
                        at += escaped.len_utf8();
                        Part::Exactly(escaped)
                    }
                    None => return Err(Mistake { offset, message: "nothing follows the backslash" }),
                },
                '{' => return Err(Mistake { offset, message: "braces are no part of a glob" }),
                other => Part::Exactly(other),
            };
            parts.push(part);
        }
        Ok(Glob { parts })
    }

    /// The stretches of plain text in it, in order; every text that matches holds them all. The first of a pair says whether the
    /// stretch must stand at the very start, the second whether it must stand at the very end.
    pub fn stretches(&self) -> Vec<(bool, String, bool)> {
        let mut found = Vec::new();
        let mut open: Option<(bool, String)> = None;
        for (place, part) in self.parts.iter().enumerate() {
            match (part, &mut open) {
                (Part::Exactly(character), Some((_, text))) => text.push(*character),
                (Part::Exactly(character), None) => open = Some((place == 0, character.to_string())),
                (_, _) => found.extend(open.take().map(|(first, text)| (first, text, false))),
            }
        }
        found.extend(open.take().map(|(first, text)| (first, text, true)));
        found
    }

    /// Whether it is one star and nothing else.
    pub fn is_every(&self) -> bool {
        self.parts == [Part::Star]
    }

    /// Goes on after the last star whenever it is stuck, which takes pattern times text steps at the very worst.
    pub fn matches(&self, text: &str) -> bool {
        let (mut part, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let next = text[at..].chars().next();
            match (self.parts.get(part), next) {
                (None, None) => return true,
                (Some(Part::Star), _) => {
                    part += 1;
                    retry = Some((part, at));
                    continue;
                }
                (Some(wanted), Some(character)) if wanted.takes(character) => {
                    part += 1;
                    at += character.len_utf8();
                    continue;
                }
                _ => {}
            }
            // Let the last star take one character more.
            let Some((after_star, from)) = retry else { return false };
            let Some(taken) = text[from..].chars().next() else { return false };
            part = after_star;
            at = from + taken.len_utf8();
            retry = Some((part, at));
        }
    }
}

impl Part {
    fn takes(&self, character: char) -> bool {
        match self {
            Part::Star => false,
            Part::Any => true,
            Part::Exactly(wanted) => *wanted == character,
            Part::OneOf { ranges, negated } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
        }
    }
}

/// Reads `[seq]` from after its bracket. A `]` that stands first belongs to the sequence.
fn class(pattern: &str, at: &mut usize) -> Result<Part, Mistake> {
    let opened = *at - 1;
    let rest = &pattern[*at..];
    let negated = rest.starts_with(['!', '^']);
    let body_start = *at + usize::from(negated);
    let first = pattern[body_start..].chars().next().map_or(0, char::len_utf8);
    let closed = pattern[body_start + first..].find(']').map(|place| body_start + first + place);
    let Some(closed) = closed else {
        return Err(Mistake { offset: opened, message: "the bracket is never closed" });
    };
    let characters: Vec<char> = pattern[body_start..closed].chars().collect();
    let mut ranges = Vec::new();
    let mut place = 0;
    while let Some(low) = characters.get(place) {
        match (characters.get(place + 1), characters.get(place + 2)) {
            (Some('-'), Some(high)) if low <= high => {
                ranges.push((*low, *high));
                place += 3;
            }
            (Some('-'), Some(_)) => {
                return Err(Mistake { offset: opened, message: "the range in brackets runs backwards" });
            }
            _ => {
                ranges.push((*low, *low));
                place += 1;
            }
        }
    }
    *at = closed + 1;
    Ok(Part::OneOf { ranges, negated })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-8")]
    fn d8_globs() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "a/b/c", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a?c", "abc", true),
            ("a?c", "aüc", true),
            ("a?c", "ac", false),
            ("[a-c1]x", "bx", true),
            ("[a-c1]x", "1x", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[!]]", "]", false),
            ("[a-]", "-", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*.example.com", "web.example.com", true),
            ("***a", "a", true),
        ] {
            assert_eq!(Glob::parse(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    #[rule("R-4")]
    fn r4_the_plain_text_of_a_glob_is_known_with_its_place() {
        let stretches = |pattern: &str| Glob::parse(pattern).unwrap().stretches();
        let one = |first, text: &str, last| (first, text.to_string(), last);
        assert_eq!(stretches("*"), []);
        assert_eq!(stretches("web/a"), [one(true, "web/a", true)]);
        assert_eq!(
            stretches("web*/x/[ab]y"),
            [one(true, "web", false), one(false, "/x/", false), one(false, "y", true)]
        );
        assert!(Glob::parse("**").unwrap().is_every());
        assert!(!Glob::parse("?*").unwrap().is_every());
    }

    #[test]
    #[rule("D-8")]
    fn d8_mistakes_in_globs_have_a_place() {
        for (pattern, offset) in [("web[", 3), ("ü[]", 2), ("[z-a]", 0), ("a\\", 1), ("a{b,c}", 1)] {
            assert_eq!(Glob::parse(pattern).unwrap_err().offset, offset, "{pattern}");
        }
    }

    /// The definition, by recursion over the first part.
    fn slow(parts: &[Part], text: &[char]) -> bool {
        match (parts.first(), text.first()) {
            (None, next) => next.is_none(),
            (Some(Part::Star), _) => (0..=text.len()).any(|taken| slow(&parts[1..], &text[taken..])),
            (Some(part), Some(next)) => part.takes(*next) && slow(&parts[1..], &text[1..]),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        #[rule("D-8")]
        fn d8_globs_match_as_their_definition_says(pattern in "[ab*?üA]{0,8}", text in "[abü]{0,10}") {
            let glob = Glob::parse(&pattern).unwrap();
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(glob.matches(&text), slow(&glob.parts, &characters));
        }
    }
}
