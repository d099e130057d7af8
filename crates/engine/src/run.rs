//! A run of states as a pure machine (S-35): events in, commands out.
//!
//! A node's way in apply mode:
//!
//! ```text
//! pending -> (requisites) -> probing* -> guarding? -> checking -> applying -> ended
//!     \____________\____________\____________\___________\____________________^
//!                                              checking, applying -> waiting -> checking   (retry)
//! ```
//!
//! Check mode ends after checking; revert mode knows only pending, reverting, waiting and ended. Levels run one after the
//! other, so every target of a node has ended when the node is judged. A node that waits for its next try keeps its place
//! among the `concurrency` nodes in flight: with one place, states run strictly one after the other.

use crate::command::{Command, Event, Failed, Force, IllegalTransition};
use crate::gate::{Gate, Next};
use crate::graph::{Graph, NodeId};
use crate::outcome::Outcome;
use crate::revert;
use crate::verdict::{self, Verdict};
use std::collections::BTreeMap;
use std::sync::Arc;
use zester_model::outcome::{Mode, SkipReason};

/// Where the run as a whole stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Running,
    Finished,
}

/// Where a try of a node begins.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum TryStart {
    Guard,
    Check,
    Revert,
}

/// Where one node stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    Pending,
    /// Asks this target for its prereq gate.
    Probing(NodeId),
    Guarding,
    Checking,
    Applying,
    Reverting,
    /// For its next try, which begins there.
    Waiting(TryStart),
    Ended(Outcome),
}

/// What an event meets: the run, or the node it speaks of.
#[derive(Copy, Clone, Debug)]
enum State {
    Run(Stage),
    Node(Phase),
    NoSuchNode,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Run(Stage::Fresh) => "not started",
            State::Run(Stage::Running) => "running",
            State::Run(Stage::Finished) => "finished",
            State::Node(Phase::Pending) => "pending",
            State::Node(Phase::Probing(_)) => "probing",
            State::Node(Phase::Guarding) => "guarding",
            State::Node(Phase::Checking) => "checking",
            State::Node(Phase::Applying) => "applying",
            State::Node(Phase::Reverting) => "reverting",
            State::Node(Phase::Waiting(_)) => "waiting",
            State::Node(Phase::Ended(_)) => "ended",
            State::NoSuchNode => "unknown",
        }
    }
}

#[derive(Copy, Clone, Debug)]
struct Progress {
    phase: Phase,
    attempts: u32,
    /// A try that failed altered the machine (S-43).
    touched: bool,
    /// The prereq target that opened the gate.
    gate: Option<NodeId>,
}

/// A run of all states of a graph.
#[derive(Debug)]
pub struct Run {
    graph: Arc<Graph>,
    mode: Mode,
    concurrency: usize,
    stage: Stage,
    nodes: Vec<Progress>,
    /// The prereq gates that are being asked.
    gates: BTreeMap<NodeId, Gate>,
    /// How many nodes of the run's order have been launched or skipped.
    begun: usize,
    /// Where the current level ends in the run's order.
    level_end: usize,
    in_flight: usize,
    canceled: bool,
    /// The failhard node that failed; the lowest, so that the report is the same whoever ends first.
    aborted_by: Option<NodeId>,
}

impl Run {
    /// A run that waits for [`Event::Start`]. At most `concurrency` nodes are in flight; none at all would never end, so
    /// zero means one.
    pub fn new(graph: Arc<Graph>, mode: Mode, concurrency: usize) -> Run {
        let progress = Progress { phase: Phase::Pending, attempts: 0, touched: false, gate: None };
        Run {
            nodes: vec![progress; graph.len()],
            gates: BTreeMap::new(),
            graph,
            mode,
            concurrency: concurrency.max(1),
            stage: Stage::Fresh,
            begun: 0,
            level_end: 0,
            in_flight: 0,
            canceled: false,
            aborted_by: None,
        }
    }

    /// The only place that decides. This `match` lists every legal transition; anything else changes nothing.
    pub fn step(&mut self, event: Event) -> Result<Vec<Command>, IllegalTransition> {
        let mut out = Vec::new();
        match (self.met_by(&event), event) {
            (State::Run(Stage::Fresh), Event::Start) => self.stage = Stage::Running,
            (State::Run(Stage::Fresh), Event::Cancel) => self.canceled = true,
            (State::Run(Stage::Running), Event::Cancel) => self.cancel(&mut out),
            (State::Node(Phase::Probing(asked)), Event::Probed { node, target, would_change })
                if asked == target =>
            {
                self.probed(node, target, would_change, &mut out);
            }
            (State::Node(Phase::Guarding), Event::Guarded { node, result }) => {
                self.guarded(node, result, &mut out);
            }
            (State::Node(Phase::Checking), Event::Checked { node, result }) => {
                self.checked(node, result, &mut out);
            }
            (State::Node(Phase::Applying), Event::Applied { node, result }) => {
                self.acted(node, result, TryStart::Check, &mut out);
            }
            (State::Node(Phase::Reverting), Event::Reverted { node, result }) => {
                self.acted(node, result, TryStart::Revert, &mut out);
            }
            (State::Node(Phase::Waiting(entry)), Event::Waited { node }) => {
                self.begin_try(node, entry, &mut out);
            }
            // The timer rang while the cancellation that ended the wait was on its way.
            (State::Node(Phase::Ended(Outcome::Interrupted { .. })), Event::Waited { .. }) => {}
            (state, event) => {
                return Err(IllegalTransition {
                    state: state.name(),
                    event: event.name(),
                    node: event.node(),
                });
            }
        }
        self.advance(&mut out);
        Ok(out)
    }

    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    pub fn is_canceled(&self) -> bool {
        self.canceled
    }

    /// How many nodes have begun and not ended.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How a node ended, once it has.
    pub fn outcome(&self, node: NodeId) -> Option<Outcome> {
        match self.nodes.get(node.index())?.phase {
            Phase::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// How many tries a node has begun; 0 for one that never ran.
    pub fn attempts(&self, node: NodeId) -> u32 {
        self.nodes.get(node.index()).map_or(0, |progress| progress.attempts)
    }

    /// Why a node acts whatever its check finds. A change of what it watches says more than an old pending refresh, and that more
    /// than a gate.
    pub fn forced(&self, node: NodeId) -> Option<Force> {
        if self.mode == Mode::Revert || !self.graph.contains(node) {
            return None;
        }
        self.forced_with(node, self.nodes[node.index()].gate)
    }

    /// The same for a node whose gate would open by this target.
    fn forced_with(&self, node: NodeId, gate: Option<NodeId>) -> Option<Force> {
        let changed = self.watched_changes(node);
        if !changed.is_empty() {
            return Some(Force::Watch { changed });
        }
        if self.graph.node(node).refresh_pending {
            return Some(Force::PendingRefresh);
        }
        gate.map(|target| Force::Prereq { target })
    }

    /// The nodes that must be refreshed by a later run (S-39), as things stand: they watch a node that changed, or failed
    /// after it had touched something (S-43), or came with a refresh pending, and have not run to a successful end. A
    /// condition that was evaluated and not met (guard, `onchanges`, `onfail`, `prereq`) clears the pending refresh, for the state
    /// itself said that it need not run. Check and revert neither add nor clear pending refreshes.
    pub fn pending_refreshes(&self) -> Vec<NodeId> {
        self.graph.ranked().iter().copied().filter(|node| self.has_pending_refresh(*node)).collect()
    }

    /// Whether one node is among [`Run::pending_refreshes`].
    pub fn has_pending_refresh(&self, node: NodeId) -> bool {
        if !self.graph.contains(node) {
            return false;
        }
        let pending = self.graph.node(node).refresh_pending;
        if self.mode != Mode::Apply {
            return pending;
        }
        let cleared = self.outcome(node).is_some_and(|outcome| !outcome.blocks());
        !cleared && (pending || !self.watched_changes(node).is_empty())
    }

    fn met_by(&self, event: &Event) -> State {
        let Some(node) = event.node() else { return State::Run(self.stage) };
        self.nodes.get(node.index()).map_or(State::NoSuchNode, |progress| State::Node(progress.phase))
    }

    /// The watched targets that altered the machine, failed ones included (S-43).
    fn watched_changes(&self, node: NodeId) -> Vec<NodeId> {
        let altered = |target| self.outcome(target).is_some_and(Outcome::altered);
        verdict::watched_changes(self.graph.needs(node), altered)
    }

    /// The run's order: that of the graph, or wholly backwards.
    fn at(&self, place: usize) -> NodeId {
        let ranked = self.graph.ranked();
        match self.mode {
            Mode::Apply | Mode::Check => ranked[place],
            Mode::Revert => ranked[ranked.len() - 1 - place],
        }
    }

    /// Goes on as far as it can without an answer: skips and launches nodes, and passes from level to level.
    fn advance(&mut self, out: &mut Vec<Command>) {
        while self.stage == Stage::Running {
            if self.begun == self.level_end {
                if self.in_flight > 0 {
                    return;
                }
                self.next_level(out);
                continue;
            }
            let node = self.at(self.begun);
            match self.stop_for(node) {
                Some((reason, because)) => self.skip(node, reason, because, out),
                None if self.in_flight == self.concurrency => return,
                None => self.launch(node, out),
            }
            self.begun += 1;
        }
    }

    fn next_level(&mut self, out: &mut Vec<Command>) {
        if self.begun == self.graph.len() {
            self.stage = Stage::Finished;
            out.push(Command::Finish);
            return;
        }
        let level = self.graph.level_of(self.at(self.begun));
        self.level_end = self.begun + self.graph.level(level).len();
        out.push(Command::Level(level));
    }

    /// What stops a node before its requisites are even asked.
    fn stop_for(&self, node: NodeId) -> Option<(SkipReason, Vec<NodeId>)> {
        if self.canceled {
            return Some((SkipReason::Canceled, Vec::new()));
        }
        let culprit = self.aborted_by?;
        let later = self.graph.level_of(culprit) != self.graph.level_of(node);
        later.then(|| (SkipReason::FailhardAbort, vec![culprit]))
    }

    /// Asks the requisites, and starts a node that may run.
    fn launch(&mut self, node: NodeId, out: &mut Vec<Command>) {
        // Every node that is asked about lies in a level that is over; were it not so, blocking is the safe answer.
        let ended = |target| self.outcome(target).unwrap_or(Outcome::Skipped(SkipReason::Canceled));
        let verdict = match self.mode {
            Mode::Apply | Mode::Check => verdict::judge(self.graph.needs(node), |target| Some(ended(target))),
            Mode::Revert => revert::judge(self.graph.needed_by(node), ended),
        };
        if let Verdict::Skip { reason, because } = verdict {
            return self.skip(node, reason, because, out);
        }
        self.in_flight += 1;
        match (self.mode, self.graph.prereq(node).is_empty()) {
            (Mode::Revert, _) => self.begin_try(node, TryStart::Revert, out),
            (Mode::Apply | Mode::Check, false) => {
                self.gates.insert(node, Gate::of(&self.graph, node));
                self.ask_gate(node, out);
            }
            (Mode::Apply | Mode::Check, true) => self.pass_gate(node, out),
        }
    }

    /// Puts the next question of a gate, or lets it open or stay shut. The targets are judged by what lies in earlier
    /// levels, which has all ended, so that the answer does not depend on who of this level is faster.
    fn ask_gate(&mut self, node: NodeId, out: &mut Vec<Command>) {
        let Some(mut gate) = self.gates.remove(&node) else { return };
        let level = self.graph.level_of(node);
        let decided = |other: NodeId| self.outcome(other).filter(|_| self.graph.level_of(other) < level);
        let may_run = |target| verdict::judge(self.graph.needs(target), decided) == Verdict::Run;
        match gate.next(&self.graph, node, may_run) {
            Next::Ask(target) => {
                let forced = self.forced_with(target, gate.opener(&self.graph, target));
                self.gates.insert(node, gate);
                self.nodes[node.index()].phase = Phase::Probing(target);
                out.push(Command::Probe { node, target, forced });
            }
            Next::Open(target) => {
                self.nodes[node.index()].gate = Some(target);
                self.pass_gate(node, out);
            }
            Next::Shut => {
                let because = verdict::distinct(self.graph.prereq(node).to_vec());
                self.in_flight -= 1;
                self.skip(node, SkipReason::PrereqNotMet, because, out);
            }
        }
    }

    fn probed(&mut self, node: NodeId, target: NodeId, would_change: bool, out: &mut Vec<Command>) {
        if self.canceled {
            // It has done nothing of its own yet, so it belongs to the rest.
            self.gates.remove(&node);
            self.in_flight -= 1;
            return self.skip(node, SkipReason::Canceled, Vec::new(), out);
        }
        if let Some(gate) = self.gates.get_mut(&node) {
            gate.answer(target, would_change);
        }
        self.ask_gate(node, out);
    }

    fn pass_gate(&mut self, node: NodeId, out: &mut Vec<Command>) {
        let entry = if self.graph.node(node).guarded { TryStart::Guard } else { TryStart::Check };
        self.begin_try(node, entry, out);
    }

    fn begin_try(&mut self, node: NodeId, entry: TryStart, out: &mut Vec<Command>) {
        self.nodes[node.index()].attempts += 1;
        match entry {
            TryStart::Guard => {
                self.nodes[node.index()].phase = Phase::Guarding;
                out.push(Command::Guard(node));
            }
            TryStart::Check => self.check(node, out),
            TryStart::Revert => {
                self.nodes[node.index()].phase = Phase::Reverting;
                out.push(Command::Revert(node));
            }
        }
    }

    fn check(&mut self, node: NodeId, out: &mut Vec<Command>) {
        self.nodes[node.index()].phase = Phase::Checking;
        out.push(Command::Check { node, forced: self.forced(node) });
    }

    fn guarded(&mut self, node: NodeId, result: Result<bool, Failed>, out: &mut Vec<Command>) {
        match result {
            Ok(false) => self.end(node, Outcome::GuardUnmet, out),
            Ok(true) if self.canceled => self.interrupt(node, out),
            Ok(true) => self.check(node, out),
            Err(failed) => self.fail(node, failed, TryStart::Guard, out),
        }
    }

    fn checked(&mut self, node: NodeId, result: Result<bool, Failed>, out: &mut Vec<Command>) {
        match result {
            Ok(true) if self.mode != Mode::Apply => self.end(node, Outcome::Changed, out),
            Ok(true) if self.canceled => self.interrupt(node, out),
            Ok(true) => {
                self.nodes[node.index()].phase = Phase::Applying;
                out.push(Command::Apply { node, forced: self.forced(node) });
            }
            Ok(false) => self.succeed(node, false, out),
            Err(failed) => self.fail(node, failed, TryStart::Check, out),
        }
    }

    fn acted(&mut self, node: NodeId, result: Result<bool, Failed>, again: TryStart, out: &mut Vec<Command>) {
        match result {
            Ok(changed) => self.succeed(node, changed, out),
            Err(failed) => self.fail(node, failed, again, out),
        }
    }

    /// What an earlier try altered before it failed counts: the last one only finds it done (S-43).
    fn succeed(&mut self, node: NodeId, changed: bool, out: &mut Vec<Command>) {
        let changed = changed || self.nodes[node.index()].touched;
        self.end(node, if changed { Outcome::Changed } else { Outcome::Unchanged }, out);
    }

    fn interrupt(&mut self, node: NodeId, out: &mut Vec<Command>) {
        let touched = self.nodes[node.index()].touched;
        self.end(node, Outcome::Interrupted { touched }, out);
    }

    /// Waits for another try while there is one left (S-18). Guards that answered are not asked again.
    fn fail(&mut self, node: NodeId, failed: Failed, again: TryStart, out: &mut Vec<Command>) {
        let progress = &mut self.nodes[node.index()];
        progress.touched |= failed.touched;
        let (attempt, touched) = (progress.attempts, progress.touched);
        match self.graph.node(node).retry {
            Some(retry) if self.mode != Mode::Check && !self.canceled && attempt <= retry.attempts => {
                self.nodes[node.index()].phase = Phase::Waiting(again);
                out.push(Command::Wait { node, attempt, interval: retry.interval });
            }
            _ => self.end(node, Outcome::Failed { touched }, out),
        }
    }

    /// Ends a node that was in flight.
    fn end(&mut self, node: NodeId, outcome: Outcome, out: &mut Vec<Command>) {
        self.nodes[node.index()].phase = Phase::Ended(outcome);
        self.in_flight -= 1;
        if outcome.failed() && self.graph.node(node).failhard {
            self.aborted_by = Some(self.aborted_by.map_or(node, |other| other.min(node)));
        }
        out.push(Command::Done { node, outcome });
    }

    fn skip(&mut self, node: NodeId, reason: SkipReason, because: Vec<NodeId>, out: &mut Vec<Command>) {
        self.nodes[node.index()].phase = Phase::Ended(Outcome::Skipped(reason));
        out.push(Command::Skip { node, reason, because });
    }

    /// Ends every wait of the current level; the rest is skipped by [`Run::advance`], what is in flight awaited.
    fn cancel(&mut self, out: &mut Vec<Command>) {
        if std::mem::replace(&mut self.canceled, true) {
            return;
        }
        let level = self.level_end - self.current_level_len()..self.begun;
        for place in level {
            let node = self.at(place);
            if matches!(self.nodes[node.index()].phase, Phase::Waiting(_)) {
                self.interrupt(node, out);
            }
        }
    }

    fn current_level_len(&self) -> usize {
        match self.level_end.checked_sub(1) {
            Some(last) => self.graph.level(self.graph.level_of(self.at(last))).len(),
            None => 0,
        }
    }
}
