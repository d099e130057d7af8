//! The binary on one machine, from outside: what a user types and what comes back.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot go on has failed

mod broken_trees;
mod call;
mod cancel;
mod check_cmd;
mod conformance;
mod data_dir;
mod denied;
mod dry_run;
mod environments;
mod formats;
mod formulas;
mod graph;
mod halfway;
mod hung;
mod implicit_order;
mod kill;
mod language;
mod lock;
mod migrate;
mod pictures;
mod printed;
mod refresh;
mod renderers;
mod revert;
mod run;
mod salt_requisites;
mod scratch;
mod secrets;
mod settings;
mod signals;
mod unknown;
mod unwritten;
