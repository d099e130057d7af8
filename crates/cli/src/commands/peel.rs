//! `zester peel`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::Inputs;
use crate::connection::Connect;
use crate::daemon::peel::PeelRun;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::watching::{client_failure, patiently};
use crate::output::{fleet_text, job_text, plain};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use zester_client::{Peel as Known, Peels};
use zester_wire::PeelId;

/// What is said where the list is less than it seems.
const BY_RECORD: &str = "no master answers: online means seen in the last 10 minutes";

/// Be a peel, or look at the peels of the fleet
#[derive(clap::Args, Debug)]
pub struct Peel {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    Run(Box<PeelRun>),
    /// Every peel that was ever seen, and which are there now
    List {
        #[command(flatten)]
        connect: Connect,
    },
    /// One peel and its facts
    Show {
        /// Its name
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Give this machine a new key: its peel shows it at the door of a master, and goes on with it
    ///
    /// Nothing stops: the peel that runs takes it up by itself, else the next one does. What the key before signed counts for five minutes
    /// more, and then nothing that it signs; nobody can get in with it any more.
    Rekey {
        /// Where the peel keeps what it must remember [default: /var/lib/zester, or the user's state directory]
        #[arg(long, value_name = "DIR", env = "ZESTER_DATA_DIR", hide_env_values = true)]
        data_dir: Option<PathBuf>,
    },
    /// Forget machines that are gone for good: their facts, and when they were last seen
    Forget {
        /// Their names
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        connect: Connect,
    },
}

pub fn run(args: Peel, app: &mut App) -> answer::Result {
    let app = &*app;
    match args.verb {
        Verb::Run(args) => crate::daemon::peel::run(*args, app),
        Verb::List { connect } => app.block_on(async {
            let client = connect.client(app).await?;
            let Peels { peels, by_record } = client.peels_now().await.map_err(client_failure)?;
            if by_record {
                app.output.notice(BY_RECORD);
            }
            let documents: Vec<Json> = peels.iter().map(document).collect();
            let text = job_text::peels(&peels, client.link().now(), app.output.paint());
            Ok((Answer::Document { json: json!({ "peels": documents }), text }, Exit::Good))
        }),
        Verb::Rekey { data_dir } => {
            let data_dir = app.data_dir(&Inputs { data_dir, ..Inputs::default() })?;
            let key = crate::daemon::peel::next_key(&data_dir)?;
            let json = json!({ "public_key": key.as_str() });
            let text =
                format!("{key}\nthe peel takes it up by itself; its log and `zester enroll show` say when\n");
            Ok((Answer::Document { json, text }, Exit::Good))
        }
        Verb::Forget { ids, connect } => app.block_on(async {
            let parse =
                |id: &String| PeelId::parse(id).map_err(|bad| Failure::usage(format!("`{id}` is {bad}")));
            let peels: Vec<PeelId> = ids.iter().map(parse).collect::<Result<_, Failure>>()?;
            let client = connect.client(app).await?;
            let done = patiently(app, client.forget(peels, &ask::user())).await;
            let done = done.map_err(|error| connect.explained(app, client_failure(error)))?;
            let json = json!({ "forgotten": ids });
            Ok((Answer::Document { json, text: format!("{done}\n") }, Exit::Good))
        }),
        Verb::Show { id, connect } => app.block_on(async {
            let id = PeelId::parse(&id).map_err(|bad| Failure::usage(format!("`{id}` is {bad}")))?;
            let client = connect.client(app).await?;
            let peel = client.peel(&id).await.map_err(client_failure)?;
            let mut json = document(&peel);
            if let Some(map) = json.as_object_mut() {
                map.insert("busy".into(), json!(peel.busy));
                map.insert("outbox".into(), json!(peel.outbox));
                map.insert("facts".into(), Json::Object(peel.facts.clone()));
            }
            let mut text =
                job_text::peels(std::slice::from_ref(&peel), client.link().now(), app.output.paint());
            text.truncate(text.find("\n\n").map_or(text.len(), |end| end + 1));
            // A heartbeat says it, and the last one may be a while ago.
            let as_of = job_text::ago(peel.last_seen, client.link().now());
            text.push_str(&format!(
                "   as of {as_of}: {} running or waiting, {} waiting for a master\n\n",
                fleet_text::count_of(peel.busy as usize, "execution"),
                fleet_text::count_of(peel.outbox as usize, "return"),
            ));
            text.push_str(&plain(&Json::Object(peel.facts)));
            Ok((Answer::Document { json, text }, Exit::Good))
        }),
    }
}

/// The keys of C-11.
fn document(peel: &Known) -> Json {
    json!({
        "id": peel.id.as_str(), "online": peel.online, "last_seen": peel.last_seen,
        "os": peel.os, "version": peel.version,
    })
}
