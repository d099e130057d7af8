//! `test.check_pillar`: settings that must be there, each of its type.

use crate::action::Action;
use crate::context::{Applying, Checking, Explanation};
use crate::params::params;
use serde_json::Value as Json;
use zester_host::{Fault, FaultKind};

/// Settings that must be there.
#[params(kind = "test.check_pillar", primary = "name", manual = "test_check_pillar.md")]
pub struct CheckPillar {
    /// What the state is called; means nothing.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// Settings that must be there, whatever they are; `a:b` goes deeper.
    #[param(list, default)]
    present: Vec<String>,
    /// Settings that must be true or false.
    #[param(list, default)]
    boolean: Vec<String>,
    /// Settings that must be whole numbers.
    #[param(list, default)]
    integer: Vec<String>,
    /// Settings that must be texts.
    #[param(list, default)]
    string: Vec<String>,
    /// Settings that must be lists.
    #[param(list, default)]
    listing: Vec<String>,
    /// Settings that must be maps.
    #[param(list, default)]
    dictionary: Vec<String>,
    /// Says what each wrong one is instead. It is said anyway.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because Salt has it")]
    verbose: bool,
}

/// Whether a value is of a type.
type Fits = fn(&Json) -> bool;

impl CheckPillar {
    fn wrong(&self, cx: &Checking<'_>) -> Vec<String> {
        let checks: [(&Vec<String>, &str, Fits); 6] = [
            (&self.present, "anything", |_| true),
            (&self.boolean, "true or false", Json::is_boolean),
            (&self.integer, "a whole number", |value| value.is_i64() || value.is_u64()),
            (&self.string, "a text", Json::is_string),
            (&self.listing, "a list", Json::is_array),
            (&self.dictionary, "a map", Json::is_object),
        ];
        let mut wrong = Vec::new();
        for (names, what, fits) in checks {
            for name in names {
                match cx.files.setting(name) {
                    None => wrong.push(format!("`{name}` is missing")),
                    Some(value) if !fits(&value) => {
                        wrong.push(format!("`{name}` is {}, not {what}", sort(&value)))
                    }
                    Some(_) => {}
                }
            }
        }
        wrong
    }
}

fn sort(value: &Json) -> &'static str {
    match value {
        Json::Null => "nothing",
        Json::Bool(_) => "true or false",
        Json::Number(number) if number.is_f64() => "a number with a fraction",
        Json::Number(_) => "a whole number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    }
}

impl Action for CheckPillar {
    type Plan = ();
    const UNPREDICTABLE: bool = false;

    async fn plan(&self, cx: &Checking<'_>) -> Result<Option<()>, Fault> {
        let wrong = self.wrong(cx);
        match wrong.is_empty() {
            true => Ok(None),
            false => Err(Fault::new(FaultKind::NotFound, format!("of the settings {}", wrong.join(", ")))),
        }
    }

    fn describe(&self, (): &(), _: bool) -> Explanation {
        Explanation::default()
    }

    async fn act(&self, (): &(), _: &Applying<'_>) -> Result<Explanation, Fault> {
        Ok(Explanation::default())
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |params, promise| Case::new("test.check_pillar", params, promise, |host| furnish(host, ""));
    vec![
        case(json!({ "present": "app:motd", "string": ["app:motd"] }), Promise::Clean),
        case(json!({ "present": ["app:motd", "app:none"] }), Promise::Fails),
        case(json!({ "integer": "app:motd" }), Promise::Fails),
        case(json!({ "listing": "app:motd" }), Promise::Fails),
    ]
}
