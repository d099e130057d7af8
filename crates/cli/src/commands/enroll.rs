//! `zester enroll`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::auth::directory::{Directory, now};
use crate::auth::push;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::watching::{client_failure, patiently};
use crate::output::enroll_text;
use serde_json::{Value as Json, json};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use zester_client::{Client, Error, TokenWish};
use zester_identity::enrollment::ended_keys;
use zester_identity::{KeyKind, PublicKey, authority};
use zester_wire::{EnrollDecision, Enrollment, JoinToken, RefusalKind, Token};

/// Who may be a peel: who asked, who decided, and words that let machines in
#[derive(clap::Args, Debug)]
pub struct Enroll {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Everybody who asked to be a peel, and what became of it
    List {
        #[command(flatten)]
        connect: Connect,
    },
    /// One of them, with its key
    Show {
        /// Its name, or the id that the machine prints while it waits
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Let machines in that wait
    Approve(Decide),
    /// Send machines away that wait
    Reject(Decide),
    Revoke(Revoke),
    Token(NewToken),
}

#[derive(clap::Args, Debug)]
pub struct Decide {
    /// Their names, or the ids that the machines print while they wait
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Why: kept with the decision, and told to who is rejected
    #[arg(long, value_name = "WORDS", default_value = "")]
    pub reason: String,
    #[command(flatten)]
    pub connect: Connect,
}

/// End a peel: nothing it says counts any more, and its name is free for another key
///
/// Masters that run with --revoker have the server end its connection within seconds. Where none does, --dir does so with the
/// keys of the fleet, and writes it into the roster besides.
#[derive(clap::Args, Debug)]
pub struct Revoke {
    /// Its name, or its id
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Why: kept with the decision
    #[arg(long, value_name = "WORDS", default_value = "")]
    pub reason: String,
    /// The keys of the fleet, with keys/operator.nk, keys/core.nk and creds/sys.creds
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub connect: Connect,
}

/// Make a word that lets one machine in, once, and print it: it is shown this one time and kept nowhere
///
/// Give it to the machine: zester peel run --id NAME --master URL --pin PIN --token WORD. A token for a name, without a glob,
/// also lets a machine that was installed anew take its name back.
#[derive(clap::Args, Debug)]
pub struct NewToken {
    /// The name that it is for, or a glob over names
    #[arg(value_name = "NAME|GLOB", required_unless_present_any = ["list", "drop"])]
    pub names: Option<String>,
    /// How long it counts
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = zester_model::duration::parse)]
    pub life: Duration,
    /// The only address that it may come from
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// What to call it, for people and for `require_token` of rules
    #[arg(long, value_name = "WORD", default_value = "")]
    pub label: String,
    /// It vouches and does not approve: the machine waits for a rule with `require_token`, or for an operator
    #[arg(long)]
    pub hold: bool,
    /// Show the tokens there are, without their words
    #[arg(long, conflicts_with_all = ["names", "drop"])]
    pub list: bool,
    /// Take a token back, by its id
    #[arg(long, value_name = "ID", conflicts_with = "names")]
    pub drop: Option<String>,
    #[command(flatten)]
    pub connect: Connect,
}

pub fn run(args: Enroll, app: &mut App) -> answer::Result {
    let app = &*app;
    match args.verb {
        Verb::List { connect } => app.block_on(async {
            let client = connect.client(app).await?;
            let records = client.enrollments().await.map_err(client_failure)?;
            let text = enroll_text::list(&records, client.link().now(), app.output.paint());
            let documents: Vec<Json> = records.iter().map(document).collect();
            done(json!({ "enrollments": documents }), text)
        }),
        Verb::Show { name, connect } => app.block_on(async {
            let client = connect.client(app).await?;
            let record = client.enrollment(&name).await.map_err(client_failure)?;
            let text = enroll_text::show(&record, client.link().now(), app.output.paint());
            done(document(&record), text)
        }),
        Verb::Approve(args) => decide(&args, EnrollDecision::Approve, app),
        Verb::Reject(args) => decide(&args, EnrollDecision::Reject, app),
        Verb::Revoke(args) => revoke(&args, app),
        Verb::Token(args) => token(args, app),
    }
}

fn done(json: Json, text: String) -> answer::Result {
    Ok((Answer::Document { json, text }, Exit::Good))
}

fn decide(args: &Decide, decision: EnrollDecision, app: &App) -> answer::Result {
    app.block_on(async {
        let client = args.connect.client(app).await?;
        let (mut text, mut documents, user) = (String::new(), Vec::new(), ask::user());
        for name in &args.names {
            let record = client.enrollment(name).await.map_err(client_failure)?;
            let asked = client.decide_enrollment(&record, decision, &args.reason, &user);
            let said = match patiently(app, asked).await {
                // What was wanted, whoever wanted it first.
                Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::AlreadyOver => Ok(refusal.message),
                said => said,
            };
            let said = said.map_err(|error| args.connect.explained(app, client_failure(error)))?;
            text.push_str(&format!("{said}\n"));
            documents.push(json!({ "peel": record.peel.as_str(), "id": record.id.as_str(), "decision": decision.as_str() }));
        }
        done(json!({ "decided": documents }), text)
    })
}

fn revoke(args: &Revoke, app: &App) -> answer::Result {
    // Before anything is changed: a directory without its keys is no use.
    let directory = args.dir.as_deref().map(Directory::open).transpose()?;
    if let Some(directory) = &directory {
        directory.secret("operator")?;
        directory.secret("core")?;
    }
    app.block_on(async {
        let client = args.connect.client(app).await?;
        let record = client.enrollment(&args.name).await.map_err(client_failure)?;
        let said = match revoke_record(&client, &record, args, app).await {
            Ok(said) => said,
            // The server can be told all the same: masters find the record later.
            Err(error) if directory.is_some() && !matches!(error, Error::Refused(_)) => {
                app.output
                    .notice(&format!("no master took it down: {error}; revoke it again once one is there"));
                String::new()
            }
            Err(error) => return Err(args.connect.explained(app, client_failure(error))),
        };
        let json = json!({ "peel": record.peel.as_str(), "id": record.id.as_str(), "decision": "revoke" });
        let Some(directory) = directory else { return done(json, format!("{said}\n")) };
        let serial = end_keys(&directory, &record, args, app).await?;
        let words = format!(
            "{} is revoked: the server keeps it out, and the roster {serial} says so to everybody\n",
            record.peel
        );
        done(json, words)
    })
}

/// What a master says. One that is revoked already is what was wanted, where the server is still to be told.
async fn revoke_record(
    client: &Client,
    record: &Enrollment,
    args: &Revoke,
    app: &App,
) -> Result<String, Error> {
    let user = ask::user();
    let asked = client.decide_enrollment(record, EnrollDecision::Revoke, &args.reason, &user);
    match patiently(app, asked).await {
        Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::AlreadyOver && args.dir.is_some() => {
            Ok(refusal.message)
        }
        other => other,
    }
}

/// Writes the end of these keys into the accounts and the roster, and tells the fleet.
async fn end_keys(
    directory: &Directory,
    record: &Enrollment,
    args: &Revoke,
    app: &App,
) -> Result<u64, Failure> {
    let mut fleet = directory.fleet()?;
    let (mut roster, _) = directory.roster(&fleet)?;
    let keys = ended_keys(record).map(|(key, _)| key);
    let former: Vec<&str> = keys.filter(|key| *key != record.key).collect();
    let mut is_new = false;
    for key in former.into_iter().chain([record.key.as_str()]) {
        let key = PublicKey::of_kind(key, KeyKind::User).map_err(|bad| Failure::usage(bad.to_string()))?;
        is_new |= fleet.revoke_key(record.peel.as_str(), &key, &mut roster, now());
    }
    if is_new {
        directory.keep_roster(&authority::renewed(&roster, now()))?;
        directory.keep_fleet(&fleet)?;
    }
    let pushed = push::push(directory, &args.connect, app).await.map_err(|failure| {
        let words = format!(
            "{} counts no more, but the server does not know it yet: {}; repeat it with `zester auth push`",
            record.peel, failure.error
        );
        Failure { error: zester_converge::Error::other(words), exit: Exit::Failed }
    })?;
    Ok(pushed.serial)
}

fn token(args: NewToken, app: &App) -> answer::Result {
    app.block_on(async {
        let client = args.connect.client(app).await?;
        let explained = |error| args.connect.explained(app, client_failure(error));
        if args.list {
            let tokens = client.join_tokens().await.map_err(client_failure)?;
            let text = enroll_text::tokens(&tokens, client.link().now(), app.output.paint());
            let documents: Vec<Json> = tokens.iter().map(token_document).collect();
            return done(json!({ "tokens": documents }), text);
        }
        if let Some(id) = &args.drop {
            let id = Token::parse(id).map_err(|bad| Failure::usage(format!("`{id}` is {bad}")))?;
            let said = patiently(app, client.drop_join_token(&id, &ask::user())).await.map_err(explained)?;
            return done(json!({ "dropped": id.as_str() }), format!("{said}\n"));
        }
        let wish = TokenWish {
            names: args.names.unwrap_or_default(),
            address: args.address.map(|address| address.to_canonical().to_string()),
            life: args.life,
            label: args.label,
            hold: args.hold,
        };
        let names = wish.names.clone();
        let made = patiently(app, client.make_join_token(wish, &ask::user())).await.map_err(explained)?;
        app.output.notice(&format!(
            "token {} lets one machine in as {names}, for {}; this is the only time its word is shown",
            made.id,
            crate::output::duration_words(zester_wire::time::as_millis(args.life)),
        ));
        done(
            json!({ "id": made.id.as_str(), "token": made.word, "names": names }),
            format!("{}\n", made.word),
        )
    })
}

fn document(record: &Enrollment) -> Json {
    let former: Vec<Json> =
        record.former.iter().map(|one| json!({ "key": one.key, "at": one.at.0 })).collect();
    json!({
        "peel": record.peel.as_str(), "id": record.id.as_str(), "key": record.key, "status": record.status.as_str(),
        "address": record.address, "requested": record.requested.0, "changed": record.changed.0, "by": record.by,
        "reason": record.reason, "token": record.token.as_ref().map(|token| json!({ "id": token.id.as_str(), "label": token.label })),
        "until": record.until.map(|until| until.0), "former": former,
    })
}

fn token_document((id, token): &(Token, JoinToken)) -> Json {
    json!({
        "id": id.as_str(), "names": token.names, "address": token.address, "until": token.until.0, "label": token.label,
        "hold": token.hold, "by": token.by, "made": token.made.0,
        "used": token.used.as_ref().map(|used| json!({ "peel": used.peel.as_str(), "key": used.key, "at": used.at.0 })),
    })
}
