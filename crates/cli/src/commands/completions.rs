//! `zester completions`

use crate::answer::{self, Answer};
use crate::app::App;
use crate::exit::Exit;

/// Print the completion script of a shell
///
/// For bash: zester completions bash > /etc/bash_completion.d/zester
#[derive(clap::Args, Debug)]
pub struct Completions {
    /// bash, zsh, fish, elvish or powershell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

pub fn run(args: Completions, _: &mut App) -> answer::Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "zester", &mut script);
    Ok((Answer::Text(String::from_utf8_lossy(&script).into_owned()), Exit::Good))
}
