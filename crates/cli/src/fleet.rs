//! A call on the fleet: what to ask, following it, what became of it.

pub mod ask;
pub mod outcome;
pub mod watching;
