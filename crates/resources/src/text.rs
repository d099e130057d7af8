//! A text as its lines, for those who edit some of them and leave the others as they are.

pub(crate) mod pattern;

use std::borrow::Cow;

/// The lines in which a pattern is found, without what ends them.
pub fn lines_found<'t>(pattern: &str, text: &'t str) -> Result<Vec<&'t str>, String> {
    let pattern = pattern::Pattern::new(pattern, pattern::Flags::NONE)?;
    let mut found = Vec::new();
    for line in lines(text).into_iter().map(bare) {
        if pattern.found_in(line)? {
            found.push(line);
        }
    }
    Ok(found)
}

/// The lines of a text with what ends each.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// A line without what ends it.
pub(crate) fn bare(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// What ends a line: nothing, at the end of a text.
pub(crate) fn ending(line: &str) -> &str {
    &line[bare(line).len()..]
}

/// What ends the lines of a text: those that it has, else the usual.
pub(crate) fn line_end(text: &str) -> &'static str {
    match text.split_inclusive('\n').next() {
        Some(first) if first.ends_with("\r\n") => "\r\n",
        _ => "\n",
    }
}

/// A text all of whose lines end with a return, without these, and whether it was one.
pub(crate) fn without_returns(text: &str) -> (Cow<'_, str>, bool) {
    let dos = text.contains("\r\n")
        && lines(text).iter().all(|line| !line.ends_with('\n') || line.ends_with("\r\n"));
    (if dos { text.replace("\r\n", "\n").into() } else { text.into() }, dos)
}

/// The white space that a line begins with.
pub(crate) fn indentation(line: &str) -> &str {
    let line = bare(line);
    &line[..line.len() - line.trim_start().len()]
}

/// Text that ends like every other line does, if there is any.
pub(crate) fn ended(mut text: String, end: &str) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(end);
    }
    text
}

/// The lines of a text, each with this end.
pub(crate) fn with_ends(text: &str, end: &str) -> String {
    text.lines().flat_map(|line| [line, end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_its_lines_and_their_ends() {
        let text = "a\r\n  b\n\nc";
        assert_eq!(lines(text).concat(), text);
        let bares: Vec<&str> = lines(text).into_iter().map(bare).collect();
        assert_eq!(bares, ["a", "  b", "", "c"]);
        let ends: Vec<&str> = lines(text).into_iter().map(ending).collect();
        assert_eq!(ends, ["\r\n", "\n", "\n", ""]);
        assert_eq!((line_end(text), line_end("a\nb\r\n"), line_end("")), ("\r\n", "\n", "\n"));
        assert_eq!((indentation("\t b\n"), indentation("  \n"), indentation("")), ("\t ", "  ", ""));
        assert_eq!(without_returns("a\r\nb\r\n"), ("a\nb\n".into(), true));
        assert_eq!(without_returns("a\r\nb\n"), ("a\r\nb\n".into(), false));
        assert_eq!(ended("a".into(), "\r\n"), "a\r\n");
        assert_eq!(ended(String::new(), "\n"), "");
        assert_eq!(with_ends("a\nb", "\r\n"), "a\r\nb\r\n");
    }
}
