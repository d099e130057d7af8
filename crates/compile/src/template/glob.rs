//! Patterns as Python's `fnmatch` reads them, letter by letter: `*`, `?`, `[abc]`, `[!abc]`.

/// Whether a whole text fits a pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last `*` does not fit.
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                back = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some('?') => Some(p + 1),
            Some('[') => set(&pattern, p, text[t]),
            Some(letter) => (*letter == text[t]).then_some(p + 1),
            None => None,
        };
        match (step, back) {
            (Some(next), _) => (p, t) = (next, t + 1),
            (None, Some((from, at))) => {
                back = Some((from, at + 1));
                (p, t) = (from, at + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|letter| *letter == '*')
}

/// The place behind a set that holds the letter. A bracket that nothing closes is a letter itself.
fn set(pattern: &[char], start: usize, letter: char) -> Option<usize> {
    let negated = pattern.get(start + 1) == Some(&'!');
    let first = start + 1 + usize::from(negated);
    let close = (first + 1..pattern.len()).find(|at| pattern[*at] == ']');
    let Some(close) = close else { return (letter == '[').then_some(start + 1) };
    let mut holds = false;
    let mut at = first;
    while at < close {
        if at + 2 < close && pattern[at + 1] == '-' {
            holds |= (pattern[at]..=pattern[at + 2]).contains(&letter);
            at += 3;
        } else {
            holds |= pattern[at] == letter;
            at += 1;
        }
    }
    (holds != negated).then_some(close + 1)
}

/// Whether a text is a pattern at all.
pub fn is_one(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-49")]
    fn s49_patterns_are_those_of_fnmatch() {
        for (pattern, text, fits) in [
            ("Debian-12*", "Debian-12", true),
            ("*-1[012]", "Debian-12", true),
            ("*-1[!012]", "Debian-12", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[", "[", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("", "", true),
            ("[a-c]x", "bx", true),
            ("Arch", "arch", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
