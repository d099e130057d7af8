//! What one state has to do, as far as a look at what is installed can tell. No plan is made here.

use super::installed_packages::Installed;
use super::manager::{PackageManager, Versions};
use super::record::{Move, PackageDrift};
use super::session::cannot_hold;
use super::wanted::Wanted;
use super::wish::{Goal, Wish};
use crate::context::Checking;
use std::sync::Arc;
use zester_host::files::{PredictedPackage, Slot};
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind};

/// What a dry run knows of packages beside their versions.
struct Held(bool);
struct Purged;
struct Fetched;
struct UpToDate;

/// The machine, as the checks of a level see it.
pub(super) struct LevelView<'a> {
    pub(super) manager: &'a dyn PackageManager,
    pub(super) now: &'a Installed,
    pub(super) cx: &'a Checking<'a>,
}

impl LevelView<'_> {
    /// None where nothing is to be done.
    pub(super) fn due(&self, wish: &Wish) -> Result<Option<PackageDrift>, Fault> {
        let mut drift = PackageDrift::default();
        match wish.goal {
            Goal::Installed => self.install(wish, &mut drift)?,
            Goal::Latest => self.latest(wish, &mut drift),
            Goal::UpToDate { .. } => {
                if self.cx.host.predicted_state(&Slot::of::<UpToDate>("")).is_none() {
                    drift.after_update = self.cx.dry_run && wish.refresh == Some(true);
                    return Ok(Some(drift));
                }
            }
            Goal::Removed | Goal::Purged => self.remove(wish, &mut drift),
            Goal::Downloaded => {
                let fetched =
                    |name: &String| self.cx.host.predicted_state(&Slot::of::<Fetched>(name)).is_some();
                drift.asked = wish.packages.iter().filter(|one| !fetched(&one.name)).cloned().collect();
            }
            Goal::Held { alone } => {
                self.mark(wish, true, &mut drift)?;
                let others = self.now.held().iter().filter(|name| {
                    alone && !wish.packages.iter().any(|wanted| self.now.key(&wanted.name) == **name)
                });
                drift
                    .holds
                    .extend(others.filter(|name| self.is_held(name)).map(|name| (name.clone(), false)));
            }
            Goal::Unheld { all: true } => {
                let held = self.now.held().iter().filter(|name| self.is_held(name));
                drift.holds.extend(held.map(|name| (name.clone(), false)));
            }
            Goal::Unheld { all: false } => self.mark(wish, false, &mut drift)?,
        }
        if let Some(hold) = wish.hold.filter(|_| matches!(wish.goal, Goal::Installed | Goal::Latest)) {
            self.mark(wish, hold, &mut drift)?;
        }
        if !drift.holds.is_empty() && self.manager.hold(&[], true).is_none() {
            return Err(cannot_hold(self.manager));
        }
        drift.after_update = self.cx.dry_run && wish.refresh == Some(true) && !drift.asked.is_empty();
        Ok((!drift.asked.is_empty() || !drift.holds.is_empty()).then_some(drift))
    }

    fn install(&self, wish: &Wish, drift: &mut PackageDrift) -> Result<(), Fault> {
        let order = self.manager.order();
        for wanted in &wish.packages {
            let key = self.now.key(&wanted.name);
            let present = self.now.get(&wanted.name);
            let met = match self.cx.host.predicted_package(&key) {
                Some(PredictedPackage::Installed(version)) => {
                    version.is_none_or(|version| wish.accepts(wanted, &version, order))
                }
                Some(PredictedPackage::Removed) => false,
                None => match present {
                    Some(version) => wish.accepts(wanted, version, order),
                    None => wish.options.only_upgrade,
                },
            };
            if met {
                continue;
            }
            let mut wanted = wanted.clone();
            if let Some(uri) = wanted.source.as_ref().filter(|source| !source.starts_with('/')) {
                drift.files.insert(wanted.name.clone(), crate::source::read(self.cx, uri)?);
            }
            let new = wanted.spec().and_then(|spec| spec.exact().map(str::to_string));
            let old = present.cloned();
            if let Some(version) = new.clone().filter(|_| !wish.ignore_epoch) {
                wanted.version = Some(version);
            }
            drift.moves.insert(key, Move { old, new });
            drift.asked.push(wanted);
        }
        Ok(())
    }

    /// Which of them can be had in a newer version, only the plan tells.
    fn latest(&self, wish: &Wish, drift: &mut PackageDrift) {
        for wanted in &wish.packages {
            let key = self.now.key(&wanted.name);
            let predicted = self.cx.host.predicted_package(&key);
            let there = self.now.contains(&wanted.name);
            let settled = matches!(predicted, Some(PredictedPackage::Installed(_)))
                || !there && wish.options.only_upgrade;
            if settled {
                continue;
            }
            if !there || predicted.is_some() {
                drift.moves.insert(key, Move { old: self.now.get(&wanted.name).cloned(), new: None });
            }
            drift.asked.push(wanted.clone());
        }
    }

    fn remove(&self, wish: &Wish, drift: &mut PackageDrift) {
        let order = self.manager.order();
        for wanted in &wish.packages {
            let key = self.now.key(&wanted.name);
            let purges = wish.goal == Goal::Purged;
            if purges && self.cx.host.predicted_state(&Slot::of::<Purged>(&key)).is_some() {
                continue;
            }
            let version = match self.cx.host.predicted_package(&key) {
                Some(PredictedPackage::Removed) if purges => None,
                Some(PredictedPackage::Removed) => continue,
                Some(PredictedPackage::Installed(version)) => Some(version.unwrap_or_else(|| "?".into())),
                None => self.now.get(&wanted.name).cloned(),
            };
            if version.as_ref().is_some_and(|version| !wish.accepts(wanted, version, order)) {
                continue;
            }
            let foreign = self.now.foreign(&wanted.name).next().is_some();
            if version.is_some() || foreign || purges && self.now.has_traces(&wanted.name) {
                drift.asked.push(Wanted::any(&wanted.name));
            }
            drift.moves.extend(version.map(|old| (key, Move { old: Some(old), new: None })));
        }
    }

    fn is_held(&self, name: &str) -> bool {
        let key = self.now.key(name);
        let predicted = self.cx.host.predicted_state(&Slot::of::<Held>(&key));
        match predicted.as_ref().and_then(|state| state.downcast_ref::<Held>()) {
            Some(Held(held)) => *held,
            None => self.now.is_held(name),
        }
    }

    fn mark(&self, wish: &Wish, on: bool, drift: &mut PackageDrift) -> Result<(), Fault> {
        for wanted in &wish.packages {
            let key = self.now.key(&wanted.name);
            if self.is_held(&wanted.name) == on {
                continue;
            }
            let comes = drift.asked.iter().any(|asked| asked.name == wanted.name)
                || matches!(self.cx.host.predicted_package(&key), Some(PredictedPackage::Installed(_)));
            if on && !comes && !self.now.contains(&wanted.name) && !wish.options.only_upgrade {
                let message = format!("{} is not installed, so it cannot be held", wanted.name);
                return Err(Fault::new(FaultKind::NotFound, message).hint("pkg.installed has `hold: true`"));
            }
            drift.holds.insert(key, on);
        }
        Ok(())
    }

    /// Comparisons become a version, where the manager takes none: the newest that will do.
    pub(super) fn choose(
        &self,
        wish: &Wish,
        drift: &mut PackageDrift,
        there: &Versions,
    ) -> Result<(), Fault> {
        let order = self.manager.order();
        for wanted in drift.asked.iter_mut().filter(|wanted| must_choose(wish, wanted)) {
            // One that is not known at all, the manager refuses in its own words.
            let Some(versions) = there.get(&wanted.name) else {
                wanted.version = None;
                continue;
            };
            let found = versions.iter().find(|version| {
                let plain = Wish { or_newer: false, ..wish.clone() };
                plain.accepts(wanted, version, order)
            });
            let Some(version) = found else {
                let asked = wanted.version.clone().unwrap_or_default();
                let message = format!("no version {asked} of {} can be had", wanted.name);
                let hint = format!("there is {}", versions.join(", "));
                return Err(Fault::new(FaultKind::NotFound, message).hint(hint));
            };
            wanted.version = Some(version.clone());
            if let Some(moved) = drift.moves.get_mut(&self.now.key(&wanted.name)) {
                moved.new = Some(version.clone());
            }
        }
        Ok(())
    }
}

/// Whether a manager that takes no comparisons has to be asked what there is.
pub(super) fn must_choose(wish: &Wish, wanted: &Wanted) -> bool {
    wanted.source.is_none() && wanted.spec().is_some_and(|spec| spec.compares() || wish.ignore_epoch)
}

/// Makes it known to later checks of a dry run.
pub(super) fn predict(wish: &Wish, drift: &PackageDrift, overlay: &Overlay) {
    drift.predict(overlay);
    for (name, on) in &drift.holds {
        overlay.predict_state(Slot::of::<Held>(name), Arc::new(Held(*on)));
    }
    for wanted in &drift.asked {
        match wish.goal {
            Goal::Installed => {
                let version = wanted.spec().and_then(|spec| spec.exact().map(str::to_string));
                overlay.predict_package(&wanted.name, version.as_deref());
            }
            Goal::Latest if !drift.moves.contains_key(&wanted.name) => {
                overlay.predict_package(&wanted.name, None);
            }
            Goal::Removed => overlay.predict_package_removed(&wanted.name),
            Goal::Purged => {
                overlay.predict_package_removed(&wanted.name);
                overlay.predict_state(Slot::of::<Purged>(&wanted.name), Arc::new(Purged));
            }
            Goal::Downloaded => overlay.predict_state(Slot::of::<Fetched>(&wanted.name), Arc::new(Fetched)),
            Goal::Latest | Goal::UpToDate { .. } | Goal::Held { .. } | Goal::Unheld { .. } => {}
        }
    }
    if matches!(wish.goal, Goal::UpToDate { .. }) {
        overlay.predict_state(Slot::of::<UpToDate>(""), Arc::new(UpToDate));
    }
}
