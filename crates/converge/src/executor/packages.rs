//! Package states of one level are checked and applied together: one look, one plan, one transaction.

use super::StateExecutor;
use crate::gathering::{Staged, Unserved};
use crate::run_loop::node_of;
use std::sync::Arc;
use zester_engine::{Command, NodeId};
use zester_host::{Fault, OutputSink};
use zester_resources::{Applying, Bound, Change, Drift, PackageMember, apply_together, check_together};

/// What a package state asks for.
pub enum Asked {
    Check(Arc<dyn Bound>),
    Apply(Arc<dyn Bound>, Arc<Drift>),
}

pub enum Answered {
    Checked(Result<Option<Drift>, Fault>),
    Applied(Result<Change, Fault>),
}

impl Staged for Asked {
    fn stage(&self) -> usize {
        match self {
            Asked::Check(_) => 0,
            Asked::Apply(..) => 1,
        }
    }
}

impl StateExecutor {
    /// Before a command begins: who gets one may come to the others of its level.
    pub(super) fn expect_packages(&self, command: &Command) {
        let Some(node) = node_of(command).filter(|node| self.is_about_packages(*node)) else { return };
        match command {
            Command::Wait { .. } => self.packages.leave(node),
            _ => self.packages.begin(node),
        }
    }

    pub(super) fn is_about_packages(&self, node: NodeId) -> bool {
        self.plan.bound.get(node.index()).is_some_and(|bound| bound.packages().is_some())
    }

    pub(super) async fn check_packages(
        &self,
        node: NodeId,
        bound: &Arc<dyn Bound>,
    ) -> Result<Option<Drift>, Fault> {
        match self.meet(node, Asked::Check(bound.clone())).await {
            Ok(Answered::Checked(found)) => found,
            Ok(Answered::Applied(_)) => Err(Unserved::Lost.fault()),
            Err(unserved) => Err(unserved.fault()),
        }
    }

    pub(super) async fn apply_packages(
        &self,
        node: NodeId,
        bound: &Arc<dyn Bound>,
        drift: Arc<Drift>,
    ) -> Result<Change, Fault> {
        match self.meet(node, Asked::Apply(bound.clone(), drift)).await {
            Ok(Answered::Applied(applied)) => applied,
            Ok(Answered::Checked(_)) => Err(Unserved::Lost.fault()),
            Err(unserved) => Err(unserved.fault()),
        }
    }

    async fn meet(&self, node: NodeId, asked: Asked) -> Result<Answered, Unserved> {
        self.packages.meet(node, asked, &self.cancel, |all| self.serve(node, all)).await
    }

    /// Those who meet are all at the same stage.
    async fn serve(&self, node: NodeId, all: Vec<Asked>) -> Vec<Answered> {
        let mut members: Vec<PackageMember<'_>> = Vec::new();
        let mut acts: Vec<(PackageMember<'_>, &Drift)> = Vec::new();
        for asked in &all {
            match asked {
                Asked::Check(bound) => members.extend(bound.packages()),
                Asked::Apply(bound, drift) => {
                    acts.extend(bound.packages().map(|member| (member, drift.as_ref())));
                }
            }
        }
        if acts.is_empty() {
            let cx = self.checking(self.view(), None, self.overlay.is_some());
            return check_together(&members, &cx).await.into_iter().map(Answered::Checked).collect();
        }
        let (observer, name) = (self.observer.clone(), self.graph.name(node).clone());
        let live: OutputSink = Arc::new(move |line| observer.output(name.as_str(), line));
        let files = self.local_host.files.as_ref();
        let applying = Applying {
            live: Some(live),
            ..Applying::new(files, self.local_host.processes.as_ref(), &self.cancel)
        };
        apply_together(&acts, &applying).await.into_iter().map(Answered::Applied).collect()
    }
}
