//! `zester publish`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::auth::operators;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::watching::{client_failure, patiently};
use crate::output::publish_text;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use zester_client::{Brought, Client};
use zester_converge::Error;
use zester_publish::{Directory, PastRevision};
use zester_wire::{PublishReport, PublishRequest, PublishStatus, Published, Rollback};

/// Publish states, settings and rules to the peels, or take a revision back
///
/// Without a directory, the master that publishes does so now with its own directories and repositories. With --states,
/// --settings or --reactor that tree is uploaded from here; it stays until the master's own directory changes or a plain
/// `zester publish` asks for it. A tree that does not compile for the peels that are known is refused. Uploading takes an admin;
/// operators with the verb `publish` do the rest.
#[derive(clap::Args, Debug)]
pub struct Publish {
    /// Upload these states
    #[arg(long, value_name = "DIR")]
    pub states: Option<PathBuf>,
    /// Upload these settings
    #[arg(long, value_name = "DIR")]
    pub settings: Option<PathBuf>,
    /// Upload these rules of the reactor
    #[arg(long, value_name = "DIR")]
    pub reactor: Option<PathBuf>,
    /// Only show what would change, by file, and what would no longer compile
    #[arg(long)]
    pub dry_run: bool,
    /// Publish it although it does not compile
    #[arg(long)]
    pub force: bool,
    /// An empty tree may replace one that is not
    #[arg(long)]
    pub allow_empty: bool,
    /// Show the revisions that --rollback can go back to
    #[arg(long, conflicts_with_all = ["states", "settings", "reactor", "dry_run", "force", "allow_empty", "rollback"])]
    pub history: bool,
    /// Publish an earlier revision again, as a new one
    #[arg(long, value_name = "REV", conflicts_with_all = ["states", "settings", "reactor", "force", "allow_empty"])]
    pub rollback: Option<u64>,
    /// Of which tree: states, settings or reactor [default: all for --history, states for --rollback]
    #[arg(long, value_name = "TREE", value_parser = tree)]
    pub of: Option<Published>,
    #[command(flatten)]
    pub connect: Connect,
}

fn tree(text: &str) -> Result<Published, String> {
    Published::parse(text).ok_or_else(|| "it is states, settings or reactor".to_string())
}

pub fn run(args: Publish, app: &mut App) -> answer::Result {
    let app = &*app;
    if args.of.is_some() && !args.history && args.rollback.is_none() {
        return Err(Failure::usage("--of goes with --history and --rollback"));
    }
    refuse_upload(&args, app)?;
    let brought = brought(&args)?;
    let asks = !args.history && !args.dry_run;
    let answered = app.block_on(async {
        let client = args.connect.client(app).await?;
        if args.history {
            return history(&client, args.of, app).await;
        }
        let published = args.of.unwrap_or(Published::States);
        let request = PublishRequest {
            allow_empty: args.allow_empty,
            user: ask::user(),
            id: None,
            trees: Vec::new(),
            rollback: args.rollback.map(|revision| Rollback { published, revision }),
            force: args.force,
            dry_run: args.dry_run,
        };
        let reports = patiently(app, client.publish(request, &brought)).await;
        let reports = reports.map_err(|error| args.connect.explained(app, client_failure(error)))?;
        let refused = reports.iter().any(|report| report.status == PublishStatus::Refused);
        let mut text = publish_text::reports(&reports, args.dry_run, app.output.paint());
        if let Some(revision) = args.rollback.filter(|_| !args.dry_run && !refused) {
            text.push_str(&format!(
                "revision {revision} counts again, until the master's own files change or `zester publish` asks for them\n"
            ));
        }
        let documents: Vec<Json> = reports.iter().map(document).collect();
        let json = json!({ "dry_run": args.dry_run, "published": documents });
        Ok((Answer::Document { json, text }, if refused { Exit::Usage } else { Exit::Good }))
    });
    // What was sent is carried out whether or not somebody waits for the answer.
    answered.map_err(|failure| match failure.error {
        Error::Canceled if asks => Failure {
            error: Error::other(
                "canceled, but it may be published all the same: `zester publish --history` says",
            ),
            ..failure
        },
        _ => failure,
    })
}

/// The server takes files from admins only, and answers nobody else: waiting would say nothing.
fn refuse_upload(args: &Publish, app: &App) -> Result<(), Failure> {
    if args.states.is_none() && args.settings.is_none() && args.reactor.is_none() {
        return Ok(());
    }
    match args.connect.identity(app)?.filter(operators::has_own_account) {
        Some(who) => Err(Failure::usage(format!(
            "{} has roles, and operators with roles upload nothing: have an admin do it, or put the files where the master reads them and run `zester publish`",
            who.name
        ))),
        None => Ok(()),
    }
}

/// The trees of this machine that are to be uploaded.
fn brought(args: &Publish) -> Result<Vec<Brought>, Failure> {
    let named = [
        // Settings first: states are compiled with them.
        (Published::Settings, &args.settings),
        (Published::States, &args.states),
        (Published::Reactor, &args.reactor),
    ];
    let mut brought = Vec::new();
    for (published, path) in named {
        if let Some(path) = path {
            brought.push(read(published, path)?);
        }
    }
    Ok(brought)
}

fn read(published: Published, path: &Path) -> Result<Brought, Failure> {
    if !path.is_dir() {
        return Err(Failure::usage(format!("{} is no directory", path.display())));
    }
    let directory = Directory::read(path)
        .map_err(|error| Failure::usage(format!("{} cannot be published: {error}", path.display())))?;
    Ok(Brought { published, directory, source: path.display().to_string() })
}

fn document(report: &PublishReport) -> Json {
    json!({
        "tree": report.published, "status": report.status, "revision": report.revision,
        "files": report.files, "moved": report.moved, "bytes": report.bytes,
        "source": report.source, "commit": report.commit, "reason": report.reason,
        "changes": report.changes, "problems": report.problems,
    })
}

async fn history(client: &Client, of: Option<Published>, app: &App) -> answer::Result {
    let trees = of.map_or(Published::ALL.to_vec(), |one| vec![one]);
    let (mut past, mut documents) = (Vec::new(), serde_json::Map::new());
    for published in trees {
        let revisions = client.published(published).await.map_err(client_failure)?;
        let rows: Vec<Json> = revisions.iter().map(row).collect();
        documents.insert(published.as_str().into(), Json::Array(rows));
        past.push((published, revisions));
    }
    let text = publish_text::history(&past, client.link().now(), app.output.paint());
    Ok((Answer::Document { json: Json::Object(documents), text }, Exit::Good))
}

fn row(past: &PastRevision) -> Json {
    let manifest = &past.manifest;
    let changes = past.changes.as_ref().map(|diff| {
        json!({ "added": diff.added.len(), "changed": diff.changed.len(), "removed": diff.removed.len() })
    });
    json!({
        "revision": manifest.revision, "current": past.is_current, "published": manifest.published,
        "user": manifest.user, "master": manifest.master.name(), "source": manifest.source,
        "commit": manifest.commit, "files": manifest.files, "bytes": manifest.bytes, "changes": changes,
        "rollback_of": manifest.rollback_of, "uploaded": manifest.uploaded,
    })
}
