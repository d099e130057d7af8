//! What the package states of a level do: one transaction for all that want theirs made in the same way, and for each
//! state its own share of what came of it.
//!
//! A transaction that fails fails as a whole, and one package that cannot be installed must not hide the others: where the
//! manager names packages of theirs, whoever is not served is tried alone, and has its own success or failure. What fails for
//! all, like a lock or the network, would only fail once more for each.

use super::check::job_of;
use super::installed_packages::{Installed, bare};
use super::manager::{self, Refusal};
use super::record::{PackageDrift, moved};
use super::session::Session;
use super::wanted::Wanted;
use super::wish::{Goal, Options, Wish};
use crate::context::{Applying, Change};
use std::collections::BTreeMap;
use std::path::PathBuf;
use zester_host::{Fault, FaultKind};

/// A state, and what its check found.
pub(crate) type Member<'a> = (&'a Wish, &'a PackageDrift);

pub(crate) async fn apply(members: &[Member<'_>], cx: &Applying<'_>) -> Vec<Result<Change, Fault>> {
    let manager = match manager::manager(cx.host) {
        Ok(manager) => manager,
        Err(fault) => return members.iter().map(|_| Err(fault.shared())).collect(),
    };
    let session = async {
        let session = Session::take(cx, &*manager).await?;
        let before = session.installed().await?;
        Ok::<_, Fault>((session, before))
    };
    let (session, before) = match session.await {
        Ok(begun) => begun,
        Err(fault) => return members.iter().map(|_| Err(fault.shared())).collect(),
    };
    let mut transaction = Transaction { session, members, order: manager.order(), faults: BTreeMap::new() };
    let mut groups: BTreeMap<&Options, Vec<usize>> = BTreeMap::new();
    for (index, (wish, drift)) in members.iter().enumerate() {
        if !wish.goal.only_marks() && (!drift.asked.is_empty() || drift.holds.is_empty()) {
            groups.entry(&wish.options).or_default().push(index);
        }
    }
    for group in groups.into_values() {
        transaction.serve(&group).await;
    }
    transaction.mark().await;
    transaction.end(&before).await
}

struct Transaction<'a> {
    session: Session<'a>,
    members: &'a [Member<'a>],
    order: super::version::Order,
    faults: BTreeMap<usize, Fault>,
}

impl Transaction<'_> {
    async fn serve(&mut self, group: &[usize]) {
        let Err(Refusal { fault, names }) = self.run(group).await else { return };
        let after = match self.session.installed().await {
            Ok(after) => after,
            Err(fault) => return self.blame(group, &fault),
        };
        let unserved: Vec<usize> =
            group.iter().copied().filter(|index| !self.is_served(*index, &after)).collect();
        // Everybody has what they asked for, and still it failed: that is for all to tell.
        let unserved = if unserved.is_empty() { group.to_vec() } else { unserved };
        let stopped = self.session.canceled || fault.kind == FaultKind::Canceled;
        if stopped || group.len() == 1 || !group.iter().any(|index| self.is_named(*index, &names)) {
            return self.blame(&unserved, &fault);
        }
        for index in unserved {
            if let Err(own) = self.run(&[index]).await {
                self.blame(&[index], &own.fault);
            }
        }
    }

    fn is_named(&self, index: usize, names: &[String]) -> bool {
        let asked = self.members.get(index).into_iter().flat_map(|(_, drift)| &drift.asked);
        asked.into_iter().any(|wanted| names.iter().any(|name| bare(name) == bare(&wanted.name)))
    }

    async fn run(&mut self, group: &[usize]) -> Result<(), Refusal> {
        let of = |index: &usize| self.members.get(*index).copied();
        let members: Vec<Member<'_>> = group.iter().filter_map(of).collect();
        let mut job = job_of(members.iter().copied());
        // Whoever insists on fresh lists brings them to all; nobody is kept from them by another who wants none.
        let insists = members.iter().any(|(wish, _)| wish.refresh == Some(true));
        let declines = members.iter().all(|(wish, _)| wish.refresh == Some(false));
        let refresh = if insists { Some(true) } else { declines.then_some(false) };
        let mut scratch: Vec<PathBuf> = Vec::new();
        let files = members.iter().flat_map(|(_, drift)| &drift.files);
        for (name, content) in files {
            let suffix = job.install.iter().find(|wanted| wanted.name == *name);
            let suffix =
                suffix.and_then(|wanted| wanted.source.as_deref()?.rsplit('.').next()).unwrap_or("deb");
            let path = self.session.put_scratch(&format!("{name}.{suffix}"), content).map_err(Refusal::of)?;
            for wanted in job.install.iter_mut().filter(|wanted| wanted.name == *name) {
                wanted.source = Some(path.display().to_string());
            }
            scratch.push(path);
        }
        let plan = members.iter().any(|(_, drift)| drift.unplanned || !drift.files.is_empty());
        let ended = self.session.run(&job, refresh, plan).await;
        scratch.iter().for_each(|path| self.session.drop_scratch(path));
        ended
    }

    fn blame(&mut self, group: &[usize], fault: &Fault) {
        for index in group {
            self.faults.insert(*index, fault.shared());
        }
    }

    /// Whether the packages that are there tell that a state got what it asked for: None where they do not tell.
    fn is_met(&self, wish: &Wish, drift: &PackageDrift, wanted: &Wanted, after: &Installed) -> Option<bool> {
        let foreign = after.foreign(&wanted.name).map(|(_, version)| version);
        let mut there = after.get(&wanted.name).into_iter().chain(foreign);
        match wish.goal {
            Goal::Installed if wish.options.capabilities => None,
            Goal::Installed => Some(there.any(|now| wish.accepts(wanted, now, self.order))),
            Goal::Latest => {
                let planned = drift.moves.get(&after.key(&wanted.name)).and_then(|moved| moved.new.as_ref());
                let now = there.next();
                if now.is_some() && now == planned { Some(true) } else { now.is_none().then_some(false) }
            }
            Goal::Removed => Some(!after.contains(&wanted.name)),
            Goal::Purged => Some(!after.has_traces(&wanted.name)),
            Goal::UpToDate { .. } | Goal::Downloaded | Goal::Held { .. } | Goal::Unheld { .. } => None,
        }
    }

    /// Whether a state certainly has what it asked for, although its transaction failed. Whoever cannot tell was not served:
    /// to try again what is done already does no harm, to pass over what is not would call it unchanged.
    fn is_served(&self, index: usize, after: &Installed) -> bool {
        let Some((wish, drift)) = self.members.get(index) else { return true };
        let met = |wanted: &Wanted| self.is_met(wish, drift, wanted, after) == Some(true);
        !drift.asked.is_empty() && drift.asked.iter().all(met)
    }

    /// What a state asked for and certainly did not get.
    fn unmet(&self, index: usize, after: &Installed) -> Option<String> {
        let (wish, drift) = self.members.get(index)?;
        let missed = |wanted: &&Wanted| self.is_met(wish, drift, wanted, after) == Some(false);
        let unmet = drift.asked.iter().find(missed)?;
        Some(match &unmet.version {
            Some(version) => format!("{}={version}", unmet.name),
            None => unmet.name.clone(),
        })
    }

    /// All marks at once.
    async fn mark(&mut self) {
        for on in [true, false] {
            let mut names: Vec<String> = Vec::new();
            let mut concerned = Vec::new();
            for (index, (_, drift)) in self.members.iter().enumerate() {
                if self.faults.contains_key(&index) {
                    continue;
                }
                let own: Vec<&String> =
                    drift.holds.iter().filter(|(_, wanted)| **wanted == on).map(|(name, _)| name).collect();
                if !own.is_empty() {
                    concerned.push(index);
                }
                names.extend(own.into_iter().cloned());
            }
            names.sort();
            names.dedup();
            if let Err(fault) = self.session.hold(&names, on).await {
                self.blame(&concerned, &fault);
            }
        }
    }

    async fn end(mut self, before: &Installed) -> Vec<Result<Change, Fault>> {
        let after = match self.session.installed().await {
            Ok(after) => after,
            // How far it got, nobody can tell: what was planned is what may have come about.
            Err(fault) => return self.members.iter().map(|(_, drift)| Err(done(&fault, drift))).collect(),
        };
        let mut shares = self.shares(before, &after);
        let mut ended = Vec::new();
        for (index, (wish, _)) in self.members.iter().enumerate() {
            let share = std::mem::take(&mut shares[index]);
            let fault = match self.faults.remove(&index) {
                Some(fault) => Some(fault),
                None if self.session.canceled => Some(Fault::canceled()),
                None => self.unmet(index, &after).map(|name| {
                    let (message, hint) = match wish.goal {
                        Goal::Removed | Goal::Purged => {
                            (format!("{name} is still there, although its removal succeeded"), "")
                        }
                        _ => (
                            format!("the transaction succeeded, but {name} is not installed"),
                            "a virtual package is installed by the name of one that provides it",
                        ),
                    };
                    let fault = Fault::new(FaultKind::CommandFailed, message);
                    if hint.is_empty() { fault } else { fault.hint(hint) }
                }),
            };
            ended.push(match fault {
                None => Ok(Change {
                    changed: !share.is_empty(),
                    diff: share.words(),
                    details: share.details(),
                    undo: serde_json::to_value(&share).ok(),
                }),
                Some(fault) => Err(self.failed(fault, &share)),
            });
        }
        ended
    }

    /// A state that did not go well, with what it changed all the same: a transaction that a cancel let finish, or one that
    /// stopped half-way (S-43).
    fn failed(&self, fault: Fault, share: &PackageDrift) -> Fault {
        let mut fault = fault.details(share.details());
        if self.session.canceled {
            fault.details.insert("uninterruptible".into(), true.into());
        }
        if share.is_empty() { fault } else { done(&fault, share) }
    }

    /// Whose each change is: whoever's check foresaw it, else whoever was served first. What no plan names other programs did
    /// meanwhile, before the manager had its lock: it is told, and no revert takes it back (S-31).
    fn shares(&self, before: &Installed, after: &Installed) -> Vec<PackageDrift> {
        let mut shares: Vec<PackageDrift> = self
            .members
            .iter()
            .map(|(_, drift)| {
                let holds = drift
                    .holds
                    .iter()
                    .filter(|(name, on)| before.is_held(name) != **on && after.is_held(name) == **on);
                PackageDrift {
                    asked: drift.asked.clone(),
                    holds: holds.map(|(name, on)| (name.clone(), *on)).collect(),
                    ..PackageDrift::default()
                }
            })
            .collect();
        for (index, (_, drift)) in self.members.iter().enumerate() {
            if !self.faults.contains_key(&index) {
                shares[index].fetched = drift.fetched.clone();
            }
        }
        let first = self.members.iter().position(|(_, drift)| !drift.asked.is_empty()).unwrap_or(0);
        for (name, moved) in moved(before, after) {
            let asked =
                |(_, drift): &Member<'_>| drift.asked.iter().any(|wanted| after.key(&wanted.name) == name);
            let predicted =
                |(_, drift): &Member<'_>| drift.moves.keys().any(|moved| bare(moved) == bare(&name));
            let owner =
                self.members.iter().position(asked).or_else(|| self.members.iter().position(predicted));
            let Some(share) = shares.get_mut(owner.unwrap_or(first)) else { continue };
            let ours =
                owner.is_some() || self.session.planned.iter().any(|planned| bare(planned) == bare(&name));
            if ours {
                share.moves.insert(name, moved)
            } else {
                share.others.insert(name, moved)
            };
        }
        shares
    }
}

fn done(fault: &Fault, drift: &PackageDrift) -> Fault {
    let fault = fault.shared();
    match serde_json::to_value(drift) {
        Ok(undo) => fault.having_done(undo),
        Err(_) => fault.touched(),
    }
}
