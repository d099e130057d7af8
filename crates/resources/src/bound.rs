//! A resource whose parameters are known: what the driver holds, without knowing its type.

use crate::bind;
use crate::catalog;
use crate::claims::Claims;
use crate::resource::{
    Applying, BlobStore, Change, Checking, Explanation, GuardSetting, Resource, Reverting,
};
use serde_json::Value as Json;
use std::any::Any;
use std::sync::OnceLock;
use zester_host::overlay::Overlay;
use zester_host::{BoxFuture, ChangeTracker, Fault, FaultKind, HostRead};
use zester_model::catalog::Kind;
use zester_model::diagnostic::Diagnostic;
use zester_model::program::Param;
use zester_model::source::Span;

/// What a check found, of whatever kind. Goes back only to the [`Bound`] that made it.
pub struct Drift(Box<dyn Any + Send + Sync>);

impl Drift {
    pub(crate) fn new<T: Any + Send + Sync>(drift: T) -> Drift {
        Drift(Box::new(drift))
    }

    pub(crate) fn get<T: Any>(&self) -> Result<&T, Fault> {
        self.0.downcast_ref().ok_or_else(foreign)
    }

    pub(crate) fn get_mut<T: Any>(&mut self) -> Result<&mut T, Fault> {
        self.0.downcast_mut().ok_or_else(foreign)
    }
}

fn foreign() -> Fault {
    Fault::new(FaultKind::Unsupported, "a drift was handed to a state of another kind")
}

/// One state, ready to look, explain and act. See [`Resource`] for what each step means.
pub trait Bound: Send + Sync {
    fn kind(&self) -> &'static str;
    fn undoable(&self) -> bool;
    /// Whether its `check_cmd` passes before the change instead of after it.
    fn check_cmd_first(&self) -> bool;
    /// Whether acting has effects that nobody can predict in full.
    fn unpredictable(&self) -> bool;
    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>>;
    fn explain(&self, drift: &Drift, done: bool) -> Explanation;
    fn save_before_image(
        &self,
        drift: &mut Drift,
        host: &dyn HostRead,
        blobs: &dyn BlobStore,
    ) -> Result<(), Fault>;
    /// What the journal keeps, for [`crate::revert`].
    fn undo_record(&self, drift: &Drift) -> Result<Json, Fault>;
    fn apply<'a>(&'a self, drift: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>>;
    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault>;
    fn guard_setting(&self) -> GuardSetting;
    fn claims(&self) -> Claims;
}

/// Joins a [`Resource`] to the [`Bound`] that hides its type.
struct Typed<R>(R);

impl<R: Resource> Bound for Typed<R> {
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
        Box::pin(async move {
            if cx.cancel.is_cancelled() {
                return Err(Fault::canceled());
            }
            let cx = Applying {
                host: cx.host.acting(),
                scratch: cx.scratch.acting(),
                processes: cx.processes,
                cancel: cx.cancel,
                candidate_check: cx.candidate_check,
                live: cx.live.clone(),
                log: cx.log.clone(),
                events: cx.events,
            };
            self.0.apply(drift.get()?, &cx).await
        })
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

pub(crate) type Bind = fn(&[Param], Span) -> Result<Box<dyn Bound>, Vec<Diagnostic>>;
pub(crate) type Revert = for<'a> fn(&'a Json, &'a Reverting<'a>) -> BoxFuture<'a, Result<Change, Fault>>;

/// A registered kind.
pub(crate) struct KindEntry {
    pub(crate) kind: &'static str,
    pub(crate) bind: Bind,
    pub(crate) revert: Revert,
    pub(crate) describe: fn() -> Kind,
    /// The JSON Schema of its parameters, as users may write them.
    pub(crate) schema: fn() -> Json,
}

impl KindEntry {
    pub(crate) fn of<R: Resource>() -> KindEntry {
        KindEntry {
            kind: R::KIND,
            bind: |params, at| {
                bind::read::<R>(params, at).map(|read| Box::new(Typed(read)) as Box<dyn Bound>)
            },
            revert: revert_record::<R>,
            describe: catalog::describe::<R>,
            schema: catalog::written_schema::<R>,
        }
    }
}

fn revert_record<'a, R: Resource>(
    undo: &'a Json,
    cx: &'a Reverting<'a>,
) -> BoxFuture<'a, Result<Change, Fault>> {
    Box::pin(async move {
        if cx.cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        let undo: R::Drift = serde::Deserialize::deserialize(undo).map_err(|error| {
            Fault::new(
                FaultKind::Unsupported,
                format!("the undo record of {} cannot be read: {error}", R::KIND),
            )
        })?;
        let tracker = ChangeTracker::new(cx.host);
        let cx = Reverting { host: &tracker, ..*cx };
        let reverted = R::revert(&undo, &cx).await;
        reverted.map_err(|fault| Fault { touched: fault.touched || tracker.touched(), ..fault })
    })
}

/// Every registered kind, made once.
pub(crate) fn entries() -> &'static [KindEntry] {
    static MADE: OnceLock<Vec<KindEntry>> = OnceLock::new();
    MADE.get_or_init(|| crate::ENTRIES.iter().map(|make| make()).collect())
}
