//! Keys of SSH, one a line: those that let somebody in, and those that hosts are known by.

use crate::accounts;
use crate::context::Checking;
use std::path::PathBuf;
use zester_host::Fault;

/// The sorts of keys that OpenSSH knows, by how they begin.
const SORTS: [&str; 4] = ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"];

/// One key that lets somebody in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AuthorizedKey {
    pub(crate) options: Vec<String>,
    pub(crate) enc: String,
    pub(crate) key: String,
    pub(crate) comment: String,
}

impl AuthorizedKey {
    /// A line of `authorized_keys` or of a file with a public key; none for what is no key.
    pub(crate) fn read(line: &str) -> Option<AuthorizedKey> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (options, rest) = match is_sort(line.split_whitespace().next()?) {
            true => ("", line),
            false => split_options(line)?,
        };
        let mut words = rest.splitn(3, char::is_whitespace);
        let (enc, key) = (words.next()?, words.next()?);
        (is_sort(enc) && is_key(key)).then(|| AuthorizedKey {
            options: in_options(options),
            enc: enc.to_string(),
            key: key.to_string(),
            comment: words.next().unwrap_or_default().trim().to_string(),
        })
    }

    pub(crate) fn written(&self) -> String {
        let mut words = Vec::new();
        if !self.options.is_empty() {
            words.push(self.options.join(","));
        }
        words.extend([self.enc.clone(), self.key.clone()]);
        if !self.comment.is_empty() {
            words.push(self.comment.clone());
        }
        words.join(" ")
    }
}

pub(crate) fn is_sort(word: &str) -> bool {
    SORTS.iter().any(|sort| word.starts_with(sort))
}

/// The body of a key, as base64 writes it.
pub(crate) fn is_key(word: &str) -> bool {
    word.len() >= 16 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}

/// The options before a key: to the first space that is not between quotes.
fn split_options(line: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, letter) in line.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => return Some((&line[..at], line[at..].trim_start())),
            _ => {}
        }
    }
    None
}

/// By commas that are not between quotes.
fn in_options(text: &str) -> Vec<String> {
    let (mut found, mut current, mut quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            ',' if !quoted => found.push(std::mem::take(&mut current)),
            letter => {
                quoted ^= letter == '"';
                current.push(letter);
            }
        }
    }
    found.push(current);
    found.retain(|option| !option.is_empty());
    found
}

/// A file of a user, below its home as the account database has it.
pub(crate) struct UserFile {
    pub(crate) path: PathBuf,
    /// What is made there belongs to the user's own group.
    pub(crate) group: String,
}

/// `%h` is the home and `%u` the name, as `sshd_config` writes them.
pub(crate) fn file_of(user: &str, file: &str, cx: &Checking<'_>) -> Result<UserFile, Fault> {
    let account = cx.host.user(user)?.ok_or_else(|| accounts::nobody(user))?;
    let home = account.home.display().to_string();
    let path = account.home.join(file.replace("%u", user).replace("%h", &home));
    Ok(UserFile { path, group: account.gid.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_options_sort_key_and_comment() {
        let line =
            r#"no-pty,command="a, b \"c\"",from="10.0.0.1" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me at home"#;
        let key = AuthorizedKey::read(line).unwrap();
        assert_eq!(key.options, ["no-pty", r#"command="a, b \"c\"""#, r#"from="10.0.0.1""#]);
        assert_eq!((key.enc.as_str(), key.comment.as_str()), ("ssh-ed25519", "me at home"));
        assert_eq!(key.written(), line);
        for none in ["", "# ssh-rsa AAAAB3NzaC1yc2EAAAA", "ssh-rsa", "hello world again", "ssh-rsa short"] {
            assert_eq!(AuthorizedKey::read(none), None, "{none}");
        }
    }
}
