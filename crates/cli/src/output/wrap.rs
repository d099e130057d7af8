//! Long lines for a terminal: broken between words, the rest under the text they belong to.

use console::measure_text_width;

/// What a line may hold on any terminal.
pub const WIDTH: usize = 80;
/// A column further right leaves too little room for what stands in it.
const COLUMN_MAX: usize = 40;

/// Breaks what is longer than `width`; what is not stays as it is.
pub fn wrap(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some(line) => {
                wrap_line(line, width, &mut out);
                out.push('\n');
            }
            None => wrap_line(line, width, &mut out),
        }
    }
    out
}

fn wrap_line(line: &str, width: usize, out: &mut String) {
    if measure_text_width(line) <= width {
        return out.push_str(line);
    }
    let indent = " ".repeat(column_of_text(line));
    let mut used = 0;
    let mut is_first = true;
    for word in words(line) {
        let size = measure_text_width(word);
        if !is_first && used + size > width {
            let word = word.trim_start();
            out.push('\n');
            out.push_str(&indent);
            out.push_str(word);
            used = indent.len() + measure_text_width(word);
        } else {
            out.push_str(word);
            used += size;
        }
        is_first = false;
    }
}

/// Words, each with the blanks before it, so that columns stay columns.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.len() - rest.trim_start_matches(' ').len();
        let end = rest[start..].find(' ').map_or(rest.len(), |blank| start + blank);
        let (word, left) = rest.split_at(end);
        rest = left;
        (!word.is_empty()).then_some(word)
    })
}

/// Where the last column begins: behind the first gap of two blanks or more, else where the line itself begins.
fn column_of_text(line: &str) -> usize {
    let start = line.len() - line.trim_start().len();
    let gap = line[start..].find("  ").map(|gap| start + gap);
    let column = gap.map(|gap| {
        let rest = &line[gap..];
        measure_text_width(&line[..gap]) + rest.len() - rest.trim_start().len()
    });
    column.filter(|column| *column <= COLUMN_MAX).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_stay_under_their_text() {
        let short = "a line\n\n  another   one\n";
        assert_eq!(wrap(short, 20), short);
        assert_eq!(wrap("one two three four\n", 10), "one two\nthree four\n");
        assert_eq!(wrap("      one two three", 15), "      one two\n      three");
        assert_eq!(wrap("  file.managed  what it is\n", 24), "  file.managed  what it\n                is\n");
        assert_eq!(wrap("a-word-that-is-too-long b", 5), "a-word-that-is-too-long\nb");
        assert_eq!(wrap("\u{1b}[1mone\u{1b}[0m two", 7), "\u{1b}[1mone\u{1b}[0m two");
    }

    #[test]
    fn every_page_of_the_manual_fits() {
        let paint = crate::output::paint::Paint::new(false);
        for kind in zester_resources::catalog().iter() {
            let page = wrap(&crate::output::manual::page(kind, paint), WIDTH);
            let long = page.lines().find(|line| measure_text_width(line) > WIDTH);
            assert_eq!(long, None, "{}", kind.name);
        }
        for (topic, page) in crate::commands::doc::TOPICS {
            let page = wrap(&crate::output::manual::plain_markdown(page, paint), WIDTH);
            let long = page.lines().find(|line| measure_text_width(line) > WIDTH);
            assert_eq!(long, None, "{topic}");
        }
    }
}
