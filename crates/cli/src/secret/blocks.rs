//! `!secret` blocks in the text of a settings file: where they stand, and how one is replaced.
//!
//! The files may be templates, and only peels can render those; so the text is read as `zester secret encrypt` writes it: a
//! key or a dash, `!secret |`, and the lines below it, deeper than that. A tag in any other form is found as well, and
//! said to be not understood: nobody is to believe that all were sealed anew when one was not.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;
use zester_converge::Error;
use zester_secret::{SealError, Sealed};

/// How the names of settings files end.
const ENDINGS: [&str; 5] = ["zy", "sls", "yaml", "yml", "json"];
const TAG: &str = "!secret";
/// Files of one settings tree.
const FILES_MAX: usize = 10_000;

/// One secret in a file.
#[derive(Debug)]
pub struct Block {
    pub path: PathBuf,
    /// Counted from 1.
    pub line: usize,
    /// `a:b:c`, by the keys above it.
    pub setting: String,
    pub sealed: Result<Sealed, Trouble>,
    /// The file as it was read.
    whole: Arc<str>,
    /// Its lines, those of the text alone.
    first: usize,
    end: usize,
    indent: usize,
}

/// Why a secret cannot be sealed anew.
#[derive(Debug)]
pub enum Trouble {
    Damaged(SealError),
    /// A tag in another form than a block: quoted, or in braces.
    NotUnderstood,
}

impl fmt::Display for Trouble {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Damaged(why) => why.fmt(out),
            Trouble::NotUnderstood => out.write_str("not understood; write it as a block, `!secret |`"),
        }
    }
}

/// Every secret of a file, or of all settings files below a directory, in the order of their names.
pub fn below(root: &Path) -> Result<Vec<Block>, Error> {
    let mut files = Vec::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(path) = rest.pop() {
        let fail = |error| Error::io("read", &path, error);
        if !path.is_dir() {
            files.push(path);
            continue;
        }
        for entry in std::fs::read_dir(&path).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let (below, name) = (entry.path(), entry.file_name());
            let ending = below.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            let meant = entry.file_type().map_err(fail)?.is_dir() || ENDINGS.contains(&ending);
            if meant && !name.as_encoded_bytes().starts_with(b".") {
                rest.push(below);
            }
        }
        if files.len() + rest.len() > FILES_MAX {
            return Err(Error::other(format!("{} holds more than {FILES_MAX} files", root.display())));
        }
    }
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, error))?;
        found.extend(in_text(&path, &text));
    }
    Ok(found)
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
    /// Takes the beginning of a line in, dashes and keys, and gives what comes behind them.
    fn enter<'l>(&mut self, line: &'l str) -> &'l str {
        let (mut at, mut rest) = (indent_of(line), line.trim());
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
        let key = rest.split_once(": ").or(rest.strip_suffix(':').map(|key| (key, "")));
        let Some((key, value)) = key.filter(|(key, _)| !key.starts_with(TAG)) else { return rest };
        self.0.retain(|level| level.indent < at);
        let name = key.trim_matches(['"', '\'', ' ']).to_string();
        self.0.push(Level { indent: at, name, item: None });
        value.trim()
    }

    fn setting(&self) -> String {
        self.0.iter().map(|level| level.name.as_str()).collect::<Vec<_>>().join(":")
    }
}

/// Whether a tag stands somewhere in a line, where YAML would see one: at the beginning of a value.
fn holds_tag(line: &str) -> bool {
    line.match_indices(TAG).any(|(at, _)| {
        let (before, behind) =
            (line.get(..at).unwrap_or_default(), line.get(at + TAG.len()..).unwrap_or_default());
        let ends = behind.is_empty() || behind.starts_with([' ', '\t', '"', '\'']);
        let commented = before.split_once(" #").is_some_and(|(text, _)| !text.contains(['"', '\'']));
        let trimmed = before.trim();
        let flow = trimmed.ends_with(['[', '{']) || (trimmed.ends_with(',') && trimmed.contains(['[', '{']));
        let anchored = trimmed.rsplit(' ').next().is_some_and(|word| word.starts_with('&'));
        let begins = trimmed.is_empty() || trimmed.ends_with([':', '-', '?']) || flow || anchored;
        ends && begins && !commented
    })
}

/// Whether a block of text begins here whose lines can be replaced.
fn begins_block(value: &str) -> bool {
    let style = value.strip_prefix(TAG).map(str::trim_start).and_then(|style| style.strip_prefix('|'));
    let style = style.map(|style| style.trim_start_matches(['-', '+']));
    style.is_some_and(|rest| rest.trim().is_empty() || rest.starts_with(" #"))
}

fn in_text(path: &Path, text: &str) -> Vec<Block> {
    let whole: Arc<str> = text.into();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut levels = Levels::default();
    let mut at = 0;
    while let Some(line) = lines.get(at).copied() {
        at += 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let value = levels.enter(line);
        if !holds_tag(line) {
            continue;
        }
        let (line, first, mut end, mut indent) = (at, at, at, 0);
        let above = levels.0.last().map(|level| level.indent);
        let sealed = match above.filter(|_| begins_block(value)) {
            Some(above) => {
                while lines.get(at).is_some_and(|line| line.trim().is_empty() || indent_of(line) > above) {
                    at += 1;
                }
                let last = (first..at).rev().find(|line| !lines[*line].trim().is_empty());
                end = last.map_or(first, |last| last + 1);
                let body = lines.get(first..end).unwrap_or_default();
                indent = body.first().map_or(above + 2, |line| indent_of(line));
                Sealed::parse(&body.join("\n")).map_err(Trouble::Damaged)
            }
            None => Err(Trouble::NotUnderstood),
        };
        let (path, whole, setting) = (path.to_path_buf(), whole.clone(), levels.setting());
        found.push(Block { path, line, setting, sealed, whole, first, end, indent });
    }
    found
}

/// A sealed value as it stands in a file, its lines this deep.
pub fn lines_of(sealed: &Sealed, indent: usize) -> String {
    sealed.to_string().lines().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect()
}

/// Puts other values into the blocks of files and leaves every other letter as it is. A file that is not what was read any
/// more is somebody else's work: then nothing is written, in no file.
pub fn replace(changes: BTreeMap<&Path, Vec<(&Block, Sealed)>>) -> Result<(), Error> {
    let written: Result<Vec<_>, Error> =
        changes.into_iter().map(|(path, changes)| beside(path, changes)).collect();
    for (file, path) in written? {
        file.persist(&path).map_err(|error| Error::io("write", &path, error.error))?;
    }
    Ok(())
}

/// The changed text in a file beside the one it is to replace, and that one: what a link leads to, not the link.
fn beside(path: &Path, mut changes: Vec<(&Block, Sealed)>) -> Result<(NamedTempFile, PathBuf), Error> {
    let fail = |error| Error::io("write", path, error);
    let path = path.canonicalize().map_err(fail)?;
    let text = std::fs::read_to_string(&path).map_err(|error| Error::io("read", &path, error))?;
    if changes.iter().any(|(block, _)| *block.whole != *text) {
        let path = path.display();
        return Err(Error::other(format!("{path} was changed meanwhile; nothing was written, try again")));
    }
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_string).collect();
    changes.sort_by_key(|(block, _)| std::cmp::Reverse(block.first));
    for (block, sealed) in changes {
        drop(lines.splice(block.first..block.end, [lines_of(&sealed, block.indent)]));
    }
    let file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/"))).map_err(fail)?;
    std::fs::write(file.path(), lines.concat()).map_err(fail)?;
    let (old, new) = (std::fs::metadata(&path).map_err(fail)?, file.as_file().metadata().map_err(fail)?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        fchown(file.as_file(), Some(old.uid()), Some(old.gid())).map_err(fail)?;
    }
    // After the owner: a change of that takes bits away.
    file.as_file().set_permissions(old.permissions()).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    Ok((file, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_converge::secrets::Random;
    use zester_rule::rule;
    use zester_secret::PrivateKey;

    fn sealed(value: &str, key: &PrivateKey) -> Sealed {
        let mut random = Random::default();
        Sealed::seal(value, &[("web-1".into(), key.public())], None, &mut |bytes| random.fill(bytes)).unwrap()
    }

    #[test]
    fn blocks_are_found_with_their_names_and_replaced_without_touching_anything_else() {
        let mut random = Random::default();
        let key = PrivateKey::make(&mut |bytes| random.fill(bytes));
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("db.zy");
        let (one, two) = (lines_of(&sealed("one", &key), 4), lines_of(&sealed("two", &key), 2));
        let text = format!(
            "# {{{{ facts.os }}}}\ndb:\n  port: 5432\n  password: !secret |\n{one}\n  user: web\ntoken: !secret |\n{two}other: 1\n"
        );
        std::fs::write(&path, &text).unwrap();
        std::fs::write(temp.path().join("notes.txt"), "x: !secret |\n  y\n").unwrap();
        let found = below(temp.path()).unwrap();
        let names: Vec<(&str, usize)> =
            found.iter().map(|block| (block.setting.as_str(), block.line)).collect();
        assert_eq!(names, [("db:password", 4), ("token", 4 + one.lines().count() + 3)]);
        assert_eq!(found[0].sealed.as_ref().unwrap().open(&key).unwrap().text(), "one");
        let changes = vec![(&found[0], sealed("uno", &key)), (&found[1], sealed("due", &key))];
        replace(BTreeMap::from([(path.as_path(), changes)])).unwrap();
        let again = below(&path).unwrap();
        let values: Vec<String> = again
            .iter()
            .map(|block| block.sealed.as_ref().unwrap().open(&key).unwrap().text().to_string())
            .collect();
        assert_eq!(values, ["uno", "due"]);
        let rest = |text: &str| -> Vec<String> {
            let sealed = ["zester-secret", "to ", "data "];
            let plain = |line: &&str| !sealed.iter().any(|word| line.trim().starts_with(word));
            text.lines().filter(plain).map(str::to_string).collect()
        };
        assert_eq!(rest(&std::fs::read_to_string(&path).unwrap()), rest(&text));
    }

    #[test]
    #[rule("D-15")]
    fn d15_a_file_that_changed_meanwhile_is_left_alone_and_so_are_the_others() {
        let mut random = Random::default();
        let key = PrivateKey::make(&mut |bytes| random.fill(bytes));
        let temp = tempfile::tempdir().unwrap();
        let (one, two) = (temp.path().join("a.zy"), temp.path().join("b.zy"));
        let text = format!("token: !secret |\n{}", lines_of(&sealed("one", &key), 2));
        std::fs::write(&one, &text).unwrap();
        std::fs::write(&two, &text).unwrap();
        let found = below(temp.path()).unwrap();
        let changed = format!("new: 1\nlines: 2\n{text}");
        std::fs::write(&two, &changed).unwrap();
        let changes =
            found.iter().map(|block| (block.path.as_path(), vec![(block, sealed("uno", &key))])).collect();
        let why = replace(changes).unwrap_err().to_string();
        assert!(why.contains("b.zy was changed meanwhile"), "{why}");
        assert_eq!(std::fs::read_to_string(&one).unwrap(), text);
        assert_eq!(std::fs::read_to_string(&two).unwrap(), changed);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 2);
    }

    #[test]
    #[rule("D-15")]
    fn d15_a_link_stays_a_link_and_owner_and_mode_stay() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let mut random = Random::default();
        let key = PrivateKey::make(&mut |bytes| random.fill(bytes));
        let temp = tempfile::tempdir().unwrap();
        let (file, link) = (temp.path().join("real.zy"), temp.path().join("link.zy"));
        let text = format!("token: !secret |\n{}", lines_of(&sealed("one", &key), 2));
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real.zy", &link).unwrap();
        // Only root can give a file away; for others the owner is the same before and after.
        let _ = chown(&file, Some(12), Some(12));
        let before = std::fs::metadata(&file).unwrap();
        let found = below(&link).unwrap();
        replace(BTreeMap::from([(link.as_path(), vec![(&found[0], sealed("uno", &key))])])).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        let after = std::fs::metadata(&file).unwrap();
        assert_ne!(before.ino(), after.ino());
        assert_eq!((before.uid(), before.gid(), before.mode()), (after.uid(), after.gid(), after.mode()));
        let again = below(&file).unwrap();
        assert_eq!(again[0].sealed.as_ref().unwrap().open(&key).unwrap().text(), "uno");
    }

    #[test]
    #[rule("D-15")]
    fn d15_no_secret_is_overlooked_wherever_it_stands() {
        let mut random = Random::default();
        let key = PrivateKey::make(&mut |bytes| random.fill(bytes));
        let body = lines_of(&sealed("one", &key), 8);
        let text = format!(
            "users:\n- name: a\n  password: !secret |\n{body}- name: b\n  more:\n    - !secret |-\n{body}    - !secret |\n{body}\
             below:\n  !secret |\n{body}q: !secret \"x\"\nf: {{a: 1, b: !secret 'x'}}\n\
             plain: use !secret here # x: !secret |\nbad: !secret |\n  x\n"
        );
        let found = in_text(Path::new("a.zy"), &text);
        let told: Vec<(&str, &str)> = found
            .iter()
            .map(|block| {
                let state = match &block.sealed {
                    Ok(_) => "good",
                    Err(Trouble::Damaged(_)) => "damaged",
                    Err(Trouble::NotUnderstood) => "not understood",
                };
                (block.setting.as_str(), state)
            })
            .collect();
        assert_eq!(
            told,
            [
                ("users:0:password", "good"),
                ("users:1:more:0", "good"),
                ("users:1:more:1", "good"),
                ("below", "good"),
                ("q", "not understood"),
                ("f", "not understood"),
                ("bad", "damaged"),
            ]
        );
    }
}
