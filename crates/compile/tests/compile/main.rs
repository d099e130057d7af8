//! The rules of the state language, each with a test that carries its id.

// A test that cannot go on says why by failing.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bounds;
mod exclude;
mod fixture;
mod language;
mod properties;
mod reaction_targets;
mod reactions;
mod requisites;
mod salt_trees;
mod schema;
mod secrets;
mod seeds;
mod settings;
mod templates;
mod top;
