//! How a text becomes content.

use schemars::JsonSchema;
use serde::Deserialize;

/// What renders a template.
#[derive(Copy, Clone, Debug, Hash, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    Jinja,
}
