//! `zester job`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::watching::{self, client_failure, patiently};
use crate::output::fleet_live::View;
use crate::output::{fleet_text, job_text, schedule_text, to_stdout};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use tokio::time::Instant;
use zester_client::{Client, Error, Killed};
use zester_wire::{Bucket, Jid, Job as Record, JobStatus, Missing, PeelId, RetryPart, Return};

/// How long a kill is watched, so that the answer can say what became of the job.
const KILL_WATCHED: Duration = Duration::from_secs(3);
const KILL_PAUSE: Duration = Duration::from_millis(100);
/// Targets up to which returns are read again and again after a kill; of more, once.
const KILL_COUNTED: usize = 256;

/// Show, watch, kill and retry jobs
///
/// A job may be named by the beginning of its id, as long as only one begins so.
#[derive(clap::Args, Debug)]
pub struct Job {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// The last jobs, newest first
    List {
        /// What the schedules of peels did, instead
        #[arg(long)]
        scheduled: bool,
        /// How many
        #[arg(long, alias = "last", value_name = "N", default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        connect: Connect,
    },
    /// The jobs that are not over
    Active {
        #[command(flatten)]
        connect: Connect,
    },
    /// One job: its record, its returns and who is missing
    Show {
        /// Its id, or the beginning of it
        #[arg(value_name = "JID")]
        jid: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Follow a job to its end, as if it had been started here
    ///
    /// In JSON: one object a line, one for each peel as it ends; the last line is the document of the whole job.
    Watch {
        /// Its id, or the beginning of it
        #[arg(value_name = "JID")]
        jid: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Stop a job on every peel that has it
    Kill {
        /// Its id, or the beginning of it
        #[arg(value_name = "JID")]
        jid: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Do the same again as a new job, on all its peels or a part of them
    Retry {
        /// Its id, or the beginning of it
        #[arg(value_name = "JID")]
        jid: String,
        /// Only on peels that did not return
        #[arg(long, conflicts_with = "failed")]
        missing: bool,
        /// Only on peels that returned a failure
        #[arg(long)]
        failed: bool,
        /// How long the new job may take; without it as long as the old
        #[arg(long, value_name = "DURATION", value_parser = crate::arguments::timeout)]
        timeout: Option<Duration>,
        /// Print the new job id and leave
        #[arg(long = "async")]
        detach: bool,
        #[command(flatten)]
        connect: Connect,
    },
}

pub fn run(args: Job, app: &mut App) -> answer::Result {
    let app = &*app;
    app.block_on(async move {
        let connect = match &args.verb {
            Verb::List { connect, .. }
            | Verb::Active { connect }
            | Verb::Show { connect, .. }
            | Verb::Watch { connect, .. }
            | Verb::Kill { connect, .. }
            | Verb::Retry { connect, .. } => connect,
        };
        let client = connect.client(app).await?;
        let answer =
            answer(&args.verb, app, &client).await.map_err(|failure| connect.explained(app, failure));
        let _closed = client.link().bus().close().await;
        answer
    })
}

async fn answer(verb: &Verb, app: &App, client: &Client) -> answer::Result {
    match verb {
        Verb::List { limit, scheduled: true, .. } => {
            let results = client.scheduled(*limit).await.map_err(client_failure)?;
            let documents: Vec<Json> = results.iter().map(of_schedule).collect();
            let text = schedule_text::results(&results, client.link().now(), app.output.paint());
            Ok((Answer::Document { json: json!({ "jobs": documents }), text }, Exit::Good))
        }
        Verb::List { limit, .. } => {
            let jobs = client.jobs(*limit).await.map_err(client_failure)?;
            let more = more(client, jobs.len(), *limit).await?;
            listed(jobs, more, app, client)
        }
        Verb::Active { .. } => listed(client.active().await.map_err(client_failure)?, 0, app, client),
        Verb::Show { jid, .. } => match client.job(jid).await {
            Ok(job) => show(&job, app, client).await,
            Err(Error::NoSuchJob(_)) if Jid::parse(jid).is_ok() => show_scheduled(jid, app, client).await,
            Err(error) => Err(client_failure(error)),
        },
        Verb::Watch { jid, .. } => watch(&found(client, jid).await?, app, client, true).await,
        Verb::Kill { jid, .. } => kill(&found(client, jid).await?, app, client).await,
        Verb::Retry { jid, missing, failed, timeout, detach, .. } => {
            let part = match (missing, failed) {
                (true, _) => RetryPart::Missing,
                (_, true) => RetryPart::Failed,
                _ => RetryPart::All,
            };
            let job = found(client, jid).await?;
            let user = ask::user();
            let retried = patiently(app, client.retry(&job.jid, part, *timeout, &user))
                .await
                .map_err(client_failure)?;
            if *detach {
                let new = retried.jid;
                let text = format!("{new}\n");
                app.output.notice(&format!("follow it: zester job watch {new}"));
                return Ok((Answer::Document { json: json!({ "jid": new.as_str() }), text }, Exit::Good));
            }
            // A master has it: what cannot be read now is no word about the job (J-28).
            let out_of_sight =
                |why| client_failure(Error::OutOfSight { jid: retried.jid.clone(), why: Box::new(why) });
            let new = client.job(retried.jid.as_str()).await.map_err(out_of_sight)?;
            watch(&new, app, client, false).await
        }
    }
}

/// A run of a peel's schedule has no record; the stream has its result.
async fn show_scheduled(jid: &str, app: &App, client: &Client) -> answer::Result {
    let missing = || client_failure(Error::NoSuchJob(jid.to_string()));
    let parsed = Jid::parse(jid).map_err(|_| missing())?;
    let ret = client.scheduled_run(&parsed).await.map_err(client_failure)?.ok_or_else(missing)?;
    let text = schedule_text::result(&ret, client.link().now(), app.output.paint());
    Ok((Answer::Document { json: of_schedule(&ret), text }, Exit::Good))
}

/// The keys that a job has, as far as they have a meaning for a scheduled run.
fn of_schedule(ret: &Return) -> Json {
    let status = if ret.success { JobStatus::Complete } else { JobStatus::Failed };
    json!({
        "jid": ret.jid.as_str(), "function": ret.schedule.as_ref().map(|run| &run.function),
        "status": status.as_str(), "user": "schedule", "targets": [ret.peel.as_str()],
        "created": ret.schedule.as_ref().map(|run| run.due), "updated": ret.ts, "schedule": ret.schedule,
        "returns": { ret.peel.as_str(): ret }, "missing": {},
    })
}

async fn found(client: &Client, jid: &str) -> Result<Record, Failure> {
    client.job(jid).await.map_err(client_failure)
}

/// How many jobs there are beyond those that are listed.
async fn more(client: &Client, listed: usize, limit: usize) -> Result<usize, Failure> {
    if listed < limit {
        return Ok(0);
    }
    let keys = client.link().bus().keys(Bucket::Jobs.as_str(), "*").await;
    let keys = keys.map_err(|error| client_failure(error.into()))?;
    Ok(keys.iter().filter(|key| Jid::parse(key).is_ok()).count().saturating_sub(listed))
}

fn listed(jobs: Vec<Record>, more: usize, app: &App, client: &Client) -> answer::Result {
    let documents: Vec<Json> = jobs.iter().map(document).collect();
    let text = job_text::list(&jobs, more, client.link().now(), app.output.paint());
    Ok((Answer::Document { json: json!({ "jobs": documents }), text }, Exit::Good))
}

/// The record as it is, without the operator's sealed request.
fn document(job: &Record) -> Json {
    let mut document = serde_json::to_value(job).unwrap_or_default();
    if let Some(map) = document.as_object_mut() {
        map.remove("request");
    }
    document
}

async fn show(job: &Record, app: &App, client: &Client) -> answer::Result {
    let returns = client.returns(job).await.map_err(client_failure)?;
    let missing = client.missing(job, &returns).await.map_err(client_failure)?;
    let mut document = document(job);
    if let Some(map) = document.as_object_mut() {
        let told: Map<String, Json> = returns
            .iter()
            .map(|(peel, ret)| (peel.to_string(), serde_json::to_value(&**ret).unwrap_or_default()))
            .collect();
        map.insert("returns".into(), Json::Object(told));
        map.insert("missing".into(), json!(missing));
    }
    let away = missing.iter().filter(|(_, why)| **why == Missing::Unreachable);
    let away: Vec<PeelId> = away.map(|(peel, _)| peel.clone()).collect();
    let last_seen = watching::last_seen(client, &away).await;
    let (returns, missing, last_seen) = (&returns, &missing, &last_seen);
    let shown = job_text::Shown { job, returns, missing, last_seen, now: client.link().now() };
    let text = job_text::show(&shown, app.output.paint());
    Ok((Answer::Document { json: document, text }, Exit::Good))
}

/// Follows a job to its end. `stream`: for machines, an object for each peel as it ends, not only the whole.
async fn watch(job: &Record, app: &App, client: &Client, stream: bool) -> answer::Result {
    let mut signals = app.signals.listen();
    let follow = client
        .follow(&job.jid)
        .await
        .map_err(|why| client_failure(Error::OutOfSight { jid: job.jid.clone(), why: Box::new(why) }))?;
    if app.output.is_text() {
        let head = format!("job {}", job.jid);
        to_stdout(&fleet_text::head(&head, job.target_count() as usize, job.timeout(), app.output.paint()));
    }
    let make = if stream { View::streaming } else { View::new };
    let mut view = make(&app.output, &job.function, &job.targets).of_job(job.status);
    let watched = watching::watch(app, client, follow, &job.targets, &mut view, &mut signals).await?;
    let (outcome, exit) = watched.parts();
    let shown = fleet_text::peel_shown(&job.function, &job.targets, true);
    // How long the job took; whoever watches may have come late.
    let text = fleet_text::ending(&outcome, shown, outcome.took, app.output.paint());
    let exit = exit.unwrap_or_else(|| outcome.exit());
    if app.output.is_text() || !stream {
        return Ok((Answer::Document { json: outcome.document(false), text }, exit));
    }
    // The last object of the stream is the whole of it.
    app.output.object(&outcome.document(false));
    Ok((Answer::Text(String::new()), exit))
}

async fn kill(job: &Record, app: &App, client: &Client) -> answer::Result {
    let jid = &job.jid;
    let before = client.returns(job).await.map_err(client_failure)?.len();
    let killed = patiently(app, client.kill(jid, &ask::user())).await.map_err(client_failure)?;
    let (killed, status, text) = match killed {
        Killed::WasOver { job } => {
            let status = job.status;
            let text = format!("job {jid} was over already ({}); nothing was changed\n", status.as_str());
            (false, status, text)
        }
        Killed::Stopping { message } => {
            let told = usize::try_from(job.target_count()).unwrap_or(usize::MAX).saturating_sub(before);
            let (status, returned) = settled(job, client).await?;
            let text = match status {
                JobStatus::Canceled => canceled(jid, told, returned.saturating_sub(before)),
                // It ended by itself meanwhile.
                status if status.is_terminal() => format!("job {jid} has ended: {}\n", status.as_str()),
                // The cancel is stored; what it met is the master's to say.
                _ => format!(
                    "job {jid}: {message}; its end is not recorded yet\nmore: zester job show {jid}\n"
                ),
            };
            (true, status, text)
        }
    };
    let json = json!({ "jid": jid.as_str(), "killed": killed, "status": status.as_str() });
    Ok((Answer::Document { json, text }, Exit::Good))
}

/// What is known to have stopped, and where to look for the rest.
fn canceled(jid: &Jid, told: usize, confirmed: usize) -> String {
    let peels = fleet_text::count_of(told, "peel");
    let were = if told == 1 { "was" } else { "were" };
    let head = format!("job {jid} is canceled; {peels} {were} told to stop");
    match (told, confirmed) {
        (0, _) => format!("job {jid} is canceled; every peel had returned already\n"),
        (told, confirmed) if confirmed >= told => {
            format!("{head}\nconfirmed by {confirmed} of {told}: all of them have stopped\n")
        }
        (told, confirmed) => {
            format!("{head}\nconfirmed by {confirmed} of {told} so far; more: zester job show {jid}\n")
        }
    }
}

/// The status a moment after a kill, and how many peels have returned by then.
async fn settled(job: &Record, client: &Client) -> Result<(JobStatus, usize), Failure> {
    let end = Instant::now() + KILL_WATCHED;
    loop {
        let now = client.status_of_job(&job.jid).await.map_err(client_failure)?;
        let (status, late) = (now.unwrap_or(job.status), Instant::now() >= end);
        if status.is_terminal() || late {
            let returned = client.returns(job).await.map_err(client_failure)?.len();
            let all = returned as u64 >= job.target_count() || job.targets.len() > KILL_COUNTED;
            if all || late {
                return Ok((status, returned));
            }
        }
        tokio::time::sleep(KILL_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("J-11")]
    fn j11_a_kill_says_what_is_known_to_have_stopped() {
        let jid = Jid::parse("2hPx2Kd8VnR7YmWqTz4PLsCfNjA").unwrap();
        let said = canceled(&jid, 3, 2);
        assert!(
            said.contains("is canceled; 3 peels were told to stop\nconfirmed by 2 of 3 so far; "),
            "{said}"
        );
        assert!(said.ends_with("zester job show 2hPx2Kd8VnR7YmWqTz4PLsCfNjA\n"), "{said}");
        assert!(said.lines().all(|line| line.len() <= 80), "{said}");
        assert!(canceled(&jid, 1, 1).contains("1 peel was told to stop\nconfirmed by 1 of 1: "));
        assert!(canceled(&jid, 0, 0).contains("every peel had returned already"));
    }
}
