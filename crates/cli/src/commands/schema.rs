//! `zester schema`

use crate::answer::{self, Answer};
use crate::app::App;
use crate::exit::Exit;

/// Print the JSON Schema of the state language
///
/// For editors: completion and checks while you type. It describes plain files; what a template renders to is the same.
#[derive(clap::Args, Debug)]
pub struct Schema {}

pub fn run(_: Schema, _: &mut App) -> answer::Result {
    let json = zester_resources::schema();
    let text = format!("{json:#}\n");
    Ok((Answer::Document { json, text }, Exit::Good))
}
