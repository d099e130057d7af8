//! What the states of one level of a dry run would do, kept until the next level begins.
//!
//! States of one level run side by side in an apply, and none may count on another. If each saw at once what the others
//! would do, a dry run would depend on who was faster (S-30, S-58).

use super::StateExecutor;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_engine::{Command, NodeId};
use zester_resources::{Bound, Drift};

#[derive(Default)]
pub struct Predictions(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The level that is under way.
    level: usize,
    /// By node, so that it is not chance who comes first.
    due: BTreeMap<NodeId, (Arc<dyn Bound>, Drift)>,
}

impl Predictions {
    pub(super) fn add(&self, node: NodeId, bound: Arc<dyn Bound>, drift: Drift) {
        self.lock().due.insert(node, (bound, drift));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateExecutor {
    /// Before the first command of a level: what the levels before it would do counts as done from here on.
    pub(super) fn show_earlier_levels(&self, command: &Command) {
        let (Some(overlay), Command::Probe { node, .. } | Command::Guard(node) | Command::Check { node, .. }) =
            (&self.overlay, command)
        else {
            return;
        };
        let level = self.graph.level_of(*node);
        let mut kept = self.predictions.lock();
        if level <= kept.level {
            return;
        }
        kept.level = level;
        for (_, (bound, drift)) in std::mem::take(&mut kept.due) {
            // It was tried out alone. What two of one level would do to each other only an apply can tell.
            let _told = bound.predict(&drift, overlay);
        }
    }
}
