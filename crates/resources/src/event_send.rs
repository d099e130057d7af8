//! `event.send`: tells the masters that something has happened.

use crate::action::Action;
use crate::context::{Applying, Checking, Explanation, Forced};
use crate::params::{Invalid, params};
use serde_json::{Map, Value, json};
use zester_host::{Fault, FaultKind};
use zester_model::outcome::Details;

/// An event.
#[params(kind = "event.send", primary = "tag", manual = "event_send.md")]
pub struct Sent {
    /// What has happened, in parts: `deploy/web/finished`.
    #[param(alias = "name")]
    tag: String,
    /// What is to be known about it.
    #[param(default)]
    data: Map<String, Value>,
}

impl Sent {
    fn told(&self, diff: String, id: Option<String>) -> Explanation {
        let mut details = Details::new();
        details.insert("tag".into(), json!(self.tag));
        details.extend(id.map(|id| ("id".to_string(), json!(id))));
        Explanation { diff, details }
    }
}

impl Action for Sent {
    type Plan = ();
    const UNPREDICTABLE: bool = false;

    fn validate(&self) -> Vec<Invalid> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let fits = self.tag.split('/').all(|part| !part.is_empty() && part.chars().all(plain));
        let invalid = Invalid {
            parameter: "tag",
            message: format!("`{}` is no tag", self.tag),
            hint: Some("parts of letters, digits, `_` and `-`, with `/` between".into()),
        };
        if fits { Vec::new() } else { vec![invalid] }
    }

    async fn plan(&self, _: &Checking<'_>) -> Result<Option<()>, Fault> {
        Ok(Some(()))
    }

    fn describe(&self, (): &(), done: bool) -> Explanation {
        let verb = if done { "sent" } else { "would send" };
        self.told(format!("{verb} the event {}", self.tag), None)
    }

    async fn act(&self, (): &(), cx: &Applying<'_>) -> Result<Explanation, Fault> {
        let Some(events) = cx.events else {
            let message = "there is no bus here: a peel that runs sends events";
            let hint = "`zester event send` sends one from this machine";
            return Err(Fault::new(FaultKind::Unsupported, message).hint(hint));
        };
        let id = events.send(&self.tag, &self.data).await?;
        Ok(self.told(format!("sent the event {}", self.tag), Some(id)))
    }
}

/// An event that something else gives rise to.
#[params(kind = "event.wait", primary = "tag", manual = "event_wait.md")]
pub struct Wait {
    /// What has happened, in parts: `deploy/web/finished`.
    #[param(alias = "name")]
    tag: String,
    /// What is to be known about it.
    #[param(default)]
    data: Map<String, Value>,
}

impl Wait {
    fn event(&self) -> Sent {
        Sent { tag: self.tag.clone(), data: self.data.clone() }
    }
}

impl Action for Wait {
    type Plan = ();
    const UNPREDICTABLE: bool = false;

    fn validate(&self) -> Vec<Invalid> {
        self.event().validate()
    }

    async fn plan(&self, cx: &Checking<'_>) -> Result<Option<()>, Fault> {
        Ok((cx.forced == Some(Forced::Watch)).then_some(()))
    }

    fn describe(&self, (): &(), done: bool) -> Explanation {
        self.event().describe(&(), done)
    }

    async fn act(&self, (): &(), cx: &Applying<'_>) -> Result<Explanation, Fault> {
        self.event().act(&(), cx).await
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use std::sync::Arc;
    use zester_host::process::fake::Scripted;
    // Where the laws are tried there is no bus.
    let case = |kind, params, promise| Case::new(kind, params, promise, |_| Arc::new(Scripted::new()));
    vec![
        case("event.send", json!({ "tag": "deploy/web" }), Promise::Fails),
        case("event.wait", json!({ "tag": "deploy/web" }), Promise::Clean),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::EventSender;
    use crate::laws::{FewFiles, bind_json};
    use std::sync::Mutex;
    use tokio_util::sync::CancellationToken;
    use zester_host::overlay::Overlay;
    use zester_host::process::fake::Scripted;
    use zester_host::{BoxFuture, Query};
    use zester_rule::rule;

    #[derive(Default)]
    struct Post(Mutex<Vec<(String, Value)>>);

    impl EventSender for Post {
        fn send<'a>(
            &'a self,
            tag: &'a str,
            data: &'a Map<String, Value>,
        ) -> BoxFuture<'a, Result<String, Fault>> {
            self.0.lock().unwrap().push((tag.into(), Value::Object(data.clone())));
            Box::pin(std::future::ready(Ok("e1".into())))
        }
    }

    #[tokio::test]
    #[rule("R-18")]
    async fn r18_a_state_sends_when_it_is_applied_and_only_then() {
        let (host, processes, cancel, post) =
            (Overlay::empty(), Scripted::new(), CancellationToken::new(), Post::default());
        let bound =
            bind_json("event.send", &json!({"tag": "deploy/web", "data": {"version": 7}})).ok().unwrap();
        let query = Query::through(&processes);
        let cx =
            Checking { host: &host, query, files: &FewFiles, forced: None, dry_run: true, cancel: &cancel };
        let drift = bound.check(&cx).await.unwrap().unwrap();
        assert_eq!(bound.explain(&drift, false).diff, "would send the event deploy/web");
        assert!(post.0.lock().unwrap().is_empty());
        let applying = Applying::new(&host, &processes, &cancel);
        let change = bound.apply(&drift, &Applying { events: Some(&post), ..applying }).await.unwrap();
        assert_eq!(
            (change.diff.as_str(), &change.details["id"]),
            ("sent the event deploy/web", &json!("e1"))
        );
        assert_eq!(*post.0.lock().unwrap(), [("deploy/web".to_string(), json!({"version": 7}))]);
        let none = bound.apply(&drift, &Applying::new(&host, &processes, &cancel)).await.err().unwrap();
        assert!(none.message.starts_with("there is no bus here"), "{none}");
    }

    #[tokio::test]
    #[rule("R-18", "S-14")]
    async fn r18_an_event_that_waits_is_sent_when_something_watched_has_changed() {
        let (host, processes, cancel) = (Overlay::empty(), Scripted::new(), CancellationToken::new());
        let bound = bind_json("event.wait", &json!({ "tag": "deploy/web" })).ok().unwrap();
        let query = Query::through(&processes);
        let mut cx =
            Checking { host: &host, query, files: &FewFiles, forced: None, dry_run: false, cancel: &cancel };
        assert!(bound.check(&cx).await.unwrap().is_none());
        cx.forced = Some(Forced::Watch);
        let drift = bound.check(&cx).await.unwrap().unwrap();
        let none = bound.apply(&drift, &Applying::new(&host, &processes, &cancel)).await.err().unwrap();
        assert!(none.message.starts_with("there is no bus here"), "{none}");
    }

    #[test]
    fn a_tag_that_is_none_is_refused() {
        for tag in ["", "a//b", "a.b", "/a", "a b", "a/*"] {
            assert!(bind_json("event.send", &json!({ "tag": tag })).is_err(), "{tag}");
        }
    }
}
