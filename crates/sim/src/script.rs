//! What happens in one life, and when. All of it follows from the seed, before anything runs.

use crate::dice::Dice;
use std::time::Duration;

/// Trouble ends here, and everything is given the time to come to its end.
pub const TROUBLE_ENDS: Duration = Duration::from_secs(100);

/// A master or a peel, by its number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Master(usize),
    Peel(usize),
}

#[derive(Clone, Debug)]
pub enum Act {
    Dispatch(usize),
    Cancel(usize),
    Crash(Who),
    /// A graceful stop.
    Stop(Who),
    Start(Who),
    Cut(Who),
    Heal(Who),
    ServerDown,
    ServerUp,
    /// Of a thousand messages so many are lost and doubled; each takes up to that long.
    Storm {
        lost: u64,
        doubled: u64,
        delay: Duration,
    },
    Calm,
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
    pub acts: Vec<(Duration, Act)>,
    /// How far each clock is off, in milliseconds: masters, then peels.
    pub skews: Vec<i64>,
    /// How long an execution takes; none: the dice say.
    pub work: Option<Duration>,
}

impl Script {
    /// A life in which nothing happens but what is added, on clocks that agree.
    pub fn quiet(masters: usize, peels: usize, work: Duration) -> Script {
        let skews = vec![0; masters + peels];
        Script { masters, peels, jobs: Vec::new(), acts: Vec::new(), skews, work: Some(work) }
    }

    /// A job for these peels.
    pub fn job(mut self, at: Duration, targets: &[usize], timeout: Duration) -> Script {
        self.acts.push((at, Act::Dispatch(self.jobs.len())));
        self.jobs.push(JobPlan { targets: targets.to_vec(), timeout, owner_dies_at_start: false });
        self
    }

    /// Something that happens; in the order of time.
    pub fn then(mut self, at: Duration, act: Act) -> Script {
        self.acts.push((at, act));
        self
    }

    pub fn write(seed: u64) -> Script {
        let dice = Dice::new(seed, "script");
        let masters = 1 + dice.roll(3) as usize;
        let peels = 1 + dice.roll(4) as usize;
        let mut script = Script {
            masters,
            peels,
            jobs: Vec::new(),
            acts: Vec::new(),
            skews: (0..masters + peels).map(|_| dice.roll(4_001) as i64 - 2_000).collect(),
            work: None,
        };
        for number in 0..1 + dice.roll(4) as usize {
            script.plan_job(number, &dice);
        }
        // Some lives are rough: more goes wrong at the same time, and the weather is never good.
        let rough = dice.happens(250);
        for _ in 0..dice.roll(6) + if rough { 5 } else { 0 } {
            script.plan_trouble(&dice);
        }
        for _ in 0..dice.roll(3) {
            let (at, long) = (dice.between(0, 90_000), dice.between(2_000, 25_000));
            script.plan_storm(at, long, 150, &dice);
        }
        if rough {
            script.plan_storm(Duration::from_secs(1), TROUBLE_ENDS, 300, &dice);
        }
        script.acts.sort_by_key(|(at, _)| *at);
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
        self.acts.push((at, Act::Dispatch(number)));
        if dice.happens(250) {
            self.acts.push((at + dice.between(0, 25_000), Act::Cancel(number)));
        }
    }

    fn plan_storm(&mut self, at: Duration, long: Duration, worst: u64, dice: &Dice) {
        let (lost, doubled) = (dice.roll(worst), dice.roll(worst));
        self.acts.push((at, Act::Storm { lost, doubled, delay: dice.between(5, 1_500) }));
        self.acts.push((at + long, Act::Calm));
    }

    fn plan_trouble(&mut self, dice: &Dice) {
        let anybody = dice.roll((self.masters + self.peels) as u64) as usize;
        let who =
            if anybody < self.masters { Who::Master(anybody) } else { Who::Peel(anybody - self.masters) };
        let at = dice.between(1_000, 90_000);
        let back = at + dice.between(100, 40_000);
        let (first, second) = match dice.roll(10) {
            0..4 => (Act::Crash(who), Act::Start(who)),
            4..6 => (Act::Stop(who), Act::Start(who)),
            6..9 => (Act::Cut(who), Act::Heal(who)),
            _ => (Act::ServerDown, Act::ServerUp),
        };
        self.acts.push((at, first));
        self.acts.push((back, second));
    }
}
