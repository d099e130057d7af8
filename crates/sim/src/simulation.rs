//! One simulation, from the first start to the verdict.

use crate::crash::{Caller, CrashPoints};
use crate::dice::Dice;
use crate::judge::{Evidence, Invariant};
use crate::network::{JUDGE, Network};
use crate::node::{BEGIN, Environment, Node, SkewedClock};
use crate::observed::{KillReply, Observed};
use crate::publishing::{TreesAre, trees_are};
use crate::reactions::{self, EventPlan, REACTION_TIMEOUT};
use crate::script::{Action, FAULTS_END, JobPlan, Script, Who};
use crate::tap::BusTap;
use crate::{Mutation, Report};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use zester_bus::memory::{Net, TokioClock};
use zester_bus::{Bus, storage};
use zester_client::{Client, Error, JobUpdate, Killed};
use zester_jobs::Timing;
use zester_link::Link;
use zester_wire::{Bucket, DispatchRequest, Jid, PeelId, RefusalKind, UnixMillis, VERSION};

/// Versions of a record that the judge can see.
const RECORD_HISTORY: u64 = 64;
/// A client asks again for so long.
const CLIENT_PATIENCE: Duration = Duration::from_secs(25);
/// What is left to do after the last owner was found is a handful of round trips, and a pause of the outbox.
const LAST_STEPS: Duration = Duration::from_secs(70);

/// A master whose lease is gone is replaced, and a peel that heard nothing looks by itself every five minutes, about.
const TREES_SETTLE: Duration = Duration::from_secs(450);

/// An event whose master died comes again after a minute, and one that could not be reacted to is tried again; its job takes its
/// time, and may send an event.
const EVENTS_SETTLE: Duration = Duration::from_secs(240);

struct Simulation {
    environment: Environment,
    network: Network,
    masters: Vec<Node>,
    peels: Vec<Node>,
    clients: JoinSet<()>,
    jobs: Vec<(Jid, JobPlan)>,
    events: Vec<EventPlan>,
    /// Whoever crashed at a call, and when it comes back.
    restarts: Vec<(Instant, Who)>,
    crash_lasts: Duration,
    /// The server stands still.
    frozen: bool,
    /// The server is down.
    down: bool,
}

/// Runs a script and judges what is left.
pub async fn run(script: &Script, seed: u64, mutation: Mutation) -> Report {
    match try_run(script, seed, mutation).await {
        Ok(report) => report,
        Err(error) => Report::broken(&error),
    }
}

async fn try_run(
    script: &Script,
    seed: u64,
    mutation: Mutation,
) -> Result<Report, Box<dyn std::error::Error>> {
    let mut simulation = Simulation::build(seed, mutation, script);
    simulation.lay_out_stores(script.id_window).await?;
    if script.reacts() {
        let link = simulation.link(JUDGE);
        reactions::seed_facts(&link, script.peels).await?;
        reactions::publish(&link, 1).await?;
    }
    for who in everybody(script) {
        simulation.act(&Action::Start(who)).await?;
    }
    for (at, action) in &script.actions {
        simulation.pass_until(simulation.environment.begin + *at).await?;
        simulation.act(action).await?;
    }
    let counted = script.count_until.unwrap_or(FAULTS_END);
    simulation.pass_until(simulation.environment.begin + counted).await?;
    let calls = simulation.environment.crash_points.calls();
    simulation.pass_until(simulation.environment.begin + FAULTS_END).await?;
    simulation.end_faults(script).await?;
    simulation.settle_trees().await?;
    let evidence = simulation.settle().await?;
    let actions: String =
        script.actions.iter().map(|(at, action)| format!("{:8.2}  {action:?}\n", at.as_secs_f64())).collect();
    let crashes = simulation.environment.crash_points.reached();
    let planned = format!("jobs: {:?}\nevents: {:?}", script.jobs, script.events);
    let story = format!("{planned}\ncrashed at: {crashes:?}\n{actions}\n{}", evidence.story());
    let outcomes = simulation.jobs.iter().filter_map(|(jid, _)| evidence.outcome(jid)).collect();
    let (tally, all) = evidence.judge();
    let (open, violations) = all.into_iter().partition(|violation| violation.invariant.is_open());
    Ok(Report { tally, violations, open, outcomes, story, calls, crashes })
}

fn everybody(script: &Script) -> Vec<Who> {
    (0..script.masters).map(Who::Master).chain((0..script.peels).map(Who::Peel)).collect()
}

impl Simulation {
    fn build(seed: u64, mutation: Mutation, script: &Script) -> Simulation {
        let net = Net::new(Arc::new(TokioClock::starting_at(Duration::from_millis(BEGIN))));
        let observed = Observed::default();
        let network = Network::new(seed, observed.clone());
        net.set_faults(network.clone());
        let crash_points = CrashPoints::default();
        crash_points.plan(&script.crashes);
        let environment = Environment {
            seed,
            mutation,
            work: script.work,
            net,
            begin: Instant::now(),
            observed,
            doomed: Arc::new(Mutex::new(BTreeSet::new())),
            crash_points,
            publishes: script.publishes(),
            reacts: script.reacts(),
        };
        environment.observed.presence("server", true);
        let node = |(who, skew): (Who, &i64)| Node::new(who, *skew, &environment);
        let mut masters: Vec<Node> = everybody(script).into_iter().zip(&script.skews).map(node).collect();
        let peels = masters.split_off(script.masters);
        let dice = Dice::new(seed, "jids");
        let jid = || Jid::new(UnixMillis(BEGIN), zester_link::Dice::roll(&dice));
        let jobs: Vec<(Jid, JobPlan)> = script.jobs.iter().map(|plan| (jid(), plan.clone())).collect();
        {
            let mut doomed = environment.doomed.lock().unwrap_or_else(PoisonError::into_inner);
            doomed
                .extend(jobs.iter().filter(|(_, plan)| plan.owner_dies_at_start).map(|(jid, _)| jid.clone()));
        }
        let (clients, restarts, crash_lasts) = (JoinSet::new(), Vec::new(), script.crash_lasts);
        let (frozen, down) = (false, false);
        Simulation {
            environment,
            network,
            masters,
            peels,
            clients,
            jobs,
            events: script.events.clone(),
            restarts,
            crash_lasts,
            frozen,
            down,
        }
    }

    /// The table of the product, but the bucket of jobs remembers every version of a record.
    async fn lay_out_stores(&self, id_window: Option<Duration>) -> Result<(), zester_bus::Error> {
        let bus = self.environment.net.connect(JUDGE);
        for mut store in storage::table() {
            if store.is_bucket && store.name == Bucket::Jobs.as_str() {
                store.per_subject = Some(RECORD_HISTORY);
            }
            if store.name == storage::EVENTS {
                store.duplicate_window = id_window.or(store.duplicate_window);
            }
            bus.ensure(&store, 1).await?;
        }
        // The fleet was there before: what is sent at once is heard.
        storage::ensure_readers(&bus, &storage::readers()).await?;
        Ok(())
    }

    /// Lets time pass. Whoever reached the call at which it dies does so meanwhile, and whoever did is started again.
    async fn pass_until(&mut self, moment: Instant) -> Result<(), zester_wire::BadName> {
        let dying = self.environment.crash_points.dying.clone();
        while Instant::now() < moment {
            let restart = self.restarts.iter().map(|(at, _)| *at).min();
            let wake = restart.map_or(moment, |restart| restart.min(moment));
            tokio::select! {
                biased;
                () = dying.notified() => {}
                () = sleep_until(wake) => {}
            }
            for node in self.masters.iter_mut().chain(&mut self.peels).filter(|node| node.wants_to_die()) {
                node.crash(&self.environment).await;
                self.environment.observed.count("crash at a call");
                self.restarts.push((Instant::now() + self.crash_lasts, node.who));
            }
            let now = Instant::now();
            let (due, later) = self.restarts.iter().partition::<Vec<_>, _>(|(at, _)| *at <= now);
            self.restarts = later;
            for (_, who) in due {
                self.act_on(who, |node, environment| node.start(environment)).transpose()?;
            }
        }
        Ok(())
    }

    fn node(&mut self, who: Who) -> Option<&mut Node> {
        match who {
            Who::Master(number) => self.masters.get_mut(number),
            Who::Peel(number) => self.peels.get_mut(number),
        }
    }

    fn act_on<T>(&mut self, who: Who, act: impl FnOnce(&mut Node, &Environment) -> T) -> Option<T> {
        let environment = self.environment.clone();
        self.node(who).map(|node| act(node, &environment))
    }

    async fn act(&mut self, action: &Action) -> Result<(), zester_wire::BadName> {
        let environment = self.environment.clone();
        if let Some(stream) = action.stream()
            && !storage::table().iter().any(|store| store.stream_name() == stream)
        {
            let what = format!("there is no stream {stream} to disturb");
            environment.observed.wrong(Invariant::SimulatorWorks, what);
        }
        let (net, observed) = (&environment.net, &environment.observed);
        match action {
            Action::Dispatch(number) => self.dispatch(*number)?,
            Action::Cancel(number) => self.cancel(*number),
            Action::Send(number) => self.send(*number),
            Action::Rules(version) => {
                observed.count("new rules");
                let (link, version) = (self.link(JUDGE), *version);
                self.clients.spawn(async move {
                    let _unpublished = reactions::publish(&link, version).await;
                });
            }
            Action::Crash(who) => {
                if let Some(node) = self.node(*who) {
                    node.crash(&environment).await;
                }
            }
            Action::Stop(who) => {
                if let Some(node) = self.node(*who) {
                    node.stop(&environment).await;
                }
            }
            Action::Start(who) => {
                self.act_on(*who, |node, environment| node.start(environment)).transpose()?;
            }
            Action::Cut(who) => {
                self.act_on(*who, |node, environment| node.cut(environment));
            }
            // Nobody's line is better than the server's. Masters are healed with it, peels when their turn comes.
            Action::Heal(_) if self.frozen => {}
            Action::Heal(who) => {
                self.act_on(*who, |node, environment| node.heal(environment));
            }
            Action::Silence { who, keeps_unsent } => {
                observed.count("silence");
                self.act_on(*who, |node, environment| node.silence(*keeps_unsent, environment));
            }
            Action::Freeze => {
                observed.count("freeze");
                self.frozen = true;
                for node in self.masters.iter_mut().chain(&mut self.peels) {
                    node.silence(true, &environment);
                }
                self.client_names().iter().for_each(|name| net.silence(name, true));
            }
            Action::Thaw => self.thaw(),
            Action::ServerDown => {
                net.crash();
                self.down = true;
            }
            Action::ServerUp => {
                net.restart();
                self.down = false;
            }
            Action::Disturb(disturbance) => self.network.disturb(disturbance.clone()),
            Action::Calm(name) => self.network.calm(name),
            Action::LoseLeader(stream) | Action::GainLeader(stream) => {
                let led = matches!(action, Action::GainLeader(_));
                net.set_led(stream, led);
                observed.disturbance("no leader", !led);
            }
            Action::Fill(stream) | Action::Drain(stream) => {
                let full = matches!(action, Action::Fill(_));
                net.set_full(stream, full);
                observed.disturbance("full store", full);
            }
            Action::ServerDiskFull(full) => {
                net.set_disk_full(*full);
                observed.disturbance("full disk", *full);
            }
            Action::Recreate(stream) => {
                net.recreate(stream);
                observed.count("store made again");
                // For a while nobody has a heartbeat.
                observed.disturbance("store made again", true);
                observed.disturbance("store made again", false);
            }
            Action::Edit { master, version } => {
                observed.count("new files at a master");
                self.act_on(Who::Master(*master), |node, _| node.tree.set(*version));
            }
            Action::JumpClock(who, by) => {
                observed.count("clock jump");
                self.act_on(*who, |node, _| node.jump_clock(*by));
            }
            Action::PeelDisk { peel, failing, slow } => {
                observed.disturbance("peel disk", *failing > 0 || !slow.is_zero());
                self.act_on(Who::Peel(*peel), |node, _| node.disk.set_faults(*failing, *slow));
            }
        }
        observed.presence("server", !self.down && !self.frozen);
        Ok(())
    }

    /// Clients, by the names of their connections.
    fn client_names(&self) -> Vec<String> {
        let of_jobs = (0..self.jobs.len()).flat_map(|number| [format!("c{number}"), format!("k{number}")]);
        of_jobs.chain((0..self.events.len()).map(|number| format!("e{number}"))).collect()
    }

    /// The server goes on for all but the peels.
    fn thaw(&mut self) {
        self.frozen = false;
        for node in &mut self.masters {
            node.heal(&self.environment);
        }
        self.client_names().iter().for_each(|name| self.environment.net.heal(name));
    }

    /// From here on everybody is there and everything works.
    async fn end_faults(&mut self, script: &Script) -> Result<(), zester_wire::BadName> {
        self.network.calm_all();
        self.environment.doomed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.environment.crash_points.clear();
        self.environment.net.set_disk_full(false);
        for store in storage::table() {
            self.environment.net.set_led(&store.stream_name(), true);
            self.environment.net.set_full(&store.stream_name(), false);
        }
        for name in ["no leader", "full store", "full disk", "peel disk"] {
            self.environment.observed.disturbance(name, false);
        }
        self.act(&Action::ServerUp).await?;
        self.act(&Action::Thaw).await?;
        for who in everybody(script) {
            self.act_on(who, |node, _| node.disk.set_faults(0, Duration::ZERO));
            self.act(&Action::Heal(who)).await?;
            self.act(&Action::Start(who)).await?;
        }
        Ok(())
    }

    fn client(&self, name: &str) -> Client {
        let bus = Arc::new(self.environment.net.connect(name));
        if self.frozen {
            self.environment.net.silence(name, true);
        }
        let tap = BusTap {
            bus,
            mutation: self.environment.mutation,
            observed: self.environment.observed.clone(),
            boot: name.to_string(),
            doomed: Arc::default(),
            caller: Caller {
                node: name.to_string(),
                points: self.environment.crash_points.clone(),
                wants_to_die: Arc::default(),
            },
            dice: Dice::new(self.environment.seed, &format!("tap {name}")),
            memory: Mutex::default(),
        };
        Client::new(self.link_over(Arc::new(tap), name)).with_patience(CLIENT_PATIENCE)
    }

    fn link(&self, name: &str) -> Link {
        self.link_over(Arc::new(self.environment.net.connect(name)), name)
    }

    fn link_over(&self, bus: Arc<dyn Bus>, name: &str) -> Link {
        let clock = SkewedClock::new(self.environment.begin, 0);
        Link::with(bus, Arc::new(clock), Arc::new(Dice::new(self.environment.seed, name)))
    }

    fn dispatch(&mut self, number: usize) -> Result<(), zester_wire::BadName> {
        let Some((jid, plan)) = self.jobs.get(number).cloned() else { return Ok(()) };
        let targets: Result<Vec<PeelId>, _> =
            plan.targets.iter().map(|peel| PeelId::parse(&format!("p{peel}"))).collect();
        let request = DispatchRequest {
            v: VERSION,
            jid: jid.clone(),
            function: "work.do".into(),
            args: serde_json::Map::new(),
            state_id: String::new(),
            targets: targets?,
            target_expr: "*".into(),
            timeout: plan.timeout,
            user: "sim".into(),
            metadata: serde_json::Map::new(),
            positionals: Vec::new(),
            test: false,
            wait: None,
            target_digest: None,
        };
        let client = self.client(&format!("c{number}"));
        let observed = self.environment.observed.clone();
        self.clients.spawn(async move {
            let mut follow = match client.dispatch(request).await {
                Ok(dispatched) => dispatched.follow,
                Err(Error::Refused(refusal)) if !may_be_refused(refusal.kind) => {
                    return observed.wrong(Invariant::NotRefusedForGood, refusal.message);
                }
                Err(error) => {
                    if says_that_nothing_ran(&error) {
                        let said = (Instant::now(), error.to_string());
                        observed.lock().refused.insert(jid, said);
                    }
                    return;
                }
            };
            observed.lock().accepted.insert(jid.clone(), Instant::now());
            // A client that is cut off may give up; one that is told how it ended is told the truth.
            while let Ok(Some(update)) = follow.next().await {
                if let JobUpdate::Ended(ended) = update
                    && ended.finished
                {
                    observed.lock().told.insert(jid.clone(), ended.job.status);
                }
            }
        });
        Ok(())
    }

    fn send(&mut self, number: usize) {
        let Some(plan) = self.events.get(number).cloned() else { return };
        let name = format!("e{number}");
        let link = self.link(&name);
        if self.frozen {
            self.environment.net.silence(&name, true);
        }
        let observed = self.environment.observed.clone();
        self.clients.spawn(async move {
            if let Err(bad) = reactions::send(link, plan, number).await {
                observed.wrong(Invariant::SimulatorWorks, bad.to_string());
            }
        });
    }

    fn cancel(&mut self, number: usize) {
        let Some((jid, _)) = self.jobs.get(number).cloned() else { return };
        let client = self.client(&format!("k{number}"));
        let observed = self.environment.observed.clone();
        observed.lock().asked_to_kill.insert(jid.clone());
        self.clients.spawn(async move {
            let reply = match client.kill(&jid, "sim").await {
                Ok(Killed::Stopping { message }) if message.starts_with("the job is ending already") => {
                    KillReply::Ending
                }
                Ok(Killed::Stopping { .. }) => KillReply::Stopping,
                Ok(Killed::WasOver { .. }) => KillReply::WasOver,
                Err(_) => return,
            };
            observed.lock().kills.push((jid, Instant::now(), reply));
        });
    }

    /// Waits until every peel has what the master that publishes has, or until it should long have.
    async fn settle_trees(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        if !self.environment.publishes {
            return Ok(());
        }
        let (bound, link) = (Instant::now() + TREES_SETTLE, self.link(JUDGE));
        loop {
            self.pass_until(Instant::now() + Duration::from_secs(5)).await?;
            match trees_are(&link, &self.masters, &self.peels).await? {
                TreesAre::Settled => return Ok(()),
                TreesAre::Not(invariant, what) if Instant::now() > bound => {
                    self.environment.observed.wrong(invariant, what);
                    return Ok(());
                }
                TreesAre::Not(..) => {}
            }
        }
    }

    /// Waits until nothing is open any more, or until it should long have been.
    async fn settle(&mut self) -> Result<Evidence, Box<dyn std::error::Error>> {
        let timing = Timing::default();
        let longest = self.jobs.iter().map(|(_, plan)| plan.timeout).max().unwrap_or_default();
        // An owner without a heartbeat is gone after its time to live, and missed by three scans at most.
        let adopted = timing.master_ttl + 3 * timing.orphan_scan;
        // No job began later than its client gave up.
        let mut bound = Instant::now() + longest + adopted + LAST_STEPS;
        if self.environment.reacts {
            bound += EVENTS_SETTLE + REACTION_TIMEOUT;
        }
        loop {
            self.pass_until(Instant::now() + Duration::from_secs(3)).await?;
            let disks = self.peels.iter().map(|peel| (peel.name.clone(), peel.disk.clone())).collect();
            let link = self.link(JUDGE);
            let (environment, network) = (self.environment.clone(), self.network.clone());
            let evidence = Evidence::collect(&link, environment, network, disks).await?;
            if evidence.is_settled() || Instant::now() > bound {
                return Ok(evidence);
            }
        }
    }
}

/// What a master may say to a sound request for good: that nothing ran and nothing will.
fn may_be_refused(kind: RefusalKind) -> bool {
    matches!(kind, RefusalKind::NoTargets | RefusalKind::CannotWrite | RefusalKind::NeverRan)
}

/// Whether a client exits 1, which means that nothing ran and nothing will (J-28).
fn says_that_nothing_ran(error: &Error) -> bool {
    matches!(error, Error::NoMaster { .. } | Error::Refused(_))
}
