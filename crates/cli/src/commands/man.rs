//! `zester man`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::exit::Exit;
use std::path::{Path, PathBuf};
use zester_converge::Error;

/// What the page of a call on the fleet is called.
const FLEET_PAGE: &str = "zester-target";

/// Write the manual pages into a directory
///
/// One page for zester and one for each command: zester man /usr/local/share/man/man1
#[derive(clap::Args, Debug)]
pub struct Man {
    /// Directory to write to; it is made if it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

pub fn run(args: Man, _: &mut App) -> answer::Result {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).map_err(|error| Error::io("create", directory, error))?;
    clap_mangen::generate_to(crate::command(), directory)
        .map_err(|error| Failure::from(Error::io("write the manual pages to", directory, error)))?;
    fleet_page(directory).map_err(|error| Error::io("write the manual pages to", directory, error))?;
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .map_err(|error| Error::io("list", directory, error))?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.starts_with("zester") && name.ends_with(".1"))
        .collect();
    names.sort();
    let text = format!(
        "wrote {} pages to {}; read one with: man {}/zester.1\n",
        names.len(),
        directory.display(),
        directory.display()
    );
    Ok((Answer::Document { json: serde_json::json!({ "pages": names }), text }, Exit::Good))
}

/// The page of `zester 'TARGET' MOD.FN`, which is no command by name.
fn fleet_page(directory: &Path) -> std::io::Result<()> {
    let mut all = crate::command();
    // Flags that stand everywhere are given to each command only now.
    all.build();
    let Some(fleet) = all.find_subcommand(crate::target_first::COMMAND) else { return Ok(()) };
    let page = fleet.clone().hide(false).name(FLEET_PAGE).display_name(FLEET_PAGE);
    clap_mangen::Man::new(page).generate_to(directory).map(|_| ())
}
