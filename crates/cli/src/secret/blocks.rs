//! The secrets in settings files, and how those that are blocks are replaced. Where they stand `zester_secret` finds.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;
use zester_converge::Error;
use zester_secret::{BlockLines, MarkedSecret, Sealed, may_hold_secrets, secrets_in};

/// Files of one settings tree.
const FILES_MAX: usize = 10_000;

/// One secret in a file.
#[derive(Debug)]
pub struct Block {
    pub path: PathBuf,
    pub marked: MarkedSecret,
    /// The file as it was read.
    whole: Arc<str>,
}

impl Block {
    /// `settings/db.zy:3`
    pub fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.marked.line)
    }

    /// Whether its lines can be replaced.
    pub fn is_replaceable(&self) -> bool {
        self.marked.block.is_some()
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
            let meant =
                entry.file_type().map_err(fail)?.is_dir() || may_hold_secrets(&below.to_string_lossy());
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
        let whole: Arc<str> = text.as_str().into();
        let one = |marked| Block { path: path.clone(), marked, whole: whole.clone() };
        found.extend(secrets_in(&text).into_iter().map(one));
    }
    Ok(found)
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
    let first = |block: &BlockLines| block.lines.start;
    changes.sort_by_key(|(block, _)| std::cmp::Reverse(block.marked.block.as_ref().map(first)));
    for (block, sealed) in changes {
        let Some(BlockLines { lines: old, indent }) = block.marked.block.clone() else {
            return Err(Error::other(format!("{}: it cannot be replaced", block.place())));
        };
        drop(lines.splice(old, [lines_of(&sealed, indent)]));
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
            found.iter().map(|block| (block.marked.setting.as_str(), block.marked.line)).collect();
        assert_eq!(names, [("db:password", 4), ("token", 4 + one.lines().count() + 3)]);
        assert_eq!(found[0].marked.sealed.as_ref().unwrap().open(&key).unwrap().text(), "one");
        let changes = vec![(&found[0], sealed("uno", &key)), (&found[1], sealed("due", &key))];
        replace(BTreeMap::from([(path.as_path(), changes)])).unwrap();
        let again = below(&path).unwrap();
        let values: Vec<String> = again
            .iter()
            .map(|block| block.marked.sealed.as_ref().unwrap().open(&key).unwrap().text().to_string())
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
        assert_eq!(again[0].marked.sealed.as_ref().unwrap().open(&key).unwrap().text(), "uno");
    }
}
