//! Why a tree was not published, or not read.

use crate::tree::TreePath;
use std::fmt;
use zester_wire::ContentHash;

#[derive(Debug)]
pub enum Error {
    /// The bus did not do as asked; it may later.
    Bus(zester_link::Error),
    /// What the bucket holds is no complete tree: a publish is under way, was torn, or somebody tampered with it (D-3).
    Torn(String),
    /// Signed, and older than what this reader has had.
    Older { found: u64, held: u64 },
    /// A file is another than when it was listed.
    Changed(TreePath),
    /// The disk.
    Disk(String),
    /// Whoever publishes lost the right to do so, or another wrote at the same time.
    Superseded,
    /// Nothing to publish where something is published (D-2).
    Empty,
    /// There is no such revision any more.
    NoSuchRevision(u64),
}

impl Error {
    pub fn tampered(hash: &ContentHash) -> Error {
        Error::Torn(format!("the content under {hash} has another hash"))
    }

    pub(crate) fn missing(hash: &ContentHash) -> Error {
        Error::Torn(format!("the content {hash} is listed and not there"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Bus(error) => error.fmt(out),
            Error::Torn(why) => write!(out, "what is published is not whole: {why}"),
            Error::Older { found, held } => {
                write!(out, "revision {found} is published, and {held} was: an older one is not believed")
            }
            Error::Changed(path) => write!(out, "{path} changed while it was published"),
            Error::Disk(why) => out.write_str(why),
            Error::Superseded => out.write_str("another master publishes"),
            Error::Empty => out.write_str("there is nothing to publish, and an empty tree replaces none"),
            Error::NoSuchRevision(revision) => write!(out, "there is no revision {revision} to go back to"),
        }
    }
}

impl std::error::Error for Error {}

impl From<zester_link::Error> for Error {
    fn from(error: zester_link::Error) -> Error {
        match error.is_of_record() {
            true => Error::Torn(error.to_string()),
            false => Error::Bus(error),
        }
    }
}

impl From<zester_bus::Error> for Error {
    fn from(error: zester_bus::Error) -> Error {
        Error::Bus(error.into())
    }
}
