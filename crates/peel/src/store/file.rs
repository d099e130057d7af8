//! placeholder
pub struct FileStore;
