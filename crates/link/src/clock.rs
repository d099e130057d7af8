//! Time and chance, as values that tests and simulators replace.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use zester_wire::UnixMillis;

/// Longer than anything is waited for, and not too long to be added to a moment.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// A clock on the wall. It may jump; whoever measures a span uses tokio's time instead.
pub trait Clock: Send + Sync {
    fn wall(&self) -> UnixMillis;
}

/// The clock of this machine.
#[derive(Copy, Clone, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> UnixMillis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The time of one job: the wall clock when it began, and from then on how much time really passed. A clock that somebody
/// sets back or forward meanwhile neither prolongs nor ends it.
#[derive(Copy, Clone, Debug)]
pub struct SteadyClock {
    wall: UnixMillis,
    since: Instant,
}

impl SteadyClock {
    pub fn new(wall: UnixMillis) -> SteadyClock {
        SteadyClock { wall, since: Instant::now() }
    }

    pub fn now(&self) -> UnixMillis {
        self.wall.plus(self.since.elapsed())
    }

    /// When to wake for a moment of this clock.
    pub fn instant_of(&self, moment: UnixMillis) -> Instant {
        let ahead = moment.since(self.wall);
        self.since.checked_add(ahead).unwrap_or_else(|| self.since + FAR)
    }
}

/// Where random bytes come from.
pub trait Dice: Send + Sync {
    fn roll(&self) -> [u8; 16];
}

/// The operating system's.
#[derive(Copy, Clone, Debug, Default)]
pub struct OsDice;

impl Dice for OsDice {
    fn roll(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        if getrandom::fill(&mut bytes).is_err() {
            // Only on kernels before 3.17 in early boot. Time and address are not secret, but they are not the same twice.
            let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
            bytes = (nanos ^ (std::ptr::from_ref(&bytes) as u128) << 64).to_be_bytes();
        }
        bytes
    }
}
