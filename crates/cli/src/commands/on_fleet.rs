//! `zester 'TARGET' MOD.FN`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::outcome::{Outcome, PeelResult, PeelStatus};
use crate::fleet::watching::{self, Watched, client_failure, patiently};
use crate::output::fleet_live::View;
use crate::output::{fleet_text, to_stdout};
use crate::signals::Listener;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use zester_client::batch::{BatchPlan, BatchSize, NextBatch};
use zester_client::{Client, Direct, Error, FunctionCall};
use zester_converge::raw_arguments::RawArguments;
use zester_converge::settings::Override;
use zester_wire::{Cause, Offline, PeelId, RefusalKind};

/// Run a function on the fleet
///
/// TARGET names peels: by id (`web-01`), glob ('web*'), list (`L@web-01,web-02`), regular expression (`E@web-0[12]`), facts
/// (`G@os:Debian`) or settings (`I@role:db`), joined with and, or, not and parentheses. MOD.FN is what `zester call` runs on
/// one machine: a kind of state, an execution function, or one of state files (state.apply, state.highstate,
/// state.show_top …; `zester doc state` lists them).
#[derive(clap::Args, Debug)]
#[command(override_usage = "zester [OPTIONS] 'TARGET' MOD.FN [ID] [k=v]...", after_help = EXAMPLES)]
pub struct OnFleet {
    /// Which peels: 'web*', 'G@os:Debian and not db*'
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// The function: test.ping, cmd.run, state.apply …
    #[arg(value_name = "MOD.FN")]
    pub function: String,
    /// The primary parameter, and further ones as k=v; a text keeps its letters, and lists and maps read [a, b] and {a: 1}
    #[arg(value_name = "ID|k=v")]
    pub words: Vec<String>,
    /// Only show what would change
    #[arg(long)]
    pub test: bool,
    /// One setting for this run of states, over all others: nginx:workers=4
    #[arg(long, value_name = "KEY=VALUE")]
    pub setting: Vec<String>,
    /// How long all of it may take [default: 60s; state.apply 5m, the highstate 10m]
    #[arg(long, value_name = "DURATION", value_parser = crate::arguments::timeout)]
    pub timeout: Option<Duration>,
    /// Ask the peels themselves, without a master: no record is kept
    #[arg(long)]
    pub direct: bool,
    /// So many peels at a time, or a share of them; the next batch begins when the last has ended
    #[arg(long, value_name = "N|P%")]
    pub batch: Option<BatchSize>,
    /// With --batch: begin no further batch once N peels have not succeeded
    #[arg(long, value_name = "N", requires = "batch", value_parser = crate::arguments::at_least_one)]
    pub max_fail: Option<usize>,
    /// Print the job id and leave; `zester job watch` shows the rest
    #[arg(long = "async", conflicts_with_all = ["batch", "direct"])]
    pub detach: bool,
    /// Environment of a function of state files: which level of the top file counts [default: the peel's own, else base]
    #[arg(long, value_name = "ENV")]
    pub env: Option<String>,
    #[command(flatten)]
    pub connect: Connect,
}

const EXAMPLES: &str = "Examples:
  zester '*' test.ping                             who is there
  zester 'web*' cmd.run 'systemctl is-active nginx'
  zester 'web* and G@os:Debian' state.apply web --test
  zester '*' state.highstate --batch 25% --max-fail 2";

/// One call while it runs.
struct Call<'a> {
    app: &'a App,
    client: Client,
    signals: Listener,
    work: FunctionCall,
    target: String,
    /// Names in lists of the target that no peel has.
    unknown: Vec<PeelId>,
}

pub fn run(args: OnFleet, app: &mut App) -> answer::Result {
    let target = ask::target(&args.target)?;
    let words = ask::with_environment(&args.function, RawArguments::parse(&args.words), args.env.as_deref());
    let mut words = words.map_err(Failure::usage)?;
    Override::add_to(&args.setting, &args.function, &mut words).map_err(Failure::usage)?;
    let work = ask::work(&args.function, &words, args.test, args.timeout).map_err(Failure::usage)?;
    let app = &*app;
    app.block_on(async move {
        let client = args.connect.client(app).await?;
        ask::check_words(app, &client, &args.function, words, args.test).await?;
        // Without a master nothing is read before the peels are asked: the stores may not answer.
        let listed = if args.direct { Vec::new() } else { ask::listed(&target) };
        let unknown = ask::unknown(&client, listed).await;
        ask::say_unknown(app, &unknown);
        let target = args.target.clone();
        let signals = app.signals.listen();
        let mut call = Call { app, client: client.clone(), signals, work, target, unknown };
        let answer = call.run(&args).await.map_err(|failure| args.connect.explained(app, failure));
        // What is left to send is little, and nobody is left to tell that it failed.
        let _closed = client.link().bus().close().await;
        answer
    })
}

impl Call<'_> {
    async fn run(&mut self, args: &OnFleet) -> answer::Result {
        let began = Instant::now();
        let (mut outcome, exit) = match (&args.batch, args.direct) {
            (Some(size), direct) => self.batches(*size, args.max_fail, direct).await?,
            (None, true) => {
                let targets = self.client.resolve_direct(&self.target).await.map_err(client_failure)?;
                if targets.is_empty() {
                    return Err(self.no_match().await);
                }
                self.direct(targets, "").await?
            }
            (None, false) if args.detach => return self.detached().await,
            (None, false) => self.job(Vec::new(), "").await?,
        };
        if args.direct {
            // Whether there is such a peel at all can be said only now, and only where the facts can be read.
            let silent = outcome.peels.iter().filter(|(_, result)| result.status == PeelStatus::Unreachable);
            let silent = silent.map(|(peel, _)| peel.clone()).collect();
            self.unknown = ask::unknown(&self.client, silent).await;
            if self.unknown.len() == outcome.peels.len() {
                return Err(self.no_match().await);
            }
            ask::say_unknown(self.app, &self.unknown);
            (outcome.test, outcome.timeout) = (self.work.test, self.work.timeout);
        }
        outcome.add_unknown(std::mem::take(&mut self.unknown));
        let peels: Vec<PeelId> = outcome.peels.keys().cloned().collect();
        let shown = fleet_text::peel_shown(&self.work.function, &peels, !args.direct);
        let text = fleet_text::ending(&outcome, shown, Some(began.elapsed()), self.app.output.paint());
        let json = outcome.document(args.batch.is_some());
        Ok((Answer::Document { json, text }, exit.unwrap_or_else(|| outcome.exit())))
    }

    async fn no_match(&self) -> Failure {
        let words = format!("no peel matches `{}`", self.target);
        match ask::nearly(&self.client, &self.target).await {
            Some(hint) => Failure::usage(format!("{words}; {hint}")),
            None => Failure::usage(words),
        }
    }

    /// Why no master took it; a name that nobody has, with the nearest that somebody has.
    async fn refused(&self, error: Error) -> Failure {
        match &error {
            Error::Refused(refusal) if refusal.kind == RefusalKind::NoTargets => {
                match ask::nearly(&self.client, &self.target).await {
                    Some(hint) => Failure::usage(format!("{}; {hint}", refusal.message)),
                    None => client_failure(error),
                }
            }
            _ => past_masters(error),
        }
    }

    async fn dispatch(&mut self, targets: Vec<PeelId>) -> Result<zester_client::Dispatched, Failure> {
        let request = ask::request(self.client.link(), &self.work, &self.target, targets);
        let jid = request.jid.clone();
        let dispatched = tokio::select! {
            biased;
            exit = self.signals.next() => {
                let why = format!("left before a master answered; if one has the job, `zester job watch {jid}` finds it");
                return Err(Failure { exit, ..Failure::usage(why) });
            }
            dispatched = patiently(self.app, self.client.dispatch(request)) => dispatched,
        };
        match dispatched {
            Ok(dispatched) => Ok(dispatched),
            Err(error) => Err(self.refused(error).await),
        }
    }

    /// `--async`.
    async fn detached(&mut self) -> answer::Result {
        let dispatched = self.dispatch(Vec::new()).await?;
        self.say_who_is_offline(dispatched.offline, dispatched.targets.len());
        let jid = dispatched.jid;
        let text = format!("{jid}\n");
        self.app.output.notice(&format!("follow it: zester job watch {jid}"));
        Ok((Answer::Document { json: json!({ "jid": jid.as_str() }), text }, Exit::Good))
    }

    /// One job, watched to its end. `before` stands before the head.
    async fn job(&mut self, targets: Vec<PeelId>, before: &str) -> Result<(Outcome, Option<Exit>), Failure> {
        let dispatched = self.dispatch(targets).await?;
        let targets = dispatched.targets;
        self.head(&format!("{before}job {}", dispatched.jid), targets.len());
        self.say_who_is_offline(dispatched.offline, targets.len());
        let mut view = View::new(&self.app.output, &self.work.function, &targets);
        let follow = dispatched.follow;
        let (app, client) = (self.app, &self.client);
        let watched: Watched =
            watching::watch(app, client, follow, &targets, &mut view, &mut self.signals).await?;
        Ok(watched.parts())
    }

    /// Past the masters.
    async fn direct(
        &mut self,
        targets: Vec<PeelId>,
        before: &str,
    ) -> Result<(Outcome, Option<Exit>), Failure> {
        let (began, timeout) = (Instant::now(), self.work.timeout);
        let timed_out =
            format!("timeout after {}", fleet_text::whole_words(zester_wire::time::as_millis(timeout)));
        let mut direct: Direct = self.client.direct_to(targets, &self.work);
        self.head(&format!("{before}direct {}", direct.jid), direct.targets.len());
        let mut view = View::direct(&self.app.output, &self.work.function, &direct.targets);
        let unanswered = PeelResult::without(PeelStatus::Missing, "not awaited: the view was left");
        let mut peels: BTreeMap<PeelId, PeelResult> =
            direct.targets.iter().map(|peel| (peel.clone(), unanswered.clone())).collect();
        loop {
            let answer = tokio::select! {
                biased;
                exit = self.signals.next() => {
                    view.pause();
                    self.app.output.notice("the peels that have it go on until they are done or out of time");
                    return Ok((Outcome::of_direct(direct.jid.clone(), peels), Some(exit)));
                }
                answer = direct.next() => answer,
            };
            use zester_client::DirectReply;
            let (peel, result) = match answer {
                None => return Ok((Outcome::of_direct(direct.jid.clone(), peels), None)),
                // One thing has one name: whatever of it was stopped, its time was over.
                Some(DirectReply::Return(ret)) if ret.cause == Cause::Deadline => {
                    let result = PeelResult::of_return(&ret);
                    (ret.peel.clone(), PeelResult { error: timed_out.clone(), ..result })
                }
                Some(DirectReply::Return(ret)) => (ret.peel.clone(), PeelResult::of_return(&ret)),
                Some(DirectReply::Unreachable(peel)) => {
                    (peel, PeelResult::without(PeelStatus::Unreachable, "unreachable"))
                }
                Some(DirectReply::NoReply(peel, _)) if began.elapsed() >= timeout => {
                    let result = PeelResult::without(PeelStatus::Missing, timed_out.clone());
                    (peel, PeelResult { cause: Cause::Deadline, ..result })
                }
                Some(DirectReply::NoReply(peel, why)) => {
                    (peel, PeelResult::without(PeelStatus::Missing, why))
                }
            };
            match result.status {
                // Perhaps there is no such peel: that is known, and said, at the end.
                PeelStatus::Unreachable => view.given_up(&peel),
                _ => view.ended(&peel, &result),
            }
            peels.insert(peel, result);
        }
    }

    async fn batches(
        &mut self,
        size: BatchSize,
        max_fail: Option<usize>,
        direct: bool,
    ) -> Result<(Outcome, Option<Exit>), Failure> {
        let targets = match direct {
            true => self.client.resolve_direct(&self.target).await,
            false => patiently(self.app, self.client.resolve(&self.target)).await,
        };
        let targets = targets.map_err(past_masters)?;
        if targets.is_empty() {
            return Err(self.no_match().await);
        }
        let mut plan = BatchPlan::new(targets, size, max_fail);
        let count = plan.batches_left();
        let mut all: Option<Outcome> = None;
        for number in 1.. {
            let batch = match plan.next_batch() {
                NextBatch::Run(batch) => batch,
                NextBatch::Done => break,
                NextBatch::Stopped { not_asked } => {
                    if let Some(all) = &mut all {
                        (all.not_asked, all.not_asked_why) = (not_asked, "--max-fail was reached".into());
                    }
                    break;
                }
            };
            let before = format!("batch {number} of {count}  ");
            let ran = match direct {
                true => self.direct(batch.clone(), &before).await,
                false => self.job(batch.clone(), &before).await,
            };
            let (outcome, exit) = match (ran, &mut all) {
                (Ok(ran), _) => ran,
                (Err(failure), None) => return Err(failure),
                // Batches have run, so this is not the code that says that nothing did (J-28).
                (Err(failure), Some(all)) => {
                    let exit = all.cut_short(batch, plan.rest(), &failure.error.to_string(), failure.exit);
                    return Ok((all.clone(), Some(exit)));
                }
            };
            plan.ended(outcome.unsuccessful());
            let killed = outcome.killed;
            match &mut all {
                Some(all) => all.join(outcome),
                None => all = Some(outcome),
            }
            // Whoever leaves or kills one batch does not mean the next.
            if let (Some(all), true) = (&all, exit.is_some() || killed) {
                let mut all = all.clone();
                if plan.batches_left() > 0 {
                    self.app.output.notice("no further batch begins");
                    (all.not_asked, all.not_asked_why) =
                        (plan.rest(), "the batch before was left or killed".into());
                }
                return Ok((all, exit));
            }
        }
        all.map(|all| (all, None)).ok_or_else(|| Failure::usage("there was no batch"))
    }

    /// So that nobody wonders why it takes so long, or is `partial` every time (J-25).
    fn say_who_is_offline(&self, offline: Option<Offline>, targets: usize) {
        if let Some(offline) = offline.filter(|offline| offline.count > 0) {
            let now = self.client.link().now();
            self.app.output.notice(&fleet_text::offline(&offline, targets, now));
        }
    }

    fn head(&self, what: &str, peels: usize) {
        if self.app.output.is_text() {
            to_stdout(&fleet_text::head(what, peels, self.work.timeout, self.app.output.paint()));
        }
    }
}

/// Where no master answers, there is another way.
fn past_masters(error: Error) -> Failure {
    let hint = match &error {
        Error::NoMaster { .. } => "; --direct asks the peels without a master",
        _ => "",
    };
    let words = format!("{error}{hint}");
    Failure { error: zester_converge::Error::other(words), ..client_failure(error) }
}
