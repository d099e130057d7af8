//! `zester settings`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::Inputs;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::output::settings_text;
use serde_json::{Map, Value as Json};
use zester_client::{DirectReply, FunctionCall};
use zester_converge::functions::{self, Access, Arguments, Function};
use zester_converge::{Error, call};
use zester_model::suggest::did_you_mean;
use zester_wire::PeelId;
use zester_wire::job::TIMEOUT_DEFAULT;

/// The function that tells settings with their places, here and on a peel.
const SHOW: &str = "settings.show";

/// Look at the settings of a peel, or of this machine
#[derive(clap::Args, Debug)]
pub struct Settings {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    Show(Show),
}

/// Every setting, with the file and line that it comes from
///
/// Asks the peel itself, without a master: no record is kept. Without a peel, or with --local, the settings of this machine
/// are shown as `zester apply` would see them.
#[derive(clap::Args, Debug)]
pub struct Show {
    /// The peel to ask; with --local, the setting
    #[arg(value_name = "PEEL")]
    pub peel: Option<String>,
    /// Only this setting; a:b goes deeper
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
    /// Show those of this machine; the first word is the setting
    #[arg(long, conflicts_with = "key")]
    pub local: bool,
    #[command(flatten)]
    pub inputs: Inputs,
    #[command(flatten)]
    pub connect: Connect,
}

pub fn run(args: Settings, app: &mut App) -> answer::Result {
    let Verb::Show(Show { peel, key, local, inputs, connect }) = args.verb;
    let (peel, key) = if local { (None, peel) } else { (peel, key) };
    if peel.is_some() && (!inputs.setting.is_empty() || inputs.settings_merge.is_some()) {
        return Err(Failure::usage(
            "--setting and --settings-merge are for the settings of this machine (for one run on a peel: \
             `zester PEEL state.apply … --setting a:b=c`)",
        ));
    }
    let json = match &peel {
        Some(peel) => on_peel(peel, key.as_deref(), &connect, app)?,
        None => here(key.clone(), &inputs, app)?,
    };
    if let Some(key) = key.filter(|_| json["values"].as_array().is_some_and(Vec::is_empty)) {
        return Err(Failure::usage(missing(&key, peel.as_deref())));
    }
    let text = settings_text::rows(&json, app.output.paint());
    Ok((Answer::Document { json, text }, Exit::Good))
}

fn missing(key: &str, peel: Option<&str>) -> String {
    let show = match peel {
        Some(peel) => format!("zester settings show {peel}"),
        None => "zester settings show".to_string(),
    };
    format!("there is no setting `{key}`; `{show}` shows all of them")
}

fn show() -> Result<&'static Function, Failure> {
    functions::find(SHOW).ok_or_else(|| Failure::usage(call::unknown(SHOW)))
}

fn here(key: Option<String>, inputs: &Inputs, app: &App) -> Result<Json, Failure> {
    let (function, request) = (show()?, app.request(Vec::new(), inputs, Access::Command));
    let positional = key.into_iter().map(Json::String).collect();
    let arguments = Arguments { positional, named: Map::new() };
    app.blocking(move |local_host, cancel| call::answer(function, &arguments, &request, local_host, cancel))
}

fn on_peel(peel: &str, key: Option<&str>, connect: &Connect, app: &App) -> Result<Json, Failure> {
    let of_this_machine = format!("`zester settings show --local {peel}` shows a setting of this machine");
    let id =
        PeelId::parse(peel).map_err(|bad| Failure::usage(format!("`{peel}` is {bad}; {of_this_machine}")))?;
    let work = FunctionCall {
        function: SHOW.to_string(),
        state_id: key.unwrap_or_default().to_string(),
        positionals: Vec::new(),
        args: Map::new(),
        test: false,
        timeout: TIMEOUT_DEFAULT,
        user: ask::user(),
    };
    app.block_on(async {
        let client = connect.client(app).await?;
        let unreached =
            |why: &str| Failure { exit: Exit::Missing, error: Error::other(format!("{peel}: {why}")) };
        let answer = match client.direct_to(vec![id], &work).next().await {
            Some(DirectReply::Return(ret)) if ret.success => Ok(ret.answer),
            Some(DirectReply::Return(ret)) => {
                Err(Failure { exit: Exit::Failed, error: Error::other(format!("{peel}: {}", ret.error)) })
            }
            Some(DirectReply::Unreachable(_)) => {
                let peels = client.peels().await.unwrap_or_default();
                let names: Vec<&str> = peels.iter().map(|peel| peel.id.as_str()).collect();
                match (names.contains(&peel), did_you_mean(peel, names.iter().copied())) {
                    (false, Some(hint)) => Err(unreached(&format!("no peel has that name; {hint}"))),
                    (false, None) => {
                        Err(unreached(&format!("no peel that is known has that name; {of_this_machine}")))
                    }
                    _ => Err(unreached("it cannot be reached; `zester peel list` shows who is there")),
                }
            }
            Some(DirectReply::NoReply(_, why)) => Err(unreached(&why)),
            None => Err(unreached("it did not answer")),
        };
        let _closed = client.link().bus().close().await;
        answer
    })
}
