//! Every span of time that the machines know, with the defaults of C-10.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    pub master_heartbeat: Duration,
    pub master_ttl: Duration,
    /// How often a master looks for jobs without an owner (J-13).
    pub orphan_scan: Duration,
    /// How many scans running must miss an owner.
    pub orphan_misses: u32,
    /// How long an ack may take before the request is sent once more (J-6).
    pub ack_window: Duration,
    /// How much longer a target without a heartbeat is waited for (J-8).
    pub unreachable_grace: Duration,
    pub peel_heartbeat: Duration,
    pub peel_ttl: Duration,
    /// A peel that nobody saw for so long is forgotten (J-25); zero: never.
    pub forget_peels: Duration,
    /// Over how long the peels come back that lost their server at once (J-27). Each waits a share of it, by chance.
    pub reconnect_spread: Duration,
    /// After so long without an answer a peel that works knows that its line is dead: a heartbeat, and what it waits for the answer.
    pub silence_noticed: Duration,
    pub lease_ttl: Duration,
    pub kill_grace: Duration,
    /// What a peel adds to the budget before it aborts by itself (J-5).
    pub abort_grace: Duration,
    /// How often a job may change owners before it is given up (J-13).
    pub reclaims_max: u32,
    /// Between two tries of a write or read that failed.
    pub retry_pause: Duration,
    /// Between two tries to hand a return to a master; doubled up to `outbox_pause_max`.
    pub outbox_pause: Duration,
    pub outbox_pause_max: Duration,
    /// How old a request that bypasses the masters may be (J-21).
    pub direct_age: Duration,
    /// How much longer than its request can be valid a peel remembers a dispatch (J-7).
    pub dedup_margin: Duration,
    /// How long a return waits for a master: as long as masters keep jobs.
    pub outbox_keep: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let seconds = Duration::from_secs;
        Timing {
            master_heartbeat: seconds(2),
            master_ttl: seconds(6),
            orphan_scan: seconds(3),
            orphan_misses: 2,
            ack_window: seconds(5),
            unreachable_grace: seconds(5),
            peel_heartbeat: seconds(10),
            peel_ttl: seconds(30),
            forget_peels: seconds(30 * 86_400),
            reconnect_spread: seconds(30),
            silence_noticed: seconds(30),
            lease_ttl: seconds(15),
            kill_grace: seconds(5),
            abort_grace: Duration::from_millis(500),
            reclaims_max: 3,
            retry_pause: seconds(1),
            outbox_pause: seconds(5),
            outbox_pause_max: seconds(60),
            direct_age: seconds(60),
            dedup_margin: seconds(3_600),
            outbox_keep: seconds(7 * 86_400),
        }
    }
}

impl Timing {
    /// How long a target is waited for that had no heartbeat when the work went out, or said that it stops (J-8).
    pub fn absent_patience(&self) -> Duration {
        self.ack_window + self.unreachable_grace
    }

    /// How long a target is waited for whose heartbeat ended without a word. It may have lost no more than its server: it needs
    /// a while to notice, its share of the spread to come back, and then shows itself (J-6).
    pub fn lost_patience(&self) -> Duration {
        let comes_back = self.silence_noticed + self.reconnect_spread + self.peel_heartbeat;
        comes_back.max(self.absent_patience())
    }
}
