//! What happens in one simulation, and when. All of it follows from the seed, before anything runs.

use crate::crash::{CrashPoint, Edge};
use crate::dice::Dice;
use crate::reactions::EventPlan;
use std::time::Duration;
use zester_bus::limits::SILENCE_NOTICED;
use zester_bus::storage::{EVENTS, JOB_EVENTS};

/// Over how long the peels come back that lost their server at once.
const SPREAD_MS: u64 = 30_000;
/// What a long job may take: more than any other.
const LONG_JOB_MS: (u64, u64) = (151_000, 240_000);
pub const LONG_JOB: Duration = Duration::from_millis(LONG_JOB_MS.0);

/// Faults end here, and everything is given the time to come to its end.
pub const FAULTS_END: Duration = Duration::from_secs(100);

/// A master or a peel, by its number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Master(usize),
    Peel(usize),
}

impl Who {
    pub fn name(self) -> String {
        match self {
            Who::Master(number) => format!("m{number}"),
            Who::Peel(number) => format!("p{number}"),
        }
    }
}

/// A kind of fault beyond crashes, cuts and storms; each can be left out.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    LateWrites,
    StaleReads,
    Watches,
    SlowSubscribers,
    Silence,
    Freezes,
    FullStores,
    RecreatedStores,
    NoLeader,
    PeelDisks,
    ClockJumps,
    CrashAtCalls,
    /// No fault, but what faults may spoil: masters publish trees that differ.
    Publishing,
    /// The same: masters react to events, by rules that change.
    Reacting,
}

impl FaultKind {
    pub const ALL: [FaultKind; 14] = [
        FaultKind::LateWrites,
        FaultKind::StaleReads,
        FaultKind::Watches,
        FaultKind::SlowSubscribers,
        FaultKind::Silence,
        FaultKind::Freezes,
        FaultKind::FullStores,
        FaultKind::RecreatedStores,
        FaultKind::NoLeader,
        FaultKind::PeelDisks,
        FaultKind::ClockJumps,
        FaultKind::CrashAtCalls,
        FaultKind::Publishing,
        FaultKind::Reacting,
    ];

    pub fn name(self) -> &'static str {
        match self {
            FaultKind::LateWrites => "late-writes",
            FaultKind::StaleReads => "stale-reads",
            FaultKind::Watches => "watches",
            FaultKind::SlowSubscribers => "slow-subscribers",
            FaultKind::Silence => "silence",
            FaultKind::Freezes => "freezes",
            FaultKind::FullStores => "full-stores",
            FaultKind::RecreatedStores => "recreated-stores",
            FaultKind::NoLeader => "no-leader",
            FaultKind::PeelDisks => "peel-disks",
            FaultKind::ClockJumps => "clock-jumps",
            FaultKind::CrashAtCalls => "crash-at-calls",
            FaultKind::Publishing => "publishing",
            FaultKind::Reacting => "reacting",
        }
    }

    pub fn parse(name: &str) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Something that is wrong with the network or the servers for a while. Rates are of a thousand.
#[derive(Clone, Debug)]
pub enum Disturbance {
    /// So many messages are lost and doubled; each takes up to that long.
    Storm { lost: u64, doubled: u64, delay: Duration },
    /// What is asked of the server gets there after whoever asked gave up.
    LateWrites(u64),
    /// Direct gets are behind.
    StaleReads(u64),
    /// Watches are late, or end.
    Watches(u64),
    /// Subscriptions have no room.
    SlowSubscribers(u64),
}

impl Disturbance {
    pub fn name(&self) -> &'static str {
        match self {
            Disturbance::Storm { .. } => "storm",
            Disturbance::LateWrites(_) => "late writes",
            Disturbance::StaleReads(_) => "stale reads",
            Disturbance::Watches(_) => "watches",
            Disturbance::SlowSubscribers(_) => "slow subscribers",
        }
    }

    pub fn rate(&self) -> u64 {
        match self {
            Disturbance::Storm { lost, .. } => *lost,
            Disturbance::LateWrites(rate)
            | Disturbance::StaleReads(rate)
            | Disturbance::Watches(rate)
            | Disturbance::SlowSubscribers(rate) => *rate,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Action {
    Dispatch(usize),
    Cancel(usize),
    /// Somebody sends an event.
    Send(usize),
    /// Another version of the rules is published.
    Rules(u64),
    Crash(Who),
    /// A graceful stop.
    Stop(Who),
    Start(Who),
    Cut(Who),
    Heal(Who),
    /// Half open: nothing passes, and nobody knows for a while.
    Silence {
        who: Who,
        keeps_unsent: bool,
    },
    /// The server stands still, as under SIGSTOP: nothing passes for anybody, and nobody knows for a while.
    Freeze,
    /// It goes on. Peels come back when they are healed: those that noticed have their share of the spread to wait.
    Thaw,
    ServerDown,
    ServerUp,
    Disturb(Disturbance),
    Calm(&'static str),
    /// A stream has no leader while the others work.
    LoseLeader(&'static str),
    GainLeader(&'static str),
    /// A stream takes nothing more.
    Fill(&'static str),
    Drain(&'static str),
    ServerDiskFull(bool),
    /// A stream is removed and made again.
    Recreate(&'static str),
    /// The directory of a master holds another version.
    Edit {
        master: usize,
        version: u64,
    },
    /// A clock is set, by so many milliseconds.
    JumpClock(Who, i64),
    /// Of a thousand disk calls of a peel so many fail; each takes up to that long.
    PeelDisk {
        peel: usize,
        failing: u64,
        slow: Duration,
    },
}

impl Action {
    /// The stream that it happens to.
    pub fn stream(&self) -> Option<&'static str> {
        match self {
            Action::LoseLeader(stream)
            | Action::GainLeader(stream)
            | Action::Fill(stream)
            | Action::Drain(stream)
            | Action::Recreate(stream) => Some(stream),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct JobPlan {
    /// Empty: `*`.
    pub targets: Vec<usize>,
    pub timeout: Duration,
    /// Its owner dies right after the record says `running`, before the work is sent.
    pub owner_dies_at_start: bool,
}

#[derive(Clone, Debug)]
pub struct Script {
    pub masters: usize,
    pub peels: usize,
    pub jobs: Vec<JobPlan>,
    pub events: Vec<EventPlan>,
    pub actions: Vec<(Duration, Action)>,
    pub crashes: Vec<CrashPoint>,
    /// How long a node that crashed at a call stays away.
    pub crash_lasts: Duration,
    /// When the counting of calls ends; none: with the simulation.
    pub count_until: Option<Duration>,
    /// How far each clock is off, in milliseconds: masters, then peels.
    pub skews: Vec<i64>,
    /// How long an execution takes; none: the dice say.
    pub work: Option<Duration>,
    /// How long the stream of events remembers ids; none: as the table has it.
    pub id_window: Option<Duration>,
}

impl Script {
    /// A simulation in which nothing happens but what is added, on clocks that agree.
    pub fn quiet(masters: usize, peels: usize, work: Duration) -> Script {
        Script {
            masters,
            peels,
            jobs: Vec::new(),
            events: Vec::new(),
            actions: Vec::new(),
            crashes: Vec::new(),
            crash_lasts: Duration::from_secs(5),
            count_until: None,
            skews: vec![0; masters + peels],
            work: Some(work),
            id_window: None,
        }
    }

    /// A job for these peels.
    pub fn job(mut self, at: Duration, targets: &[usize], timeout: Duration) -> Script {
        self.actions.push((at, Action::Dispatch(self.jobs.len())));
        self.jobs.push(JobPlan { targets: targets.to_vec(), timeout, owner_dies_at_start: false });
        self
    }

    /// An event that somebody sends.
    pub fn event(mut self, at: Duration, plan: EventPlan) -> Script {
        self.actions.push((at, Action::Send(self.events.len())));
        self.events.push(plan);
        self
    }

    /// What is sent again after this time is stored again.
    pub fn forgetting_ids(mut self, after: Duration) -> Script {
        self.id_window = Some(after);
        self
    }

    /// A node that crashed at a call stays away for so long.
    pub fn staying_away(mut self, long: Duration) -> Script {
        self.crash_lasts = long;
        self
    }

    /// Whether masters react to anything.
    pub fn reacts(&self) -> bool {
        !self.events.is_empty()
    }

    /// Something that happens; in the order of time.
    pub fn then(mut self, at: Duration, action: Action) -> Script {
        self.actions.push((at, action));
        self
    }

    /// Calls are counted until then, for whoever wants to know how many there are.
    pub fn until(mut self, moment: Duration) -> Script {
        self.count_until = Some(moment);
        self
    }

    /// A node crashes at a call.
    pub fn crash_at(mut self, point: CrashPoint) -> Script {
        self.crashes.push(point);
        self
    }

    /// Whether anything is published.
    pub fn publishes(&self) -> bool {
        self.actions.iter().any(|(_, action)| matches!(action, Action::Edit { .. }))
    }

    pub fn from_seed(seed: u64, kinds: &[FaultKind]) -> Script {
        let dice = Dice::new(seed, "script");
        let masters = 1 + dice.roll(3) as usize;
        let peels = 1 + dice.roll(4) as usize;
        let mut script = Script {
            skews: (0..masters + peels).map(|_| dice.roll(4_001) as i64 - 2_000).collect(),
            work: None,
            ..Script::quiet(masters, peels, Duration::ZERO)
        };
        for number in 0..1 + dice.roll(4) as usize {
            script.plan_job(number, &dice);
        }
        // Some are rough: more goes wrong at the same time, and the network is never good.
        let rough = dice.happens(250);
        for _ in 0..dice.roll(6) + if rough { 5 } else { 0 } {
            script.plan_trouble(&dice);
        }
        for _ in 0..dice.roll(3) {
            let (at, long) = (dice.between(0, 90_000), dice.between(2_000, 25_000));
            script.plan_storm(at, long, 150, &dice);
        }
        if rough {
            script.plan_storm(Duration::from_secs(1), FAULTS_END, 300, &dice);
        }
        for kind in kinds {
            // Dice of their own: leaving one kind out changes nothing about the others.
            let dice = Dice::new(seed, kind.name());
            if dice.happens(250) {
                script.plan_fault(*kind, &dice);
            }
        }
        script.actions.sort_by_key(|(at, _)| *at);
        script
    }

    fn plan_job(&mut self, number: usize, dice: &Dice) {
        let everybody = dice.happens(300);
        let mut targets: Vec<usize> = (0..self.peels).filter(|_| !everybody && dice.happens(600)).collect();
        if targets.is_empty() && !everybody {
            targets.push(dice.roll(self.peels as u64) as usize);
        }
        let owner_dies_at_start = dice.happens(150);
        // Long enough for an adopter to come in time, where one is needed for sure.
        let timeout =
            if owner_dies_at_start { dice.between(90_000, 150_000) } else { dice.between(10_000, 90_000) };
        self.jobs.push(JobPlan { targets, timeout, owner_dies_at_start });
        // Peels need a moment to be known.
        let at = dice.between(2_000, 60_000);
        self.actions.push((at, Action::Dispatch(number)));
        if dice.happens(250) {
            self.actions.push((at + dice.between(0, 25_000), Action::Cancel(number)));
        }
    }

    /// The server stands still for so long; then each peel that noticed comes back after its share of the spread.
    fn freeze(&mut self, at: Duration, long: Duration, dice: &Dice) {
        self.actions.push((at, Action::Freeze));
        self.actions.push((at + long, Action::Thaw));
        for peel in 0..self.peels {
            let share = if long < SILENCE_NOTICED { Duration::ZERO } else { dice.between(0, SPREAD_MS) };
            self.actions.push((at + long + share, Action::Heal(Who::Peel(peel))));
        }
    }

    fn plan_storm(&mut self, at: Duration, long: Duration, worst: u64, dice: &Dice) {
        let (lost, doubled) = (dice.roll(worst), dice.roll(worst));
        self.disturb(at, long, Disturbance::Storm { lost, doubled, delay: dice.between(5, 1_500) });
    }

    fn disturb(&mut self, at: Duration, long: Duration, disturbance: Disturbance) {
        let name = disturbance.name();
        self.actions.push((at, Action::Disturb(disturbance)));
        self.actions.push((at + long, Action::Calm(name)));
    }

    fn anybody(&self, dice: &Dice) -> Who {
        let anybody = dice.roll((self.masters + self.peels) as u64) as usize;
        if anybody < self.masters { Who::Master(anybody) } else { Who::Peel(anybody - self.masters) }
    }

    fn plan_trouble(&mut self, dice: &Dice) {
        let who = self.anybody(dice);
        let at = dice.between(1_000, 90_000);
        let back = at + dice.between(100, 40_000);
        let (first, second) = match dice.roll(10) {
            0..4 => (Action::Crash(who), Action::Start(who)),
            4..6 => (Action::Stop(who), Action::Start(who)),
            6..9 => (Action::Cut(who), Action::Heal(who)),
            _ => (Action::ServerDown, Action::ServerUp),
        };
        self.actions.push((at, first));
        self.actions.push((back, second));
    }

    fn plan_fault(&mut self, kind: FaultKind, dice: &Dice) {
        let (at, long) = (dice.between(1_000, 80_000), dice.between(1_000, 30_000));
        match kind {
            FaultKind::LateWrites => self.disturb(at, long, Disturbance::LateWrites(10 + dice.roll(200))),
            FaultKind::StaleReads => self.disturb(at, long, Disturbance::StaleReads(100 + dice.roll(900))),
            FaultKind::Watches => {
                self.disturb(at, long, Disturbance::Watches(200 + dice.roll(700)));
                // Only facts are watched, and peels publish them when they connect.
                for peel in 0..self.peels {
                    self.actions.push((at + long / 4, Action::Cut(Who::Peel(peel))));
                    self.actions.push((at + long / 2, Action::Heal(Who::Peel(peel))));
                }
            }
            FaultKind::SlowSubscribers => {
                self.disturb(at, long, Disturbance::SlowSubscribers(50 + dice.roll(900)));
            }
            FaultKind::Silence => {
                let who = self.anybody(dice);
                let keeps_unsent = dice.happens(500);
                self.actions.push((at, Action::Silence { who, keeps_unsent }));
                self.actions.push((at + long, Action::Heal(who)));
            }
            FaultKind::Freezes => {
                // Long enough for somebody to be given up before the deadline.
                for job in self.jobs.iter_mut().filter(|_| dice.happens(700)) {
                    job.timeout = dice.between(LONG_JOB_MS.0, LONG_JOB_MS.1);
                }
                let long = dice.between(20_000, 90_000);
                let who = match dice.roll(4) {
                    0 | 1 => return self.freeze(at, long, dice),
                    2 => Who::Master(dice.roll(self.masters as u64) as usize),
                    _ => self.anybody(dice),
                };
                let keeps_unsent = dice.happens(500);
                self.actions.push((at, Action::Silence { who, keeps_unsent }));
                self.actions.push((at + long, Action::Heal(who)));
            }
            FaultKind::FullStores if dice.happens(300) => {
                self.actions.push((at, Action::ServerDiskFull(true)));
                self.actions.push((at + long, Action::ServerDiskFull(false)));
            }
            FaultKind::FullStores => {
                let stream = if dice.happens(700) { "KV_jobs" } else { "KV_state-files" };
                self.actions.push((at, Action::Fill(stream)));
                self.actions.push((at + long, Action::Drain(stream)));
            }
            FaultKind::RecreatedStores => {
                let streams = ["KV_peel-seen", "KV_master-heartbeat", "KV_facts", "KV_state-files"];
                let stream = streams[dice.roll(streams.len() as u64) as usize];
                self.actions.push((at, Action::Recreate(stream)));
            }
            FaultKind::NoLeader => {
                let streams = [
                    JOB_EVENTS,
                    EVENTS,
                    "KV_jobs",
                    "KV_job-returns",
                    "KV_master-heartbeat",
                    "KV_state-files",
                    "KV_reactor-files",
                ];
                let stream = streams[dice.roll(streams.len() as u64) as usize];
                self.actions.push((at, Action::LoseLeader(stream)));
                self.actions.push((at + long, Action::GainLeader(stream)));
            }
            FaultKind::PeelDisks => {
                let peel = dice.roll(self.peels as u64) as usize;
                let (failing, slow) = (dice.roll(700), dice.between(0, 3_000));
                self.actions.push((at, Action::PeelDisk { peel, failing, slow }));
                self.actions.push((at + long, Action::PeelDisk { peel, failing: 0, slow: Duration::ZERO }));
            }
            FaultKind::ClockJumps => {
                let who = self.anybody(dice);
                let by = dice.roll(7_200_000) as i64 - 3_600_000;
                self.actions.push((at, Action::JumpClock(who, by)));
            }
            FaultKind::Publishing => {
                for version in 1..3 + dice.roll(5) {
                    let master = dice.roll(self.masters as u64) as usize;
                    self.actions.push((dice.between(1_000, 95_000), Action::Edit { master, version }));
                }
            }
            FaultKind::Reacting => {
                for number in 0..1 + dice.roll(6) as usize {
                    let plan = EventPlan::by_dice(number, self.events.last(), self.peels, dice);
                    self.events.push(plan);
                    self.actions.push((dice.between(2_000, 95_000), Action::Send(number)));
                }
                for version in 2..2 + dice.roll(4) {
                    self.actions.push((dice.between(1_000, 95_000), Action::Rules(version)));
                }
            }
            FaultKind::CrashAtCalls => {
                self.crash_lasts = dice.between(100, 30_000);
                for _ in 0..1 + dice.roll(4) {
                    let node = self.anybody(dice).name();
                    let edge = if dice.happens(500) { Edge::Before } else { Edge::After };
                    self.crashes.push(CrashPoint { node, call: 1 + dice.roll(250), edge });
                }
            }
        }
    }
}
