//! Refreshes between runs (S-39) and after a revert (S-59): which are pending, which move to a renamed watcher, which are cleared.

use crate::journal::{PendingRefresh, PendingRefreshes, RefreshCause};
use crate::plan::Plan;
use crate::run_loop::{LoopEnd, Observer};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use zester_engine::{Force, Graph, NodeId};
use zester_model::outcome::{SkipReason, StateResult};
use zester_model::requisite::EdgeKind;

/// A pending refresh whose watcher this plan does not hold any more, though it is asked for the same as the run that left it,
/// and which of its states the watcher is now.
pub struct HandOver {
    pub watcher: String,
    pub successors: Vec<String>,
}

impl HandOver {
    pub fn words(&self) -> String {
        let HandOver { watcher, successors } = self;
        format!("{watcher} is gone; its pending refresh goes to {}", successors.join(", "))
    }
}

/// Who takes what over in a run of this plan; `pending` is changed to say so. Successors watch all that the refresh is pending for, and
/// were not there beside it (`beside` tells who was): it was renamed. Where there is none it may be in another file by
/// now, so its refresh stays pending.
pub fn hand_over(
    plan: &Plan,
    pending: &mut PendingRefreshes,
    beside: impl Fn(&PendingRefresh) -> Option<BTreeSet<String>>,
) -> Vec<HandOver> {
    if pending.is_empty() {
        return Vec::new();
    }
    let scope = plan.scope();
    let nodes = by_name(&plan.graph);
    let absent = pending.iter().filter(|(watcher, refresh)| {
        refresh.scopes.contains(&scope) && !nodes.contains_key(watcher.as_str())
    });
    let mut handed_over = Vec::new();
    for (watcher, refresh) in absent {
        let Some(beside) = beside(refresh) else { continue };
        let mut watching = refresh.changed.iter().map(|state| {
            let watchers = watchers_of(&plan.graph, nodes.get(state.as_str()));
            watchers.into_iter().collect::<BTreeSet<String>>()
        });
        let first = watching.next().unwrap_or_default();
        let successors = watching.fold(first, |all, watchers| &all & &watchers);
        let successors: Vec<String> =
            successors.into_iter().filter(|successor| !beside.contains(successor)).collect();
        if !successors.is_empty() {
            handed_over.push(HandOver { watcher: watcher.clone(), successors });
        }
    }
    for HandOver { watcher, successors } in &handed_over {
        let Some(refresh) = pending.remove(watcher) else { continue };
        for successor in successors {
            pending.entry(successor.clone()).or_default().add(&refresh);
        }
    }
    handed_over
}

/// Whose refresh is still pending, and by the change of what. Those of earlier runs are on disk already.
pub fn pending(ended_loop: &LoopEnd) -> Vec<(String, Vec<String>)> {
    let graph = ended_loop.run.graph();
    let name = |node: NodeId| graph.name(node).to_string();
    ended_loop
        .run
        .pending_refreshes()
        .into_iter()
        .filter_map(|node| match ended_loop.run.forced(node) {
            Some(Force::Watch { changed }) => Some((name(node), changed.into_iter().map(name).collect())),
            _ => None,
        })
        .collect()
}

/// Watchers that this plan, a part of another, does not hold, and what of theirs changed: nobody tells them in this run.
pub fn outside(plan: &Plan, ended_loop: &LoopEnd) -> Vec<(String, Vec<String>)> {
    let nodes = by_name(&plan.graph);
    let mut due: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for result in ended_loop.states.iter().filter(|result| result.changed || touched(result)) {
        let node = nodes.get(result.name.as_str()).copied();
        for watcher in node.into_iter().flat_map(|node| plan.watchers_outside(node)) {
            due.entry(watcher).or_default().push(result.name.clone());
        }
    }
    due.into_iter().collect()
}

/// Whose refresh was pending and is not any more: it ran, or a condition of its own said that it need not.
pub fn cleared(ended_loop: &LoopEnd, pending: &PendingRefreshes) -> Vec<String> {
    let graph = ended_loop.run.graph();
    let nodes = graph.ranked().iter().filter(|node| pending.contains_key(graph.name(**node).as_str()));
    nodes
        .filter(|node| !ended_loop.run.has_pending_refresh(**node))
        .map(|node| graph.name(*node).to_string())
        .collect()
}

/// What a revert still has to tell the watchers of what it changed.
pub struct Refreshes {
    /// For each watcher, the states that changed.
    due: BTreeMap<String, BTreeSet<String>>,
    tried: HashSet<String>,
    cleared: HashSet<String>,
}

impl Refreshes {
    /// Of duties that were taken on before the revert: those whose state changed, or may have.
    pub fn after(taken: &[RefreshCause], results: &[StateResult]) -> Refreshes {
        let altered: HashSet<&str> = results
            .iter()
            .filter(|result| result.changed || touched(result))
            .map(|result| result.name.as_str())
            .collect();
        let mut due: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for cause in taken.iter().filter(|cause| altered.contains(cause.changed.as_str())) {
            due.entry(cause.watcher.clone()).or_default().insert(cause.changed.clone());
        }
        Refreshes { due, tried: HashSet::new(), cleared: HashSet::new() }
    }

    /// Whether the cause of a duty came about.
    pub fn hold(&self, cause: &RefreshCause) -> bool {
        self.due.get(&cause.watcher).is_some_and(|changed| changed.contains(&cause.changed))
    }

    /// The actions of the plan that can be run now, by their index: nothing that they need has failed, and their own
    /// conditions are met. What else is due stays pending.
    pub fn runnable(&self, plan: &Plan, results: &HashMap<&str, &StateResult>) -> BTreeSet<usize> {
        let ready = |at: &usize| {
            let (Some(state), Some(bound)) = (plan.program.states.get(*at), plan.bound.get(*at)) else {
                return false;
            };
            let name = state.name.as_str();
            let due = self.due.contains_key(name) && !self.tried.contains(name);
            due && !bound.undoable() && state.prereq.is_empty() && conditions_met(plan, *at, results)
        };
        (0..plan.program.states.len()).filter(ready).collect()
    }

    pub fn because_of(&self, watcher: &str) -> Vec<String> {
        self.due.get(watcher).into_iter().flatten().cloned().collect()
    }

    /// These ran. Whoever watches one that changed is next.
    pub fn ran(&mut self, plan: &Plan, results: &[StateResult]) {
        let nodes = by_name(&plan.graph);
        for result in results {
            self.tried.insert(result.name.clone());
            if !result.failed() && !blocked(result) {
                self.cleared.insert(result.name.clone());
            }
            if !result.changed && !touched(result) {
                continue;
            }
            for watcher in watchers_of(&plan.graph, nodes.get(result.name.as_str())) {
                self.due.entry(watcher).or_default().insert(result.name.clone());
            }
        }
    }

    /// Watchers that did not get their refresh here, and what changed.
    pub fn left(&self) -> Vec<(String, Vec<String>)> {
        let left = self.due.iter().filter(|(watcher, _)| !self.cleared.contains(*watcher));
        left.map(|(watcher, changed)| (watcher.clone(), changed.iter().cloned().collect())).collect()
    }
}

/// Whether it failed after it had altered the machine (S-43).
fn touched(result: &StateResult) -> bool {
    result.details.get("touched") == Some(&json!(true))
}

/// Whether it was kept from running, rather than said by itself that it need not.
fn blocked(result: &StateResult) -> bool {
    let by = [SkipReason::RequireFailed, SkipReason::FailhardAbort, SkipReason::Canceled];
    by.iter().any(|reason| result.skip_reason == reason.as_str())
}

fn by_name(graph: &Graph) -> HashMap<&str, NodeId> {
    graph.ranked().iter().map(|node| (graph.name(*node).as_str(), *node)).collect()
}

fn watchers_of(graph: &Graph, node: Option<&NodeId>) -> Vec<String> {
    let watchers = node.into_iter().flat_map(|node| graph.watchers(*node));
    watchers.map(|watcher| graph.name(watcher).to_string()).collect()
}

/// Towards a refresh, "changed" is "was reverted".
fn conditions_met(plan: &Plan, at: usize, results: &HashMap<&str, &StateResult>) -> bool {
    let needs = plan.graph.needs(NodeId(at as u32));
    let result = |node: NodeId| results.get(plan.graph.name(node).as_str());
    let blocked = needs
        .iter()
        .filter(|edge| !edge.kind.only_sequences())
        .any(|edge| result(edge.node).is_some_and(|result| result.failed() || blocked(result)));
    let onfail = |kind| matches!(kind, EdgeKind::Onfail | EdgeKind::OnfailAny | EdgeKind::OnfailAll);
    let onchanges = |kind| matches!(kind, EdgeKind::Onchanges | EdgeKind::OnchangesAny);
    let mut waited_for = needs.iter().filter(|edge| onchanges(edge.kind)).peekable();
    let changed = waited_for.peek().is_none()
        || waited_for.any(|edge| result(edge.node).is_some_and(|result| result.changed));
    !blocked && changed && !needs.iter().any(|edge| onfail(edge.kind))
}

/// Keeps quiet about states that may yet run in this revert.
pub struct MutedObserver {
    pub inner: Arc<dyn Observer>,
    pub names: HashSet<String>,
}

impl Observer for MutedObserver {
    fn level(&self, level: usize, states: usize) {
        self.inner.level(level, states);
    }

    fn started(&self, name: &str, doing: &'static str) {
        if !self.names.contains(name) {
            self.inner.started(name, doing);
        }
    }

    fn ended(&self, result: &StateResult) {
        if !self.names.contains(&result.name) {
            self.inner.ended(result);
        }
    }

    fn output(&self, name: &str, line: &str) {
        self.inner.output(name, line);
    }

    fn notice(&self, text: &str) {
        self.inner.notice(text);
    }
}

/// The actions of a plan that a revert may come to run, directly or one after the other.
pub fn candidates(plan: &Plan, causes: &[RefreshCause]) -> HashSet<String> {
    let nodes = by_name(&plan.graph);
    let mut found: HashSet<String> = HashSet::new();
    let mut rest: Vec<String> = causes.iter().map(|cause| cause.watcher.clone()).collect();
    while let Some(watcher) = rest.pop() {
        let node = nodes.get(watcher.as_str());
        let bound = node.and_then(|node| plan.bound.get(node.index()));
        if bound.is_some_and(|bound| !bound.undoable()) && found.insert(watcher) {
            rest.extend(watchers_of(&plan.graph, node));
        }
    }
    found
}

/// Tells of each state that runs after a revert which reverts made it run.
pub struct ForcedByObserver {
    inner: Arc<dyn Observer>,
    because: BTreeMap<String, Vec<String>>,
    /// What ended, as it was told.
    ended: Mutex<Vec<StateResult>>,
}

impl ForcedByObserver {
    pub fn new(inner: Arc<dyn Observer>, part: &Plan, refreshes: &Refreshes) -> ForcedByObserver {
        let names = part.program.states.iter().map(|state| state.name.to_string());
        let because = names.map(|name| (name.clone(), refreshes.because_of(&name))).collect();
        ForcedByObserver { inner, because, ended: Mutex::default() }
    }

    pub fn told(&self) -> Vec<StateResult> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for ForcedByObserver {
    fn level(&self, level: usize, states: usize) {
        self.inner.level(level, states);
    }

    fn started(&self, name: &str, doing: &'static str) {
        self.inner.started(name, doing);
    }

    fn ended(&self, result: &StateResult) {
        let mut result = result.clone();
        if let Some(because) = self.because.get(&result.name) {
            result.details.insert("forced".into(), json!("watch"));
            result.details.insert("forced_by".into(), json!(because));
        }
        self.inner.ended(&result);
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(result);
    }

    fn output(&self, name: &str, line: &str) {
        self.inner.output(name, line);
    }

    fn notice(&self, text: &str) {
        self.inner.notice(text);
    }
}
