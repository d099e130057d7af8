//! From what was asked for to states that can run: compiled, bound to their resources, put into levels.
//!
//! All problems of all stages are reported together; a plan exists only when there are none.

use crate::error::Error;
use crate::implicit_order::{RealPathOf, add_implicit_order};
use crate::inputs::{CompileRequest, Inputs};
use crate::journal::{PendingRefresh, PendingRefreshes};
use crate::local_host::LocalHost;
use crate::managed_paths::ManagedPaths;
use crate::module_functions::{self, Known, Meant};
use crate::real_places::RealPlaces;
use crate::scope;
use crate::secrets;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_compile::{Compiled, differences};
use zester_engine::Cycle;
use zester_engine::{BuildError, Graph, NodeId, NodeSpec};
use zester_host::real::Real;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::program::{Edge, Program, State};
use zester_model::secret::holds_placeholder;
use zester_model::source::Sources;
use zester_model::suggest::did_you_mean;
use zester_resources::{Bound, shell_words};

/// The resource behind each state, by the index of the state; nothing behind one that has problems.
pub type Resources = Vec<Option<Arc<dyn Bound>>>;

/// Settings of one run that its record names, and letters of each.
const GIVEN_NAMED_MAX: usize = 100;
const GIVEN_SHOWN_MAX: usize = 200;

/// States that can run.
pub struct Plan {
    pub inputs: Arc<Inputs>,
    pub program: Program,
    pub sources: Sources,
    pub bound: Vec<Arc<dyn Bound>>,
    /// What all states decide about, also where only some of them run.
    pub managed: Arc<ManagedPaths>,
    pub graph: Arc<Graph>,
    /// Of some of the states of another plan: its graph, and where each of them stands in it.
    part_of: Option<(Arc<Graph>, Vec<NodeId>)>,
    /// What was asked for, in words.
    pub asked: String,
    /// One function was called: its state stands in no file.
    pub call: bool,
    /// What is seldom meant and runs all the same: told at every run.
    pub warnings: Vec<Diagnostic>,
}

impl Plan {
    /// Reads, compiles, binds. Blocks: templates may run commands.
    pub fn make(
        request: &CompileRequest,
        local_host: &LocalHost,
        cancel: &CancellationToken,
    ) -> Result<Plan, Error> {
        let inputs = Inputs::gather(request, local_host, cancel)?;
        let compiled = inputs.with(local_host, cancel, |lent| zester_compile::compile(lent, &inputs.ask));
        let secrets = inputs.secrets.clone();
        let plan = Plan::from_compiled(inputs, compiled, asked_words(request));
        let plan = plan.map_err(|error| secrets::hidden(error, &secrets))?;
        match &request.only {
            Some(id) => plan.only(id),
            None => Ok(plan),
        }
    }

    /// Binds and graphs what the compiler made; its problems and ours come back together.
    pub fn from_compiled(inputs: Inputs, compiled: Compiled, asked: String) -> Result<Plan, Error> {
        let Compiled { mut program, sources, diagnostics, advice, .. } = compiled;
        secrets::hide_in_names(&mut program, &inputs.secrets);
        let known =
            Known { facts: Arc::new(inputs.facts.clone()), settings: Arc::new(inputs.settings.clone()) };
        let host = Real::new();
        let places = RealPlaces::on(&host);
        let meant = |path: &Path, follows: bool| places.of(path, follows);
        match bind_and_graph(&mut program, &sources, diagnostics, &known, Some(&meant)) {
            Ok(Joined { bound, graph, mut warnings, .. }) => {
                // What a file for Salt was forgiven (S-49).
                warnings
                    .extend(advice.into_iter().filter(|it| it.code.is_some_and(differences::is_forgiven)));
                let (inputs, graph) = (Arc::new(inputs), Arc::new(graph));
                Ok(Plan {
                    inputs,
                    program,
                    sources,
                    managed: Arc::new(ManagedPaths::of(&bound)),
                    bound,
                    graph,
                    part_of: None,
                    asked,
                    call: false,
                    warnings,
                })
            }
            Err(diagnostics) => Err(Error::Diagnostics { diagnostics, sources: Box::new(sources) }),
        }
    }

    /// Every problem of a compile, those of types and of the graph included; where there is none, what is seldom meant.
    pub fn diagnostics(mut compiled: Compiled) -> Vec<Diagnostic> {
        let Compiled { program, sources, diagnostics, .. } = &mut compiled;
        let joined = bind_and_graph(program, sources, std::mem::take(diagnostics), &Known::default(), None);
        joined.map_or_else(|found| found, |joined| [joined.warnings, joined.advice].concat())
    }

    /// What was asked for, with the settings that were given for this run.
    pub fn typed(&self) -> String {
        let word = |given: &String| {
            let line = given.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
            let line: String = line.take(GIVEN_SHOWN_MAX).collect();
            let (flag, rest) =
                line.strip_prefix("--setting ").map_or(("", line.as_str()), |rest| ("--setting ", rest));
            let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
            format!(" {flag}{key}={}", shell_words::quoted(value))
        };
        let mut given: Vec<&String> = self.inputs.given.iter().take(GIVEN_NAMED_MAX).collect();
        // `pillar={…}` gives many values at once.
        given.dedup();
        format!("{}{}", self.asked, given.into_iter().map(word).collect::<String>())
    }

    /// What a later run must be asked for to be a run of the same.
    pub fn scope(&self) -> String {
        scope::words(&self.asked, self.inputs.tree.root())
    }

    /// The states of one id, or the one of that full name, and what they require, directly or not (`state.sls_id`).
    fn only(&self, id: &str) -> Result<Plan, Error> {
        let states = &self.program.states;
        // As the states are called here.
        let id = &*self.inputs.secrets.hide(id);
        let is_meant = |state: &State| state.name.id() == id || state.name.as_str() == id;
        let mut rest: Vec<usize> = (0..states.len()).filter(|at| is_meant(&states[*at])).collect();
        if rest.is_empty() {
            let hint = did_you_mean(id, states.iter().map(|state| state.name.id()));
            let hint = hint.unwrap_or("`state.show_sls` shows which there are".into());
            return Err(Error::other(format!("no state has the id `{id}`; {hint}")));
        }
        let mut kept = BTreeSet::new();
        while let Some(at) = rest.pop() {
            if let (true, Some(state)) = (kept.insert(at), states.get(at)) {
                let required = state.edges.iter().filter(|edge| !edge.kind.only_sequences());
                rest.extend(required.map(|edge| edge.target).chain(state.prereq.iter().copied()));
            }
        }
        let part = self.part(&kept, |prereq| prereq, |_| PendingRefreshes::new())?;
        Ok(Plan { asked: format!("{id} of {}", self.asked), warnings: self.warnings.clone(), ..part })
    }

    /// Some of the states, with the requisites between them; all of them with a pending refresh.
    pub fn refreshing(&self, kept: &BTreeSet<usize>) -> Result<Plan, Error> {
        let due = |state: &State| (state.name.to_string(), PendingRefresh::default());
        self.part(kept, |_| Vec::new(), |program| program.states.iter().map(due).collect())
    }

    fn part(
        &self,
        kept: &BTreeSet<usize>,
        prereqs: impl Fn(Vec<usize>) -> Vec<usize>,
        pending: impl Fn(&Program) -> PendingRefreshes,
    ) -> Result<Plan, Error> {
        let place: BTreeMap<usize, usize> = kept.iter().enumerate().map(|(new, old)| (*old, new)).collect();
        let among = |state: &State| State {
            edges: state
                .edges
                .iter()
                .filter_map(|edge| Some(Edge { target: *place.get(&edge.target)?, ..*edge }))
                .collect(),
            prereq: prereqs(state.prereq.iter().filter_map(|at| place.get(at).copied()).collect()),
            ..state.clone()
        };
        let states = kept.iter().filter_map(|at| self.program.states.get(*at)).map(among).collect();
        let bound = kept.iter().filter_map(|at| self.bound.get(*at)).cloned().collect();
        let program = Program { states };
        let graph = Graph::build(specs(&program, &pending(&program)))
            .map_err(|error| Error::other(error.to_string()))?;
        Ok(Plan {
            inputs: self.inputs.clone(),
            program,
            sources: self.sources.clone(),
            managed: self.managed.clone(),
            bound,
            graph: Arc::new(graph),
            part_of: Some((self.graph.clone(), kept.iter().map(|at| NodeId(*at as u32)).collect())),
            asked: self.asked.clone(),
            call: self.call,
            warnings: Vec::new(),
        })
    }

    /// Who watches a state. Those outside of a part get their refresh as well.
    pub fn watchers(&self, node: NodeId) -> Vec<String> {
        let (graph, node) = match &self.part_of {
            Some((whole, places)) => (whole, places.get(node.index()).copied()),
            None => (&self.graph, Some(node)),
        };
        let watchers = node.into_iter().flat_map(|node| graph.watchers(node));
        watchers.map(|watcher| graph.name(watcher).to_string()).collect()
    }

    /// Whose refresh a change of a state is, among those that are no part of this plan.
    pub fn watchers_outside(&self, node: NodeId) -> Vec<String> {
        let is_part = |name: &String| self.program.states.iter().any(|state| state.name.as_str() == name);
        match self.part_of {
            Some(_) => self.watchers(node).into_iter().filter(|watcher| !is_part(watcher)).collect(),
            None => Vec::new(),
        }
    }

    pub fn state(&self, index: usize) -> Option<&State> {
        self.program.states.get(index)
    }

    /// The graph of this run, with what earlier runs left pending.
    pub fn graph_with_pending(&self, pending: &PendingRefreshes) -> Result<Arc<Graph>, Error> {
        if pending.is_empty() {
            return Ok(self.graph.clone());
        }
        let graph =
            Graph::build(specs(&self.program, pending)).map_err(|error| Error::other(error.to_string()))?;
        Ok(Arc::new(graph))
    }
}

/// What was asked for, as it stands in the history.
fn asked_words(request: &CompileRequest) -> String {
    let asked = match request.references.is_empty() {
        true => "highstate".to_string(),
        false => request.references.join(" "),
    };
    match request.environment.as_deref() {
        None | Some(zester_compile::BASE) => asked,
        Some(environment) => format!("{asked} in {environment}"),
    }
}

/// A program with its resources and its levels.
pub(crate) struct Joined {
    bound: Vec<Arc<dyn Bound>>,
    pub(crate) graph: Graph,
    warnings: Vec<Diagnostic>,
    advice: Vec<Diagnostic>,
}

pub(crate) fn bind_and_graph(
    program: &mut Program,
    sources: &Sources,
    mut diagnostics: Vec<Diagnostic>,
    known: &Known,
    meant: Option<&RealPathOf<'_>>,
) -> Result<Joined, Vec<Diagnostic>> {
    diagnostics.extend(program.states.iter().filter_map(secret_name));
    let bound: Resources = program.states.iter().map(|state| bind(state, known, &mut diagnostics)).collect();
    let implicit = add_implicit_order(program, &bound, sources, meant);
    diagnostics.extend(implicit.diagnostics);
    match Graph::build(specs(program, &PendingRefreshes::new())) {
        Ok(graph) if diagnostics.is_empty() => {
            let bound = bound.into_iter().flatten().collect();
            Ok(Joined { bound, graph, warnings: implicit.warnings, advice: implicit.advice })
        }
        other => {
            diagnostics.extend(other.err().map(|error| graph_diagnostic(&error, program)));
            in_reading_order(&mut diagnostics);
            Err(diagnostics)
        }
    }
}

/// Names stand in the journal, in returns and in every message.
fn secret_name(state: &State) -> Option<Diagnostic> {
    holds_placeholder(state.name.as_str()).then(|| {
        Diagnostic::new(Kind::State, "a secret cannot be part of the name of a state")
            .at(state.span)
            .hint("give the state an id, and the secret to one of its parameters")
    })
}

fn bind(state: &State, known: &Known, diagnostics: &mut Vec<Diagnostic>) -> Option<Arc<dyn Bound>> {
    if state.broken {
        return None;
    }
    let bound = module_functions::read(state, known).and_then(|meant| match meant {
        Meant::Calls(bound) => Ok(bound),
        Meant::Acting(params) => zester_resources::bind(state.name.kind(), &params, state.span),
        Meant::Kind => zester_resources::bind(state.name.kind(), &state.params, state.span),
    });
    match bound {
        Ok(resource) => Some(Arc::from(resource)),
        Err(found) => {
            diagnostics.extend(found);
            None
        }
    }
}

/// What the engine has to know of each state.
fn specs(program: &Program, pending: &PendingRefreshes) -> Vec<NodeSpec> {
    let spec = |state: &State| NodeSpec {
        name: state.name.clone(),
        order: state.attributes.order,
        failhard: state.attributes.failhard,
        retry: state.attributes.retry,
        guarded: state.attributes.is_guarded(),
        edges: state.edges.iter().map(|edge| (edge.target, edge.kind)).collect(),
        prereq: state.prereq.clone(),
        refresh_pending: pending.contains_key(state.name.as_str()),
    };
    program.states.iter().map(spec).collect()
}

/// By file and line, so that a reader walks through each file once; what has no place comes first.
fn in_reading_order(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.map(|span| (span.file, span.line, span.column)));
    diagnostics.dedup();
    diagnostics.truncate(limits::DIAGNOSTICS_MAX);
}

fn graph_diagnostic(error: &BuildError, program: &Program) -> Diagnostic {
    match error {
        BuildError::Cycle(cycle) => cycle_diagnostic(cycle, program),
        other => Diagnostic::new(Kind::Dag, other.to_string()),
    }
}

/// Every state of the cycle with its place, and which requisite leads on (S-25).
fn cycle_diagnostic(cycle: &Cycle, program: &Program) -> Diagnostic {
    let name = |index: &usize| program.states.get(*index).map_or("?", |state| state.name.as_str());
    let mut diagnostic = Diagnostic::new(Kind::Dag, cycle.to_string());
    for pair in cycle.path.windows(2) {
        let [from, to] = pair else { continue };
        let Some(state) = program.states.get(*from) else { continue };
        let Some(edge) = state.edges.iter().find(|edge| edge.target == *to) else { continue };
        let verb = match edge.kind {
            zester_model::requisite::EdgeKind::Order => "stands after".to_string(),
            kind => format!("has `{kind}` on"),
        };
        let text = format!("{} {verb} {}", state.name, name(to));
        if diagnostic.span.is_none() {
            diagnostic = diagnostic.at(edge.span).hint(text);
        } else {
            diagnostic = diagnostic.label(edge.span, text);
        }
    }
    let path: Vec<&str> = cycle.path.iter().map(name).collect();
    diagnostic.note(path.join(" -> "))
}
