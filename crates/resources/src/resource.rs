//! A kind of state that manages a thing: a wish about its [`State`].
//!
//! The kind says which thing it is about and how it is to be. Drift, explanation, prediction, record and revert follow from
//! the two states, here, once for all kinds.

use crate::bound::{Bound, Drift, KindEntry, Registered};
use crate::claims::{Claim, Claims};
use crate::context::{Applying, BlobStore, Change, Checking, Explanation, GuardSetting, Reverting};
use crate::params::{Invalid, Params};
use crate::state::{Read, Record, State, Step, Write, as_json, slot};
use crate::takeback::{TakenBack, take_back};
use serde_json::Value as Json;
use std::future::Future;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{BoxFuture, Fault, FaultKind, HostRead};

/// What a kind wants of a thing.
#[derive(Debug)]
pub(crate) enum Want<S> {
    /// It is as it should be.
    Same,
    /// It is to be like this. What is like this already is left alone.
    Be(S),
    /// It is to be like this, and something is to be done even if it is: a restart.
    Act(S),
}

/// A kind of state that manages a thing.
pub(crate) trait Resource: Params {
    type State: State;
    /// Whether a change leaves something to undo.
    const UNDOABLE: bool = true;
    /// A change has effects that nobody can predict in full (S-44).
    const UNPREDICTABLE: bool = false;

    /// Which thing it is about.
    fn key(&self) -> <Self::State as State>::Key;

    /// The same where only what lies elsewhere can say it: a file of answers names the questions.
    fn key_found(&self, _cx: &Checking<'_>) -> Result<<Self::State as State>::Key, Fault> {
        Ok(self.key())
    }

    /// How it is to be, given how it is. [`Checking::forced`] says whether it is to act whatever it finds (S-14).
    fn desired(
        &self,
        now: &Self::State,
        cx: &Checking<'_>,
    ) -> impl Future<Output = Result<Want<Self::State>, Fault>> + Send;

    /// The manner of the change.
    fn how(&self) -> <Self::State as State>::How {
        Default::default()
    }

    /// The same where only what lies elsewhere can say it.
    fn how_found(&self, _cx: &Checking<'_>) -> Result<<Self::State as State>::How, Fault> {
        Ok(self.how())
    }

    /// Judges the values, without looking at the machine.
    fn validate(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// What it decides about and what it stands on, without looking at the machine. Unsaid: the thing as a whole, so that
    /// two kinds contradict each other and two states of one kind do not.
    fn claims(&self) -> Claims {
        Claims::of(Claim::new(Self::State::item(&self.key()), Self::KIND))
    }
}

/// What a check found: from where to where.
struct Found<S: State> {
    record: Record<S>,
    how: S::How,
    acts: bool,
}

impl<S: State> Found<S> {
    fn step(&self) -> Step<'_, S> {
        let Record { key, from, to } = &self.record;
        Step { key, from, to, how: &self.how, acts: self.acts }
    }
}

struct BoundResource<R>(R);

impl<R: Resource> BoundResource<R> {
    async fn find(&self, cx: &Checking<'_>) -> Result<Option<Found<R::State>>, Fault> {
        let key = self.0.key_found(cx)?;
        let from = match R::State::predicted(&key, cx.host) {
            Some(predicted) => predicted,
            None => R::State::current(&key, &Read::of_check(cx)).await?,
        };
        let (to, acts) = match self.0.desired(&from, cx).await? {
            Want::Same => return Ok(None),
            Want::Be(to) if as_json(&to) == as_json(&from) => return Ok(None),
            Want::Be(to) => (to, false),
            Want::Act(to) => (to, true),
        };
        Ok(Some(Found { record: Record { key, from, to }, how: self.0.how_found(cx)?, acts }))
    }

    async fn act(found: &Found<R::State>, cx: &Applying<'_>) -> Result<Change, Fault> {
        let write = Write::new(cx);
        let step = found.step();
        let enforced = R::State::enforce(&step, &write).await;
        let reached = write.take_reached();
        let elsewhere = reached.as_ref().filter(|reached| as_json(*reached) != as_json(step.to));
        let undo = elsewhere.map(|to| Found {
            record: Record { key: step.key.clone(), from: step.from.clone(), to: to.clone() },
            how: found.how.clone(),
            acts: found.acts,
        });
        match enforced {
            Ok(()) => {
                // In the words of the check (S-30): what a program chose by itself is for the record to know.
                let Explanation { diff, details } = R::State::describe(&step, true);
                let undo = undo.map(|found| record::<R>(&found.record)).transpose()?;
                Ok(Change { changed: true, diff, details, undo })
            }
            Err(fault) if reached.is_some() || write.processes.begun() => {
                // A program had begun: what it did until then, a revert finds out by looking.
                let record = record::<R>(&undo.as_ref().unwrap_or(found).record)?;
                Err(fault.having_done(record))
            }
            Err(fault) => Err(fault),
        }
    }
}

fn record<R: Resource>(record: &Record<R::State>) -> Result<Json, Fault> {
    serde_json::to_value(record).map_err(|error| {
        Fault::new(FaultKind::Unsupported, format!("what {} did cannot be recorded: {error}", R::KIND))
    })
}

impl<R: Resource> Bound for BoundResource<R> {
    fn kind(&self) -> &'static str {
        R::KIND
    }

    fn undoable(&self) -> bool {
        R::UNDOABLE
    }

    fn unpredictable(&self) -> bool {
        R::UNPREDICTABLE
    }

    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>> {
        Box::pin(async move { Ok(self.find(cx).await?.map(Drift::new)) })
    }

    fn explain(&self, drift: &Drift, done: bool) -> Explanation {
        let found: Result<&Found<R::State>, _> = drift.get();
        found.map(|found| R::State::describe(&found.step(), done)).unwrap_or_default()
    }

    /// The record holds all of the former state.
    fn save_before_image(&self, _: &mut Drift, _: &dyn HostRead, _: &dyn BlobStore) -> Result<(), Fault> {
        Ok(())
    }

    fn undo_record(&self, drift: &Drift) -> Result<Json, Fault> {
        record::<R>(&drift.get::<Found<R::State>>()?.record)
    }

    fn apply<'a>(&'a self, drift: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
        Box::pin(async move { Self::act(drift.get()?, &cx.acting()?).await })
    }

    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        let Record { key, to, .. } = &drift.get::<Found<R::State>>()?.record;
        overlay.predict_state(slot::<R::State>(key), Arc::new(to.clone()));
        R::State::predict(key, to, overlay)
    }

    fn guard_setting(&self) -> GuardSetting {
        GuardSetting::default()
    }

    fn claims(&self) -> Claims {
        self.0.claims()
    }
}

/// Marks what is registered as a [`Resource`].
pub(crate) struct AsResource;

impl<R: Resource> Registered<AsResource> for R {
    fn entry() -> KindEntry {
        KindEntry::of::<R>(
            |read| Box::new(BoundResource(read)),
            R::validate,
            |undo, cx| Box::pin(revert::<R>(undo, cx)),
        )
    }
}

/// Takes back what was changed, where it is still so.
async fn revert<R: Resource>(undo: &Json, cx: &Reverting<'_>) -> Result<Change, Fault> {
    let Record { key, from, to } = crate::bound::read_record::<Record<R::State>>(R::KIND, undo)?;
    let now = R::State::current(&key, &Read::of_revert(cx)).await?;
    if now.is_gone() {
        return Ok(Change::default());
    }
    let ours = cx.force || now.is_between(&from, &to);
    let back = match take_back(&as_json(&now), &as_json(&from), &as_json(&to), ours) {
        TakenBack::Nothing => return Ok(Change::default()),
        TakenBack::To(back) => crate::bound::read_record::<R::State>(R::KIND, &back)?,
        TakenBack::Changed(what) => {
            let message = format!("{} was changed since{what}", R::State::item(&key));
            return Err(Fault::new(FaultKind::ChangedSince, message).hint("`--force` overwrites it"));
        }
    };
    let record = Record { key, from: now, to: back };
    let found = Found { record, how: Default::default(), acts: false };
    let applying = Applying::new(cx.host, cx.processes, cx.cancel);
    BoundResource::<R>::act(&found, &applying).await.map(|change| Change { undo: None, ..change })
}
