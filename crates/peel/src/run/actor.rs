//! The loop: one thing happens, the machine is told, what it wants is carried out.

use super::beacons::Beacons;
use super::gauges::Gauges;
use super::intake::Request;
use super::limits::{COMMANDS_WAITING_MAX, STOP_ROOM, TASKS_MAX};
use super::presence::{BackgroundDone, Presence};
use super::schedule::Scheduler;
use super::tasks::{self, Done, Write};
use super::{Error, Setup};
use crate::policy::PolicyFile;
use crate::store::Store;
use crate::work::Work;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_bus::{Delivery, Event as BusEvent, Events, Listen, Subscription};
use zester_health::Health;
use zester_jobs::Peel;
use zester_jobs::dedup::Dispatch;
use zester_jobs::peel::{Event, Moment};
use zester_link::Link;
use zester_wire::{Jid, MessageId, Subject};

/// An execution that was started.
pub(super) struct Running {
    pub(super) cancel: CancellationToken,
    pub(super) task: Id,
    /// Why it was told to stop, in words.
    pub(super) aborted: Option<&'static str>,
    /// It may change the machine.
    pub(super) mutating: bool,
}

pub(super) struct Actor {
    pub(super) link: Link,
    pub(super) store: Arc<dyn Store>,
    pub(super) work: Arc<dyn Work>,
    pub(super) setup: Setup,
    pub(super) machine: Peel,
    pub(super) gauges: Gauges,
    since: Instant,
    /// What a stop waits for.
    pub(super) tasks: JoinSet<Done>,
    /// What a stop does not wait for.
    pub(super) background: JoinSet<BackgroundDone>,
    pub(super) presence: Presence,
    pub(super) commands: Option<Subscription>,
    /// Requests that wait until there is room for another task.
    pub(super) requests: VecDeque<Request>,
    pub(super) running: BTreeMap<Dispatch, Running>,
    /// Dispatches of which something is being written, and what waits behind it: in order for each, side by side for all.
    pub(super) writing: BTreeMap<Dispatch, VecDeque<Write>>,
    pub(super) to_send: VecDeque<Dispatch>,
    pub(super) sending: BTreeSet<Dispatch>,
    /// The message id of each return that waits for a master.
    pub(super) return_ids: BTreeMap<Dispatch, MessageId>,
    /// Returns that a master has although the disk does not.
    pub(super) handed_over: BTreeSet<Dispatch>,
    pub(super) acking: BTreeSet<Dispatch>,
    /// Where the answer of each direct execution is awaited.
    pub(super) inboxes: BTreeMap<Dispatch, String>,
    /// The direct request that is being looked at, and where its answer is awaited.
    pub(super) asking: Option<(Dispatch, Option<String>)>,
    /// Events that came up while commands were carried out.
    pub(super) pending: VecDeque<Event>,
    pub(super) stopping: bool,
    /// None while it is being checked.
    pub(super) next_disk_check: Option<Instant>,
    /// What it does by itself; none where it has no schedule.
    pub(super) schedule: Option<Scheduler>,
    /// What it watches; none where it has no beacons.
    pub(super) beacons: Option<Beacons>,
    /// What this machine does for others; none: whatever they ask.
    pub(super) policy: Option<PolicyFile>,
    /// The run of `startup_states` and its function, until it has ended.
    pub(super) startup: Option<(Jid, String)>,
}

/// What ended a wait.
enum Wakeup {
    Stop,
    StopTooLong,
    Task(Result<(Id, Done), JoinError>),
    Background(Result<BackgroundDone, JoinError>),
    Bus(Option<BusEvent>),
    Command(Option<Delivery>),
    Time,
}

impl Actor {
    pub(super) fn new(
        link: Link,
        store: Arc<dyn Store>,
        work: Arc<dyn Work>,
        setup: Setup,
        health: Arc<Health>,
    ) -> Actor {
        Actor {
            machine: Peel::new(setup.id.clone(), setup.timing.clone()),
            gauges: Gauges::new(health, &link),
            since: Instant::now(),
            tasks: JoinSet::new(),
            background: JoinSet::new(),
            presence: Presence::new(setup.timing.peel_heartbeat),
            commands: None,
            requests: VecDeque::new(),
            running: BTreeMap::new(),
            writing: BTreeMap::new(),
            to_send: VecDeque::new(),
            sending: BTreeSet::new(),
            return_ids: BTreeMap::new(),
            handed_over: BTreeSet::new(),
            acking: BTreeSet::new(),
            inboxes: BTreeMap::new(),
            asking: None,
            pending: VecDeque::new(),
            stopping: false,
            next_disk_check: None,
            schedule: None,
            beacons: None,
            policy: None,
            startup: None,
            link,
            store,
            work,
            setup,
        }
    }

    pub(super) async fn live(mut self, stop: CancellationToken) -> Result<(), Error> {
        let entries = self.store.load().await.map_err(|error| Error(error.to_string()))?;
        // From here on nothing that happens to the connection is missed.
        let mut events = self.link.bus().events();
        self.feed(Event::Start { entries });
        self.subscribe();
        self.check_disk();
        self.await_startup();
        for looker in self.schedule.as_ref().map(Scheduler::lookers).into_iter().flatten() {
            self.look_at_schedule(looker);
        }
        let mut latest_end = None;
        loop {
            self.take_requests();
            if self.stopping && self.tasks.is_empty() {
                self.say_goodbye().await;
                return Ok(());
            }
            match self.wait(&mut events, &stop, latest_end).await {
                Wakeup::Stop => {
                    self.begin_stop();
                    latest_end = Some(Instant::now() + self.setup.timing.kill_grace + STOP_ROOM);
                }
                Wakeup::StopTooLong => {
                    tracing::warn!("the peel ends although {} things are under way", self.tasks.len());
                    return Ok(());
                }
                Wakeup::Task(joined) => self.task_ended(joined)?,
                Wakeup::Background(joined) => self.background_ended(joined)?,
                Wakeup::Bus(event) => self.bus_event(event)?,
                Wakeup::Command(delivery) => self.delivered(delivery)?,
                Wakeup::Time => self.time_passed(),
            }
        }
    }

    async fn wait(
        &mut self,
        events: &mut Events,
        stop: &CancellationToken,
        latest_end: Option<Instant>,
    ) -> Wakeup {
        let wake = self.next_wake();
        tokio::select! {
            biased;
            () = stop.cancelled(), if !self.stopping => Wakeup::Stop,
            () = until(latest_end), if self.stopping => Wakeup::StopTooLong,
            Some(joined) = self.tasks.join_next_with_id() => Wakeup::Task(joined),
            Some(joined) = self.background.join_next() => Wakeup::Background(joined),
            event = events.next(), if !self.stopping => Wakeup::Bus(event),
            delivery = next_of(&mut self.commands) => Wakeup::Command(delivery),
            () = until(wake) => Wakeup::Time,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.tasks.len() < TASKS_MAX
    }

    pub(super) fn moment(&self) -> Moment {
        Moment { wall: self.link.now(), run: self.since.elapsed() }
    }

    fn next_wake(&self) -> Option<Instant> {
        let machine = self.machine.next_wake().and_then(|run| self.since.checked_add(run));
        let presence = self.presence.next_wake().into_iter().chain(self.next_disk_check);
        let schedule = self.schedule_wake();
        machine.into_iter().chain(presence.filter(|_| !self.stopping)).chain(schedule).min()
    }

    fn time_passed(&mut self) {
        self.feed(Event::Tick);
        self.schedule_time();
        if !self.stopping {
            self.presence_due();
            if self.next_disk_check.is_some_and(|at| Instant::now() >= at) {
                self.check_disk();
            }
        }
    }

    fn subscribe(&mut self) {
        let (link, pause) = (self.link.clone(), self.setup.timing.retry_pause);
        let subject = Subject::Command { peel: self.setup.id.clone() }.to_string();
        self.background.spawn(async move {
            loop {
                match link.bus().subscribe(&subject, Listen::alone(COMMANDS_WAITING_MAX)).await {
                    Err(error) if error.kind().retryable() => tokio::time::sleep(pause).await,
                    result => return BackgroundDone::Subscribed(result),
                }
            }
        });
    }

    fn task_ended(&mut self, joined: Result<(Id, Done), JoinError>) -> Result<(), Error> {
        match joined {
            Ok((_, done)) => self.done(done),
            Err(error) => {
                let task = error.id();
                let words = panic_words(error);
                let crashed = self.running.iter().find(|(_, running)| running.task == task);
                let Some(dispatch) = crashed.map(|(dispatch, _)| dispatch.clone()) else {
                    return Err(Error(format!("a part of the peel crashed: {words}")));
                };
                tracing::error!(jid = %dispatch.jid, "the function crashed: {words}");
                let ret = Box::new(tasks::panicked(&dispatch, self.setup.id.clone(), &words));
                self.done(Done::Ran { dispatch, ret });
            }
        }
        Ok(())
    }

    /// No new work; what runs is stopped as a cancel would stop it (S-32).
    fn begin_stop(&mut self) {
        self.stopping = true;
        self.commands = None;
        self.requests.clear();
        self.background.abort_all();
        self.running.values().for_each(|running| running.cancel.cancel());
    }
}

pub(super) fn panic_words(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => {
            let text = payload.downcast_ref::<&str>().map(ToString::to_string);
            text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or("without words".into())
        }
        Err(_) => "it was ended".into(),
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn next_of(commands: &mut Option<Subscription>) -> Option<Delivery> {
    match commands {
        Some(commands) => commands.next().await,
        None => std::future::pending().await,
    }
}
