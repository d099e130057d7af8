//! Jinja as Salt writes it: rendering with bounds, and the way back from rendered text to the user's lines.
//!
//! | module | idea |
//! |---|---|
//! | `statements` | Salt's own tags (`import_yaml`, `load_yaml` …) in terms of the engine's |
//! | `rewrite` | the source pass over the engine's syntax tree |
//! | `origin` | marks in the output, and how they become positions |
//! | `environment` | the engine, its loader, formatter and globals |
//! | `fills` | values that stay out of the text, and what stands there for them |
//! | `reaction` | a template that is parsed once and rendered for each event |
//! | `serve` | the rendering thread and its other side |
//! | `mutable`, `functions`, `filters`, `formula_filters`, `data_filters`, `hashes`, `methods` | what templates can do |
//! | `budget` | what they cannot: outgrow their bounds |
//! | `report` | the engine's errors in our words, at the user's line |

mod budget;
mod data_filters;
mod dates;
mod environment;
pub mod fills;
mod filters;
mod formula_filters;
mod functions;
pub mod glob;
mod hashes;
mod imports;
mod methods;
mod mutable;
mod origin;
mod python;
mod reaction;
mod report;
mod rewrite;
mod salt_filters;
mod salt_functions;
mod sealed;
mod serve;
mod statements;
pub(crate) use statements::decided_ranges;
mod varargs;

pub use environment::syntax_error;
pub use hashes::digest_bytes;
pub use reaction::ReactionTemplate;
pub use salt_functions::names as salt_function_names;
pub use serve::{Renderer, Surroundings, is_template, with_renderer};
