//! Watching a job to its end, or until the user has seen enough (C-6).

use crate::answer::Failure;
use crate::app::App;
use crate::exit::Exit;
use crate::fleet::outcome::{Outcome, PeelStatus};
use crate::output::fleet_live::View;
use crate::output::job_text::ago;
use crate::signals::{self, Listener};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::Instant;
use zester_client::{Client, Ended, Error, Follow, JobUpdate, Returns};
use zester_wire::{Jid, PeelId};

/// Peels that are looked up to say since when they are away.
const SEEN_ASKED: usize = 20;
/// How long that may take.
const SEEN_WAIT: Duration = Duration::from_secs(2);
/// After so long without an answer of a master somebody wonders.
const SILENT_MAX: Duration = Duration::from_secs(2);

/// What only a master answers: says after a while what is waited for, once.
pub async fn patiently<T>(app: &App, asking: impl Future<Output = T>) -> T {
    tokio::pin!(asking);
    tokio::select! {
        biased;
        answer = &mut asking => return answer,
        () = tokio::time::sleep(SILENT_MAX) => {}
    }
    app.output.notice("waiting for a master");
    asking.await
}

/// How watching ended.
pub enum Watched {
    Ended(Outcome),
    /// The user left; the job goes on.
    Left(Outcome, Exit),
    /// The user had the job killed.
    Killed(Outcome, Exit),
}

impl Watched {
    /// What is known, and the exit code that is not the outcome's own.
    pub fn parts(self) -> (Outcome, Option<Exit>) {
        match self {
            Watched::Ended(outcome) => (outcome, None),
            Watched::Left(outcome, exit) | Watched::Killed(outcome, exit) => (outcome, Some(exit)),
        }
    }
}

/// Shows what happens to a job until it is over.
pub async fn watch(
    app: &App,
    client: &Client,
    mut follow: Follow,
    targets: &[PeelId],
    view: &mut View,
    signals: &mut Listener,
) -> Result<Watched, Failure> {
    let jid = follow.jid().clone();
    let mut returns = Returns::new();
    let mut killed = None;
    loop {
        let update = tokio::select! {
            biased;
            exit = signals.next() => {
                view.pause();
                match killed {
                    Some(_) => signals::leave(exit),
                    None if wants_kill(app, &jid, exit, signals).await => {
                        app.output.notice("asking a master to stop the job; Ctrl-C leaves at once");
                        let user = super::ask::user();
                        let told = tokio::select! {
                            biased;
                            exit = signals.next() => signals::leave(exit),
                            told = patiently(app, client.kill(&jid, &user)) => told,
                        };
                        if let Err(why) = told {
                            // The job runs: this is no reason for the code that says that nothing does (J-28).
                            app.output.notice(&format!("the job was not stopped: {why}; `zester job kill {jid}` tries again"));
                            return Ok(Watched::Left(Outcome::so_far(jid, targets, &returns), exit));
                        }
                        killed = Some(exit);
                        continue;
                    }
                    None => {
                        say_it_goes_on(app, &jid);
                        return Ok(Watched::Left(Outcome::so_far(jid, targets, &returns), exit));
                    }
                }
            }
            update = follow.next() => update.map_err(client_failure)?,
        };
        match update {
            Some(JobUpdate::Ack { peel, ahead }) => view.acked(&peel, ahead),
            Some(JobUpdate::Progress(progress)) => view.progress(&progress),
            Some(JobUpdate::Return(ret)) => {
                view.returned(&ret);
                returns.insert(ret.peel.clone(), ret);
            }
            Some(JobUpdate::BusAway { patience }) => {
                view.pause();
                app.output.notice(&format!(
                    "the bus is away: the job goes on, and its end is awaited for {} s more; Ctrl-C leaves",
                    patience.as_secs()
                ));
            }
            Some(JobUpdate::BusBack) => {
                view.pause();
                app.output.notice("the bus is back");
            }
            Some(JobUpdate::Ended(ended)) => {
                view.pause();
                let outcome = outcome_of(client, &ended).await?;
                return Ok(match killed {
                    Some(exit) => Watched::Killed(outcome, exit),
                    None => Watched::Ended(outcome),
                });
            }
            None => {
                let why = format!("lost sight of the job; `zester job show {jid}` tells what became of it");
                return Err(Failure { exit: Exit::Missing, ..Failure::usage(why) });
            }
        }
    }
}

async fn outcome_of(client: &Client, ended: &Ended) -> Result<Outcome, Failure> {
    let missing = client.missing(&ended.job, &ended.returns).await.map_err(|why| {
        client_failure(Error::OutOfSight { jid: ended.job.jid.clone(), why: Box::new(why) })
    })?;
    let mut outcome = Outcome::of_job(ended, &missing);
    let away = outcome.peels.iter().filter(|(_, result)| result.status == PeelStatus::Unreachable);
    let away: Vec<PeelId> = away.map(|(peel, _)| peel.clone()).collect();
    for (peel, words) in last_seen(client, &away).await {
        if let Some(result) = outcome.peels.get_mut(&peel) {
            result.last_seen = words;
        }
    }
    Ok(outcome)
}

/// When these were last seen, in words, as far as that is known soon: nothing depends on it.
pub async fn last_seen(client: &Client, peels: &[PeelId]) -> BTreeMap<PeelId, String> {
    let mut seen = BTreeMap::new();
    let end = Instant::now() + SEEN_WAIT;
    for peel in peels.iter().take(SEEN_ASKED) {
        let Ok(Ok(known)) = tokio::time::timeout_at(end, client.peel(peel)).await else { break };
        if !known.last_seen.is_zero() {
            let words = format!("last seen {}", ago(known.last_seen, client.link().now()));
            seen.insert(peel.clone(), words);
        }
    }
    seen
}

fn say_it_goes_on(app: &App, jid: &Jid) {
    app.output.notice(&format!("the job goes on; follow it: zester job watch {jid}"));
    app.output.notice(&format!("stop it: zester job kill {jid}"));
}

/// Asks, where somebody sits in front of it. Everything but a yes is a no; a second signal leaves at once.
async fn wants_kill(app: &App, jid: &Jid, exit: Exit, signals: &mut Listener) -> bool {
    let somebody = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if exit != Exit::Interrupted || !somebody || !app.output.is_text() {
        return false;
    }
    crate::output::to_stderr(&format!("\nkill job {jid} on all its peels? [y/N] "));
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    tokio::select! {
        biased;
        exit = signals.next() => {
            crate::output::to_stderr("\n");
            say_it_goes_on(app, jid);
            signals::leave(exit)
        }
        line = read => matches!(line, Ok(Ok(line)) if matches!(line.trim(), "y" | "Y" | "yes")),
    }
}

/// What keeps a client from its answer is usage or infrastructure: exit code 1, which also says that nothing ran and nothing will
/// (J-28). Where that is not known, it is as with a target that did not return.
pub fn client_failure(error: Error) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        Error::InDoubt { .. } | Error::OutOfSight { .. } => Failure { exit: Exit::Missing, ..failure },
        _ => failure,
    }
}
