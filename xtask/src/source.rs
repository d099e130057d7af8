//! What a Rust file says apart from comments, strings and tests, so that a wall is checked to the end of a file and finds
//! no word that is only talked about.

/// The code of a file, at the places where it stands.
pub struct Source {
    /// Line numbers and lines. What a `use` declares has a line of its own: `use std::{env, fs};` gives `std::env` and
    /// `std::fs`; and so has what is said by the name that it declares: `fs::read` gives `std::fs::read`.
    pub lines: Vec<(usize, String)>,
    /// Modules that are declared for tests only, and stand in files of their own.
    pub test_modules: Vec<String>,
}

impl Source {
    pub fn of(text: &str) -> Source {
        let mut code = code(text);
        let test_modules = take_out_tests(&mut code);
        let code: String = code.iter().collect();
        let mut lines: Vec<(usize, String)> =
            code.lines().enumerate().map(|(index, line)| (index + 1, line.to_string())).collect();
        let uses = uses(&code);
        lines.extend(uses.iter().map(|declared| (declared.line, declared.path.clone())));
        let whole: Vec<(usize, String)> = lines
            .iter()
            .flat_map(|(number, line)| {
                uses.iter().flat_map(|used| used.said_whole(line).map(|line| (*number, line)))
            })
            .collect();
        lines.extend(whole);
        Source { lines, test_modules }
    }
}

/// The code of a text, tests included, with everything else as blanks.
pub fn code_of(text: &str) -> String {
    code(text).iter().collect()
}

/// The text with comments and the insides of literals as blanks; everything else stays at its place.
fn code(text: &str) -> Vec<char> {
    let mut code: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < code.len() {
        let end = literal_end(&code, at);
        for sign in code.iter_mut().take(end).skip(at).filter(|sign| **sign != '\n') {
            *sign = ' ';
        }
        at = end.max(at + 1);
    }
    code
}

/// Where the comment or literal that begins here ends; here, if none does.
fn literal_end(code: &[char], at: usize) -> usize {
    let next = |offset: usize| code.get(at + offset).copied().unwrap_or('\0');
    let inside_a_name = at > 0 && (code[at - 1].is_alphanumeric() || code[at - 1] == '_');
    match (next(0), next(1)) {
        ('/', '/') => find(code, at, |rest| rest[0] == '\n').unwrap_or(code.len()),
        ('/', '*') => comment_end(code, at),
        ('r', '"' | '#') if !inside_a_name || matches!(code[at - 1], 'b' | 'c') => raw_end(code, at),
        ('"', _) => escaped_end(code, at, '"'),
        ('\'', '\\') => escaped_end(code, at, '\''),
        ('\'', _) if next(2) == '\'' => at + 3,
        _ => at,
    }
}

/// Comments nest.
fn comment_end(code: &[char], from: usize) -> usize {
    let (mut depth, mut at) = (0, from);
    while at < code.len() {
        match (code[at], code.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(code.len())
}

fn escaped_end(code: &[char], from: usize, quote: char) -> usize {
    let mut at = from + 1;
    while at < code.len() && code[at] != quote {
        at += if code[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(code.len())
}

/// `r"…"`, `r#"…"#`; a raw name (`r#type`) is no literal.
fn raw_end(code: &[char], from: usize) -> usize {
    let hashes = code[from + 1..].iter().take_while(|sign| **sign == '#').count();
    if code.get(from + 1 + hashes) != Some(&'"') {
        return from;
    }
    let closes = |rest: &[char]| {
        rest[0] == '"' && rest[1..].iter().take_while(|sign| **sign == '#').take(hashes).count() == hashes
    };
    find(code, from + 2 + hashes, closes).map_or(code.len(), |at| at + 1 + hashes)
}

fn find(code: &[char], from: usize, wanted: impl Fn(&[char]) -> bool) -> Option<usize> {
    (from..code.len()).find(|at| wanted(&code[*at..]))
}

/// Blanks every item that is compiled for tests only, and names the modules among them that stand elsewhere.
fn take_out_tests(code: &mut [char]) -> Vec<String> {
    const MARK: &str = "#[cfg(test)]";
    let mark: Vec<char> = MARK.chars().collect();
    let mut modules = Vec::new();
    let mut from = 0;
    while let Some(at) = find(code, from, |rest| rest.starts_with(&mark)) {
        let (begin, end) = item(code, at + mark.len());
        let said: String = code[begin..end].iter().collect();
        let words: Vec<&str> = said.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        if let Some(index) = words.iter().position(|word| *word == "mod").filter(|_| said.ends_with(';')) {
            modules.extend(words.get(index + 1).map(|name| name.to_string()));
        }
        for sign in code[at..end].iter_mut().filter(|sign| **sign != '\n') {
            *sign = ' ';
        }
        from = end;
    }
    modules
}

/// Where the item after an attribute begins and ends: at its `;`, its closing brace, or the comma of a field.
fn item(code: &[char], from: usize) -> (usize, usize) {
    let begin = find(code, from, |rest| !rest[0].is_whitespace()).unwrap_or(code.len());
    if code[begin..].starts_with(&['#', '[']) {
        let (_, end) = item(code, bracket_end(code, begin + 1));
        return (bracket_end(code, begin + 1), end);
    }
    let said: String = code[begin..].iter().take_while(|sign| **sign != '\n').collect();
    let item_words =
        ["mod", "use", "fn", "struct", "enum", "impl", "const", "static", "type", "trait", "async", "unsafe"];
    let mut words = said.split([' ', '(', '<', ';']).filter(|word| !word.is_empty());
    let is_item = words.any(|word| item_words.contains(&word)) || said.starts_with("macro_rules!");
    let mut at = begin;
    while at < code.len() {
        match code[at] {
            ';' => return (begin, at + 1),
            ',' if !is_item => return (begin, at + 1),
            '{' => {
                let end = bracket_end(code, at);
                // The rest of `use a::{b};`.
                return (begin, end + usize::from(code.get(end) == Some(&';')));
            }
            '(' | '[' => at = bracket_end(code, at),
            _ => at += 1,
        }
    }
    (begin, code.len())
}

/// Behind the bracket that closes the one here.
fn bracket_end(code: &[char], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, sign) in code.iter().enumerate().skip(from) {
        match sign {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// One name that a `use` declares.
struct Used {
    line: usize,
    path: String,
    name: String,
}

impl Used {
    fn new(line: usize, tree: &str) -> Used {
        let (path, given) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
        let path = path.trim().strip_suffix("::self").unwrap_or(path.trim());
        let name = given.map(str::trim).or(path.rsplit("::").next()).unwrap_or_default();
        Used { line, path: path.to_string(), name: name.to_string() }
    }

    /// A line that goes on from this name, with the path in its place.
    fn said_whole(&self, line: &str) -> Option<String> {
        let goes_on = format!("{}::", self.name);
        let begins = |at: usize| is_word_at(line, at) && !line[..at].ends_with("::");
        let (at, _) = line.match_indices(&goes_on).find(|(at, _)| begins(*at))?;
        (self.path != self.name && !line.starts_with(&self.path))
            .then(|| format!("{}{}", self.path, &line[at + self.name.len()..]))
    }
}

/// Everything that `use` declarations name, one by one.
fn uses(code: &str) -> Vec<Used> {
    let mut found = Vec::new();
    let mut at = 0;
    for piece in code.split_inclusive(';') {
        if let Some(declared) = piece.rfind("use ").filter(|begin| is_word_at(piece, *begin)) {
            let line = code[..at + declared].matches('\n').count() + 1;
            let words: Vec<&str> = piece[declared + 4..].trim_end_matches(';').split_whitespace().collect();
            found.extend(flatten("", &words.join(" ")).iter().map(|tree| Used::new(line, tree)));
        }
        at += piece.len();
    }
    found
}

fn is_word_at(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_')
}

fn flatten(before: &str, tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![format!("{before}{}", tree.trim())] };
    let inside = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let before = format!("{before}{}", prefix.trim());
    let mut depth = 0_usize;
    let parts = inside.split(|sign| {
        match sign {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        sign == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty()).flat_map(|part| flatten(&before, part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines with something on them.
    fn said(text: &str) -> Vec<(usize, String)> {
        let lines = Source::of(text).lines.into_iter();
        lines
            .map(|(number, line)| (number, line.trim().to_string()))
            .filter(|(_, line)| !line.is_empty())
            .collect()
    }

    fn words(text: &str) -> String {
        said(text).into_iter().map(|(_, line)| line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(words("a(\"std::fs\"); // std::fs\n/* std::fs /* x */ std::fs */ b"), "a(         ); b");
        for text in [
            "r\"std::fs\"",
            "r#\"a \" std::fs\"#",
            "br##\"std::fs\"# std::fs\"##",
            "\"\\\" std::fs\"",
            "'\\'' ",
        ] {
            assert!(!words(&format!("x({text}); y")).contains("fs"), "{text}");
            assert!(words(&format!("x({text}); y")).ends_with('y'), "{text}");
        }
        assert_eq!(words("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(words("let r#type = '\"'; z"), "let r#type =    ; z");
    }

    #[test]
    fn tests_are_taken_out_and_what_follows_them_is_not() {
        let text = "one();\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn a() { \"}\" }\n}\ntwo();\n";
        assert_eq!(said(text), [(1, "one();".to_string()), (7, "two();".to_string())]);
        for item in [
            "use a::{b, c};",
            "fn f(x: [u8; 4]) -> A<B, C> { d }",
            "const X: [u8; 2] = [1, 2];",
            "pub(crate) mod x;",
            "field: X,",
        ] {
            assert_eq!(words(&format!("#[cfg(test)]\n{item}\ntwo();")), "two();", "{item}");
        }
    }

    #[test]
    fn modules_for_tests_in_files_of_their_own_are_named() {
        let source = Source::of(
            "mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\npub(crate) mod fake;\n#[cfg(test)]\nmod b {}\n",
        );
        assert_eq!(source.test_modules, ["tests", "fake"]);
    }

    #[test]
    fn what_is_used_out_of_braces_is_said_whole() {
        let paths = said("use std::{env, fs::{self, File}};\n\nuse std::\n    {time::Instant};");
        assert!(
            paths.contains(&(1, "std::env".into())) && paths.contains(&(1, "std::fs::File".into())),
            "{paths:?}"
        );
        assert!(paths.contains(&(3, "std::time::Instant".into())), "{paths:?}");
    }
}
