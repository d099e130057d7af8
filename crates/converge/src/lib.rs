//! A run on this machine: compile, bind, graph, drive, journal, report.
//!
//! This crate joins the pure halves (compiler, engine) with what acts (resources, host). It is what `zester apply` and,
//! later, every peel run states with. [`plan`] turns what was asked for into states that can run; [`run_loop`] carries the
//! commands of the engine's machine out and its events back; [`journal`] makes both survive a crash.

pub mod call;
pub mod data_dir;
pub mod deadline;
mod disk;
pub mod document;
pub mod error;
pub mod executor;
mod fact_programs;
pub mod forget;
pub mod functions;
mod gathering;
mod gpg;
pub mod history;
pub mod implicit_order;
pub mod inputs;
pub mod journal;
mod leftovers;
pub mod lint;
pub mod local_host;
pub mod lock;
pub mod managed_paths;
pub mod migrate;
mod module_functions;
pub mod own_work;
pub mod plan;
pub mod pool;
mod python_program;
pub mod raw_arguments;
pub mod reactions;
mod real_places;
mod refresh;
pub mod revert;
pub mod run;
pub mod run_loop;
mod scope;
pub mod secrets;
pub mod settings;
pub mod tree;
pub mod tree_functions;
mod turns;
pub mod which_run;
mod whole_tree;

pub use error::Error;
