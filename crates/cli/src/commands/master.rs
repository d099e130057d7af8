//! `zester master`

use crate::answer;
use crate::app::App;
use crate::daemon::master::MasterRun;

/// Be a master
#[derive(clap::Args, Debug)]
pub struct Master {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    Run(MasterRun),
}

pub fn run(args: Master, app: &mut App) -> answer::Result {
    match args.verb {
        Verb::Run(args) => crate::daemon::master::run(args, app),
    }
}
