//! A kind of state that manages files: what it finds to do is a [`FileDrift`], which knows the rest by itself.
//!
//! Files have no [`State`](crate::state::State) that fits into a record: content is kept apart, links on the way decide what is
//! touched, and a change of many paths may stop at any of them. So a drift of files says path by path what was there and
//! what is left there, and its revert goes by that.

use crate::bound::{Bound, Drift, KindEntry, Registered, read_record};
use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Change, Checking, Explanation, GuardSetting, Reverting};
use crate::params::{Invalid, Params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::future::Future;
use zester_host::overlay::Overlay;
use zester_host::{BoxFuture, Fault, FaultKind, HostRead};

/// What differs in the file system: enough to explain, to apply and to undo.
pub(crate) trait FileDrift: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// In words. `done` tells whether it was applied or would be.
    fn explain(&self, done: bool) -> Explanation;

    /// Saves what apply is about to destroy. `look` follows no links.
    fn save_before_image(&mut self, _look: &dyn HostRead, _blobs: &dyn BlobStore) -> Result<(), Fault> {
        Ok(())
    }

    /// Acts. What really came about, where that is not what was announced, takes its place in the record.
    fn apply(&self, cx: &Applying<'_>) -> impl Future<Output = Result<Option<Self>, Fault>> + Send;

    /// Does the same to the overlay of a dry run.
    fn predict(&self, overlay: &Overlay) -> Result<(), Fault>;

    /// Undoes it, and says what it did, a line each.
    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault>;
}

/// The failure of a change that did not do all that was announced, with what it did as its record. Whether that is anything,
/// the fault says, and the files themselves.
pub(crate) fn only_done(fault: Fault, done: &impl FileDrift) -> Fault {
    match serde_json::to_value(done) {
        Ok(undo) => Fault { undo: Some(Box::new(undo)), ..fault },
        Err(_) => fault,
    }
}

/// A kind of state that manages files.
pub(crate) trait FileResource: Params {
    type Drift: FileDrift;
    /// Its `check_cmd` gets what is about to be put in place and must pass before it is (S-43).
    const CHECK_CMD_FIRST: bool = false;

    /// `None`: nothing to do. Writes nothing.
    fn find(&self, cx: &Checking<'_>) -> Result<Option<Self::Drift>, Fault>;

    /// What it decides about and what it stands on, without looking at the machine.
    fn claims(&self) -> Claims;

    /// Judges the values, without looking at the machine.
    fn validate(&self) -> Vec<Invalid> {
        Vec::new()
    }
}

/// Whoever finds a drift of files, a resource or an edit.
pub(crate) trait FindsDrift: Send + Sync {
    type Drift: FileDrift;
    const KIND: &'static str;
    const CHECK_CMD_FIRST: bool = false;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<Self::Drift>, Fault>;
    fn claims(&self) -> Claims;
}

pub(crate) struct BoundFile<F>(pub(crate) F);

impl<F: FindsDrift> BoundFile<F> {
    async fn act(drift: &F::Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
        let undo = drift.apply(cx).await?.as_ref().map(record::<F>).transpose()?;
        let Explanation { diff, details } = drift.explain(true);
        Ok(Change { changed: true, diff, details, undo })
    }
}

fn record<F: FindsDrift>(drift: &F::Drift) -> Result<Json, Fault> {
    serde_json::to_value(drift).map_err(|error| {
        Fault::new(FaultKind::Unsupported, format!("what {} did cannot be recorded: {error}", F::KIND))
    })
}

impl<F: FindsDrift> Bound for BoundFile<F> {
    fn kind(&self) -> &'static str {
        F::KIND
    }

    fn undoable(&self) -> bool {
        true
    }

    fn check_cmd_first(&self) -> bool {
        F::CHECK_CMD_FIRST
    }

    fn unpredictable(&self) -> bool {
        false
    }

    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>> {
        Box::pin(async move { Ok(self.0.find(cx)?.map(Drift::new)) })
    }

    fn explain(&self, drift: &Drift, done: bool) -> Explanation {
        drift.get().map(|drift: &F::Drift| drift.explain(done)).unwrap_or_default()
    }

    fn save_before_image(
        &self,
        drift: &mut Drift,
        host: &dyn HostRead,
        blobs: &dyn BlobStore,
    ) -> Result<(), Fault> {
        drift.get_mut::<F::Drift>()?.save_before_image(host.without_links(), blobs)
    }

    fn undo_record(&self, drift: &Drift) -> Result<Json, Fault> {
        record::<F>(drift.get()?)
    }

    fn apply<'a>(&'a self, drift: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
        Box::pin(async move { Self::act(drift.get()?, &cx.acting()?).await })
    }

    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        drift.get::<F::Drift>()?.predict(overlay)
    }

    fn guard_setting(&self) -> GuardSetting {
        GuardSetting::default()
    }

    fn claims(&self) -> Claims {
        self.0.claims()
    }
}

/// Undoes what a record says.
pub(crate) async fn revert<D: FileDrift>(
    kind: &'static str,
    undo: &Json,
    cx: &Reverting<'_>,
) -> Result<Change, Fault> {
    let lines = read_record::<D>(kind, undo)?.revert(cx)?;
    Ok(Change { changed: !lines.is_empty(), diff: lines.join("\n"), ..Change::default() })
}

struct OfResource<R>(R);

impl<R: FileResource> FindsDrift for OfResource<R> {
    type Drift = R::Drift;
    const KIND: &'static str = R::KIND;
    const CHECK_CMD_FIRST: bool = R::CHECK_CMD_FIRST;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<R::Drift>, Fault> {
        self.0.find(cx)
    }

    fn claims(&self) -> Claims {
        self.0.claims()
    }
}

/// Marks what is registered as a [`FileResource`].
pub(crate) struct AsFileResource;

impl<R: FileResource> Registered<AsFileResource> for R {
    fn entry() -> KindEntry {
        KindEntry::of::<R>(
            |read| Box::new(BoundFile(OfResource(read))),
            R::validate,
            |undo, cx| Box::pin(revert::<R::Drift>(R::KIND, undo, cx)),
        )
    }
}
