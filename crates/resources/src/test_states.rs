//! `test.*`: states that do nothing, change nothing or fail, for trying out requisites and runs (spec 10,
//! section 6).

use crate::action::Action;
use crate::context::{Applying, Checking, Explanation};
use crate::params::{Invalid, params};
use std::time::Duration;
use zester_host::{Fault, FaultKind};

/// What a test state does when it is looked at and when it acts.
#[derive(Copy, Clone)]
struct Behaviour {
    changes: bool,
    fails: bool,
}

impl Behaviour {
    fn plan(self, comment: Option<&str>) -> Result<Option<()>, Fault> {
        match self {
            Behaviour { changes: true, .. } => Ok(Some(())),
            Behaviour { changes: false, fails: true } => Err(failure(comment)),
            Behaviour { changes: false, fails: false } => Ok(None),
        }
    }

    fn act(self, comment: Option<&str>) -> Result<Explanation, Fault> {
        match self.fails {
            true => Err(Fault { touched: self.changes, ..failure(comment) }),
            false => Ok(explanation(comment, true)),
        }
    }
}

fn failure(comment: Option<&str>) -> Fault {
    Fault::new(FaultKind::CommandFailed, comment.unwrap_or("failure, as asked for"))
}

fn explanation(comment: Option<&str>, done: bool) -> Explanation {
    let unsaid = if done { "changed, as asked for" } else { "would change, as asked for" };
    Explanation { diff: comment.unwrap_or(unsaid).to_string(), ..Explanation::default() }
}

/// A kind without parameters of its own.
macro_rules! test_state {
    ($type:ident, $kind:literal, $changes:literal, $fails:literal, $summary:literal) => {
        #[doc = $summary]
        #[params(kind = $kind, primary = "name", doc = concat!($summary, "\n\n```yaml\ntry it:\n  ", $kind, ": []\n```\n"))]
        pub struct $type {
            /// What the state is called; means nothing.
            #[param(default)]
            #[allow(dead_code, reason = "accepted because every state has a name")]
            name: String,
            /// What it is to say.
            comment: Option<String>,
        }

        impl Action for $type {
            type Plan = ();
            const UNPREDICTABLE: bool = false;

            async fn plan(&self, _: &Checking<'_>) -> Result<Option<()>, Fault> {
                Behaviour { changes: $changes, fails: $fails }.plan(self.comment.as_deref())
            }

            fn describe(&self, (): &(), done: bool) -> Explanation {
                explanation(self.comment.as_deref(), done)
            }

            async fn act(&self, (): &(), _: &Applying<'_>) -> Result<Explanation, Fault> {
                Behaviour { changes: $changes, fails: $fails }.act(self.comment.as_deref())
            }

            fn note(&self) -> Option<String> {
                self.comment.clone()
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

test_state!(
    NoneWithoutChanges,
    "test.none_without_changes",
    false,
    false,
    "Succeeds without a change, as something that has nothing to say."
);

/// Changes and fails as its parameters say.
#[params(kind = "test.configurable_test_state", primary = "name", manual = "test_configurable_test_state.md")]
pub struct Configurable {
    /// What the state is called; means nothing.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// Whether it reports a change. Default: true.
    #[param(default = true)]
    changes: bool,
    /// Whether it succeeds. Default: true.
    #[param(default = true)]
    result: bool,
    /// What it is to say.
    comment: Option<String>,
    /// What it is to warn of.
    #[param(list, default)]
    warnings: Vec<String>,
}

impl Configurable {
    fn behaviour(&self) -> Behaviour {
        Behaviour { changes: self.changes, fails: !self.result }
    }

    /// The comment, and each warning on a line of its own.
    fn said(&self) -> Option<String> {
        let warnings = self.warnings.iter().map(|warning| format!("warning: {warning}"));
        let lines: Vec<String> = self.comment.iter().cloned().chain(warnings).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

impl Action for Configurable {
    type Plan = ();
    const UNPREDICTABLE: bool = false;

    async fn plan(&self, _: &Checking<'_>) -> Result<Option<()>, Fault> {
        self.behaviour().plan(self.said().as_deref())
    }

    fn describe(&self, (): &(), done: bool) -> Explanation {
        explanation(self.said().as_deref(), done)
    }

    async fn act(&self, (): &(), _: &Applying<'_>) -> Result<Explanation, Fault> {
        self.behaviour().act(self.said().as_deref())
    }

    fn note(&self) -> Option<String> {
        self.said()
    }
}

/// Sleeps, and can be cancelled in it.
#[params(kind = "test.sleep", primary = "name", manual = "test_sleep.md")]
pub struct Sleep {
    /// What the state is called; means nothing.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// How long, in seconds; a fraction will do.
    #[param(alias = "length")]
    seconds: f64,
}

impl Action for Sleep {
    type Plan = ();
    const UNPREDICTABLE: bool = false;

    fn validate(&self) -> Vec<Invalid> {
        let fits =
            Duration::try_from_secs_f64(self.seconds).is_ok_and(|time| time.as_secs() < 10 * 366 * 86_400);
        let message = format!("{} seconds cannot be slept", self.seconds);
        if fits { Vec::new() } else { vec![Invalid { parameter: "seconds", message, hint: None }] }
    }

    async fn plan(&self, _: &Checking<'_>) -> Result<Option<()>, Fault> {
        Ok(Some(()))
    }

    fn describe(&self, (): &(), done: bool) -> Explanation {
        let verb = if done { "slept" } else { "would sleep" };
        Explanation { diff: format!("{verb} {} seconds", self.seconds), ..Explanation::default() }
    }

    async fn act(&self, (): &(), cx: &Applying<'_>) -> Result<Explanation, Fault> {
        let time = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(self.describe(&(), true)),
            () = cx.cancel.cancelled() => Err(Fault::canceled()),
        }
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
        case("test.none_without_changes", json!({ "comment": "well" }), Promise::Clean),
        case("test.configurable_test_state", json!({ "comment": "so", "warnings": ["old"] }), Promise::Acts),
        case("test.configurable_test_state", json!({ "changes": false }), Promise::Clean),
        case("test.configurable_test_state", json!({ "changes": false, "result": false }), Promise::Fails),
        case("test.configurable_test_state", json!({ "changes": true, "result": "no" }), Promise::Fails),
        case("test.sleep", json!({ "seconds": 0.001 }), Promise::Acts),
    ]
}
