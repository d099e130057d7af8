//! Trees of files from a master to every peel, whole or not at all (D-1 … D-5): state files, settings and reactor rules alike.
//!
//! ```text
//!  publisher                          bucket                              reader
//!  content, by its hash         ->    <hash> <hash> …
//!  the list of files            ->    _manifest.<n>, _manifest
//!  by comparing, last of all    ->    _revision = n, root      ->         which tree counts
//!  a notice                     -----------------------------> look       list, what it lacks, verify, swap
//! ```
//!
//! Until `_revision` names a tree, nothing of it is true for anybody, so a publisher may die between any two steps. Content
//! is stored under its hash: an unchanged file is not moved again, two revisions cannot mix, and what was tampered with
//! is found. Numbers of revisions are never used twice.
//!
//! What touches a disk comes in as a trait ([`Content`] on the side of the publisher, [`Cache`] on that of the reader), so that
//! a simulator brings its own. [`Directory`] is the first on a real disk.

mod directory;
mod error;
mod garbage;
mod history;
pub mod limits;
mod manifest;
mod memory;
mod publisher;
mod reader;
mod tree;
mod upload;

pub use directory::{Directory, DirectoryError, file_of};
pub use error::Error;
pub use history::{History, PastRevision, history};
pub use manifest::{Pages, tree_of};
pub use memory::MemoryCache;
pub use publisher::{About, Content, Fence, Outcome, Publisher, Reading};
pub use reader::{Cache, Change, Reader};
pub use tree::{BadPath, Tree, TreeDiff, TreeFile, TreePath};
pub use upload::{Uploaded, changes_of, fetch_tree, upload};
