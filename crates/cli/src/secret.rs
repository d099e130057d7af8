//! What `zester secret` works with: blocks in settings files, keys of peels, values that are typed.

pub mod blocks;
pub mod keys;
pub mod value;
