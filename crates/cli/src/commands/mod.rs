//! One file a command: its words, its help and what it does.

pub mod apply;
pub mod bench;
pub mod call;
pub mod check;
pub mod completions;
pub mod doc;
pub mod event;
pub mod graph;
pub mod job;
pub mod lint;
pub mod man;
pub mod master;
pub mod on_fleet;
pub mod peel;
pub mod publish;
pub mod reactor;
pub mod revert;
pub mod schedule;
pub mod schema;
pub mod secret;
pub mod settings;
pub mod status;
pub mod target;
pub mod up;
pub mod version;
pub mod with_parent;
