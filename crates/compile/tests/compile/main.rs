//! The rules of the state language, each with a test that carries its id.

mod bounds;
mod fixture;
mod language;
mod properties;
mod requisites;
mod seeds;
mod templates;
