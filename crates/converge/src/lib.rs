//! A run on this machine: compile, bind, graph, drive, journal, report.
//!
//! This crate joins the pure halves (compiler, engine) with the hands (resources, host). It is what `zester apply` and,
//! later, every peel run states with. [`plan`] turns what was asked for into states that can run; [`drive`] carries the
//! commands of the engine's machine out and its events back; [`journal`] makes both survive a crash.

pub mod arrange;
pub mod call;
pub mod data_dir;
pub mod deadline;
mod disk;
pub mod document;
pub mod drive;
pub mod error;
mod fact_programs;
pub mod forget;
pub mod functions;
pub mod hands;
pub mod history;
pub mod inputs;
pub mod journal;
pub mod lint;
pub mod lock;
pub mod machine;
pub mod plan;
pub mod pool;
mod refresh;
pub mod revert;
pub mod run;
pub mod settings;
pub mod tree;
pub mod which_run;
pub mod words;

pub use error::Error;
