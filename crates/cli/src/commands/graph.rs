//! `zester graph`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::{Format, Inputs};
use crate::commands::apply;
use crate::exit::Exit;
use crate::output::picture::{self, Picture};
use std::path::{Path, PathBuf};
use zester_converge::functions::Access;
use zester_converge::{Error, document};
use zester_model::outcome::RunResult;

/// Show the levels and edges of a set of states
///
/// Formats: text, json, yaml, dot (for Graphviz), svg and html (a picture to look at).
#[derive(clap::Args, Debug)]
pub struct Graph {
    /// What to show: `web`, `web.config`, or a path to a state file
    #[arg(value_name = "REF")]
    pub references: Vec<String>,
    /// Colour the states by the result of this run (the JSON that apply printed)
    #[arg(long, value_name = "FILE")]
    pub run: Option<PathBuf>,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Graph, app: &mut App) -> answer::Result {
    apply::only_references("graph", &args.references)?;
    let plan = app.plan(&app.request(args.references, &args.inputs, Access::ReadOnly))?;
    let result = args.run.as_deref().map(read_result).transpose()?;
    let answer = match app.format() {
        Format::Json | Format::Yaml | Format::Text => {
            let text = picture::text(&Picture::of(&plan, result.as_ref()), app.output.paint());
            Answer::Document { json: document::graph(&plan), text }
        }
        Format::Dot => Answer::Text(picture::dot(&Picture::of(&plan, result.as_ref()))),
        Format::Svg => Answer::Text(picture::svg(&Picture::of(&plan, result.as_ref()))),
        Format::Html => Answer::Text(picture::html(&Picture::of(&plan, result.as_ref()))),
    };
    Ok((answer, Exit::Good))
}

fn read_result(path: &Path) -> Result<RunResult, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read the run", path, error))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!(
            "{} is not the JSON of a run ({error}); make one with `zester apply --format json`",
            path.display()
        ))
    })
}
