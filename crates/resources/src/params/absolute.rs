//! A path from the root.

use std::ops::Deref;
use std::path::{Path, PathBuf};

/// An absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absolute(pub PathBuf);

impl Deref for Absolute {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

super::from_text!(Absolute, "absolute path", |text| {
    if text.contains('\0') {
        return Err("a path cannot hold a NUL character".to_string());
    }
    if text.starts_with('/') {
        // Rebuilt from its components: `/srv/` and `/srv` are one path.
        return Ok(Absolute(Path::new(text).components().collect()));
    }
    Err(format!("`{text}` is not an absolute path; it begins with `/`"))
});
