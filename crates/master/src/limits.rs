//! Every bound of a master, by name.

use std::time::Duration;

/// Jobs that one master watches at once; more are refused as "ask again".
pub const JOBS_MAX: usize = 1_000;
/// Targets of one job. Its record names each of them, and records have a largest size.
pub const TARGETS_MAX: usize = 20_000;
/// Messages that may wait for one job. A burst of acks and returns of the largest job fits; what does not is read again
/// from the stream.
pub const JOB_INBOX: usize = 65_536;
/// Acks, returns or cancels that may wait to be told apart.
pub const ROUTER_QUEUE: usize = 65_536;
/// Requests that may wait for a master.
pub const REQUEST_QUEUE: usize = 4_096;
/// Requests that are worked on at once.
pub const REQUESTS_IN_FLIGHT: usize = 64;
/// Clients that may wait for one job to be accepted.
pub const ASKERS_MAX: usize = 64;
/// Jobs that wait to be started.
pub const STARTS_WAITING: usize = 64;
/// Returns of one job that are written at once.
pub const PERSISTS_IN_FLIGHT: usize = 128;
/// Commands that are sent to peels before other work gets its turn.
pub const SENDS_AT_A_TIME: usize = 64;
/// Tries to publish a status or a cancel.
pub const TELLS_MAX: u32 = 5;
/// Tells of one job that may wait.
pub const TELLS_WAITING: usize = 64;

/// How long after messages were lost the stream is read once more: a cluster may store a moment later than it delivers.
pub const CATCH_UP_AGAIN: Duration = Duration::from_secs(2);
/// How long a job that is over may take to write what is left.
pub const FINISH_LIMIT: Duration = Duration::from_secs(10);
/// How long a stop waits for the jobs to be let go.
pub const DETACH_LIMIT: Duration = Duration::from_secs(20);
/// How long a stop waits for requests that are under way.
pub const REQUESTS_END_LIMIT: Duration = Duration::from_secs(5);
/// How long a stop tries to remove its heartbeat, which expires by itself.
pub const FAREWELL_LIMIT: Duration = Duration::from_secs(3);

/// Between two tries to reach a bus that is away, or to watch a bucket that is not there.
pub const BUS_PAUSE: Duration = Duration::from_secs(1);
/// How long the start waits for the index before it takes requests all the same.
pub const INDEX_WAIT: Duration = Duration::from_secs(10);
/// How often the start looks whether the index is complete.
pub const INDEX_POLL: Duration = Duration::from_millis(20);
/// How far a watch may run ahead of the index.
pub const WATCH_AHEAD: usize = 1_024;
/// How often the index looks for peels that were removed.
pub const RELIST: Duration = Duration::from_secs(600);
/// How long rendered settings of a peel are good for targeting.
pub const SETTINGS_FRESH: Duration = Duration::from_secs(5);

/// How often the stores are looked at.
pub const STORES_LOOK: Duration = Duration::from_secs(2);
/// How often the holder of the lease looks whether old jobs must make room.
pub const REAP_EVERY: Duration = Duration::from_secs(3);
/// How long a kill waits for the job itself to say what became of it.
pub const KILL_WAIT: Duration = Duration::from_secs(2);

/// Records that a scan reads at once.
pub const SCAN_IN_FLIGHT: usize = 16;
/// Claims without `active.<jid>` that a scan looks at, because clients asked for them.
pub const SUSPECTS_MAX: usize = 1_024;

/// Jobs that are looked up at once for returns that nobody here waits for.
pub const STRAYS_IN_FLIGHT: usize = 512;
/// Jobs that are looked up in one second: a flood of invented job ids costs no more.
pub const STRAYS_PER_SECOND: u32 = 200;
/// Returns that may wait for such a look.
pub const STRAYS_WAITING: usize = 4_096;
/// Jobs whose last look is remembered.
pub const STRAYS_KNOWN: usize = 1_024;
/// How long a look is good for when the job was over, or was none.
pub const STRAY_FRESH: Duration = Duration::from_secs(30);
/// When a job that was not over is looked at again for the same returns.
pub const STRAY_SECOND_LOOK: Duration = Duration::from_secs(2);

/// The oldest servers without known holes in JetStream: `(minor, patch)` of version 2. Later minors have none.
pub const SERVER_FLOOR: [(u64, u64); 2] = [(10, 27), (11, 1)];
