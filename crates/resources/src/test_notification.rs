//! `test.show_notification`: a text for whoever reads what a run did.

use crate::action::Action;
use crate::context::{Applying, Checking, Explanation};
use crate::params::params;
use zester_host::Fault;

/// A text for whoever reads what a run did.
#[params(kind = "test.show_notification", primary = "name", manual = "test_show_notification.md")]
pub struct Notification {
    /// What the state is called; means nothing.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// What it is to say.
    #[param(lines)]
    text: String,
}

impl Action for Notification {
    type Plan = ();
    const UNPREDICTABLE: bool = false;

    async fn plan(&self, _: &Checking<'_>) -> Result<Option<()>, Fault> {
        Ok(None)
    }

    fn describe(&self, (): &(), _: bool) -> Explanation {
        Explanation { diff: self.text.clone(), ..Explanation::default() }
    }

    async fn act(&self, (): &(), _: &Applying<'_>) -> Result<Explanation, Fault> {
        Ok(self.describe(&(), true))
    }

    fn note(&self) -> Option<String> {
        Some(self.text.clone())
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case =
        |params, promise| Case::new("test.show_notification", params, promise, |host| furnish(host, ""));
    vec![case(json!({ "text": "hello" }), Promise::Clean)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn it_says_its_text_without_a_change() {
        let bound = crate::laws::bind_json("test.show_notification", &json!({ "text": ["one", "two"] }))
            .ok()
            .unwrap();
        assert_eq!(bound.note().as_deref(), Some("one\ntwo\n"));
    }
}
