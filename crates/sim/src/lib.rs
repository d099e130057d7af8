//! A fleet from a seed.
//!
//! One seed is one simulation of a small fleet: the very masters, peels and clients of the product, on the memory bus, in one
//! thread, on a clock that jumps to the next thing that happens. What happens (jobs, cancels, crashes, cuts, storms in which
//! messages are lost, late and doubled, writes that land after they were given up, reads that are behind, stores that are full or
//! without a leader, disks that fail, clocks that jump) stands in a [`script`] that follows from the seed. Afterwards
//! a [`judge`] reads what is left on the bus, on the peels' disks and in the log of executions, and says which invariant
//! does not hold. The same seed is the same simulation, so a seed that fails is a test.
//!
//! A [`Mutation`] takes one safeguard away. A simulator that does not notice is worth nothing, so a test switches each of them
//! off and names the [`Invariant`] that misses it.

pub mod crash;
mod dice;
mod disk;
mod judge;
mod mutation;
mod network;
mod node;
mod observed;
mod publishing;
pub mod reactions;
pub mod script;
mod simulation;
mod tap;
mod tree_disk;
mod work;

use crash::CrashPoint;
pub use judge::{Invariant, Outcome, Tally, Violation};
pub use mutation::Mutation;
use script::{FaultKind, Script};
use std::collections::BTreeMap;

/// Everything that is known of a simulation that has ended.
pub struct Report {
    /// What happened.
    pub tally: Tally,
    /// What does not hold.
    pub violations: Vec<Violation>,
    /// What does not hold of [`Invariant::OPEN`].
    pub open: Vec<Violation>,
    pub outcomes: Vec<Outcome>,
    /// What happened, in order, for a person who looks for the reason.
    pub story: String,
    /// How many bus and store calls each node made.
    pub calls: BTreeMap<String, u64>,
    /// The crashes at calls that happened.
    pub crashes: Vec<CrashPoint>,
}

/// Simulates what follows from a seed, with all faults, and judges it.
pub fn simulate(seed: u64, mutation: Mutation) -> Report {
    simulate_with(seed, mutation, &FaultKind::ALL)
}

/// The same with some kinds of fault only.
pub fn simulate_with(seed: u64, mutation: Mutation, kinds: &[FaultKind]) -> Report {
    run(&Script::from_seed(seed, kinds), seed, mutation)
}

/// Simulates what a script says.
pub fn run(script: &Script, seed: u64, mutation: Mutation) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(simulation::run(script, seed, mutation)),
        Err(error) => Report::broken(&error),
    }
}

impl Report {
    fn broken(what: &dyn std::fmt::Display) -> Report {
        Report {
            tally: Tally::default(),
            violations: vec![Violation::new(Invariant::SimulatorWorks, what.to_string())],
            open: Vec::new(),
            outcomes: Vec::new(),
            story: String::new(),
            calls: BTreeMap::new(),
            crashes: Vec::new(),
        }
    }

    /// What does not hold, one a line.
    pub fn verdict(&self) -> String {
        self.violations.iter().chain(&self.open).map(|violation| format!("{violation}\n")).collect()
    }
}
