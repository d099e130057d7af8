//! `pkg.installed`: packages that are installed, in the version that the state says.

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
use std::collections::{BTreeMap, BTreeSet};
use zester_host::files::PredictedPackage;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind, Query};
use zester_model::outcome::Details;

/// Packages that are installed.
#[params(kind = "pkg.installed", primary = "name", manual = "pkg_installed.md")]
pub struct Installed {
    /// The package, where `pkgs` lists no others.
    name: String,
    /// Several packages at once: names, or `name: version`.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
    /// The exact version; `1.2*` stands for all that begin like that. Unset: any will do.
    version: Option<String>,
    /// `true` refreshes the package lists before installing, `false` never does. Unset: only if a package is
    /// not known. A dry run fetches none, and says that it does not know what they would bring.
    refresh: Option<bool>,
    /// `false` leaves out packages that are merely recommended. Unset: as apt is configured.
    install_recommends: Option<bool>,
}

/// One package on its way from a version to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Move {
    old: Option<String>,
    new: Option<String>,
}

/// What is missing, and all that its installation brings.
#[derive(Debug, Serialize, Deserialize)]
pub struct Drift {
    /// What was asked for and is not there.
    asked: Vec<Wanted>,
    /// Everything that changes, dependencies included, as far as it can be predicted.
    moves: BTreeMap<String, Move>,
    /// New package lists are fetched before anything is installed: until then nobody knows what comes, or whether.
    #[serde(skip)]
    after_update: bool,
}

impl Drift {
    /// Packages that were not there at all.
    fn newly(&self) -> Vec<String> {
        self.moves.iter().filter(|(_, moved)| moved.old.is_none()).map(|(name, _)| name.clone()).collect()
    }

    fn words(&self) -> String {
        let line = |(name, Move { old, new }): (&String, &Move)| {
            let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "?".to_string());
            match (old, new) {
                (Some(old), Some(new)) => format!("{name}: {old} → {new}\n"),
                (Some(old), None) => format!("{name}: {old} → removed\n"),
                (None, new) => format!("{name}: new, {}\n", version(new)),
            }
        };
        self.moves.iter().map(line).collect()
    }

    fn details(&self) -> Details {
        let mut details = Details::new();
        details.insert("packages".into(), json!(self.moves));
        let gone: Vec<&String> = self
            .moves
            .iter()
            .filter(|(_, moved)| moved.old.is_some() && moved.new.is_none())
            .map(|(name, _)| name)
            .collect();
        if !gone.is_empty() {
            details.insert("removed".into(), json!(gone));
        }
        details
    }
}

impl Installed {
    fn asked(&self) -> Vec<Wanted> {
        asked_for(&self.name, self.pkgs.as_ref(), self.version.as_deref())
    }

    /// The same for the plan and for the act.
    fn options(&self, missing: &[Wanted]) -> Vec<&'static str> {
        let mut options = match self.install_recommends {
            Some(true) => vec!["--install-recommends"],
            Some(false) => vec!["--no-install-recommends"],
            None => Vec::new(),
        };
        if missing.iter().any(|wanted| wanted.version.is_some()) {
            options.push("--allow-downgrades");
        }
        options
    }

    /// Whether what apt does not know may be in the lists that apply will fetch first. A dry run fetches none.
    fn may_come(&self, cx: &Checking<'_>) -> Result<bool, Fault> {
        match self.refresh {
            Some(refresh) => Ok(refresh),
            None => Ok(!cx.dry_run || !apt::has_lists(cx.host)?),
        }
    }

    async fn find_drift(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        let asked = self.asked();
        let names: Vec<String> = asked.iter().map(|wanted| wanted.name.clone()).collect();
        let present = apt::installed(cx.query, &names, cx.cancel).await?;
        let there = |wanted: &Wanted| match cx.host.predicted_package(&present.key(&wanted.name)) {
            Some(PredictedPackage::Installed(version)) => {
                version.is_none_or(|version| wanted.accepts(&version))
            }
            Some(PredictedPackage::Removed) => false,
            None => present.get(&wanted.name).is_some_and(|version| wanted.accepts(version)),
        };
        let mut missing: Vec<Wanted> = asked.into_iter().filter(|wanted| !there(wanted)).collect();
        if missing.is_empty() {
            return Ok(None);
        }
        let direct = missing.iter().map(|wanted| {
            let moved = Move { old: present.get(&wanted.name).cloned(), new: wanted.version.clone() };
            (present.key(&wanted.name), moved)
        });
        let mut moves: BTreeMap<String, Move> = direct.collect();
        let mut after_update = cx.dry_run && self.refresh == Some(true);
        let words: Vec<String> = missing.iter().map(Wanted::argument).collect();
        match apt::simulate(cx.query, &self.options(&missing), "install", &words, cx.cancel).await {
            Ok(plan) => {
                // A package that only another architecture has goes by its plain name too; then apt leaves it alone.
                missing.retain(|wanted| {
                    let name = &wanted.name;
                    let planned = plan.iter().any(|planned| bare(&planned.name) == bare(name));
                    let elsewhere = present.foreign(name).any(|(_, version)| wanted.accepts(version));
                    let is_met = !planned && !present.contains(name) && elsewhere;
                    if is_met {
                        moves.remove(name);
                    }
                    !is_met
                });
                if missing.is_empty() {
                    return Ok(None);
                }
                moves.extend(
                    plan.into_iter()
                        .map(|planned| (planned.name, Move { old: planned.old, new: planned.new })),
                );
            }
            Err(fault) if apt::is_interrupted(&fault) => {}
            Err(fault) if fault.kind == FaultKind::NotFound && self.may_come(cx)? => {
                after_update = cx.dry_run
            }
            Err(fault) if fault.kind == FaultKind::NotFound && self.refresh.is_none() => {
                return Err(fault.hint("if the package lists are old, `refresh: true` fetches new ones"));
            }
            Err(fault) => return Err(fault),
        }
        apt::may_act(cx.host)?;
        Ok(Some(Drift { asked: missing, moves, after_update }))
    }

    async fn install(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Drift, Fault> {
        let mut session = AptSession::take(cx).await?;
        let before = session.installed()?;
        let words: Vec<String> = drift.asked.iter().map(Wanted::argument).collect();
        let ended = session.install(&self.options(&drift.asked), &words, self.refresh).await;
        let after = session.installed()?;
        let names: BTreeSet<&String> = before.versions().keys().chain(after.versions().keys()).collect();
        let mut moves = BTreeMap::new();
        for name in names {
            let moved = Move { old: before.get(name).cloned(), new: after.get(name).cloned() };
            if moved.old != moved.new {
                moves.insert(name.clone(), moved);
            }
        }
        let done = Drift { asked: drift.asked.clone(), moves, after_update: false };
        let failed = |fault: Fault| session.failed(fault, !done.moves.is_empty(), done.details(), &done);
        if let Err(fault) = ended {
            return Err(failed(fault));
        }
        if session.canceled {
            return Err(failed(Fault::canceled()));
        }
        let met = |wanted: &&Wanted| {
            let foreign = after.foreign(&wanted.name).map(|(_, version)| version);
            after.get(&wanted.name).into_iter().chain(foreign).any(|now| wanted.accepts(now))
        };
        let unmet = drift.asked.iter().find(|wanted| !met(wanted));
        if let Some(wanted) = unmet {
            let message = format!("apt-get succeeded, but {} is not installed", wanted.argument());
            let hint = "a virtual package is installed by the name of one that provides it";
            return Err(failed(Fault::new(FaultKind::CommandFailed, message).hint(hint)));
        }
        Ok(done)
    }
}

impl Cycle for Installed {
    const UNDOABLE: bool = true;
    const UNPREDICTABLE: bool = true;
    type Drift = Drift;

    fn validate(&self) -> Vec<Invalid> {
        let parameter = if self.pkgs.is_some() { "pkgs" } else { "name" };
        let mut invalid = refuse_odd_names(&self.asked(), parameter);
        if self.version.is_some() && self.pkgs.is_some() {
            let message = "with `pkgs`, each package has its own version, `name: version`".to_string();
            invalid.push(Invalid { parameter: "version", message, hint: None });
        }
        if self.version.as_deref() == Some("latest") {
            let message = "`latest` is not a version".to_string();
            let hint = Some("leave `version` out to have any installed".to_string());
            invalid.push(Invalid { parameter: "version", message, hint });
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let owned = self.asked().into_iter().map(|wanted| {
            Claim::new(ManagedItem::Package(wanted.name), "installed").with("version", wanted.version)
        });
        Claims { owned: owned.collect(), ..Claims::default() }
    }

    async fn check(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        self.find_drift(cx).await
    }

    fn explain(&self, drift: &Drift, _done: bool) -> Explanation {
        let (mut diff, mut details) = (drift.words(), drift.details());
        if drift.after_update {
            diff.insert_str(0, "would change; known only after apt-get update has run\n");
            details.insert("unknown".into(), true.into());
        }
        Explanation { diff, details }
    }

    async fn apply(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
        let done = self.install(drift, cx).await?;
        let undo = serde_json::to_value(&done).ok();
        Ok(Change { changed: !done.moves.is_empty(), diff: done.words(), details: done.details(), undo })
    }

    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        for (name, moved) in &drift.moves {
            match moved {
                Move { old: Some(_), new: None } => overlay.predict_package_removed(name),
                Move { new, .. } => overlay.predict_package(name, new.as_deref()),
            }
        }
        for wanted in &drift.asked {
            overlay.predict_package(
                &wanted.name,
                wanted.version.as_deref().filter(|version| !version.ends_with('*')),
            );
        }
        Ok(())
    }

    async fn revert(undo: &Drift, cx: &Reverting<'_>) -> Result<Change, Fault> {
        let applying = Applying::new(cx.host, cx.processes, cx.cancel);
        let newly = undo.newly();
        let mut session = AptSession::take(&applying).await?;
        let before = session.installed()?;
        let ours: Vec<String> = newly.into_iter().filter(|name| before.contains(name)).collect();
        if ours.is_empty() {
            return Ok(Change::default());
        }
        if !cx.force {
            refuse_if_needed_by_others(&ours, cx).await?;
        }
        session.remove(&ours).await?;
        let lines: Vec<String> = ours.iter().map(|name| format!("{name}: removed")).collect();
        let mut details = Details::new();
        details.insert("removed".into(), json!(ours));
        Ok(Change { changed: true, diff: lines.join("\n"), details, undo: None })
    }
}

/// What somebody installed since may need what we brought; it is not ours to remove.
async fn refuse_if_needed_by_others(ours: &[String], cx: &Reverting<'_>) -> Result<(), Fault> {
    let query = Query::through(cx.processes);
    let plan = apt::simulate(query, &[], "remove", ours, cx.cancel).await?;
    let others: Vec<String> =
        plan.into_iter().map(|planned| planned.name).filter(|name| !ours.contains(name)).collect();
    if others.is_empty() {
        return Ok(());
    }
    let message = format!("removing {} would also remove {}", ours.join(", "), others.join(", "));
    Err(Fault::new(FaultKind::ChangedSince, message).hint("`--force` removes them all"))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::cases;
