//! What a master publishes for all peels: trees of files, each a bucket of content by hash, a manifest and a revision (D-1).

use crate::codec::Message;
use crate::job::is_false;
use crate::name::{BadName, MasterId, Token};
use crate::time::UnixMillis;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// A tree that is published, and by which bucket.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Published {
    States,
    Settings,
    Reactor,
}

impl Published {
    pub const ALL: [Published; 3] = [Published::States, Published::Settings, Published::Reactor];

    /// The word of the command line and of messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Published::States => "states",
            Published::Settings => "settings",
            Published::Reactor => "reactor",
        }
    }

    pub fn parse(text: &str) -> Option<Published> {
        Published::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

impl Serialize for Published {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Published {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Published, D::Error> {
        let word = String::deserialize(deserializer)?;
        Published::parse(&word)
            .ok_or_else(|| D::Error::custom(format!("`{word}` is nothing that is published")))
    }
}

/// The SHA-256 of some content, as 64 hexadecimal digits: the key that the content is stored under.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash(Arc<str>);

impl ContentHash {
    const DIGITS: usize = 64;

    pub fn of(content: &[u8]) -> ContentHash {
        let mut text = String::with_capacity(ContentHash::DIGITS);
        for byte in Sha256::digest(content) {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
        }
        ContentHash(text.into())
    }

    pub fn parse(text: &str) -> Result<ContentHash, BadName> {
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.len() == ContentHash::DIGITS && text.bytes().all(lower_hex) {
            true => Ok(ContentHash(text.into())),
            false => Err(BadName { what: "content hash", why: "it is not 64 hexadecimal digits" }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_of(&self, content: &[u8]) -> bool {
        ContentHash::of(content) == *self
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ContentHash, D::Error> {
        ContentHash::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// One file of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedFile {
    /// Below the root of the tree, with `/` between names.
    pub path: String,
    pub hash: ContentHash,
    pub size: u64,
    /// Permission bits.
    #[serde(default)]
    pub mode: u32,
    /// The parts of a file that is too large for one message, in order; empty where it is one part, under its own hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ContentHash>,
}

/// A part of the list of files, stored under the hash of its bytes like any content: whoever trusts the manifest can check it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestPage {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// Sorted by path.
    pub files: Vec<PublishedFile>,
}

impl Message for ManifestPage {
    const NAME: &'static str = "manifest page";
}

/// Keys `_manifest` (the newest) and `_manifest.<revision>` (those that can be taken back): all files of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub revision: u64,
    /// What `_revision` names it by.
    pub root: ContentHash,
    pub pages: Vec<ContentHash>,
    pub files: u64,
    pub bytes: u64,
    #[serde(default)]
    pub published: UnixMillis,
    pub master: MasterId,
    /// Who asked for it; empty where the directory changed.
    #[serde(default)]
    pub user: String,
    /// Where the files came from, in words: a directory, or a repository with its commit.
    #[serde(default)]
    pub source: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// The revision that was taken back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<u64>,
    /// An operator's own tree, and not that of a master.
    #[serde(default, skip_serializing_if = "is_false")]
    pub uploaded: bool,
}

impl Manifest {
    /// Whether an operator chose this tree: a master's own directory replaces it only when it changes, or when somebody asks.
    pub fn is_by_hand(&self) -> bool {
        self.uploaded || self.rollback_of.is_some()
    }

    /// The name of a tree by its pages: the same files give the same root, whoever publishes them.
    pub fn root_of(pages: &[ContentHash]) -> ContentHash {
        let names: Vec<&str> = pages.iter().map(ContentHash::as_str).collect();
        ContentHash::of(names.join("\n").as_bytes())
    }
}

impl Message for Manifest {
    const NAME: &'static str = "manifest";
}

/// Key `_revision`: the tree that counts. Written last, by comparing: before that nothing of a new tree is true (D-1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub revision: u64,
    /// Which of the manifests that claim this number is meant.
    pub root: ContentHash,
}

impl Message for Revision {
    const NAME: &'static str = "revision";
}

/// The token of the notice that a bucket has a new revision.
pub fn notice_token(published: Published) -> Result<Token, BadName> {
    Token::parse(crate::key::Bucket::of_published(published).as_str())
}
