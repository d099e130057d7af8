//! A kind of state that does something and leaves nothing to undo: a command, an event.

use crate::bound::{Bound, Drift, KindEntry, Registered};
use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Change, Checking, Explanation, GuardSetting, Reverting};
use crate::params::{Invalid, Params};
use serde_json::Value as Json;
use std::future::Future;
use zester_host::overlay::Overlay;
use zester_host::{BoxFuture, Fault, HostRead};

/// A kind of state that acts.
pub(crate) trait Action: Params {
    /// What a check finds out and the act needs: why it runs, the script to run. `()` for most.
    type Plan: Send + Sync + 'static;
    /// Acting has effects that nobody can predict in full (S-44).
    const UNPREDICTABLE: bool = true;

    /// `None`: nothing to do. Writes nothing.
    fn plan(&self, cx: &Checking<'_>) -> impl Future<Output = Result<Option<Self::Plan>, Fault>> + Send;

    /// The act in words. `done` tells whether it was done or would be.
    fn describe(&self, plan: &Self::Plan, done: bool) -> Explanation;

    /// Acts, and says what it did. Starts nothing once cancelled. What failed half-way says so with [`Fault::touched`].
    fn act(
        &self,
        plan: &Self::Plan,
        cx: &Applying<'_>,
    ) -> impl Future<Output = Result<Explanation, Fault>> + Send;

    /// Makes the effects that are known visible to the later checks of a dry run.
    fn predict(&self, _overlay: &Overlay) -> Result<(), Fault> {
        Ok(())
    }

    /// Judges the values, without looking at the machine.
    fn validate(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// What it stands on, without looking at the machine.
    fn claims(&self) -> Claims {
        Claims::default()
    }

    /// Where guards of this state run and with what (S-16).
    fn guard_setting(&self) -> GuardSetting {
        GuardSetting::default()
    }

    /// What is to be told even where there is nothing to do.
    fn note(&self) -> Option<String> {
        None
    }
}

struct BoundAction<A>(A);

impl<A: Action> Bound for BoundAction<A> {
    fn kind(&self) -> &'static str {
        A::KIND
    }

    fn undoable(&self) -> bool {
        false
    }

    fn unpredictable(&self) -> bool {
        A::UNPREDICTABLE
    }

    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>> {
        Box::pin(async move { Ok(self.0.plan(cx).await?.map(Drift::new)) })
    }

    fn explain(&self, drift: &Drift, done: bool) -> Explanation {
        drift.get().map(|plan| self.0.describe(plan, done)).unwrap_or_default()
    }

    fn save_before_image(&self, _: &mut Drift, _: &dyn HostRead, _: &dyn BlobStore) -> Result<(), Fault> {
        Ok(())
    }

    fn undo_record(&self, _: &Drift) -> Result<Json, Fault> {
        Ok(Json::Null)
    }

    fn apply<'a>(&'a self, drift: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
        Box::pin(async move {
            let Explanation { diff, details } = self.0.act(drift.get()?, &cx.acting()?).await?;
            Ok(Change { changed: true, diff, details, undo: None })
        })
    }

    fn predict(&self, _: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        self.0.predict(overlay)
    }

    fn guard_setting(&self) -> GuardSetting {
        self.0.guard_setting()
    }

    fn claims(&self) -> Claims {
        self.0.claims()
    }

    fn note(&self) -> Option<String> {
        self.0.note()
    }
}

/// Marks what is registered as an [`Action`].
pub(crate) struct AsAction;

impl<A: Action> Registered<AsAction> for A {
    fn entry() -> KindEntry {
        KindEntry::of::<A>(|read| Box::new(BoundAction(read)), A::validate, nothing_to_revert)
    }
}

/// What an action did stays done.
fn nothing_to_revert<'a>(_: &'a Json, _: &'a Reverting<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
    Box::pin(std::future::ready(Ok(Change::default())))
}
