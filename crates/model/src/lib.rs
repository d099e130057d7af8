//! The vocabulary of Zester: names, spanned values, compiled states, outcomes, problems, limits.
//!
//! Everything here is plain data and pure functions. The crate depends on nothing of ours, does no IO, reads no
//! clock and knows no runtime, so every other crate may speak in its terms.

pub mod catalog;
pub mod diagnostic;
pub mod duration;
pub mod keywords;
pub mod limits;
pub mod merge;
pub mod name;
pub mod node;
pub mod outcome;
pub mod program;
pub mod requisite;
pub mod secret;
pub mod source;
pub mod suggest;
pub mod target;
