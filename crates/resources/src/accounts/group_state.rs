//! A group of the machine's own book.

use super::Members;
use super::entries::{groups, next_number};
use crate::claims::ManagedItem;
use crate::context::Explanation;
use crate::state::{Read, State, Step, Write, slot};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind, Group};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GroupState {
    Absent,
    Present(GroupAccount),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupAccount {
    /// None: whichever is free.
    pub(crate) gid: Option<u32>,
    pub(crate) members: Members,
    /// What the number would be: for whoever looks it up in a dry run, and for a revert of a run that was cut.
    #[serde(default)]
    pub(crate) expected: u32,
}

/// How a group is made.
#[derive(Copy, Clone, Default)]
pub(crate) struct HowMade {
    pub(crate) system: bool,
    pub(crate) non_unique: bool,
}

impl GroupState {
    /// The number that a new group would get.
    pub(crate) fn next_gid(cx: &Read<'_>, system: bool) -> Result<u32, Fault> {
        Ok(next_number(groups(cx)?.iter().map(|group| group.gid), system))
    }
}

impl State for GroupState {
    type Key = String;
    type How = HowMade;

    fn item(name: &String) -> ManagedItem {
        ManagedItem::Group(name.clone())
    }

    async fn current(name: &String, cx: &Read<'_>) -> Result<GroupState, Fault> {
        let own = groups(cx)?.into_iter().find(|group| group.name == *name);
        if let Some(group) = own {
            let members = Members::of(group.members);
            return Ok(GroupState::Present(GroupAccount {
                gid: Some(group.gid),
                members,
                expected: group.gid,
            }));
        }
        match cx.host.group(name)? {
            None => Ok(GroupState::Absent),
            Some(_) => {
                let message = format!(
                    "the group `{name}` is not in /etc/group: the name service has it from elsewhere"
                );
                Err(Fault::new(FaultKind::Unsupported, message).hint("change it where it comes from"))
            }
        }
    }

    async fn enforce(step: &Step<'_, GroupState>, cx: &Write<'_, GroupState>) -> Result<(), Fault> {
        let name = step.key.as_str();
        let _turn = super::CHANGES.lock().await;
        match (step.from, step.to) {
            (GroupState::Absent, GroupState::Present(to)) => {
                if let GroupState::Present(_) = GroupState::current(step.key, &cx.read()).await? {
                    return Err(super::made_meanwhile(&GroupState::item(step.key)));
                }
                let gid = to.gid.map(|gid| gid.to_string());
                let mut words = vec!["groupadd"];
                words.extend(gid.iter().flat_map(|gid| ["-g", gid]));
                words.extend(step.how.system.then_some("-r"));
                words.extend(step.how.non_unique.then_some("-o"));
                words.push(name);
                if let Err(fault) = cx.run(&words).await {
                    if super::is_taken(&fault) {
                        cx.reached(GroupState::Absent);
                    }
                    return Err(fault);
                }
                set_members(name, &Members::default(), &to.members, cx).await?;
                cx.reached(GroupState::current(step.key, &cx.read()).await?);
                Ok(())
            }
            (GroupState::Present(_), GroupState::Absent) => cx.run(&["groupdel", name]).await.map(drop),
            (GroupState::Present(from), GroupState::Present(to)) => {
                if let Some(gid) = to.gid.filter(|_| to.gid != from.gid) {
                    let gid = gid.to_string();
                    let mut words = vec!["groupmod", "-g", &gid];
                    words.extend(step.how.non_unique.then_some("-o"));
                    words.push(name);
                    cx.run(&words).await?;
                }
                set_members(name, &from.members, &to.members, cx).await
            }
            (GroupState::Absent, GroupState::Absent) => Ok(()),
        }
    }

    fn describe(step: &Step<'_, GroupState>, _: bool) -> Explanation {
        let (name, mut told) = (step.key, Explanation::default());
        match (step.from, step.to) {
            (GroupState::Absent, GroupState::Present(to)) => {
                let gid = to.gid.map(|gid| format!(" with the number {gid}")).unwrap_or_default();
                told.diff = format!("the group {name}: absent → present{gid}\n");
                told.details.insert("group".into(), json!({ "old": "absent", "new": "present" }));
                if !to.members.is_empty() {
                    told.diff.push_str(&format!("the group {name}: members: {}\n", to.members.words()));
                }
            }
            (GroupState::Present(_), GroupState::Absent) => {
                told.diff = format!("the group {name}: present → absent\n");
                told.details.insert("group".into(), json!({ "old": "present", "new": "absent" }));
            }
            (GroupState::Present(from), GroupState::Present(to)) => {
                if let (Some(old), Some(new)) = (from.gid, to.gid)
                    && old != new
                {
                    told.diff.push_str(&format!("the group {name}: gid: {old} → {new}\n"));
                    told.diff.push_str("files that belong to it keep the old number\n");
                    told.details.insert("gid".into(), json!({ "old": old, "new": new }));
                }
                if from.members != to.members {
                    let (old, new) = (from.members.words(), to.members.words());
                    told.diff.push_str(&format!("the group {name}: members: {old} → {new}\n"));
                    told.details
                        .insert("members".into(), json!({ "old": from.members.0, "new": to.members.0 }));
                }
            }
            (GroupState::Absent, GroupState::Absent) => {}
        }
        told
    }

    fn predict(name: &String, to: &GroupState, overlay: &Overlay) -> Result<(), Fault> {
        match to {
            GroupState::Absent => overlay.predict_no_group(name),
            GroupState::Present(group) => {
                let gid = group.gid.unwrap_or(group.expected);
                overlay.predict_group(Group { name: name.clone(), gid });
            }
        }
        overlay.predict_state(slot::<GroupState>(name), Arc::new(to.clone()));
        Ok(())
    }

    /// A group that was just made, before its members were put in. One with another number is somebody else's (S-31).
    fn is_between(&self, before: &GroupState, after: &GroupState) -> bool {
        match (before, self, after) {
            (GroupState::Absent, GroupState::Present(now), GroupState::Present(after)) => {
                now.gid == Some(after.gid.unwrap_or(after.expected)) && now.members.is_subset(&after.members)
            }
            _ => false,
        }
    }
}

async fn set_members(
    name: &str,
    from: &Members,
    to: &Members,
    cx: &Write<'_, GroupState>,
) -> Result<(), Fault> {
    if from != to {
        cx.run(&["gpasswd", "-M", &to.with_commas(), name]).await?;
    }
    Ok(())
}
