//! A kind of state about packages, and what several of one level do together.

use super::record::PackageDrift;
use super::wish::{Goal, Wish};
use super::{apply, check, due, take_back};
use crate::bound::{Bound, Drift, KindEntry, Registered, read_record};
use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::{Applying, BlobStore, Change, Checking, Explanation, GuardSetting, Reverting};
use crate::params::{Invalid, Params};
use serde_json::Value as Json;
use zester_host::overlay::Overlay;
use zester_host::{BoxFuture, Fault, FaultKind, HostRead};

/// A kind of state about packages: what it wants of them. The rest is the same for all.
pub(crate) trait PackageKind: Params {
    /// Whether a change leaves something to undo.
    const UNDOABLE: bool = true;

    fn wish(&self) -> Wish;

    /// Judges the values, without looking at the machine.
    fn validate(&self) -> Vec<Invalid>;
}

/// The packages of a state, for whoever serves several states at once.
pub struct PackageMember<'a>(&'a Wish);

struct BoundPackages {
    kind: &'static str,
    undoable: bool,
    wish: Wish,
}

impl BoundPackages {
    /// A list of packages that turned out empty, as templates make them: there is nothing to look at.
    fn is_idle(&self) -> bool {
        let listed =
            !matches!(self.wish.goal, Goal::UpToDate { .. } | Goal::Held { .. } | Goal::Unheld { .. });
        listed && self.wish.packages.is_empty()
    }
}

impl Bound for BoundPackages {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn undoable(&self) -> bool {
        self.undoable
    }

    fn unpredictable(&self) -> bool {
        true
    }

    fn packages(&self) -> Option<PackageMember<'_>> {
        (!self.is_idle()).then_some(PackageMember(&self.wish))
    }

    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>> {
        Box::pin(async move {
            match self.is_idle() {
                true => Ok(None),
                false => only(check_together(&[PackageMember(&self.wish)], cx).await),
            }
        })
    }

    fn explain(&self, drift: &Drift, _done: bool) -> Explanation {
        let Ok(drift) = drift.get::<PackageDrift>() else { return Explanation::default() };
        let (mut diff, mut details) = (drift.words(), drift.details());
        if drift.after_update {
            diff.insert_str(0, "would change; known only after new package lists were fetched\n");
            details.insert("unknown".into(), true.into());
        }
        Explanation { diff, details }
    }

    fn save_before_image(&self, _: &mut Drift, _: &dyn HostRead, _: &dyn BlobStore) -> Result<(), Fault> {
        Ok(())
    }

    fn undo_record(&self, drift: &Drift) -> Result<Json, Fault> {
        serde_json::to_value(drift.get::<PackageDrift>()?).map_err(|error| {
            let message = format!("what {} did cannot be recorded: {error}", self.kind);
            Fault::new(FaultKind::Unsupported, message)
        })
    }

    fn apply<'a>(&'a self, drift: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
        Box::pin(async move { only(apply_together(&[(PackageMember(&self.wish), drift)], cx).await) })
    }

    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        due::predict(&self.wish, drift.get()?, overlay);
        Ok(())
    }

    fn guard_setting(&self) -> GuardSetting {
        GuardSetting::default()
    }

    fn claims(&self) -> Claims {
        let owned = self.wish.packages.iter().map(|wanted| {
            let item = ManagedItem::Package(wanted.name.clone());
            match self.wish.goal {
                Goal::Installed => Claim::new(item, "installed").with("version", wanted.version.clone()),
                Goal::Latest => Claim::new(item, "installed").with("version", Some("latest")),
                Goal::Removed => Claim::new(item, "removed"),
                Goal::Purged => Claim::new(item, "purged"),
                Goal::Held { .. } => Claim::about(item).with("hold", Some(true)),
                Goal::Unheld { .. } => Claim::about(item).with("hold", Some(false)),
                Goal::UpToDate { .. } | Goal::Downloaded => Claim::about(item),
            }
        });
        let owned = owned.map(|claim| claim.with("hold", self.wish.hold)).collect();
        let files = self.wish.packages.iter().filter_map(|wanted| wanted.source.as_deref());
        Claims { owned, ..Claims::default() }.needs(files.map(std::path::Path::new))
    }
}

fn only<T>(mut all: Vec<Result<T, Fault>>) -> Result<T, Fault> {
    let nobody = || Fault::new(FaultKind::Unsupported, "nobody answered for a state about packages");
    all.pop().ok_or_else(nobody)?
}

/// Checks several states at once: one look at the machine and one plan. The answers stand in the order of the questions.
pub async fn check_together(
    members: &[PackageMember<'_>],
    cx: &Checking<'_>,
) -> Vec<Result<Option<Drift>, Fault>> {
    let wishes: Vec<&Wish> = members.iter().map(|member| member.0).collect();
    let found = check::check(&wishes, cx).await;
    found.into_iter().map(|found| found.map(|drift| drift.map(Drift::new))).collect()
}

/// Carries out what several checks found, in one transaction.
pub async fn apply_together(
    members: &[(PackageMember<'_>, &Drift)],
    cx: &Applying<'_>,
) -> Vec<Result<Change, Fault>> {
    let acting = match cx.acting() {
        Ok(acting) => acting,
        Err(fault) => return members.iter().map(|_| Err(fault.shared())).collect(),
    };
    let drifts: Result<Vec<apply::Member<'_>>, Fault> =
        members.iter().map(|(member, drift)| Ok((member.0, drift.get::<PackageDrift>()?))).collect();
    match drifts {
        Ok(drifts) => apply::apply(&drifts, &acting).await,
        Err(fault) => members.iter().map(|_| Err(fault.shared())).collect(),
    }
}

/// Undoes what several records of package states say, in one transaction.
pub async fn revert_together(records: &[(&str, &Json)], cx: &Reverting<'_>) -> Vec<Result<Change, Fault>> {
    if cx.cancel.is_cancelled() {
        return records.iter().map(|_| Err(Fault::canceled())).collect();
    }
    let read: Result<Vec<PackageDrift>, Fault> =
        records.iter().map(|(kind, record)| read_record(kind, record)).collect();
    match read {
        Ok(read) => take_back::revert(&read.iter().collect::<Vec<_>>(), cx).await,
        Err(fault) => records.iter().map(|_| Err(fault.shared())).collect(),
    }
}

/// Whether records of this kind are for [`revert_together`].
pub fn is_about_packages(kind: &str) -> bool {
    crate::entry(kind).is_some_and(|entry| entry.about_packages)
}

/// Marks what is registered as a [`PackageKind`].
pub(crate) struct AsPackages;

impl<K: PackageKind> Registered<AsPackages> for K {
    fn entry() -> KindEntry {
        let entry = KindEntry::of::<K>(
            |read| Box::new(BoundPackages { kind: K::KIND, undoable: K::UNDOABLE, wish: read.wish() }),
            K::validate,
            |undo, cx| Box::pin(async move { only(revert_together(&[(K::KIND, undo)], cx).await) }),
        );
        KindEntry { about_packages: true, ..entry }
    }
}
