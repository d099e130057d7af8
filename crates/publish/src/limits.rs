//! Every bound of publishing, by name.

/// The largest file that is published (D-5). A larger one is refused by its name.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A file that is larger is stored in parts of this size, each of which fits the payload that a server allows by default.
pub const PART_BYTES: usize = 512 * 1024;
/// The most files of one tree.
pub const FILES_MAX: usize = 100_000;
/// The most bytes of one tree.
pub const TREE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The longest path below the root, and the longest name in it (that of the file systems in use).
pub const PATH_BYTES_MAX: usize = 1024;
pub const NAME_BYTES_MAX: usize = 255;
/// How deep directories nest.
pub const DEPTH_MAX: usize = 64;
/// About how many files one page of a manifest lists.
pub const PAGE_FILES: usize = 512;
/// Pages of one manifest.
pub const PAGES_MAX: usize = 1024;
/// Contents that are written or read at the same time.
pub const IN_FLIGHT: usize = 32;
/// Manifests that are kept, to be taken back to (D-12).
pub const MANIFESTS_KEPT: usize = 20;
/// Contents that nobody lists and that are looked at in one sweep.
pub const SWEEP_MAX: usize = 10_000;
/// How often a publish begins again because another wrote meanwhile.
pub const TRIES: usize = 3;
