//! The keys of a fleet on disk, and what is made of them.

pub mod claims;
pub mod directory;
pub mod operators;
pub mod push;
pub mod revoker;
pub mod roles;
pub mod system;
pub mod tls;
pub mod trusted;
