//! One life, from the first start to the verdict.

use crate::Mutation;
use crate::dice::Dice;
use crate::journal::Journal;
use crate::judge::{Court, Outcome, Tally, Violation};
use crate::node::{BIRTH, Ground, Node, Skewed};
use crate::script::{Act, JobPlan, Script, TROUBLE_ENDS, Who};
use crate::weather::{JUDGE, Weather};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use zester_bus::memory::{Net, TokioClock};
use zester_bus::{Bus, storage};
use zester_client::{Client, Error, JobUpdate};
use zester_link::Link;
use zester_wire::{Bucket, DispatchRequest, Jid, PeelId, RefusalKind, UnixMillis, VERSION};

/// Versions of a record that the judge can see.
const RECORD_HISTORY: u64 = 64;
/// A client asks again for so long.
const CLIENT_PATIENCE: Duration = Duration::from_secs(25);
/// After the last deadline and the end of all trouble every job is over within this time: an owner without a heartbeat is
/// gone after its time to live, missed by three scans at most, and what is left is a handful of round trips.
const SETTLED_WITHIN: Duration = Duration::from_secs(15 + 3 * 20 + 25);

struct World {
    ground: Ground,
    weather: Weather,
    masters: Vec<Node>,
    peels: Vec<Node>,
    clients: JoinSet<()>,
    jobs: Vec<(Jid, JobPlan)>,
}

/// The verdict, and what there is to tell.
pub async fn live(
    script: &Script,
    seed: u64,
    mutation: Mutation,
) -> Result<(Result<Tally, Violation>, String, Vec<Outcome>), Violation> {
    let broken = |what: &dyn std::fmt::Display| Violation::new("the simulator is broken", what.to_string());
    let mut world = World::build(seed, mutation, script);
    world.lay_out_stores().await.map_err(|error| broken(&error))?;
    for who in everybody(script) {
        world.act(&Act::Start(who)).await.map_err(|bad| broken(&bad))?;
    }
    for (at, act) in &script.acts {
        world.pass_until(world.ground.begin + *at).await;
        world.act(act).await.map_err(|bad| broken(&bad))?;
    }
    world.pass_until(world.ground.begin + TROUBLE_ENDS).await;
    world.weather.calm();
    world.ground.doomed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    world.act(&Act::ServerUp).await.map_err(|bad| broken(&bad))?;
    for who in everybody(script) {
        world.act(&Act::Heal(who)).await.map_err(|bad| broken(&bad))?;
        world.act(&Act::Start(who)).await.map_err(|bad| broken(&bad))?;
    }
    let court = world.settle().await.map_err(|error| broken(&error))?;
    let acts: String =
        script.acts.iter().map(|(at, act)| format!("{:8.2}  {act:?}\n", at.as_secs_f64())).collect();
    let story = format!("jobs: {:?}\n{acts}\n{}", script.jobs, court.story());
    let outcomes = world.jobs.iter().filter_map(|(jid, _)| court.outcome(jid)).collect();
    Ok((court.judge(), story, outcomes))
}

fn everybody(script: &Script) -> Vec<Who> {
    (0..script.masters).map(Who::Master).chain((0..script.peels).map(Who::Peel)).collect()
}

impl World {
    fn build(seed: u64, mutation: Mutation, script: &Script) -> World {
        let net = Net::new(Arc::new(TokioClock::new()));
        let weather = Weather::new(seed);
        net.set_faults(weather.clone());
        let begin = Instant::now();
        let ground = Ground {
            seed,
            mutation,
            work: script.work,
            net,
            begin,
            journal: Journal::default(),
            doomed: Arc::new(Mutex::new(BTreeSet::new())),
            dying: Arc::new(Notify::new()),
        };
        ground.journal.presence("server", true);
        let node = |(who, skew): (Who, &i64)| Node::new(who, *skew, mutation);
        let mut masters: Vec<Node> = everybody(script).into_iter().zip(&script.skews).map(node).collect();
        let peels = masters.split_off(script.masters);
        let dice = Dice::new(seed, "jids");
        let jid = || Jid::new(UnixMillis(BIRTH), zester_link::Dice::roll(&dice));
        let jobs: Vec<(Jid, JobPlan)> = script.jobs.iter().map(|plan| (jid(), plan.clone())).collect();
        {
            let mut doomed = ground.doomed.lock().unwrap_or_else(PoisonError::into_inner);
            doomed
                .extend(jobs.iter().filter(|(_, plan)| plan.owner_dies_at_start).map(|(jid, _)| jid.clone()));
        }
        World { ground, weather, masters, peels, clients: JoinSet::new(), jobs }
    }

    /// The table of the product, but the bucket of jobs remembers every version of a record.
    async fn lay_out_stores(&self) -> Result<(), zester_bus::Error> {
        let bus = self.ground.net.connect(JUDGE);
        for mut store in storage::table() {
            if store.is_bucket && store.name == Bucket::Jobs.as_str() {
                store.per_subject = Some(RECORD_HISTORY);
            }
            bus.ensure(&store, 1).await?;
        }
        Ok(())
    }

    /// Lets time pass. Masters that want to die do so meanwhile.
    async fn pass_until(&mut self, moment: Instant) {
        let dying = self.ground.dying.clone();
        while Instant::now() < moment {
            tokio::select! {
                biased;
                () = dying.notified() => {}
                () = sleep_until(moment) => {}
            }
            for master in &mut self.masters {
                if master.wants_to_die() {
                    master.crash(&self.ground).await;
                }
            }
        }
    }

    fn node(&mut self, who: Who) -> Option<&mut Node> {
        match who {
            Who::Master(number) => self.masters.get_mut(number),
            Who::Peel(number) => self.peels.get_mut(number),
        }
    }

    async fn act(&mut self, act: &Act) -> Result<(), zester_wire::BadName> {
        let ground = self.ground.clone();
        match act {
            Act::Dispatch(number) => self.dispatch(*number)?,
            Act::Cancel(number) => self.cancel(*number),
            Act::Crash(who) => {
                if let Some(node) = self.node(*who) {
                    node.crash(&ground).await;
                }
            }
            Act::Stop(who) => {
                if let Some(node) = self.node(*who) {
                    node.stop(&ground).await;
                }
            }
            Act::Start(who) => {
                if let Some(node) = self.node(*who) {
                    node.start(&ground)?;
                }
            }
            Act::Cut(who) | Act::Heal(who) => {
                let cut = matches!(act, Act::Cut(_));
                if let Some(node) = self.node(*who) {
                    node.set_cut(cut, &ground);
                }
            }
            Act::ServerDown => {
                ground.net.crash();
                ground.journal.presence("server", false);
            }
            Act::ServerUp => {
                ground.net.restart();
                ground.journal.presence("server", true);
            }
            Act::Storm { lost, doubled, delay } => self.weather.storm(*lost, *doubled, *delay),
            Act::Calm => self.weather.calm(),
        }
        Ok(())
    }

    fn client(&self, name: &str) -> Client {
        Client::new(self.link(name)).with_patience(CLIENT_PATIENCE)
    }

    fn link(&self, name: &str) -> Link {
        let bus: Arc<dyn Bus> = Arc::new(self.ground.net.connect(name));
        let clock = Skewed { begin: self.ground.begin, skew_ms: 0 };
        Link::with(bus, Arc::new(clock), Arc::new(Dice::new(self.ground.seed, name)))
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
        };
        let client = self.client(&format!("c{number}"));
        let journal = self.ground.journal.clone();
        self.clients.spawn(async move {
            let mut follow = match client.dispatch(request).await {
                Ok(dispatched) => dispatched.follow,
                Err(Error::Refused(refusal)) if !is_final(refusal.kind) => {
                    return journal.wrong("J-3: a request is not refused for good", refusal.message);
                }
                Err(_) => return,
            };
            journal.lock().accepted.insert(jid.clone(), Instant::now());
            // A client that is cut off may give up; one that is told how it ended is told the truth.
            while let Ok(Some(update)) = follow.next().await {
                if let JobUpdate::Ended(ended) = update
                    && ended.finished
                {
                    journal.lock().told.insert(jid.clone(), ended.job.status);
                }
            }
        });
        Ok(())
    }

    fn cancel(&mut self, number: usize) {
        let Some((jid, _)) = self.jobs.get(number).cloned() else { return };
        let client = self.client(&format!("k{number}"));
        self.clients.spawn(async move {
            // Whether it was in time is the job's affair.
            let _killed = client.kill(&jid, "sim").await;
        });
    }

    /// Waits until nothing is open any more, or until it should long have been.
    async fn settle(&mut self) -> Result<Court, zester_link::Error> {
        let longest = self.jobs.iter().map(|(_, plan)| plan.timeout).max().unwrap_or_default();
        // No job began later than its client gave up.
        let bound = self.ground.begin + TROUBLE_ENDS + longest + SETTLED_WITHIN;
        loop {
            self.pass_until(Instant::now() + Duration::from_secs(3)).await;
            let disks = self.peels.iter().map(|peel| (peel.name.clone(), peel.disk.clone())).collect();
            let link = self.link(JUDGE);
            let court = Court::convene(link, self.ground.clone(), self.weather.clone(), disks).await?;
            if court.is_settled() || Instant::now() > bound {
                return Ok(court);
            }
        }
    }
}

/// Refusals that say that nothing ran and nothing will.
fn is_final(kind: RefusalKind) -> bool {
    matches!(kind, RefusalKind::NoTargets | RefusalKind::CannotWrite | RefusalKind::NeverRan)
}
