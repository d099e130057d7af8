//! `zester target`

use crate::answer::{self, Answer};
use crate::app::App;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::watching::{client_failure, patiently};
use crate::output::target_text;
use serde_json::{Value as Json, json};
use zester_wire::{ExplainedPeel, PeelId};

/// Show which peels a target means, and why the others not
///
/// Lists who matches and is there, who matches and is offline, and for everybody else the part of the expression that said no
/// and what it met. Nothing is run. Exit code 1 where nobody matches, as for a call on such a target.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Target {
    /// The target: 'web*', 'G@os:Debian and not db*'
    #[arg(value_name = "EXPR")]
    pub expression: String,
    #[command(flatten)]
    pub connect: Connect,
}

const EXAMPLES: &str = "Examples:
  zester target 'web* and G@os:Debian'
  zester target 'G@mem_total>=4096 and not L@db-1,db-2'
  zester target 'I@role:web' --format json";

pub fn run(args: Target, app: &mut App) -> answer::Result {
    let target = ask::target(&args.expression)?;
    let app = &*app;
    app.block_on(async {
        let client = args.connect.client(app).await?;
        let explained = patiently(app, client.explain(&args.expression)).await;
        let peels = explained.map_err(|error| args.connect.explained(app, client_failure(error)))?;
        let unknown = ask::unknown(&client, ask::listed(&target)).await;
        let matches = peels.iter().filter(|peel| peel.matches).count();
        let nearly = if matches == 0 { ask::nearly(&client, &args.expression).await } else { None };
        let now = client.link().now();
        let mut text = target_text::text(&peels, &unknown, now, app.output.paint());
        if let Some(hint) = nearly {
            text.push_str(&format!("{hint}\n"));
        }
        let json = document(&args.expression, &peels, &unknown);
        let exit = if matches == 0 { Exit::Usage } else { Exit::Good };
        Ok((Answer::Document { json, text }, exit))
    })
}

fn document(expression: &str, peels: &[ExplainedPeel], unknown: &[PeelId]) -> Json {
    let peel = |peel: &ExplainedPeel| {
        let parts: Vec<Json> =
            peel.said_no.iter().map(|no| json!({ "part": no.part, "found": no.found })).collect();
        json!({
            "id": peel.peel.as_str(), "matches": peel.matches, "online": peel.online,
            "last_seen": peel.last_seen, "said_no": parts,
        })
    };
    let matching = || peels.iter().filter(|peel| peel.matches);
    json!({
        "target": expression,
        "matching": matching().count(),
        "offline": matching().filter(|peel| !peel.online).count(),
        "not_matching": peels.len() - matching().count(),
        "unknown": unknown.iter().map(PeelId::as_str).collect::<Vec<_>>(),
        "peels": peels.iter().map(peel).collect::<Vec<_>>(),
    })
}
