//! The check of all package states of a level: one look at what is installed, and one plan for what is to change.
//!
//! What a manager refuses, it refuses as a whole. Then those that it names, or else each of them, are asked about alone:
//! whoever is refused alone has its own failure, and the plan is made for the rest.

use super::due::{self, LevelView};
use super::installed_packages::{Installed, bare};
use super::manager::{self, Job, Planned, Refusal};
use super::record::{Move, PackageDrift};
use super::session::missing;
use super::wanted::Wanted;
use super::wish::{Goal, Options, Wish};
use crate::context::Checking;
use crate::state::Read;
use std::collections::{BTreeMap, BTreeSet};
use zester_host::{Fault, FaultKind, Question};

/// What a check of one state found.
pub(crate) type Found = Result<Option<PackageDrift>, Fault>;

pub(crate) async fn check(wishes: &[&Wish], cx: &Checking<'_>) -> Vec<Found> {
    let looked = async {
        let manager = manager::manager(cx.host)?;
        let now = manager.installed(Read::of_check(cx)).await.map_err(|fault| missing(&*manager, fault))?;
        Ok::<_, Fault>((manager, now))
    };
    let (manager, now) = match looked.await {
        Ok(looked) => looked,
        Err(fault) => return wishes.iter().map(|_| Err(fault.shared())).collect(),
    };
    let look = LevelView { manager: &*manager, now: &now, cx };
    let mut level = Level { look, members: Vec::new(), found: wishes.iter().map(|_| Ok(None)).collect() };
    for (place, wish) in wishes.iter().enumerate() {
        match level.look.due(wish) {
            Ok(Some(drift)) => level.members.push(Member { place, wish, drift }),
            Ok(None) => {}
            Err(fault) => level.found[place] = Err(fault),
        }
    }
    level.choose_versions().await;
    level.plan().await;
    level.end()
}

/// A state that has something to do.
struct Member<'a> {
    /// Its place among those that are checked.
    place: usize,
    wish: &'a Wish,
    drift: PackageDrift,
}

struct Level<'a> {
    look: LevelView<'a>,
    members: Vec<Member<'a>>,
    found: Vec<Found>,
}

impl Level<'_> {
    fn read(&self) -> Read<'_> {
        Read::of_check(self.look.cx)
    }

    async fn choose_versions(&mut self) {
        let names: BTreeSet<String> = self
            .members
            .iter()
            .flat_map(|member| {
                let chosen = member.drift.asked.iter().filter(|wanted| due::must_choose(member.wish, wanted));
                chosen.map(|wanted| wanted.name.clone())
            })
            .collect();
        if names.is_empty() {
            return;
        }
        let names: Vec<String> = names.into_iter().collect();
        let there = self.look.manager.available(&names, self.read()).await;
        let mut members = std::mem::take(&mut self.members);
        for mut member in members.drain(..) {
            let chooses = member.drift.asked.iter().any(|wanted| due::must_choose(member.wish, wanted));
            let chosen = match &there {
                Ok(Some(there)) if chooses => self.look.choose(member.wish, &mut member.drift, there),
                Err(fault) if chooses => Err(fault.shared()),
                _ => Ok(()),
            };
            match chosen {
                Ok(()) => self.members.push(member),
                Err(fault) => self.found[member.place] = Err(fault),
            }
        }
    }

    /// States that want their transaction made in the same way share it.
    async fn plan(&mut self) {
        let mut groups: BTreeMap<Options, Vec<usize>> = BTreeMap::new();
        for (index, member) in self.members.iter().enumerate() {
            if !member.wish.goal.only_marks() && (!member.drift.asked.is_empty() || whole(member.wish)) {
                groups.entry(member.wish.options.clone()).or_default().push(index);
            }
        }
        for group in groups.into_values() {
            self.plan_group(group).await;
        }
    }

    async fn plan_group(&mut self, mut group: Vec<usize>) {
        if let Err(fault) = self.leave_to_new_lists(&mut group) {
            return group.iter().for_each(|index| self.refuse(*index, fault.shared()));
        }
        while !group.is_empty() {
            let refusal = match self.simulate(&group).await {
                Ok(planned) => return self.share(&group, planned),
                // What was cut is completed before anything else; until then there is no plan.
                Err(refusal) if self.look.manager.is_interrupted(&refusal.fault) => {
                    return group.iter().for_each(|index| self.members[*index].drift.unplanned = true);
                }
                Err(refusal) => refusal,
            };
            let [_, _, ..] = group.as_slice() else {
                group.iter().for_each(|index| self.refuse(*index, refusal.fault.shared()));
                return;
            };
            let named: Vec<usize> =
                group.iter().copied().filter(|index| self.is_named(*index, &refusal.names)).collect();
            let suspects = if named.is_empty() { group.clone() } else { named };
            let mut culprits = Vec::new();
            for index in suspects {
                if let Err(own) = self.simulate(&[index]).await {
                    self.refuse(index, own.fault);
                    culprits.push(index);
                }
            }
            if culprits.is_empty() {
                // Each alone would do: they contradict one another.
                group.iter().for_each(|index| self.refuse(*index, refusal.fault.shared()));
                return;
            }
            group.retain(|index| !culprits.contains(index));
        }
    }

    /// Where a repository was named whose packages nobody has fetched yet, apply fetches them before it installs anything; what
    /// that brings is not known before.
    fn leave_to_new_lists(&mut self, group: &mut Vec<usize>) -> Result<(), Fault> {
        let cx = self.look.cx;
        let fetches = |member: &Member<'_>| {
            let removes = matches!(member.wish.goal, Goal::Removed | Goal::Purged);
            // What comes from files is there whatever the lists say.
            let files =
                member.drift.asked.iter().all(|wanted| wanted.source.is_some()) && !whole(member.wish);
            member.wish.refresh.is_none() && !removes && !files
        };
        let concerned = |index: &usize| self.members.get(*index).is_some_and(fetches);
        if !group.iter().any(concerned) || !self.look.manager.lacks_lists(cx.host)? {
            return Ok(());
        }
        let (later, now): (Vec<usize>, Vec<usize>) = group.iter().partition(|index| concerned(index));
        for index in later {
            let drift = &mut self.members[index].drift;
            (drift.after_update, drift.unplanned) = (cx.dry_run, true);
        }
        *group = now;
        Ok(())
    }

    async fn simulate(&self, group: &[usize]) -> Result<Vec<Planned>, Refusal> {
        let manager = self.look.manager;
        let members = group.iter().filter_map(|index| self.members.get(*index));
        let job = job_of(members.map(|member| (member.wish, &member.drift)));
        let mut plan = Vec::new();
        for call in manager.calls(&job, self.look.now).map_err(Refusal::of)? {
            let question = Question::Read { tool: call.tool, words: &call.question };
            let asked = self.look.cx.query.ask(question, self.look.cx.cancel).await;
            let exit = asked.map_err(|fault| Refusal::of(missing(manager, fault)))?;
            plan.extend(manager.read_plan(&call, &exit, self.look.now)?);
        }
        Ok(plan)
    }

    fn is_named(&self, index: usize, names: &[String]) -> bool {
        let asked = &self.members[index].drift.asked;
        asked.iter().any(|wanted| names.iter().any(|name| *name == wanted.name || name == bare(&wanted.name)))
    }

    /// What is not known may be in the lists that apply will fetch first. A dry run fetches none.
    fn refuse(&mut self, index: usize, fault: Fault) {
        let Member { place, wish, drift } = &mut self.members[index];
        let cx = self.look.cx;
        let may_come = match (fault.kind, wish.refresh) {
            (FaultKind::NotFound, Some(refresh)) => Ok(refresh),
            (FaultKind::NotFound, None) if !cx.dry_run => Ok(true),
            (FaultKind::NotFound, None) => self.look.manager.has_lists(cx.host).map(|there| !there),
            _ => Ok(false),
        };
        // It would only come in this very dry run.
        let removes = matches!(wish.goal, Goal::Removed | Goal::Purged);
        let comes = removes && drift.asked.iter().any(|one| !self.look.now.has_traces(&one.name));
        self.found[*place] = match may_come {
            Err(fault) => Err(fault),
            Ok(_) if fault.kind == FaultKind::NotFound && comes => return,
            Ok(true) if !removes => {
                (drift.after_update, drift.unplanned) = (cx.dry_run, true);
                return;
            }
            Ok(_) if fault.kind == FaultKind::NotFound && wish.refresh.is_none() && fault.hint.is_none() => {
                Err(fault.hint("if the package lists are old, `refresh: true` fetches new ones"))
            }
            Ok(_) if fault.message.contains("Held packages") => {
                Err(fault.hint("`update_holds: true` changes them all the same"))
            }
            Ok(_) => Err(fault),
        };
    }

    /// Gives everybody their own part of a plan, and what comes along with it.
    fn share(&mut self, group: &[usize], planned: Vec<Planned>) {
        let members: Vec<&Member<'_>> = group.iter().map(|index| &self.members[*index]).collect();
        let owners = owners(&members, &planned, self.look.now);
        let named: BTreeSet<String> = planned.iter().map(|one| bare(&one.name).to_string()).collect();
        for (owner, planned) in owners.into_iter().zip(planned) {
            let member = &mut self.members[group[owner]];
            if member.wish.goal == Goal::Downloaded {
                member.drift.fetched.insert(planned.name, planned.new.unwrap_or_default());
            } else {
                let moved = Move { old: planned.old, new: planned.new };
                member.drift.moves.insert(planned.name, moved);
            }
        }
        for index in group {
            let Member { wish, drift, .. } = &mut self.members[*index];
            match wish.goal {
                // Whatever provides it is there, or would be in the plan under its own name.
                Goal::Installed if wish.options.capabilities => {
                    let planned = drift.moves.keys().any(|moved| named.contains(bare(moved)));
                    if !planned {
                        drift.asked.clear();
                        drift.moves.clear();
                    }
                }
                // A package that only another architecture has goes by its plain name too; the manager leaves it alone.
                Goal::Installed => {
                    let now = self.look.now;
                    let order = self.look.manager.order();
                    drift.asked.retain(|wanted| {
                        let name = &wanted.name;
                        let elsewhere =
                            now.foreign(name).any(|(_, version)| wish.accepts(wanted, version, order));
                        let met = !named.contains(bare(name)) && !now.contains(name) && elsewhere;
                        if met {
                            drift.moves.remove(name);
                        }
                        !met
                    });
                }
                Goal::Removed | Goal::Purged => {
                    let now = self.look.now;
                    drift.asked.retain(|wanted| {
                        let planned = drift.moves.keys().any(|moved| bare(moved) == bare(&wanted.name));
                        planned || wish.goal == Goal::Purged && now.has_traces(&wanted.name)
                    });
                }
                Goal::Latest => drift
                    .asked
                    .retain(|wanted| drift.moves.keys().any(|moved| bare(moved) == bare(&wanted.name))),
                Goal::Downloaded => {
                    let fetched = &drift.fetched;
                    drift.asked.retain(|wanted| fetched.contains_key(bare(&wanted.name)));
                }
                Goal::UpToDate { .. } | Goal::Held { .. } | Goal::Unheld { .. } => {}
            }
        }
    }

    fn end(mut self) -> Vec<Found> {
        for Member { place, wish, drift } in self.members {
            if self.found[place].is_err() {
                continue;
            }
            let due = !drift.is_empty() || drift.after_update || !drift.asked.is_empty() || drift.unplanned;
            let planned = !drift.after_update && !drift.unplanned;
            let nothing = wish.goal.is_for_the_plan_to_say() && drift.is_empty() && planned;
            self.found[place] = match due && !nothing {
                true => manager::may_act(self.look.cx.host).map(|()| Some(drift)),
                false => Ok(None),
            };
        }
        self.found
    }
}

fn whole(wish: &Wish) -> bool {
    matches!(wish.goal, Goal::UpToDate { .. })
}

/// The one transaction of several states.
pub(super) fn job_of<'a>(members: impl Iterator<Item = (&'a Wish, &'a PackageDrift)>) -> Job {
    let mut job = Job::default();
    for (wish, drift) in members {
        job.options = wish.options.clone();
        let names = || drift.asked.iter().map(|wanted| wanted.name.clone());
        match wish.goal {
            Goal::Installed | Goal::Downloaded => {
                let new = drift.asked.iter().filter(|wanted| !job.install.contains(wanted));
                let new: Vec<Wanted> = new.cloned().collect();
                job.install.extend(new);
            }
            Goal::Latest => job.latest.extend(names()),
            Goal::UpToDate { whole } => job.everything = Some(job.everything.unwrap_or(false) || whole),
            Goal::Removed => job.remove.extend(names()),
            Goal::Purged => job.purge.extend(names()),
            Goal::Held { .. } | Goal::Unheld { .. } => {}
        }
    }
    job
}

/// Whose each line of a plan is: whoever asked for the package; an upgrade that nobody asked for by name, whoever wants all
/// of them. What else was not asked for comes along with what follows it, because managers bring what is needed first.
fn owners(members: &[&Member<'_>], planned: &[Planned], now: &Installed) -> Vec<usize> {
    let asked_by = |name: &str| {
        let by = |same: &dyn Fn(&Wanted) -> bool| {
            members.iter().position(|member| member.drift.asked.iter().any(same))
        };
        by(&|wanted: &Wanted| now.key(&wanted.name) == now.key(name))
            .or_else(|| by(&|wanted: &Wanted| !wanted.name.contains(':') && wanted.name == bare(name)))
    };
    let upgrades_all = members.iter().position(|member| whole(member.wish));
    let upgrade = |planned: &Planned| upgrades_all.filter(|_| planned.old.is_some() && planned.new.is_some());
    let mut owners = vec![None; planned.len()];
    let mut next = None;
    for (place, planned) in planned.iter().enumerate().rev() {
        next = asked_by(&planned.name).or_else(|| upgrade(planned)).or(next);
        owners[place] = next;
    }
    let last = owners.iter().rev().flatten().next().copied().unwrap_or(0);
    owners.into_iter().map(|owner| owner.unwrap_or(last)).collect()
}
