//! Which paths of a tree are meant: a glob, or `E@` and a regular expression.

use crate::text::pattern::{Flags, Pattern};
use globset::{GlobBuilder, GlobMatcher};

/// Matches a path below a directory.
#[derive(Debug)]
pub struct PathPattern(Matcher);

#[derive(Debug)]
enum Matcher {
    Glob(GlobMatcher),
    Regex(Pattern),
}

impl PathPattern {
    /// A regular expression that takes too long to tell matches nothing.
    pub(crate) fn matches(&self, path: &str) -> bool {
        match &self.0 {
            // As in Salt, the last name alone may be meant.
            Matcher::Glob(glob) => {
                glob.is_match(path) || path.rsplit('/').next().is_some_and(|name| glob.is_match(name))
            }
            Matcher::Regex(pattern) => pattern.found_in(path).unwrap_or(false),
        }
    }
}

super::from_text!(PathPattern, "glob, or `E@` and a regular expression", |text| {
    match text.strip_prefix("E@") {
        Some(regex) => Pattern::new(regex, Flags::NONE).map(|pattern| PathPattern(Matcher::Regex(pattern))),
        None => {
            let glob = GlobBuilder::new(text).literal_separator(false).build();
            glob.map(|glob| PathPattern(Matcher::Glob(glob.compile_matcher())))
                .map_err(|error| format!("`{text}` is no glob: {}", error.kind()))
        }
    }
});
