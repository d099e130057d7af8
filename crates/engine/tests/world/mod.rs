//! A make-believe world that carries out the commands of a run: every answer is scripted, only their order is random.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::sync::Arc;
use zester_engine::{Command, Event, Failed, Force, Graph, NodeId, NodeSpec, Outcome, Run};
use zester_model::name::StateName;
use zester_model::outcome::{Mode, SkipReason};

pub type Reply = Result<bool, Failed>;
pub const NO: Reply = Ok(false);
pub const YES: Reply = Ok(true);
pub const ERR: Reply = Err(Failed { touched: false });
/// Failed, after it had altered the machine.
pub const HURT: Reply = Err(Failed { touched: true });
pub const FAILED: Outcome = Outcome::Failed { touched: false };
pub const INTERRUPTED: Outcome = Outcome::Interrupted { touched: false };

/// Xorshift: small, seeded, the same everywhere.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        rng.next();
        rng
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// What a state answers, try after try; the last answer repeats.
#[derive(Clone, Debug)]
pub struct Script {
    pub guard: Vec<Reply>,
    pub check: Vec<Reply>,
    pub apply: Vec<Reply>,
    pub revert: Vec<Reply>,
    /// Whether it would change, when a prereq gate asks it.
    pub probe: bool,
}

impl Script {
    pub fn new(check: Reply, apply: Reply) -> Script {
        Script { guard: vec![YES], check: vec![check], apply: vec![apply], revert: vec![YES], probe: false }
    }
}

pub fn reply(script: &[Reply], asked: usize) -> Reply {
    script[asked.min(script.len() - 1)]
}

pub fn spec(name: &str) -> NodeSpec {
    NodeSpec::new(StateName::new("test.nop", name))
}

/// What a run did, in order.
#[derive(Debug, Default)]
pub struct Trace {
    pub commands: Vec<Command>,
    pub in_flight_max: usize,
    /// How many commands had been given when the run was canceled.
    pub canceled_at: Option<usize>,
}

impl Trace {
    pub fn forced(&self, node: NodeId) -> Option<Option<Force>> {
        self.commands.iter().find_map(|command| match command {
            Command::Check { node: checked, forced } if *checked == node => Some(forced.clone()),
            _ => None,
        })
    }

    pub fn because(&self, node: NodeId) -> Vec<NodeId> {
        let found = self.commands.iter().find_map(|command| match command {
            Command::Skip { node: skipped, because, .. } if *skipped == node => Some(because.clone()),
            _ => None,
        });
        found.unwrap_or_default()
    }
}

pub struct World {
    pub run: Run,
    pub scripts: Vec<Script>,
    pub open: Vec<Command>,
    pub trace: Trace,
    /// How often each node's guard, check, apply and revert were asked.
    asked: Vec<[usize; 4]>,
}

impl World {
    pub fn new(specs: Vec<NodeSpec>, scripts: Vec<Script>, mode: Mode, concurrency: usize) -> World {
        let graph = Arc::new(Graph::build(specs).expect("no cycle"));
        let asked = vec![[0; 4]; graph.len()];
        let run = Run::new(graph, mode, concurrency);
        World { run, scripts, open: Vec::new(), trace: Trace::default(), asked }
    }

    pub fn send(&mut self, event: Event) {
        let commands = self.run.step(event).unwrap_or_else(|illegal| panic!("{illegal}"));
        if event == Event::Cancel {
            self.trace.canceled_at = Some(self.trace.commands.len());
            self.open.retain(|command| !matches!(command, Command::Wait { .. }));
        }
        for command in &commands {
            let answered = matches!(
                command,
                Command::Level(_) | Command::Skip { .. } | Command::Done { .. } | Command::Finish
            );
            if !answered {
                self.open.push(command.clone());
            }
        }
        self.trace.commands.extend(commands);
        self.trace.in_flight_max = self.trace.in_flight_max.max(self.run.in_flight());
    }

    fn ask(&mut self, node: NodeId, what: usize) -> Reply {
        let script = &self.scripts[node.index()];
        let replies = [&script.guard, &script.check, &script.apply, &script.revert][what];
        let asked = &mut self.asked[node.index()][what];
        *asked += 1;
        reply(replies, *asked - 1)
    }

    /// The scripted answer to a command.
    pub fn answer(&mut self, command: &Command) -> Event {
        match command {
            Command::Probe { node, target, .. } => {
                let would_change = self.scripts[target.index()].probe;
                Event::Probed { node: *node, target: *target, would_change }
            }
            Command::Guard(node) => Event::Guarded { node: *node, result: self.ask(*node, 0) },
            Command::Check { node, .. } => Event::Checked { node: *node, result: self.ask(*node, 1) },
            Command::Apply { node, .. } => Event::Applied { node: *node, result: self.ask(*node, 2) },
            Command::Revert(node) => Event::Reverted { node: *node, result: self.ask(*node, 3) },
            Command::Wait { node, .. } => Event::Waited { node: *node },
            other => panic!("{other:?} has no answer"),
        }
    }

    /// Answers the open command at a place.
    pub fn answer_at(&mut self, place: usize) {
        let command = self.open.swap_remove(place);
        let event = self.answer(&command);
        self.send(event);
    }

    /// Starts and answers whatever is open, in random order, until nothing is.
    pub fn play(&mut self, rng: &mut Rng) {
        self.send(Event::Start);
        while !self.open.is_empty() {
            let place = rng.below(self.open.len());
            self.answer_at(place);
        }
        assert!(self.run.is_finished(), "stuck after {:?}", self.trace.commands);
    }

    pub fn outcome(&self, node: usize) -> Outcome {
        self.run.outcome(NodeId(node as u32)).expect("ended")
    }

    pub fn outcomes(&self) -> Vec<Outcome> {
        (0..self.scripts.len()).map(|node| self.outcome(node)).collect()
    }
}

/// Plays a graph to its end, oldest command first.
pub fn play(nodes: Vec<(NodeSpec, Script)>, mode: Mode) -> World {
    let (specs, scripts) = nodes.into_iter().unzip();
    let mut world = World::new(specs, scripts, mode, 100);
    world.play(&mut Rng::new(1));
    world
}

pub fn skipped(reason: SkipReason) -> Outcome {
    Outcome::Skipped(reason)
}

pub fn ids(nodes: &[u32]) -> Vec<NodeId> {
    nodes.iter().map(|node| NodeId(*node)).collect()
}
