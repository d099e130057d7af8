//! A resource whose parameters are known: what the driver holds, without knowing its type.

use crate::bind;
use crate::catalog;
use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Change, Checking, Explanation, GuardSetting, Reverting};
use crate::params::{Invalid, Params};
use crate::pkg::PackageMember;
use serde::de::DeserializeOwned;
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

/// One state, ready to look, explain and act. [`crate::context`] tells the flow.
pub trait Bound: Send + Sync {
    fn kind(&self) -> &'static str;
    fn undoable(&self) -> bool;
    /// Whether its `check_cmd` gets what is about to be put in place and must pass before it is; that of other kinds runs
    /// after the change (S-43).
    fn check_cmd_first(&self) -> bool {
        false
    }
    /// Whether acting has effects that nobody can predict in full.
    fn unpredictable(&self) -> bool;
    /// `None`: nothing to do. Writes nothing.
    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>>;
    /// Says what the drift is. `done` tells whether it was applied or would be.
    fn explain(&self, drift: &Drift, done: bool) -> Explanation;
    /// Saves what apply is about to destroy.
    fn save_before_image(
        &self,
        drift: &mut Drift,
        host: &dyn HostRead,
        blobs: &dyn BlobStore,
    ) -> Result<(), Fault>;
    /// What the journal keeps, for [`crate::revert`].
    fn undo_record(&self, drift: &Drift) -> Result<Json, Fault>;
    /// Acts on the drift. Starts nothing once cancelled.
    fn apply<'a>(&'a self, drift: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>>;
    /// Makes the effects visible to the later checks of a dry run.
    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault>;
    fn guard_setting(&self) -> GuardSetting;
    fn claims(&self) -> Claims;
    /// What is to be told even where there is nothing to do.
    fn note(&self) -> Option<String> {
        None
    }
    /// What it wants of packages, of a kind that is about them: those of a level are served together.
    fn packages(&self) -> Option<PackageMember<'_>> {
        None
    }
}

type Bind = Box<dyn Fn(&[Param], Span) -> Result<Box<dyn Bound>, Vec<Diagnostic>> + Send + Sync>;
pub(crate) type Revert = for<'a> fn(&'a Json, &'a Reverting<'a>) -> BoxFuture<'a, Result<Change, Fault>>;
type Tracked =
    Box<dyn for<'a> Fn(&'a Json, &'a Reverting<'a>) -> BoxFuture<'a, Result<Change, Fault>> + Send + Sync>;

/// A registered kind.
pub(crate) struct KindEntry {
    pub(crate) kind: &'static str,
    pub(crate) bind: Bind,
    pub(crate) revert: Tracked,
    pub(crate) describe: fn() -> Kind,
    /// The JSON Schema of its parameters, as users may write them.
    pub(crate) schema: fn() -> Json,
    /// Its states of one level are served together.
    pub(crate) about_packages: bool,
}

impl KindEntry {
    /// A kind with these parameters: what they are bound to, who judges their values, and what takes a record back.
    pub(crate) fn of<P: Params>(
        bound: fn(P) -> Box<dyn Bound>,
        validate: fn(&P) -> Vec<Invalid>,
        revert: Revert,
    ) -> KindEntry {
        KindEntry {
            kind: P::KIND,
            bind: Box::new(move |params, at| bind::read::<P>(params, at, validate).map(bound)),
            revert: Box::new(move |undo, cx| {
                Box::pin(async move {
                    if cx.cancel.is_cancelled() {
                        return Err(Fault::canceled());
                    }
                    let tracker = ChangeTracker::new(cx.host);
                    let cx = Reverting { host: &tracker, ..*cx };
                    let reverted = revert(undo, &cx).await;
                    reverted.map_err(|fault| Fault { touched: fault.touched || tracker.touched(), ..fault })
                })
            }),
            describe: catalog::describe::<P>,
            schema: catalog::written_schema::<P>,
            about_packages: false,
        }
    }
}

/// What can stand in the list of kinds. `Shape` tells the sorts of kinds apart, so that each can say how it is registered.
pub(crate) trait Registered<Shape> {
    fn entry() -> KindEntry;
}

/// Reads what a record of the journal holds.
pub(crate) fn read_record<T: DeserializeOwned>(kind: &str, undo: &Json) -> Result<T, Fault> {
    T::deserialize(undo).map_err(|error| {
        Fault::new(FaultKind::Unsupported, format!("the undo record of {kind} cannot be read: {error}"))
    })
}

/// Every registered kind, made once.
pub(crate) fn entries() -> &'static [KindEntry] {
    static MADE: OnceLock<Vec<KindEntry>> = OnceLock::new();
    MADE.get_or_init(|| crate::ENTRIES.iter().map(|make| make()).collect())
}
