//! `test.*`: states that do nothing, change nothing or fail, for trying out requisites and runs (spec 10,
//! section 6).

use crate::resource::{Applying, Change, Checking, Explanation, Invalid, Resource, Reverting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zester_host::{Fault, FaultKind};

/// Nothing is remembered of a test state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Drift {}

/// What a test state does when it is looked at and when it acts.
#[derive(Copy, Clone)]
struct Behaviour {
    changes: bool,
    fails: bool,
}

impl Behaviour {
    fn check(self) -> Result<Option<Drift>, Fault> {
        match self {
            Behaviour { changes: true, .. } => Ok(Some(Drift::default())),
            Behaviour { changes: false, fails: true } => Err(failure()),
            Behaviour { changes: false, fails: false } => Ok(None),
        }
    }

    fn apply(self) -> Result<Change, Fault> {
        if self.fails {
            return Err(Fault { touched: self.changes, ..failure() });
        }
        Ok(Change { changed: self.changes, diff: words(true), ..Change::default() })
    }
}

fn failure() -> Fault {
    Fault::new(FaultKind::CommandFailed, "failure, as asked for")
}

fn words(done: bool) -> String {
    if done { "changed, as asked for".to_string() } else { "would change, as asked for".to_string() }
}

fn explanation(done: bool) -> Explanation {
    Explanation { diff: words(done), ..Explanation::default() }
}

/// A kind without parameters of its own.
macro_rules! test_state {
    ($type:ident, $kind:literal, $changes:literal, $fails:literal, $summary:literal) => {
        #[doc = $summary]
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $type {
            /// What the state is called; means nothing.
            #[serde(default)]
            #[allow(dead_code, reason = "accepted because every state has a name")]
            name: String,
        }

        impl Resource for $type {
            const KIND: &'static str = $kind;
            const PRIMARY: &'static str = "name";
            const DOC: &'static str = concat!($summary, "\n\n```yaml\ntry it:\n  ", $kind, ": []\n```\n");
            const UNDOABLE: bool = false;
            type Drift = Drift;

            async fn check(&self, _: &Checking<'_>) -> Result<Option<Drift>, Fault> {
                Behaviour { changes: $changes, fails: $fails }.check()
            }

            fn explain(&self, _: &Drift, done: bool) -> Explanation {
                explanation(done)
            }

            async fn apply(&self, _: &Drift, _: &Applying<'_>) -> Result<Change, Fault> {
                Behaviour { changes: $changes, fails: $fails }.apply()
            }

            async fn revert(_: &Drift, _: &Reverting<'_>) -> Result<Change, Fault> {
                Ok(Change::default())
            }
        }
    };
}

test_state!(Nop, "test.nop", false, false, "Does nothing, successfully.");
test_state!(
    SucceedWithoutChanges,
    "test.succeed_without_changes",
    false,
    false,
    "Succeeds without a change."
);
test_state!(Ping, "test.ping", false, false, "Succeeds: the machine answers.");
test_state!(SucceedWithChanges, "test.succeed_with_changes", true, false, "Reports a change every time.");
test_state!(
    FailWithoutChanges,
    "test.fail_without_changes",
    false,
    true,
    "Fails every time, already when checked."
);
test_state!(FailWithChanges, "test.fail_with_changes", true, true, "Would change, and fails when it acts.");

/// Changes and fails as its parameters say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configurable {
    /// What the state is called; means nothing.
    #[serde(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// Whether it reports a change. Default: true.
    #[serde(default = "yes")]
    changes: bool,
    /// Whether it succeeds. Default: true.
    #[serde(default = "yes")]
    result: bool,
}

fn yes() -> bool {
    true
}

impl Configurable {
    fn behaviour(&self) -> Behaviour {
        Behaviour { changes: self.changes, fails: !self.result }
    }
}

impl Resource for Configurable {
    const KIND: &'static str = "test.configurable_test_state";
    const PRIMARY: &'static str = "name";
    const DOC: &'static str = "Changes and fails as its parameters say.

```yaml
would change and then fail:
  test.configurable_test_state:
    - changes: true
    - result: false
```
";
    const UNDOABLE: bool = false;
    type Drift = Drift;

    async fn check(&self, _: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        self.behaviour().check()
    }

    fn explain(&self, _: &Drift, done: bool) -> Explanation {
        explanation(done)
    }

    async fn apply(&self, _: &Drift, _: &Applying<'_>) -> Result<Change, Fault> {
        self.behaviour().apply()
    }

    async fn revert(_: &Drift, _: &Reverting<'_>) -> Result<Change, Fault> {
        Ok(Change::default())
    }
}

/// Sleeps, and can be cancelled in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// What the state is called; means nothing.
    #[serde(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// How long, in seconds; a fraction will do.
    seconds: f64,
}

impl Resource for Sleep {
    const KIND: &'static str = "test.sleep";
    const PRIMARY: &'static str = "name";
    const DOC: &'static str = "Sleeps for a while, then reports a change. A cancelled run wakes it at once.

```yaml
wait for it:
  test.sleep:
    - seconds: 0.01
```
";
    const UNDOABLE: bool = false;
    const ALIASES: &'static [(&'static str, &'static [&'static str])] = &[("seconds", &["length"])];
    type Drift = Drift;

    fn validate(&self) -> Vec<Invalid> {
        let fits =
            Duration::try_from_secs_f64(self.seconds).is_ok_and(|time| time.as_secs() < 10 * 366 * 86_400);
        let message = format!("{} seconds cannot be slept", self.seconds);
        if fits { Vec::new() } else { vec![Invalid { parameter: "seconds", message, hint: None }] }
    }

    async fn check(&self, _: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        Ok(Some(Drift::default()))
    }

    fn explain(&self, _: &Drift, done: bool) -> Explanation {
        let verb = if done { "slept" } else { "would sleep" };
        Explanation { diff: format!("{verb} {} seconds", self.seconds), ..Explanation::default() }
    }

    async fn apply(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
        let time = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = cx.cancel.cancelled() => return Err(Fault::canceled()),
        }
        Ok(Change { changed: true, diff: self.explain(drift, true).diff, ..Change::default() })
    }

    async fn revert(_: &Drift, _: &Reverting<'_>) -> Result<Change, Fault> {
        Ok(Change::default())
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use serde_json::json;
    use std::sync::Arc;
    use zester_host::process::fake::Scripted;
    let case = |kind, params, promise| Case::new(kind, params, promise, |_| Arc::new(Scripted::new()));
    vec![
        case("test.nop", json!({}), Promise::Clean),
        case("test.ping", json!({}), Promise::Clean),
        case("test.succeed_without_changes", json!({}), Promise::Clean),
        case("test.succeed_with_changes", json!({}), Promise::Acts),
        case("test.fail_without_changes", json!({}), Promise::Fails),
        case("test.fail_with_changes", json!({}), Promise::Fails),
        case("test.configurable_test_state", json!({}), Promise::Acts),
        case("test.configurable_test_state", json!({ "changes": false }), Promise::Clean),
        case("test.configurable_test_state", json!({ "changes": false, "result": false }), Promise::Fails),
        case("test.configurable_test_state", json!({ "changes": true, "result": "no" }), Promise::Fails),
        case("test.sleep", json!({ "seconds": 0.001 }), Promise::Acts),
    ]
}
