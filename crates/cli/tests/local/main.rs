//! The binary on one machine, from outside: what a user types and what comes back.

mod broken_trees;
mod call;
mod cancel;
mod conformance;
mod formats;
mod graph;
mod kill;
mod lock;
mod pictures;
mod refresh;
mod revert;
mod run;
mod scratch;
