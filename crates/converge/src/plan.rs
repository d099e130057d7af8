//! From what was asked for to states that can run: compiled, bound to their resources, put into levels.
//!
//! All problems of all stages are reported together; a plan exists only when there are none.

use crate::error::Error;
use crate::inputs::{Inputs, Request};
use crate::machine::Machine;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_compile::Compiled;
use zester_engine::Cycle;
use zester_engine::{BuildError, Graph, NodeSpec};
use zester_model::limits;
use zester_model::problem::{Kind, Problem};
use zester_model::program::{Program, State};
use zester_model::source::Sources;
use zester_resources::Bound;

/// The resource behind each state, by the index of the state.
type Resources = Vec<Arc<dyn Bound>>;

/// States that can run.
pub struct Plan {
    pub inputs: Arc<Inputs>,
    pub program: Program,
    pub sources: Sources,
    pub bound: Resources,
    pub graph: Arc<Graph>,
    /// What was asked for, in words.
    pub asked: String,
}

impl Plan {
    /// Reads, compiles, binds. Blocks: templates may run commands.
    pub fn make(request: &Request, machine: &Machine, cancel: &CancellationToken) -> Result<Plan, Error> {
        let inputs = Inputs::gather(request, machine, cancel)?;
        let compiled = inputs.with(machine, cancel, |lent| zester_compile::compile(lent, &inputs.ask));
        let asked =
            if request.references.is_empty() { "highstate".into() } else { request.references.join(" ") };
        Plan::from_compiled(inputs, compiled, asked)
    }

    /// Binds and graphs what the compiler made; its problems and ours come back together.
    pub fn from_compiled(inputs: Inputs, compiled: Compiled, asked: String) -> Result<Plan, Error> {
        let Compiled { program, sources, problems } = compiled;
        match bind_and_graph(&program, problems) {
            Ok((bound, graph)) => {
                Ok(Plan { inputs: Arc::new(inputs), program, sources, bound, graph: Arc::new(graph), asked })
            }
            Err(problems) => Err(Error::Problems { problems, sources: Box::new(sources) }),
        }
    }

    /// Every problem of a compile, those of types and of the graph included.
    pub fn problems(compiled: Compiled) -> Vec<Problem> {
        bind_and_graph(&compiled.program, compiled.problems).map_or_else(|found| found, |_| Vec::new())
    }

    pub fn state(&self, index: usize) -> Option<&State> {
        self.program.states.get(index)
    }

    /// The graph of this run, with what earlier runs still owe.
    pub fn graph_owing(&self, owed: &BTreeMap<String, BTreeSet<String>>) -> Result<Arc<Graph>, Error> {
        if owed.is_empty() {
            return Ok(self.graph.clone());
        }
        let graph =
            Graph::build(specs(&self.program, owed)).map_err(|error| Error::other(error.to_string()))?;
        Ok(Arc::new(graph))
    }
}

fn bind_and_graph(program: &Program, mut problems: Vec<Problem>) -> Result<(Resources, Graph), Vec<Problem>> {
    let mut bound: Resources = Vec::with_capacity(program.states.len());
    for state in program.states.iter().filter(|state| !state.broken) {
        match zester_resources::bind(state.name.kind(), &state.params, state.span) {
            Ok(resource) => bound.push(Arc::from(resource)),
            Err(found) => problems.extend(found),
        }
    }
    match Graph::build(specs(program, &BTreeMap::new())) {
        Ok(graph) if problems.is_empty() => Ok((bound, graph)),
        other => {
            problems.extend(other.err().map(|error| graph_problem(&error, program)));
            in_reading_order(&mut problems);
            Err(problems)
        }
    }
}

/// What the engine has to know of each state.
fn specs(program: &Program, owed: &BTreeMap<String, BTreeSet<String>>) -> Vec<NodeSpec> {
    let spec = |state: &State| NodeSpec {
        name: state.name.clone(),
        order: state.attributes.order,
        failhard: state.attributes.failhard,
        retry: state.attributes.retry,
        guarded: !state.attributes.onlyif.is_empty() || !state.attributes.unless.is_empty(),
        edges: state.edges.iter().map(|edge| (edge.target, edge.kind)).collect(),
        prereq: state.prereq.clone(),
        refresh_pending: owed.contains_key(state.name.as_str()),
    };
    program.states.iter().map(spec).collect()
}

/// By file and line, so that a reader walks through each file once; what has no place comes first.
fn in_reading_order(problems: &mut Vec<Problem>) {
    problems.sort_by_key(|problem| problem.span.map(|span| (span.file, span.line, span.column)));
    problems.dedup();
    problems.truncate(limits::PROBLEMS_MAX);
}

fn graph_problem(error: &BuildError, program: &Program) -> Problem {
    match error {
        BuildError::Cycle(cycle) => cycle_problem(cycle, program),
        other => Problem::new(Kind::Dag, other.to_string()),
    }
}

/// Every state of the cycle with its place, and which requisite leads on (S-25).
fn cycle_problem(cycle: &Cycle, program: &Program) -> Problem {
    let name = |index: &usize| program.states.get(*index).map_or("?", |state| state.name.as_str());
    let mut problem = Problem::new(Kind::Dag, cycle.to_string());
    for pair in cycle.path.windows(2) {
        let [from, to] = pair else { continue };
        let Some(state) = program.states.get(*from) else { continue };
        let Some(edge) = state.edges.iter().find(|edge| edge.target == *to) else { continue };
        let verb = match edge.kind {
            zester_model::requisite::EdgeKind::Order => "stands after".to_string(),
            kind => format!("has `{kind}` on"),
        };
        let text = format!("{} {verb} {}", state.name, name(to));
        if problem.span.is_none() {
            problem = problem.at(edge.span).hint(text);
        } else {
            problem = problem.label(edge.span, text);
        }
    }
    let path: Vec<&str> = cycle.path.iter().map(name).collect();
    problem.note(path.join(" -> "))
}
