//! Regular expressions as the states of Salt write them: Python's.
//!
//! They run on an engine of our own world, whose syntax differs in corners: a `{` that repeats nothing, a `[` inside a class,
//! `\Z` and `\<` mean other things there. [`Pattern`] writes these the other way before it compiles, so that a pattern means
//! what it means in Python, and a replacement text too.

use fancy_regex::{Captures, Regex, RegexBuilder};
use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Longest pattern that is compiled.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Steps one search may go back before it is given up.
const BACKTRACKS_MAX: usize = 1_000_000;
/// Memory one compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 10 * 1024 * 1024;

/// How a pattern is read, as `re` of Python names it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) ignore_case: bool,
    /// `^` and `$` stand for the ends of each line.
    pub(crate) multi_line: bool,
    pub(crate) dot_all: bool,
    pub(crate) verbose: bool,
}

impl Flags {
    pub(crate) const NONE: Flags =
        Flags { ignore_case: false, multi_line: false, dot_all: false, verbose: false };
    pub(crate) const MULTI_LINE: Flags = Flags { multi_line: true, ..Flags::NONE };

    /// By the numbers of Python.
    pub(crate) fn from_bits(bits: u32) -> Result<Flags, String> {
        // 4 is LOCALE and 32 UNICODE, which say nothing about text that is UTF-8 anyway.
        let known = 2 | 4 | 8 | 16 | 32 | 64;
        if bits & !known != 0 {
            return Err(format!("{bits} is no sum of flags; write their names: `[IGNORECASE, MULTILINE]`"));
        }
        let has = |bit: u32| bits & bit != 0;
        Ok(Flags { ignore_case: has(2), multi_line: has(8), dot_all: has(16), verbose: has(64) })
    }

    /// Those of both.
    pub(crate) fn and(self, other: Flags) -> Flags {
        Flags {
            ignore_case: self.ignore_case || other.ignore_case,
            multi_line: self.multi_line || other.multi_line,
            dot_all: self.dot_all || other.dot_all,
            verbose: self.verbose || other.verbose,
        }
    }

    /// The same flags and the one of this name.
    pub(crate) fn with(mut self, name: &str) -> Result<Flags, String> {
        match name.to_ascii_uppercase().as_str() {
            "IGNORECASE" | "I" => self.ignore_case = true,
            "MULTILINE" | "M" => self.multi_line = true,
            "DOTALL" | "S" => self.dot_all = true,
            "VERBOSE" | "X" => self.verbose = true,
            "UNICODE" | "U" | "LOCALE" | "L" => {}
            _ => {
                let known = "IGNORECASE, MULTILINE, DOTALL and VERBOSE";
                return Err(format!("`{name}` is no flag; there are {known}"));
            }
        }
        Ok(self)
    }
}

/// A compiled pattern.
pub(crate) struct Pattern {
    regex: Regex,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Pattern({})", self.regex.as_str())
    }
}

impl Pattern {
    /// What is wrong with it comes back in words.
    pub(crate) fn new(python: &str, flags: Flags) -> Result<Pattern, String> {
        if python.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern of more than {PATTERN_BYTES_MAX} bytes"));
        }
        let regex = RegexBuilder::new(&translated(python, flags.verbose))
            .case_insensitive(flags.ignore_case)
            .multi_line(flags.multi_line)
            .dot_matches_new_line(flags.dot_all)
            .ignore_whitespace(flags.verbose)
            .backtrack_limit(BACKTRACKS_MAX)
            .delegate_size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| format!("`{python}` is no regular expression: {}", first_line(&error)))?;
        Ok(Pattern { regex })
    }

    /// Whether it is found anywhere in the text.
    pub(crate) fn found_in(&self, text: &str) -> Result<bool, String> {
        self.regex.is_match(text).map_err(|error| self.gave_up(&error))
    }

    /// Replaces the first `count` places where it is found, all for 0. `None`: it is found nowhere.
    pub(crate) fn replace(
        &self,
        text: &str,
        replacement: &Replacement,
        count: usize,
    ) -> Result<Option<String>, String> {
        let mut replaced = String::with_capacity(text.len());
        let (mut end, mut places) = (0, 0);
        for captures in self.regex.captures_iter(text) {
            let captures = captures.map_err(|error| self.gave_up(&error))?;
            let Some(whole) = captures.get(0) else { continue };
            replaced.push_str(&text[end..whole.start()]);
            replacement.expand(&captures, &mut replaced);
            end = whole.end();
            places += 1;
            if places == count {
                break;
            }
        }
        replaced.push_str(&text[end..]);
        Ok((places > 0).then_some(replaced))
    }

    fn gave_up(&self, error: &fancy_regex::Error) -> String {
        format!("the search for `{}` was given up: {}", self.regex.as_str(), first_line(error))
    }
}

/// Errors of the engine draw the pattern below their first line.
fn first_line(error: &fancy_regex::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (first, last) = (lines.next().unwrap_or_default(), lines.next_back());
    last.filter(|line| line.starts_with("error:")).unwrap_or(first).to_string()
}

/// The pattern in the words of the engine.
fn translated(python: &str, verbose: bool) -> String {
    let mut out = String::with_capacity(python.len() + 8);
    let mut chars = python.chars().peekable();
    let mut in_class = false;
    let mut class_begins = false;
    while let Some(char) = chars.next() {
        let first_in_class = std::mem::take(&mut class_begins);
        match char {
            '\\' => escape(&mut chars, in_class, &mut out),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                class_begins = true;
            }
            // The first thing of a class stands for itself, whatever it is.
            ']' if in_class && first_in_class => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(char);
            }
            '-' if in_class && chars.peek() == Some(&'-') => out.push_str("\\-"),
            '{' if !in_class => repetition(&mut chars, &mut out),
            '#' if verbose && !in_class => {
                out.push('#');
                while let Some(comment) = chars.next_if(|next| *next != '\n') {
                    out.push(comment);
                }
            }
            other => out.push(other),
        }
    }
    out
}

fn escape(chars: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut String) {
    match chars.next() {
        Some('Z') if !in_class => out.push_str("\\z"),
        // Boundaries of words in other tongues.
        Some(char @ ('<' | '>')) => out.push(char),
        Some(char) => {
            out.push('\\');
            out.push(char);
        }
        None => out.push('\\'),
    }
}

/// A brace that holds no counts stands for itself.
fn repetition(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    let ahead: String = chars.clone().take_while(|char| *char != '}').collect();
    let closed = chars.clone().nth(ahead.chars().count()) == Some('}');
    let counts = ahead.chars().all(|char| char.is_ascii_digit() || char == ',')
        && ahead.chars().any(|char| char.is_ascii_digit())
        && ahead.matches(',').count() <= 1;
    match (closed && counts, ahead.starts_with(',')) {
        (true, false) => out.push('{'),
        (true, true) => out.push_str("{0"),
        (false, _) => out.push_str("\\{"),
    }
}

/// What a pattern is replaced by: text, and groups of what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
    Named(String),
}

impl Replacement {
    /// The text as it is.
    pub(crate) fn literal(text: &str) -> Replacement {
        Replacement(vec![Piece::Text(text.to_string())])
    }

    /// `\1`, `\g<1>` and `\g<name>` stand for groups, `\n` and `\t` for what they stand for.
    pub(crate) fn new(python: &str) -> Result<Replacement, String> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut chars = python.chars().peekable();
        while let Some(char) = chars.next() {
            if char != '\\' {
                text.push(char);
                continue;
            }
            match chars.next() {
                Some('0') => text.push('\0'),
                Some(digit) if digit.is_ascii_digit() => {
                    let mut number = digit.to_string();
                    number.extend(chars.next_if(char::is_ascii_digit));
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Group(number.parse().unwrap_or(usize::MAX)));
                }
                Some('g') => {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(group_name(&mut chars)?);
                }
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some('f') => text.push('\u{c}'),
                Some('v') => text.push('\u{b}'),
                Some('a') => text.push('\u{7}'),
                Some('\\') | None => text.push('\\'),
                Some(letter) if letter.is_ascii_alphabetic() => {
                    return Err(format!("`\\{letter}` means nothing in a replacement; write `\\\\{letter}`"));
                }
                Some(other) => {
                    text.push('\\');
                    text.push(other);
                }
            }
        }
        pieces.push(Piece::Text(text));
        Ok(Replacement(pieces))
    }

    /// The groups that it names must be there.
    pub(crate) fn fits(&self, pattern: &Pattern) -> Result<(), String> {
        let groups = pattern.regex.captures_len();
        let missing = self.0.iter().find_map(|piece| match piece {
            Piece::Group(number) if *number >= groups => Some(number.to_string()),
            Piece::Named(name) if !pattern.regex.capture_names().flatten().any(|known| known == name) => {
                Some(name.clone())
            }
            _ => None,
        });
        missing.map_or(Ok(()), |group| Err(format!("the pattern has no group `{group}`")))
    }

    fn expand(&self, captures: &Captures<'_, str>, out: &mut String) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Group(number) => {
                    out.push_str(captures.get(*number).map_or("", |found| found.as_str()));
                }
                Piece::Named(name) => out.push_str(captures.name(name).map_or("", |found| found.as_str())),
            }
        }
    }
}

fn group_name(chars: &mut Peekable<Chars<'_>>) -> Result<Piece, String> {
    let malformed = || "a group is written `\\g<name>`".to_string();
    if chars.next() != Some('<') {
        return Err(malformed());
    }
    let mut name = String::new();
    loop {
        match chars.next() {
            Some('>') => break,
            Some(char) => name.push(char),
            None => return Err(malformed()),
        }
    }
    if name.is_empty() {
        return Err(malformed());
    }
    Ok(name.parse().map_or(Piece::Named(name), Piece::Group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(pattern: &str, replacement: &str, text: &str) -> Option<String> {
        let pattern = Pattern::new(pattern, Flags::MULTI_LINE).unwrap();
        let replacement = Replacement::new(replacement).unwrap();
        replacement.fits(&pattern).unwrap();
        pattern.replace(text, &replacement, 0).unwrap()
    }

    #[test]
    fn a_pattern_means_what_it_means_in_python() {
        let cases = [
            // Groups, by number and by name, and lookaround.
            (r"^(Port)\s+\d+$", r"\1 2222", "x\nPort 22\n", "x\nPort 2222\n"),
            (r"^(?P<key>\w+)=.*$", r"\g<key>=1", "a=0\nb=0\n", "a=1\nb=1\n"),
            (r"^(a)(?!b)", r"\g<1>x", "ab ac\nac", "ab ac\naxc"),
            (r"(?P<q>['|])x(?P=q)", r"\g<0>.", "'x| 'x'", "'x| 'x'."),
            // Braces that repeat nothing, and those that do.
            (r"^\${HOME}/{x}$", "y", "${HOME}/{x}\n", "y\n"),
            (r"{{ (\w+) }}", r"<\1>", "a {{ b }} c", "a <b> c"),
            (r"a{,2}b", "x", "aaab", "ax"),
            (r"a{2}b", "x", "aaab", "ax"),
            // Classes hold brackets and set operators as they are.
            (r"^\[[^[]+\]$", "[x]", "[main]\n", "[x]\n"),
            (r"[]a]", "x", "]ab", "xxb"),
            (r"[&&a]", "x", "&a~", "xx~"),
            // The end of all, and no boundaries of words.
            (r"end\Z", "x", "end\nend", "end\nx"),
            (r"\<a\>", "x", "<a> a", "x a"),
            // The replacement has escapes of its own.
            ("a", r"\t\\1\.", "a", "\t\\1\\."),
        ];
        for (pattern, replacement, text, expected) in cases {
            assert_eq!(replaced(pattern, replacement, text).as_deref(), Some(expected), "{pattern}");
        }
        assert_eq!(replaced("nowhere", "x", "text"), None);
    }

    #[test]
    fn a_count_ends_the_replacing() {
        let pattern = Pattern::new("a", Flags::NONE).unwrap();
        let replacement = Replacement::literal(r"\1");
        assert_eq!(pattern.replace("aaa", &replacement, 2).unwrap().as_deref(), Some(r"\1\1a"));
    }

    #[test]
    fn what_cannot_be_read_is_said_in_a_sentence() {
        let message = |pattern: &str| Pattern::new(pattern, Flags::NONE).unwrap_err();
        assert!(message("(a").starts_with("`(a` is no regular expression: "), "{}", message("(a"));
        assert!(!message("a**[").contains('\n'));
        assert!(message(&"a".repeat(PATTERN_BYTES_MAX + 1)).contains("more than"));
        assert!(Replacement::new(r"\q").unwrap_err().contains("means nothing"));
        assert!(Replacement::new(r"\g<x").is_err() && Replacement::new(r"\g<>").is_err());
        let pattern = Pattern::new("(a)", Flags::NONE).unwrap();
        let misfit = Replacement::new(r"\2").unwrap().fits(&pattern).unwrap_err();
        assert_eq!(misfit, "the pattern has no group `2`");
        assert!(Replacement::new(r"\g<x>").unwrap().fits(&pattern).is_err());
    }

    #[test]
    fn a_search_that_goes_back_for_ever_is_given_up() {
        let pattern = Pattern::new(r"^(a|a|b?)*(?=c)\1d$", Flags::NONE).unwrap();
        let text = "a".repeat(200);
        let started = std::time::Instant::now();
        let found = pattern.found_in(&text);
        assert!(found.is_err() || found == Ok(false), "{found:?}");
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }

    #[test]
    fn flags_go_by_number_or_name() {
        assert_eq!(Flags::from_bits(8), Ok(Flags::MULTI_LINE));
        assert_eq!(Flags::from_bits(0), Ok(Flags::NONE));
        assert_eq!(Flags::NONE.with("multiline"), Ok(Flags::MULTI_LINE));
        assert!(Flags::from_bits(128).is_err() && Flags::NONE.with("LOUD").is_err());
        let flags = Flags { ignore_case: true, dot_all: true, ..Flags::NONE };
        assert!(Pattern::new("a.B", flags).unwrap().found_in("xA\nb").unwrap());
    }
}
