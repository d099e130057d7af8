//! A kind of state that edits the text of a file: `file.append` and its kin.
//!
//! The kind says what becomes of the text. Everything else is that of `file.managed`: links are followed as safely, mode and
//! owner stay, the former content is kept for a revert. Several edits of one file are no contradiction: they run one after the
//! other as declared, after the state that owns the file (S-57).

use crate::bound::{KindEntry, Registered};
use crate::claims::Claims;
use crate::context::Checking;
use crate::file_change::{Backup, FileChange, FileWish};
use crate::file_resource::{BoundFile, FindsDrift, revert};
use crate::params::{Invalid, Mode, Params};
use std::path::Path;
use zester_host::{Fault, FaultKind};

/// Which file is edited, and how what is around the text is handled.
#[derive(Copy, Clone, Debug)]
pub struct EditedFile<'a> {
    path: &'a Path,
    backup: Option<&'a Backup>,
    makedirs: bool,
    hidden: bool,
    user: Option<&'a str>,
    group: Option<&'a str>,
    mode: Option<Mode>,
}

impl<'a> EditedFile<'a> {
    pub fn new(path: &'a Path) -> EditedFile<'a> {
        EditedFile { path, backup: None, makedirs: false, hidden: false, user: None, group: None, mode: None }
    }

    /// Keeps the replaced file beside it.
    pub fn backup(self, backup: Option<&'a Backup>) -> EditedFile<'a> {
        EditedFile { backup, ..self }
    }

    /// Creates missing parent directories.
    pub fn makedirs(self, makedirs: bool) -> EditedFile<'a> {
        EditedFile { makedirs, ..self }
    }

    /// `false` does not show what changes in the text.
    pub fn show_changes(self, show_changes: bool) -> EditedFile<'a> {
        EditedFile { hidden: !show_changes, ..self }
    }

    /// Whom it belongs to, and its permissions; what is not said stays.
    pub fn owned(self, user: Option<&'a str>, group: Option<&'a str>, mode: Option<Mode>) -> EditedFile<'a> {
        EditedFile { user, group, mode, ..self }
    }

    /// The fault of an edit that needs a file to be there.
    pub fn missing(self) -> Fault {
        Fault::new(FaultKind::NotFound, format!("there is no file {}", self.path.display()))
    }
}

/// What becomes of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edited {
    /// It is as it should be.
    Same,
    /// It is to be this. A text that is this already is left alone.
    To(String),
}

/// A kind of state that edits the text of a file.
pub trait FileEdit: Params {
    fn file(&self) -> EditedFile<'_>;

    /// What becomes of the text; `None` where there is no file. A file that comes of nothing is a new one, with the mode
    /// of new files. Edits what it has made without a change.
    fn edit(&self, old: Option<&str>, cx: &Checking<'_>) -> Result<Edited, Fault>;

    /// Judges the values, without looking at the machine.
    fn validate(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// What else it stands on: accounts, files that it reads.
    fn needs(&self) -> Claims {
        Claims::default()
    }
}

struct OfEdit<E>(E);

impl<E: FileEdit> FindsDrift for OfEdit<E> {
    type Drift = FileChange;
    const KIND: &'static str = E::KIND;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        let EditedFile { path, backup, makedirs, hidden, user, group, mode } = self.0.file();
        let content = |old: Option<&[u8]>| {
            let old = old.map(std::str::from_utf8).transpose().map_err(|_| {
                let message = format!("{} is not UTF-8 text", path.display());
                Fault::new(FaultKind::Unsupported, message)
            })?;
            Ok(match self.0.edit(old, cx)? {
                Edited::Same => None,
                Edited::To(text) => Some(text.into_bytes().into()),
            })
        };
        let wish = FileWish {
            backup,
            makedirs,
            show_changes: !hidden,
            edits: true,
            user,
            group,
            mode,
            ..FileWish::new(path, &content)
        };
        wish.find(cx)
    }

    fn claims(&self) -> Claims {
        let EditedFile { path, makedirs, user, group, .. } = self.0.file();
        let how: (Option<Mode>, Option<&str>, Option<&str>) = (None, user, group);
        self.0.needs().edits(path).accounts(user, group).makes_parents(makedirs, how)
    }
}

/// Marks what is registered as a [`FileEdit`].
pub struct AsFileEdit;

impl<E: FileEdit> Registered<AsFileEdit> for E {
    fn entry() -> KindEntry {
        KindEntry::of::<E>(
            |read| Box::new(BoundFile(OfEdit(read))),
            E::validate,
            |undo, cx| Box::pin(revert::<FileChange>(E::KIND, undo, cx)),
        )
    }
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
pub(crate) mod try_edit;
