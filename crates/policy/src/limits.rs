//! The bounds of both documents.

use std::time::Duration;

/// The largest file of either.
pub const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Patterns, names or windows in one list.
pub const LIST_MAX: usize = 256;
/// Roles of one fleet.
pub const ROLES_MAX: usize = 256;
/// Rules of one role.
pub const RULES_MAX: usize = 256;
/// The longest maintenance window.
pub const WINDOW_MAX: Duration = Duration::from_secs(31 * 86_400);
