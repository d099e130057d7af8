//! A fleet from a seed.
//!
//! One seed is one life of a small fleet: the very masters, peels and clients of the product, on the memory bus, in one
//! thread, on a clock that jumps to the next thing that happens. What happens (jobs, cancels, crashes, cuts, storms in which
//! messages are lost, late and doubled, clocks that disagree) stands in a [`script`] that follows from the seed. Afterwards
//! a [`judge`] reads what is left on the bus, on the peels' disks and in the log of executions, and says which invariant
//! does not hold. The same seed is the same life, so a seed that fails is a test.
//!
//! A [`Mutation`] takes one safeguard away, from outside: on the disk, on the way to the bus, in the name of a master. A
//! simulator that does not notice is worth nothing, so a test switches each of them off.

mod dice;
mod disk;
mod journal;
mod judge;
mod meddler;
mod node;
pub mod script;
mod weather;
mod work;
mod world;

pub use judge::{Outcome, Tally, Violation};
use script::Script;

/// A safeguard that is taken away.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    #[default]
    None,
    /// A peel does not write down what it takes on (J-7).
    DropDedupWrite,
    /// A master writes records without comparing revisions (J-10).
    FinalizeWithoutCas,
    /// An adopter reads the history once, not twice (J-13).
    SkipSecondReplay,
    /// An adopter does not send the work again (J-6).
    AdoptWithoutResend,
    /// A master that starts again calls itself what it was called before (J-13).
    SameOwnerId,
}

impl Mutation {
    pub const ALL: [Mutation; 5] = [
        Mutation::DropDedupWrite,
        Mutation::FinalizeWithoutCas,
        Mutation::SkipSecondReplay,
        Mutation::AdoptWithoutResend,
        Mutation::SameOwnerId,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Mutation::None => "none",
            Mutation::DropDedupWrite => "drop-dedup-write",
            Mutation::FinalizeWithoutCas => "finalize-without-cas",
            Mutation::SkipSecondReplay => "skip-second-replay",
            Mutation::AdoptWithoutResend => "adopt-without-resend",
            Mutation::SameOwnerId => "same-owner-id",
        }
    }

    pub fn parse(name: &str) -> Option<Mutation> {
        Mutation::ALL.into_iter().find(|mutation| mutation.name() == name)
    }
}

/// Lives the life of a seed and judges it.
pub fn live(seed: u64, mutation: Mutation) -> Result<Tally, Violation> {
    run(&Script::write(seed), seed, mutation)?.0
}

/// What happened in the life of a seed, for a person who looks for the reason.
pub fn explain(seed: u64, mutation: Mutation) -> String {
    match run(&Script::write(seed), seed, mutation) {
        Ok((Ok(_), story, _)) => story,
        Ok((Err(violation), story, _)) => format!("{story}\n{violation}\n"),
        Err(violation) => format!("{violation}\n"),
    }
}

/// Lives what a script says, and tells how its jobs ended.
pub fn play(script: &Script) -> Result<Vec<Outcome>, Violation> {
    let (verdict, _, outcomes) = run(script, 0, Mutation::None)?;
    verdict.map(|_| outcomes)
}

type Lived = (Result<Tally, Violation>, String, Vec<Outcome>);

fn run(script: &Script, seed: u64, mutation: Mutation) -> Result<Lived, Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(world::live(script, seed, mutation)),
        Err(error) => Err(Violation::new("the simulator cannot start", error.to_string())),
    }
}
