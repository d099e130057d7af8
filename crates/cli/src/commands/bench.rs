//! `zester bench`

use crate::answer;
use crate::app::App;
use crate::bench;
use crate::connection::Connect;

/// Measure how large a fleet this machine can serve
#[derive(clap::Args, Debug)]
pub struct Bench {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    Peels(Peels),
    #[command(hide = true)]
    Swarm(Swarm),
}

/// Connect ever more peels to a private server and master, and ask all of them
///
/// Starts a nats-server, a master and processes that hold many peels each, all on this machine and apart from any other
/// fleet. Each peel has a connection of its own; all it can do is answer test.ping. For each count it prints how long they
/// took to connect, how long test.ping took until the last of them had returned, the memory of everybody, and how much of a
/// core each of them takes while nothing happens but heartbeats. The times are
/// those of one machine that does the work of all: a real fleet does its part itself. Exits with 2 if a peel did not return.
#[derive(clap::Args, Debug)]
pub struct Peels {
    /// How many peels, with commas between; each is reached by adding to the one before
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1_000, 3_000, 10_000], value_parser = count)]
    pub count: Vec<u32>,
    /// Processes that share the peels which are added
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub processes: u16,
}

/// As many as one job may have.
pub const PEELS_MAX: u32 = 100_000;

fn count(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(count) if (1..=PEELS_MAX).contains(&count) => Ok(count),
        Ok(_) => Err(format!("one job has 1 to {PEELS_MAX} targets")),
        Err(error) => Err(error.to_string()),
    }
}

/// Be many peels that only answer test.ping
#[derive(clap::Args, Debug)]
pub struct Swarm {
    /// The number of the first
    #[arg(long, value_name = "N")]
    pub from: u32,
    #[arg(long, value_name = "N")]
    pub count: u32,
    #[command(flatten)]
    pub connect: Connect,
}

pub fn run(args: Bench, app: &mut App) -> answer::Result {
    match args.verb {
        Verb::Peels(args) => bench::peels(args, app),
        Verb::Swarm(args) => bench::swarm(&args, app),
    }
}
