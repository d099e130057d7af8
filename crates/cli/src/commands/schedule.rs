//! `zester schedule`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::watching::{client_failure, patiently};
use crate::output::schedule_text;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;
use zester_client::{Client, DirectReply, Error, FunctionCall};
use zester_wire::PeelId;

/// How long a peel may take to say what its schedule is.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// What peels do by themselves: list, show and run the entries of their schedules
///
/// A schedule is a file of the machine (`zester peel run --schedule FILE`) and the key `schedule` of its settings. The peels
/// are asked themselves, so no master is needed.
#[derive(clap::Args, Debug)]
pub struct Schedule {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// What runs next, and how the last run ended
    List {
        /// Which peels
        #[arg(value_name = "TARGET", default_value = "*")]
        target: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Entries with their last results
    Show {
        /// Their names
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Which peels
        #[arg(long, value_name = "TARGET", default_value = "*")]
        target: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Run an entry now, whatever its times are
    Run {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Which peels; those whose schedule has the entry run it. '*' for all
        #[arg(value_name = "TARGET")]
        target: String,
        #[command(flatten)]
        connect: Connect,
    },
}

/// What one peel says.
pub enum Said {
    Answer(Json),
    Refused(String),
    Away(String),
}

pub fn run(args: Schedule, app: &mut App) -> answer::Result {
    let app = &*app;
    app.block_on(async move {
        let (Verb::List { target, connect }
        | Verb::Show { target, connect, .. }
        | Verb::Run { target, connect, .. }) = &args.verb;
        ask::target(target)?;
        let client = connect.client(app).await?;
        let answer =
            answer(&args.verb, target, app, &client).await.map_err(|failure| connect.explained(app, failure));
        let _closed = client.link().bus().close().await;
        answer
    })
}

async fn answer(verb: &Verb, target: &str, app: &App, client: &Client) -> answer::Result {
    let (function, names) = match verb {
        Verb::List { .. } => ("schedule.list", Vec::new()),
        Verb::Show { names, .. } => ("schedule.show", names.clone()),
        Verb::Run { name, .. } => ("schedule.run", vec![name.clone()]),
    };
    let said = ask_peels(app, client, target, function, &names).await?;
    let said = only_who_has_it(said)?;
    if let (Verb::Show { .. }, Some(name)) = (verb, unknown(&said, &names)) {
        return Err(Failure::usage(format!("no schedule has an entry `{name}`")));
    }
    let now = client.link().now();
    let paint = app.output.paint();
    let text = match verb {
        Verb::List { .. } => schedule_text::list(&said, now, paint),
        Verb::Show { .. } => schedule_text::show(&said, now, paint),
        Verb::Run { name, .. } => schedule_text::started(name, &said, paint),
    };
    let failed = said.values().any(|said| matches!(said, Said::Refused(_)));
    let missing = said.values().any(|said| matches!(said, Said::Away(_)));
    let peels: Map<String, Json> =
        said.iter().map(|(peel, said)| (peel.to_string(), document(said))).collect();
    Ok((Answer::Document { json: json!({ "peels": peels }), text }, Exit::of_fleet(failed, missing)))
}

fn document(said: &Said) -> Json {
    match said {
        Said::Answer(answer) => json!({ "status": "success", "error": null, "return": answer }),
        Said::Refused(why) => json!({ "status": "failed", "error": why, "return": null }),
        Said::Away(why) => json!({ "status": "unreachable", "error": why, "return": null }),
    }
}

/// A peel whose schedule has no such entry was not meant, unless that is so of all.
fn only_who_has_it(said: BTreeMap<PeelId, Said>) -> Result<BTreeMap<PeelId, Said>, Failure> {
    let (lack, kept): (BTreeMap<_, _>, BTreeMap<_, _>) = said
        .into_iter()
        .partition(|(_, said)| matches!(said, Said::Refused(why) if why.contains(" has no entry `")));
    match lack.into_values().next() {
        Some(Said::Refused(why)) if kept.is_empty() => Err(Failure::usage(why)),
        _ => Ok(kept),
    }
}

/// A name that nobody knows, where everybody could be asked.
fn unknown<'a>(said: &BTreeMap<PeelId, Said>, names: &'a [String]) -> Option<&'a String> {
    let mut known = Vec::new();
    for said in said.values() {
        match said {
            Said::Answer(answer) => known.extend(schedule_text::names(answer)),
            Said::Refused(_) | Said::Away(_) => return None,
        }
    }
    names.iter().find(|name| !known.contains(name))
}

async fn ask_peels(
    app: &App,
    client: &Client,
    target: &str,
    function: &str,
    names: &[String],
) -> Result<BTreeMap<PeelId, Said>, Failure> {
    let peels = match client.resolve_direct(target).await {
        Err(Error::NeedsMaster) => patiently(app, client.resolve(target)).await,
        resolved => resolved,
    };
    let peels = peels.map_err(client_failure)?;
    if peels.is_empty() {
        return Err(Failure::usage(format!("no peel matches `{target}`")));
    }
    Ok(ask_all(client, peels, function, names).await)
}

async fn ask_all(
    client: &Client,
    peels: Vec<PeelId>,
    function: &str,
    names: &[String],
) -> BTreeMap<PeelId, Said> {
    let mut args = Map::new();
    if !names.is_empty() {
        args.insert("name".into(), json!(names));
    }
    let call = FunctionCall {
        function: function.into(),
        state_id: String::new(),
        positionals: Vec::new(),
        args,
        test: false,
        timeout: ANSWER_WAIT,
        user: ask::user(),
    };
    let mut direct = client.direct_to(peels, &call);
    let mut said = BTreeMap::new();
    while let Some(reply) = direct.next().await {
        let (peel, one) = match reply {
            DirectReply::Return(ret) if ret.success => (ret.peel.clone(), Said::Answer(ret.answer.clone())),
            DirectReply::Return(ret) => (ret.peel.clone(), Said::Refused(ret.error.clone())),
            DirectReply::Unreachable(peel) => (peel, Said::Away("unreachable".into())),
            DirectReply::NoReply(peel, why) => (peel, Said::Away(why)),
        };
        said.insert(peel, one);
    }
    said
}
