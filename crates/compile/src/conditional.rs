//! Which lines of a template are the same for every machine: those outside of every tag and block.
//!
//! Found without rendering, so that a line counts as decided by its block whichever way that was decided this time.

use zester_model::source::{FileId, Span};

/// The lines of one rendered file that a tag or a block may decide about.
#[derive(Debug)]
pub struct Conditional {
    file: FileId,
    /// By line, from 0. Beyond them nothing is known.
    decided: Vec<bool>,
}

impl Conditional {
    /// Of a template.
    pub fn of_template(file: FileId, text: &str) -> Conditional {
        // Where it cannot be told what is inside of what, anything may be.
        let Some(ranges) = crate::template::decided_ranges(text) else {
            return Conditional::of_program(file);
        };
        let breaks: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        let line = |offset: usize| breaks.partition_point(|at| *at < offset);
        let mut decided = vec![false; breaks.len() + 1];
        for range in ranges {
            let (from, to) = (line(range.start), line(range.end.saturating_sub(1)));
            decided.iter_mut().take(to + 1).skip(from).for_each(|decided| *decided = true);
        }
        Conditional { file, decided }
    }

    /// Of a program: anything may decide about anything.
    pub fn of_program(file: FileId) -> Conditional {
        Conditional { file, decided: Vec::new() }
    }

    /// Whether a block may decide about what stands in one of these lines.
    pub fn decides(&self, from: Span, to: Span) -> bool {
        if from.file != self.file || to.file != self.file {
            return true;
        }
        let lines = from.line.min(to.line).saturating_sub(1) as usize..from.line.max(to.line) as usize;
        self.decided.get(lines).is_none_or(|lines| lines.contains(&true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-6")]
    fn d6_a_line_inside_of_a_block_is_decided_and_one_outside_is_not() {
        let text = "{# a\n note #}\n'*':\n  - a\n{% set x = 1 %}\n'{{ x }}':\n{%- if x %}\n  - b {# { #}\n{% for y in [x] %}{% endfor %}\n  - c\n{% endif %}\n  - d\n";
        let conditional = Conditional::of_template(FileId(1), text);
        let at = |line: u32| Span::new(FileId(1), line, 1, 1);
        let decided: Vec<u32> = (1..=13).filter(|line| conditional.decides(at(*line), at(*line))).collect();
        assert_eq!(decided, [5, 6, 7, 8, 9, 10, 11]);
        assert!(conditional.decides(at(3), at(12)), "what stands between them counts");
        assert!(!conditional.decides(at(3), at(4)));
        let elsewhere = Span::new(FileId(2), 3, 1, 1);
        assert!(conditional.decides(at(3), elsewhere));
        assert!(Conditional::of_program(FileId(1)).decides(at(1), at(1)));
    }
}
