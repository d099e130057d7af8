//! Where `!secret` stands in the text of a file, and whether what it marks is sealed (D-6, D-15).
//!
//! The files may be templates, and only peels can render those; a file that no peel is given is published too. So the text is
//! looked at, not what a template makes of it, and a tag counts wherever YAML might come to see one: nobody is to believe
//! that all is sealed, or was sealed anew, when one was overlooked.

use crate::sealed::{SealError, Sealed};
use std::fmt;
use std::ops::Range;

/// How the names of files end that may hold settings.
const ENDINGS: [&str; 6] = ["zy", "sls", "yaml", "yml", "json", "jinja"];
/// The name of the tag: `!secret`, and in full `!<!secret>`.
const NAME: &str = "secret";
const NAME_IN_FULL: &str = "!secret";
/// What ends the name of a tag, besides a blank.
const NAME_ENDS: [char; 9] = [',', '[', ']', '{', '}', '"', '\'', '|', '>'];

/// One `!secret` of a text.
#[derive(Debug)]
pub struct MarkedSecret {
    /// Counted from 1.
    pub line: usize,
    /// `a:b:c`, by the keys above it.
    pub setting: String,
    pub sealed: Result<Sealed, Unsealed>,
    /// Where the value can be replaced: as `zester secret encrypt` writes it, a block below its tag.
    pub block: Option<BlockLines>,
}

/// The lines of a value, without that of its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLines {
    /// Counted from 0.
    pub lines: Range<usize>,
    pub indent: usize,
}

/// Why something that is marked counts for no sealed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsealed {
    Damaged(SealError),
    /// Neither a block nor a quoted text.
    NotUnderstood,
}

impl fmt::Display for Unsealed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsealed::Damaged(why) => why.fmt(out),
            Unsealed::NotUnderstood => out.write_str("not understood; write it as a block, `!secret |`"),
        }
    }
}

/// Whether a file of this name is looked into.
pub fn may_hold_secrets(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// The lines of a file where `!secret` marks something else than a sealed value.
pub fn unsealed_lines(path: &str, text: &str) -> Vec<u32> {
    if !may_hold_secrets(path) {
        return Vec::new();
    }
    let unsealed = secrets_in(text).into_iter().filter(|marked| marked.sealed.is_err());
    let mut lines: Vec<u32> = unsealed.map(|marked| u32::try_from(marked.line).unwrap_or(u32::MAX)).collect();
    lines.dedup();
    lines
}

/// Every secret that is marked in a text, in order.
pub fn secrets_in(text: &str) -> Vec<MarkedSecret> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut levels = Levels::default();
    let mut at = 0;
    while let Some(line) = lines.get(at).copied() {
        at += 1;
        let (number, below) = (at, at);
        levels.enter(line);
        for behind in behind_tags(line) {
            let block = begins_block(behind).then(|| block_at(&lines, below, levels.indent()));
            let sealed = match (&block, quoted(behind)) {
                (Some(block), _) => {
                    at = block.lines.end;
                    Sealed::parse(&lines.get(block.lines.clone()).unwrap_or_default().join("\n"))
                        .map_err(Unsealed::Damaged)
                }
                (None, Some(text)) => Sealed::parse(&text).map_err(Unsealed::Damaged),
                (None, None) => Err(Unsealed::NotUnderstood),
            };
            found.push(MarkedSecret { line: number, setting: levels.setting(), sealed, block });
        }
    }
    found
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// What a line stands below: keys by their names, items of lists by their numbers.
struct Level {
    indent: usize,
    name: String,
    item: Option<usize>,
}

#[derive(Default)]
struct Levels(Vec<Level>);

impl Levels {
    /// Takes the beginning of a line in: dashes and keys. Comments and statements of templates have none.
    fn enter(&mut self, line: &str) {
        let (mut at, mut rest) = (indent_of(line), line.trim());
        if rest.starts_with('#') || (rest.starts_with("{%") && rest.ends_with("%}")) {
            return;
        }
        while let Some(behind) = rest.strip_prefix("- ").or(rest.strip_prefix('-').filter(|it| it.is_empty()))
        {
            // A list may stand as deep as the key it belongs to.
            self.0.retain(|level| level.indent <= at);
            let last = self.0.iter().rposition(|level| level.item.is_some() && level.indent == at);
            let item = last.and_then(|last| self.0.get(last)?.item).map_or(0, |item| item + 1);
            self.0.truncate(last.unwrap_or(self.0.len()));
            self.0.push(Level { indent: at, name: item.to_string(), item: Some(item) });
            let trimmed = behind.trim_start();
            (at, rest) = (at + rest.len() - trimmed.len(), trimmed);
        }
        let key = rest.split_once(": ").map(|(key, _)| key).or(rest.strip_suffix(':'));
        let Some(key) = key.filter(|key| !key.starts_with('!')) else { return };
        self.0.retain(|level| level.indent < at);
        let name = key.trim_matches(['"', '\'', ' ']).to_string();
        self.0.push(Level { indent: at, name, item: None });
    }

    fn indent(&self) -> usize {
        self.0.last().map_or(0, |level| level.indent)
    }

    fn setting(&self) -> String {
        self.0.iter().map(|level| level.name.as_str()).collect::<Vec<_>>().join(":")
    }
}

/// What follows each tag of a line.
fn behind_tags(line: &str) -> Vec<&str> {
    let marks = line.match_indices('!').map(|(at, _)| line.split_at(at));
    let tags = marks.filter_map(|(before, rest)| {
        let behind = behind_tag(rest)?;
        (may_begin(before) && !is_comment(before)).then(|| behind.trim())
    });
    tags.collect()
}

/// What follows the tag that a text begins with. YAML knows it with escapes as well, and in full.
fn behind_tag(text: &str) -> Option<&str> {
    let (name, behind, wanted) = match text.strip_prefix("!<") {
        Some(full) => full.split_once('>').map(|(name, behind)| (name, behind, NAME_IN_FULL))?,
        None => {
            let text = text.strip_prefix('!')?;
            let ends = |letter: char| letter.is_whitespace() || NAME_ENDS.contains(&letter);
            let (name, behind) = text.split_at(text.find(ends).unwrap_or(text.len()));
            (name, behind, NAME)
        }
    };
    (unescaped(name)? == wanted.as_bytes()).then_some(behind)
}

/// `%73` is an `s`.
fn unescaped(name: &str) -> Option<Vec<u8>> {
    let mut parts = name.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

/// Whether a value may begin behind this: after a key, a dash or an anchor, in brackets, behind what a template puts there,
/// or in a text of a template that comes to stand there.
fn may_begin(before: &str) -> bool {
    let trimmed = before.trim();
    let anchored = trimmed.rsplit(char::is_whitespace).next().is_some_and(|word| word.starts_with('&'));
    let made = ["}}", "%}", "#}"].iter().any(|end| trimmed.ends_with(end));
    let last_of = |signs: [&str; 2]| signs.iter().filter_map(|sign| before.rfind(sign)).max();
    let in_template = last_of(["{{", "{%"]).is_some_and(|open| last_of(["}}", "%}"]) < Some(open));
    trimmed.is_empty()
        || trimmed.ends_with([':', '-', '?', '[', '{', ','])
        || anchored
        || made
        || (in_template && before.ends_with(['"', '\'']))
}

/// Whether what follows is part of a comment.
fn is_comment(before: &str) -> bool {
    // This ends a line for YAML too.
    let before = before.rsplit('\r').next().unwrap_or_default();
    let (mut quote, mut last) = (None, ' ');
    let mut letters = before.chars().peekable();
    while let Some(letter) = letters.next() {
        match quote {
            Some('"') if letter == '\\' => drop(letters.next()),
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            // An apostrophe inside a word opens nothing.
            None if "\"'".contains(letter) && (last.is_whitespace() || "[{,:(".contains(last)) => {
                quote = Some(letter);
            }
            // `#}` ends a comment of a template.
            None if letter == '#' && last.is_whitespace() && letters.peek() != Some(&'}') => return true,
            None => {}
        }
        last = letter;
    }
    false
}

/// `|`, `|-`, `|2` and the like, and nothing else but a comment.
fn begins_block(behind: &str) -> bool {
    let rest = behind.strip_prefix('|').map(|style| style.trim_start_matches(['-', '+']));
    let rest = rest.map(|rest| rest.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    let rest = rest.map(|rest| rest.trim_start_matches(['-', '+']));
    rest.is_some_and(|rest| {
        rest.is_empty() || (rest.starts_with(char::is_whitespace) && rest.trim_start().starts_with('#'))
    })
}

/// The lines of a block, from this one on: as deep as its first one, which is deeper than what it stands below.
fn block_at(lines: &[&str], first: usize, above: usize) -> BlockLines {
    let below = lines.get(first..).unwrap_or_default();
    let begin = below.iter().find(|line| !line.trim().is_empty()).map_or(0, |line| indent_of(line));
    if begin <= above {
        return BlockLines { lines: first..first, indent: above + 2 };
    }
    let inside = below.iter().take_while(|line| line.trim().is_empty() || indent_of(line) >= begin);
    let last = inside.enumerate().filter(|(_, line)| !line.trim().is_empty()).last();
    BlockLines { lines: first..first + last.map_or(0, |(at, _)| at + 1), indent: begin }
}

/// The text of `"…"`, where it ends on its line.
fn quoted(behind: &str) -> Option<String> {
    let (text, _) = behind.strip_prefix('"')?.split_once('"')?;
    Some(text.replace("\\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::PrivateKey;
    use crate::sealed::tests::chance;
    use zester_rule::rule;

    fn sealed() -> Sealed {
        let key = PrivateKey::make(&mut chance(1)).public();
        Sealed::seal("x", &[("web-1".into(), key)], None, &mut chance(2)).unwrap()
    }

    fn body(indent: usize) -> String {
        sealed().to_string().lines().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect()
    }

    #[test]
    #[rule("D-6")]
    fn d6_a_secret_that_is_not_sealed_is_found_in_every_file() {
        for text in [
            "a: !secret hunter2\n",
            "a: !secret 'hunter2'\n",
            "a: [!secret hunter2]\n",
            "a: [1,\n  2, !secret hunter2]\n",
            "a: {b: \"x #1\", c: !secret hunter2}\n",
            "a: it's, !secret hunter2\n",
            "# a comment\rb: !secret hunter2\n",
            "{% if x %}\na: !secret |\n  hunter2\n{% endif %}\n",
            "a: {% if x %}!secret hunter2{% endif %}\n",
            "a: {# why #} !secret hunter2\n",
            "a: {{ '!secret hunter2' }}\n",
            "a: !secret {{ x }}\n",
            "a: !secret |\n  zester-secret 1\n  hunter2\n",
            "a: !secret |\nb: 1\n",
            "a: !secret\n  hunter2\n",
            "a: &b !secret hunter2\n",
            "!secret hunter2\n",
            "a: !<!secret> hunter2\n",
            "a: !s%65cret hunter2\n",
        ] {
            assert_eq!(unsealed_lines("db.zy", text).len(), 1, "{text}");
        }
        for text in [
            "# a: !secret hunter2\n",
            "a: 1 # no !secret here\n",
            "a: it's # b: !secret x\n",
            "a: not!secret x\n",
            "a: use !secret here\n",
            "a: !secrets x\n",
            "a: !s%zzcret x\n",
        ] {
            assert!(unsealed_lines("db.zy", text).is_empty(), "{text}");
        }
        assert!(unsealed_lines("README.md", "write: !secret x\n").is_empty());
    }

    #[test]
    #[rule("D-6")]
    fn d6_what_is_sealed_passes_wherever_it_stands() {
        let quoted = sealed().to_string().replace('\n', "\\n");
        for text in [
            format!("a: !secret |\n{}b: 1\n", body(2)),
            format!("a: !<!secret> |\n{}b: 1\n", body(2)),
            format!("a: !secret |2- # why\n{}b: 1\n", body(2)),
            format!("a: &b !secret |\n{}b: 1\n", body(2)),
            format!("a: !secret |\n{}  {{% endif %}}\n", body(4)),
            format!("{{% if x %}}\na:\n  - !secret |-\n{}{{% endif %}}\n", body(4)),
            format!("a: !secret \"{quoted}\"\n"),
            format!("a: [!secret \"{quoted}\", !secret \"{quoted}\"]\n"),
        ] {
            let found = secrets_in(&text);
            assert!(!found.is_empty() && found.iter().all(|one| one.sealed == Ok(sealed())), "{text}");
        }
    }

    #[test]
    #[rule("D-15")]
    fn d15_no_secret_is_overlooked_wherever_it_stands() {
        let (block, quoted) = (body(8), sealed().to_string().replace('\n', "\\n"));
        let text = format!(
            "users:\n- name: a\n  password: !secret |\n{block}- name: b\n  more:\n    - !secret |-\n{block}    - !secret |\n{block}\
             below:\n  !secret |\n\n{block}\nq: !secret \"x\"\ng: !secret \"{quoted}\"\nf: {{a: 1, b: !secret 'x'}}\n\
             {{% set s = {{'u': 1}} %}}\nplain: use !secret here # x: !secret |\nbad: !secret |\n  x\n"
        );
        let lines: Vec<&str> = text.lines().collect();
        let told: Vec<(String, &str, Option<usize>)> = secrets_in(&text)
            .into_iter()
            .map(|marked| {
                let state = match &marked.sealed {
                    Ok(_) => "good",
                    Err(Unsealed::Damaged(_)) => "damaged",
                    Err(Unsealed::NotUnderstood) => "not understood",
                };
                assert!(lines[marked.line - 1].contains("!secret"), "line {}", marked.line);
                (marked.setting, state, marked.block.map(|block| block.indent))
            })
            .collect();
        let wanted = [
            ("users:0:password", "good", Some(8)),
            ("users:1:more:0", "good", Some(8)),
            ("users:1:more:1", "good", Some(8)),
            ("below", "good", Some(8)),
            ("q", "damaged", None),
            ("g", "good", None),
            ("f", "not understood", None),
            ("bad", "damaged", Some(2)),
        ];
        assert_eq!(told, wanted.map(|(setting, state, indent)| (setting.to_string(), state, indent)));
    }

    #[test]
    fn a_block_is_its_lines_and_no_blank_one_behind_them() {
        let length = body(4).lines().count();
        let found = secrets_in(&format!("a:\n  b: !secret |\n{}\n\n  c: 1\n", body(4)));
        assert_eq!(found[0].block, Some(BlockLines { lines: 2..2 + length, indent: 4 }));
    }
}
