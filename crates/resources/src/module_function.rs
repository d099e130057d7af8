//! `module.run` of an execution function: an action. What functions there are is for whoever binds to know (`converge`).

use crate::bound::{Bound, Drift};
use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Change, Checking, Explanation, Forced, GuardSetting};
use serde_json::Value as Json;
use zester_host::overlay::Overlay;
use zester_host::{BoxFuture, Fault, HostRead};

/// Calls of execution functions with all their arguments.
pub trait FunctionCalls: Send + Sync {
    /// `service.restart(nginx)`
    fn words(&self) -> String;
    /// Calls them, and says what they answered.
    fn call<'a>(&'a self, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Explanation, Fault>>;
}

struct FunctionState<C> {
    kind: &'static str,
    calls: C,
}

/// The state of `module.run`, or of `module.wait`, that makes these calls.
pub fn function_state(waits: bool, calls: impl FunctionCalls + 'static) -> Box<dyn Bound> {
    Box::new(FunctionState { kind: if waits { "module.wait" } else { "module.run" }, calls })
}

impl<C: FunctionCalls> Bound for FunctionState<C> {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn undoable(&self) -> bool {
        false
    }

    fn unpredictable(&self) -> bool {
        true
    }

    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>> {
        let due = self.kind == "module.run" || cx.forced == Some(Forced::Watch);
        Box::pin(std::future::ready(Ok(due.then(|| Drift::new(())))))
    }

    fn explain(&self, _: &Drift, done: bool) -> Explanation {
        let verb = if done { "called" } else { "would call" };
        Explanation { diff: format!("{verb} {}", self.calls.words()), ..Explanation::default() }
    }

    fn save_before_image(&self, _: &mut Drift, _: &dyn HostRead, _: &dyn BlobStore) -> Result<(), Fault> {
        Ok(())
    }

    fn undo_record(&self, _: &Drift) -> Result<Json, Fault> {
        Ok(Json::Null)
    }

    fn apply<'a>(&'a self, _: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
        Box::pin(async move {
            if cx.cancel.is_cancelled() {
                return Err(Fault::canceled());
            }
            let Explanation { diff, details } = self.calls.call(cx).await?;
            Ok(Change { changed: true, diff, details, undo: None })
        })
    }

    fn predict(&self, _: &Drift, _: &Overlay) -> Result<(), Fault> {
        Ok(())
    }

    fn guard_setting(&self) -> GuardSetting {
        GuardSetting::default()
    }

    fn claims(&self) -> Claims {
        Claims::default()
    }
}
