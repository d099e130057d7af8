//! Look, explain, act, undo: the steps of a kind, one by one.

use crate::bound::{Bound, Drift, KindEntry, Registered, read_record};
use crate::claims::Claims;
use crate::context::*;
use crate::params::{Invalid, Params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::future::Future;
use zester_host::overlay::Overlay;
use zester_host::{BoxFuture, Fault, FaultKind, HostRead};

/// One kind of thing that a state can manage. The type itself carries the parameters, their defaults and
/// docs.
pub(crate) trait Cycle: Params {
    /// Whether apply leaves something to undo. Actions do not.
    const UNDOABLE: bool;
    /// Its `check_cmd` gets what is about to be put in place and must pass before it is. That of all other kinds runs
    /// after the change (S-43).
    const CHECK_CMD_FIRST: bool = false;
    /// Acting has effects that nobody can predict in full: a package, a command (S-44).
    const UNPREDICTABLE: bool = false;
    /// What check found: enough to explain, to apply and to undo.
    type Drift: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Judges the values, without looking at the machine.
    fn validate(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// What it decides about and what it stands on, without looking at the machine.
    fn claims(&self) -> Claims {
        Claims::default()
    }

    /// `None`: nothing to do. Writes nothing.
    fn check(&self, cx: &Checking<'_>) -> impl Future<Output = Result<Option<Self::Drift>, Fault>> + Send;

    /// Says what the drift is. `done` tells whether it was applied or would be.
    fn explain(&self, drift: &Self::Drift, done: bool) -> Explanation;

    /// Saves what apply is about to destroy.
    fn save_before_image(
        &self,
        _drift: &mut Self::Drift,
        _look: &dyn HostRead,
        _blobs: &dyn BlobStore,
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// Acts on the drift. Starts nothing once cancelled.
    fn apply(
        &self,
        drift: &Self::Drift,
        cx: &Applying<'_>,
    ) -> impl Future<Output = Result<Change, Fault>> + Send;

    /// Makes the effects visible to the later checks of a dry run.
    fn predict(&self, _drift: &Self::Drift, _overlay: &Overlay) -> Result<(), Fault> {
        Ok(())
    }

    /// Undoes what was recorded; needs nothing but the record.
    fn revert(undo: &Self::Drift, cx: &Reverting<'_>) -> impl Future<Output = Result<Change, Fault>> + Send;

    /// Where guards of this state run and with what (S-16): `cwd`, `env`, `path`, `timeout` where the kind
    /// has them.
    fn guard_setting(&self) -> GuardSetting {
        GuardSetting::default()
    }
}

/// Joins a [`Cycle`] to the [`Bound`] that hides its type.
struct Typed<R>(R);

impl<R: Cycle> Bound for Typed<R> {
    fn kind(&self) -> &'static str {
        R::KIND
    }

    fn undoable(&self) -> bool {
        R::UNDOABLE
    }

    fn check_cmd_first(&self) -> bool {
        R::CHECK_CMD_FIRST
    }

    fn unpredictable(&self) -> bool {
        R::UNPREDICTABLE
    }

    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>> {
        Box::pin(async move { Ok(self.0.check(cx).await?.map(Drift::new)) })
    }

    fn explain(&self, drift: &Drift, done: bool) -> Explanation {
        drift.get().map(|drift| self.0.explain(drift, done)).unwrap_or_default()
    }

    fn save_before_image(
        &self,
        drift: &mut Drift,
        host: &dyn HostRead,
        blobs: &dyn BlobStore,
    ) -> Result<(), Fault> {
        self.0.save_before_image(drift.get_mut()?, host.without_links(), blobs)
    }

    fn undo_record(&self, drift: &Drift) -> Result<Json, Fault> {
        serde_json::to_value(drift.get::<R::Drift>()?).map_err(|error| {
            Fault::new(FaultKind::Unsupported, format!("what {} did cannot be recorded: {error}", R::KIND))
        })
    }

    fn apply<'a>(&'a self, drift: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
        Box::pin(async move { self.0.apply(drift.get()?, &cx.acting()?).await })
    }

    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        self.0.predict(drift.get()?, overlay)
    }

    fn guard_setting(&self) -> GuardSetting {
        self.0.guard_setting()
    }

    fn claims(&self) -> Claims {
        self.0.claims()
    }
}

pub(crate) struct AsCycle;

impl<R: Cycle> Registered<AsCycle> for R {
    fn entry() -> KindEntry {
        KindEntry::of::<R>(
            |read| Box::new(Typed(read)),
            R::validate,
            |undo, cx| Box::pin(async move { R::revert(&read_record::<R::Drift>(R::KIND, undo)?, cx).await }),
        )
    }
}
