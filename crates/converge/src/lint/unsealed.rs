//! Finds what `!secret` marks and nobody sealed, before it reaches a bucket that every peel reads (D-6).
//!
//! It looks at the text, not at what a template makes of it: a file that no peel is given is published too.

use zester_secret::Sealed;

const TAG: &str = "!secret";
/// How the names of files end that may hold settings.
const ENDINGS: [&str; 6] = ["zy", "sls", "yaml", "yml", "json", "jinja"];

/// The lines where `!secret` marks something else than a sealed value.
pub fn unsealed(path: &str, text: &str) -> Vec<u32> {
    if !path.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending)) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let marked =
            marked(line).into_iter().any(|rest| !is_sealed(rest, lines.get(at + 1..).unwrap_or(&[])));
        if marked {
            found.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
        }
    }
    found
}

/// What follows each tag of a line. One in a comment marks nothing.
fn marked(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(TAG) {
        let (before, rest) =
            (line.get(..at).unwrap_or_default(), line.get(at + TAG.len()..).unwrap_or_default());
        let begins = before.chars().last().is_none_or(|last| last.is_whitespace() || "[{,:-".contains(last));
        let ends = rest.chars().next().is_none_or(|next| next.is_whitespace() || "\"'|>{[".contains(next));
        let comment = before.trim_start().starts_with('#') || before.contains(" #");
        if begins && ends && !comment {
            found.push(rest.trim());
        }
    }
    found
}

/// A block below the tag, or a quoted text after it.
fn is_sealed(rest: &str, below: &[&str]) -> bool {
    let header = rest.split(" #").next().unwrap_or_default().trim();
    if header.starts_with('|') {
        let block = below.iter().skip_while(|line| line.trim().is_empty());
        let indent = |line: &str| line.len() - line.trim_start().len();
        let first = block.clone().next().map_or(0, |line| indent(line));
        let block: Vec<&str> = block
            .take_while(|line| line.trim().is_empty() || (first > 0 && indent(line) >= first))
            .copied()
            .collect();
        return Sealed::parse(&block.join("\n")).is_ok();
    }
    let quoted = header.strip_prefix('"').and_then(|text| text.split('"').next());
    quoted.is_some_and(|text| Sealed::parse(&text.replace("\\n", "\n")).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_secret::PrivateKey;

    #[test]
    #[rule("D-6")]
    fn d6_a_secret_that_is_not_sealed_is_found_in_every_file() {
        for text in [
            "a: !secret hunter2\n",
            "a: !secret 'hunter2'\n",
            "a: [!secret hunter2]\n",
            "{% if x %}\na: !secret |\n  hunter2\n{% endif %}\n",
            "a: !secret {{ x }}\n",
            "a: !secret |\n  zester-secret 1\n  hunter2\n",
            "a: !secret\n  hunter2\n",
        ] {
            assert_eq!(unsealed("db.zy", text).len(), 1, "{text}");
        }
        for text in ["# a: !secret hunter2\n", "a: 1 # no !secret here\n", "a: not!secret x\n"] {
            assert!(unsealed("db.zy", text).is_empty(), "{text}");
        }
        assert!(unsealed("README.md", "write !secret x\n").is_empty());
    }

    #[test]
    #[rule("D-6")]
    fn d6_what_is_sealed_passes_wherever_it_stands() {
        let mut random = crate::secrets::Random::default();
        let key = PrivateKey::make(&mut |bytes| random.fill(bytes)).public();
        let sealed =
            Sealed::seal("x", &[("web-1".into(), key)], None, &mut |bytes| random.fill(bytes)).unwrap();
        let block = |indent: &str| {
            sealed.to_string().lines().map(|line| format!("{indent}{line}\n")).collect::<String>()
        };
        for text in [
            format!("a: !secret |\n{}b: 1\n", block("  ")),
            format!("{{% if x %}}\na:\n  - !secret |-\n{}{{% endif %}}\n", block("    ")),
            format!("a: !secret \"{}\"\n", sealed.to_string().replace('\n', "\\n")),
        ] {
            assert!(unsealed("db.zy", &text).is_empty(), "{text}");
        }
    }
}
