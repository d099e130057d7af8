//! The state language as a JSON Schema: every kind, its parameters, requisites and attributes.

use serde_json::{Value as Json, json};

/// What `zester schema` prints.
pub fn schema() -> Json {
    json!({})
}
