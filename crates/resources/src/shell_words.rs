//! Splitting a command into words the way a POSIX shell does, and nothing more.
//!
//! Quotes and backslashes mean what they mean in `sh`; `$`, `*`, `|`, `>`, `~`, `#` and the rest are plain
//! letters, because no shell is there to give them a meaning (X-5).

/// The words of a line, or why it has none.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    // To the splitter a `#` begins a comment, so something that is not in the line stands in for it.
    let stand_in = ('\u{e000}'..='\u{f8ff}').find(|letter| !line.contains(*letter)).unwrap_or('#');
    let hidden = line.replace('#', &stand_in.to_string());
    let words = shlex::split(&hidden).ok_or_else(|| unbalanced(&hidden))?;
    Ok(words.into_iter().map(|word| word.replace(stand_in, "#")).collect())
}

/// What a line lacks that cannot be split: what would end it well.
fn unbalanced(line: &str) -> String {
    let ends_well = |end: char| shlex::split(&format!("{line}{end}")).is_some();
    if ends_well('\\') {
        return "it ends in a backslash with nothing to quote".to_string();
    }
    let quote = if ends_well('\'') { '\'' } else { '"' };
    format!("unbalanced quotes: a `{quote}` is never closed; add the closing `{quote}`")
}

/// A word as it would have to be written to be split into itself.
pub fn quoted(word: &str) -> String {
    // Only a NUL could be refused, and that is allowed here: whoever runs the word refuses it.
    shlex::Quoter::new()
        .allow_nul(true)
        .quote(word)
        .map_or_else(|_| word.to_string(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zester_rule::rule;

    #[test]
    #[rule("X-5")]
    fn x5_words_are_split_as_a_shell_would_and_nothing_is_expanded() {
        for (line, words) in [
            ("/bin/echo 'two words' $HOME * | wc", vec!["/bin/echo", "two words", "$HOME", "*", "|", "wc"]),
            (r#"a "b \"c\" \$d \e" f\ g"#, vec!["a", r#"b "c" $d \e"#, "f g"]),
            ("''", vec![""]),
            ("a''b\"\"c", vec!["abc"]),
            ("  \t\n ", vec![]),
            ("a\\\nb c", vec!["ab", "c"]),
            ("# no comment", vec!["#", "no", "comment"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
    }

    #[test]
    #[rule("X-5")]
    fn x5_unbalanced_quotes_are_an_error_that_says_which() {
        assert_eq!(
            split("echo 'x").unwrap_err(),
            "unbalanced quotes: a `'` is never closed; add the closing `'`"
        );
        assert_eq!(
            split("echo \"x").unwrap_err(),
            "unbalanced quotes: a `\"` is never closed; add the closing `\"`"
        );
        assert!(split("echo \\").unwrap_err().contains("backslash"));
        assert!(split("\"a\\").is_err());
    }

    proptest! {
        #[test]
        #[rule("X-5")]
        fn x5_quoting_and_splitting_are_inverse(words in prop::collection::vec(".*", 0..5)) {
            let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            prop_assert_eq!(split(&line.join(" ")).unwrap(), words);
        }

        #[test]
        #[rule("X-5")]
        fn x5_no_line_makes_it_panic(line in ".*") {
            let _ = split(&line);
        }
    }
}
