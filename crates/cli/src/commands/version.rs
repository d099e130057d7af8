//! `zester version`

use crate::answer::{self, Answer};
use crate::app::App;
use crate::exit::Exit;
use serde_json::json;

/// Print the version
#[derive(clap::Args, Debug)]
pub struct Version {}

pub fn run(_: Version, _: &mut App) -> answer::Result {
    let version = env!("CARGO_PKG_VERSION");
    Ok((
        Answer::Document { json: json!({ "version": version }), text: format!("zester {version}\n") },
        Exit::Good,
    ))
}
