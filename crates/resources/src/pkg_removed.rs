//! `pkg.removed`: packages that are not installed.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::pkg::apt::{self, AptSession};
use crate::pkg::installed_packages::bare;
use crate::pkg::wanted::{Wanted, WantedList};
use crate::pkg::{asked_for, refuse_odd_names};
use crate::context::{Applying, Change, Checking, Explanation, Reverting};
use crate::cycle::Cycle;
use crate::params::{Invalid, params};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use zester_host::files::PredictedPackage;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind};
use zester_model::outcome::Details;

/// Packages that are not installed.
#[params(kind = "pkg.removed", primary = "name", manual = "pkg_removed.md")]
pub struct Removed {
    /// The package, where `pkgs` lists no others.
    name: String,
    /// Several packages at once.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
}

/// What is there and is to go, with what cannot do without it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Drift {
    /// What was asked for.
    asked: Vec<String>,
    /// Everything that goes, with its version.
    gone: BTreeMap<String, String>,
}

impl Drift {
    fn words(&self) -> String {
        self.gone.iter().map(|(name, version)| format!("{name}: {version} → removed\n")).collect()
    }

    fn details(&self) -> Details {
        let mut details = Details::new();
        details.insert("removed".into(), json!(self.gone));
        details
    }
}

impl Removed {
    async fn find_drift(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        let names: Vec<String> =
            asked_for(&self.name, self.pkgs.as_ref(), None).into_iter().map(|one| one.name).collect();
        let present = apt::installed(cx.query, &names, cx.cancel).await?;
        let mut asked = Vec::new();
        let mut gone: BTreeMap<String, String> = BTreeMap::new();
        let mut predicted = false;
        for name in names {
            let key = present.key(&name);
            let version = match cx.host.predicted_package(&key) {
                Some(PredictedPackage::Removed) => continue,
                Some(PredictedPackage::Installed(version)) => {
                    predicted = true;
                    Some(version.unwrap_or_else(|| "?".into()))
                }
                None => present.get(&name).cloned(),
            };
            if version.is_some() || present.foreign(&name).next().is_some() {
                asked.push(name);
            }
            gone.extend(version.map(|version| (key, version)));
        }
        if asked.is_empty() {
            return Ok(None);
        }
        match apt::simulate(cx.query, &[], "remove", &asked, cx.cancel).await {
            Ok(plan) => {
                // A plain name means one of another architecture only where there is none of our own; apt knows.
                let planned = |name: &String| plan.iter().any(|planned| bare(&planned.name) == bare(name));
                asked.retain(|name| gone.contains_key(&present.key(name)) || planned(name));
                if asked.is_empty() {
                    return Ok(None);
                }
                gone.extend(plan.into_iter().filter_map(|planned| Some((planned.name, planned.old?))));
            }
            Err(fault) if apt::is_interrupted(&fault) => {}
            // It would only come in this very dry run.
            Err(fault) if fault.kind == FaultKind::NotFound && predicted => {}
            Err(fault) => return Err(fault),
        }
        apt::may_act(cx.host)?;
        Ok(Some(Drift { asked, gone }))
    }
}

impl Cycle for Removed {
    const UNDOABLE: bool = true;
    const UNPREDICTABLE: bool = true;
    type Drift = Drift;

    fn validate(&self) -> Vec<Invalid> {
        let parameter = if self.pkgs.is_some() { "pkgs" } else { "name" };
        refuse_odd_names(&asked_for(&self.name, self.pkgs.as_ref(), None), parameter)
    }

    fn claims(&self) -> Claims {
        let asked = asked_for(&self.name, self.pkgs.as_ref(), None).into_iter();
        let owned = asked.map(|wanted| Claim::new(ManagedItem::Package(wanted.name), "removed"));
        Claims { owned: owned.collect(), ..Claims::default() }
    }

    async fn check(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        self.find_drift(cx).await
    }

    fn explain(&self, drift: &Drift, _done: bool) -> Explanation {
        Explanation { diff: drift.words(), details: drift.details() }
    }

    async fn apply(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
        let mut session = AptSession::take(cx).await?;
        let before = session.installed()?;
        let ended = session.remove(&drift.asked).await;
        let after = session.installed()?;
        let gone = before.versions().iter().filter(|(name, _)| !after.contains(name));
        let gone = gone.map(|(name, version)| (name.clone(), version.clone())).collect();
        let done = Drift { asked: drift.asked.clone(), gone };
        let failed = |fault: Fault| session.failed(fault, !done.gone.is_empty(), done.details(), &done);
        if let Err(fault) = ended {
            return Err(failed(fault));
        }
        if session.canceled {
            return Err(failed(Fault::canceled()));
        }
        let undo = serde_json::to_value(&done).ok();
        Ok(Change { changed: !done.gone.is_empty(), diff: done.words(), details: done.details(), undo })
    }

    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        drift.gone.keys().chain(&drift.asked).for_each(|name| overlay.predict_package_removed(name));
        Ok(())
    }

    async fn revert(undo: &Drift, cx: &Reverting<'_>) -> Result<Change, Fault> {
        let applying = Applying::new(cx.host, cx.processes, cx.cancel);
        let mut session = AptSession::take(&applying).await?;
        let present = session.installed()?;
        let missing = undo.gone.iter().filter(|(name, _)| !present.contains(name));
        let missing: Vec<Wanted> = missing
            .map(|(name, version)| Wanted { name: name.clone(), version: Some(version.clone()) })
            .collect();
        if missing.is_empty() {
            return Ok(Change::default());
        }
        let words: Vec<String> = missing.iter().map(Wanted::argument).collect();
        session.install(&["--no-install-recommends"], &words, None).await?;
        let lines: Vec<String> = words.iter().map(|word| format!("{word}: installed again")).collect();
        Ok(Change { changed: true, diff: lines.join("\n"), ..Change::default() })
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::pkg::fake_apt::fake_apt;
    let case = |params, promise, world: &'static str| {
        Case::new("pkg.removed", params, promise, move |host| fake_apt(host, world))
    };
    vec![
        case(json!({ "name": "hello" }), Promise::Clean, ""),
        case(json!({ "name": "hello" }), Promise::Converges, "hello 2.10 libhello 1"),
        case(json!({ "name": "libhello" }), Promise::Converges, "hello 2.10 libhello 1"),
        case(
            json!({ "name": "x", "pkgs": ["hello", "sl"] }),
            Promise::Converges,
            "hello 2.10 libhello 1 sl 5",
        ),
        case(json!({ "name": "libhello:i386" }), Promise::Clean, "libhello 1"),
        case(json!({ "name": "libhello:i386" }), Promise::Converges, "libhello 1 libhello:i386 1"),
        case(json!({ "name": "libhello" }), Promise::Clean, "libhello:i386 1"),
        case(json!({ "name": "libhello:amd64" }), Promise::Converges, "libhello 1 libhello:i386 1"),
    ]
}
