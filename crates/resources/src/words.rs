//! Splitting a command into words the way a POSIX shell does, and nothing more.
//!
//! Quotes and backslashes mean what they mean in `sh`; `$`, `*`, `|`, `>`, `~`, `#` and the rest are plain
//! letters, because no shell is there to give them a meaning (X-5).

/// The words of a line, or why it has none.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => single(&mut letters, word.get_or_insert_default())?,
            '"' => double(&mut letters, word.get_or_insert_default())?,
            '\\' => match letters.next() {
                // A line that goes on.
                Some('\n') => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => return Err("it ends in a backslash with nothing to quote".to_string()),
            },
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single(letters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    for letter in letters {
        if letter == '\'' {
            return Ok(());
        }
        word.push(letter);
    }
    Err("unbalanced quotes: a `'` is never closed; add the closing `'`".to_string())
}

/// Between double quotes a backslash quotes only what would be special there.
fn double(letters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Ok(()),
            '\\' => match letters.next() {
                Some('\n') => {}
                Some(special @ ('$' | '`' | '"' | '\\')) => word.push(special),
                Some(other) => word.extend(['\\', other]),
                None => break,
            },
            plain => word.push(plain),
        }
    }
    Err("unbalanced quotes: a `\"` is never closed; add the closing `\"`".to_string())
}

/// A word as it would have to be written to be split into itself.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
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
