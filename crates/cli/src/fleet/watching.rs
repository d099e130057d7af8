//! Watching a job to its end, or until the user has seen enough (C-6).

use crate::answer::Failure;
use crate::app::App;
use crate::exit::Exit;
use crate::fleet::outcome::Outcome;
use crate::output::fleet_live::View;
use crate::signals::{self, Listener};
use std::io::IsTerminal;
use zester_client::{Client, Ended, Error, Follow, JobUpdate, Returns};
use zester_wire::{Jid, PeelId};

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
                            told = client.kill(&jid, &user) => told,
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
    Ok(Outcome::of_job(ended, &missing))
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
