//! A path as the last argument of a command of the shell, and never as anything else.
//!
//! After a line end or a `;` the path would be a command by itself: the shell would run the file that it was to judge.
//! In a comment it would be nothing, and a check of nothing passes. So the text is read as the shell reads it: the path
//! goes behind its last word, and where that is no word of a command there is no place for it.

use zester_host::{Fault, FaultKind};

/// Words after which the shell expects a command, or the end of one.
const RESERVED: [&str; 16] = [
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then", "until",
    "while",
];

/// `command` with `path` (quoted for the shell) as one more argument of its last command.
pub(super) fn append_path(command: &str, path: &str) -> Result<String, Fault> {
    let why = match Reader::default().read(command) {
        Ok(Some(end)) => return Ok(format!("{} {path}", command.get(..end).unwrap_or(command))),
        Ok(None) => "it does not end in a command that could take it",
        Err(why) => why,
    };
    let shown = command.trim_end();
    let message = format!("check_cmd `{shown}` cannot be given the path of the new file: {why}");
    let hint = "the path is appended, so end it like `visudo -cf`";
    Err(Fault::new(FaultKind::Unsupported, message).hint(hint))
}

/// Reads a text as a shell does, as far as that is needed to know where its last command ends.
#[derive(Default)]
struct Reader {
    /// The word that is being read; what is quoted in it is left out.
    word: String,
    /// The command that is being read has a name: something besides assignments and words of the shell.
    named: bool,
    /// A line end came behind it; another one begins with the next letter, if there is one.
    line_ended: bool,
    /// `<` or `>`, whose file comes next.
    redirects: Option<char>,
    /// What is open, innermost last.
    open: Vec<Open>,
}

enum Open {
    /// `"`
    Quote,
    /// `(`
    Group,
    /// `$(`, and the word and command that it stands in.
    Substitution { word: String, named: bool, redirects: Option<char> },
}

impl Reader {
    /// Where the last command ends, if it can take an argument.
    fn read(mut self, text: &str) -> Result<Option<usize>, &'static str> {
        let mut end = 0;
        let mut before = '\n';
        let mut letters = text.char_indices().peekable();
        while let Some((_, letter)) = letters.next() {
            let next = letters.peek().map(|(_, next)| *next);
            let last = std::mem::replace(&mut before, letter);
            if self.line_ended && !matches!(letter, ' ' | '\t' | '\r' | '\n' | '#') {
                self.end_command();
            }
            match letter {
                '\\' => match letters.next() {
                    // The line goes on.
                    Some((_, '\n')) => continue,
                    Some(_) => self.word.push(letter),
                    None => return Err("it ends in a backslash"),
                },
                '`' => return Err("it holds a backquote; write `$(…)`"),
                '(' if last == '$' => self.begin_substitution(),
                _ if matches!(self.open.last(), Some(Open::Quote)) => match letter {
                    '"' => drop(self.open.pop()),
                    _ => self.word.push(letter),
                },
                '"' => {
                    self.word.push(letter);
                    self.open.push(Open::Quote);
                }
                '\'' => {
                    self.word.push(letter);
                    while letters.next().ok_or("a `'` is never closed")?.1 != '\'' {}
                }
                '#' if self.word.is_empty() => {
                    while letters.next_if(|(_, letter)| *letter != '\n').is_some() {}
                    continue;
                }
                ' ' | '\t' | '\r' => {
                    self.end_word();
                    continue;
                }
                '\n' => {
                    self.end_word();
                    self.line_ended = true;
                    continue;
                }
                '<' if next == Some('<') => return Err("it holds a here-document"),
                '<' | '>' => {
                    // A number before it is that of a descriptor.
                    if !self.word.chars().all(|letter| letter.is_ascii_digit()) {
                        self.end_word();
                    }
                    self.word.clear();
                    self.redirects = Some(letter);
                }
                // `2>&1`, `>|file`
                '&' | '|' if matches!(last, '<' | '>') => {}
                ';' | '&' | '|' => self.end_command(),
                '(' => {
                    self.end_command();
                    self.open.push(Open::Group);
                }
                ')' => self.close(),
                letter => self.word.push(letter),
            }
            end = letters.peek().map_or(text.len(), |(next, _)| *next);
        }
        self.end_word();
        match self.open.last() {
            Some(Open::Quote) => Err("a `\"` is never closed"),
            Some(_) => Err("a `(` is never closed"),
            None => Ok((self.named && self.redirects != Some('>')).then_some(end)),
        }
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() || self.redirects.take().is_some() {
            return;
        }
        let plain = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
        let assigns = word.split_once('=').is_some_and(|(name, _)| name.chars().all(plain));
        self.named |= !assigns && !RESERVED.contains(&word.as_str());
    }

    fn end_command(&mut self) {
        self.end_word();
        (self.named, self.redirects, self.line_ended) = (false, None, false);
    }

    fn begin_substitution(&mut self) {
        let (word, redirects) = (std::mem::take(&mut self.word), self.redirects.take());
        self.open.push(Open::Substitution { word, named: std::mem::take(&mut self.named), redirects });
    }

    fn close(&mut self) {
        self.end_command();
        if let Some(Open::Substitution { word, named, redirects }) = self.open.pop() {
            (self.word, self.named, self.redirects) = (word, named, redirects);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    /// What a shell makes of it, with a file that tells when it is run.
    fn judged(command: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new file");
        std::fs::write(&file, format!("#!/bin/sh\ntouch '{}/executed'\n", dir.path().display())).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, open).unwrap();
        let path = zester_resources::shell_words::quoted(file.to_str().unwrap());
        let text = append_path(command, &path).map_err(|fault| fault.message)?;
        let shell = std::process::Command::new("sh").args(["-c", &text]).current_dir(dir.path()).output();
        assert!(!dir.path().join("executed").exists(), "{command:?} ran the file: {text:?}");
        let said = String::from_utf8(shell.unwrap().stdout).unwrap();
        Ok(said.replace(file.to_str().unwrap(), "PATH"))
    }

    #[test]
    #[rule("S-43")]
    fn s43_the_path_is_an_argument_of_the_last_command_whatever_follows_it() {
        for (command, said) in [
            ("echo", "PATH\n"),
            ("echo -c\n", "-c PATH\n"),
            ("echo one\necho two\n\n", "one\ntwo PATH\n"),
            ("echo a # and no more", "a PATH\n"),
            ("echo a # it's\n# \"nothing\n", "a PATH\n"),
            ("echo \\\n  a \\\n", "a PATH\n"),
            ("echo 'a # b'", "a # b PATH\n"),
            ("echo \"a # $(echo \"b # c\" # d\n)\"", "a # b # c PATH\n"),
            ("echo a#b $(echo c; echo d)", "a#b c d PATH\n"),
            ("true && A=1 echo 2>&1", "PATH\n"),
            ("if true; then echo yes", ""),
            ("X=$(echo 1) echo >&1", "PATH\n"),
            ("echo PATH | cat; cat <", "PATH\n#!/bin/sh\n"),
            ("echo a > log; cat log; echo >> log b; tail -n 1 log; echo", "a\nb\nPATH\n"),
        ] {
            let judged = judged(command);
            let judged = judged.as_deref().map(|told| told.split("touch").next().unwrap_or(told));
            assert_eq!(judged, Ok(said), "{command:?}");
        }
    }

    #[test]
    #[rule("S-43")]
    fn s43_a_command_that_would_run_or_pass_over_the_new_file_is_refused() {
        for command in [
            "",
            "\n",
            "# nothing",
            "true;",
            "true;\n",
            "true &",
            "true &&",
            "true ||\n",
            "true |",
            "A=1",
            "true; A=1 B=$(true)",
            "(true)",
            "{ true; }",
            "if true; then",
            "if true; then true; fi",
            "! ",
            "> log",
            ">log",
            "true >",
            "cat <<END\nx\nEND\n",
            "true `echo",
            "echo 'a",
            "echo \"a",
            "echo (",
            "echo \\",
            "2>&1",
            "true; 2>/dev/null",
        ] {
            let fault = judged(command).unwrap_err();
            assert!(fault.contains("cannot be given the path of the new file"), "{command:?}: {fault}");
        }
    }
}
