//! What goes into a run and what comes out of it.

use crate::graph::NodeId;
use crate::outcome::Outcome;
use std::fmt;
use std::time::Duration;
use zester_model::outcome::SkipReason;

/// A step that ended with an error. Its words are the driver's: the run only needs to know what it left behind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The machine was altered before it failed (S-43).
    pub touched: bool,
}

/// What happened outside.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Start,
    /// Answers [`Command::Probe`]. An error or an unmet guard of the target is "would not change" (S-15).
    Probed {
        node: NodeId,
        target: NodeId,
        would_change: bool,
    },
    /// Answers [`Command::Guard`]: met or not, or the guard itself could not be run.
    Guarded {
        node: NodeId,
        result: Result<bool, Failed>,
    },
    /// Answers [`Command::Check`]: whether it would change.
    Checked {
        node: NodeId,
        result: Result<bool, Failed>,
    },
    /// Answers [`Command::Apply`]: whether it changed anything.
    Applied {
        node: NodeId,
        result: Result<bool, Failed>,
    },
    /// Answers [`Command::Revert`]: whether it changed anything.
    Reverted {
        node: NodeId,
        result: Result<bool, Failed>,
    },
    /// Answers [`Command::Wait`].
    Waited {
        node: NodeId,
    },
    /// Nothing new starts. The driver stops what is in flight and still reports its end.
    Cancel,
}

/// Why a node acts although its check may find nothing to do (S-14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Force {
    /// These watched targets changed.
    Watch { changed: Vec<NodeId> },
    /// A refresh from an earlier run is pending (S-39).
    PendingRefresh,
    /// This target of its prereq would change.
    Prereq { target: NodeId },
}

/// What is to be done outside. Commands of one step may be carried out at once; each node has at most one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The nodes that follow are of this level. Nothing to answer.
    Level(usize),
    /// Ask the target's guard and check whether it would change, for the prereq gate of `node`. `forced`: as the target
    /// would be, as far as that is known by now.
    Probe {
        node: NodeId,
        target: NodeId,
        forced: Option<Force>,
    },
    Guard(NodeId),
    Check {
        node: NodeId,
        forced: Option<Force>,
    },
    Apply {
        node: NodeId,
        forced: Option<Force>,
    },
    Revert(NodeId),
    /// Try `attempt` (counted from 1) has failed: report [`Event::Waited`] after the interval, and it is tried again.
    Wait {
        node: NodeId,
        attempt: u32,
        interval: Duration,
    },
    /// The node ended without running. `because`: the targets that decided; the failed failhard node; empty if canceled.
    Skip {
        node: NodeId,
        reason: SkipReason,
        because: Vec<NodeId>,
    },
    /// The node ended otherwise; never with [`Outcome::Skipped`].
    Done {
        node: NodeId,
        outcome: Outcome,
    },
    /// The run is over: every node had one `Skip` or one `Done`.
    Finish,
}

/// An event that the run cannot take in its state. The run is as it was before.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IllegalTransition {
    pub state: &'static str,
    pub event: &'static str,
    pub node: Option<NodeId>,
}

impl fmt::Display for IllegalTransition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(out, "event {} while state #{} is {}", self.event, node.0, self.state),
            None => write!(out, "event {} while the run is {}", self.event, self.state),
        }
    }
}

impl std::error::Error for IllegalTransition {}

impl Event {
    /// Which node it speaks of.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Event::Start | Event::Cancel => None,
            Event::Probed { node, .. }
            | Event::Guarded { node, .. }
            | Event::Checked { node, .. }
            | Event::Applied { node, .. }
            | Event::Reverted { node, .. }
            | Event::Waited { node } => Some(*node),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Event::Start => "start",
            Event::Probed { .. } => "probed",
            Event::Guarded { .. } => "guarded",
            Event::Checked { .. } => "checked",
            Event::Applied { .. } => "applied",
            Event::Reverted { .. } => "reverted",
            Event::Waited { .. } => "waited",
            Event::Cancel => "cancel",
        }
    }
}
