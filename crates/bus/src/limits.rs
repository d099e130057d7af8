//! Every bound of the bus, by name.

use std::time::Duration;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long the server may take to answer, when nothing else is said. Electing a leader takes longer: callers retry.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// A server of a stream that its leader has not heard for so long is gone. They speak every second.
pub const PEER_SILENT_MAX: Duration = Duration::from_secs(5);
/// How often a silent connection is probed. Two probes without an answer end it, so a dead line is noticed after 20 to 30
/// seconds.
pub const PING_INTERVAL: Duration = Duration::from_secs(10);
/// The same for peels, whose heartbeats are probes: a fleet of 50,000 would send 5,000 others a second (J-26).
pub const PING_INTERVAL_OF_PEELS: Duration = Duration::from_secs(150);
/// After so long a client of the memory bus notices that its line is silent, as the probes would.
pub const SILENCE_NOTICED: Duration = Duration::from_secs(25);
/// The memory bus answers no direct get from further back.
pub const STALE_MAX: Duration = Duration::from_secs(10);
/// The longest pause between two tries to reconnect.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(4);
/// The first pause between two tries to reconnect; it doubles.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(50);
/// What the client holds for one subscription before our own queue. Overflow there is told as an event.
pub const CLIENT_QUEUE: usize = 65_536;
/// What the client holds of commands that are not written to the socket yet.
pub const COMMAND_QUEUE: usize = 2_048;
/// Connection events that one listener may lag behind.
pub const EVENTS_KEPT: usize = 256;
/// The longest a closing bus waits for what it still has to send.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Messages of one page of a replay or a scan.
pub const PAGE_MESSAGES_MAX: usize = 1_024;
/// Bytes after which a page ends. One batch may exceed it.
pub const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a question for what a durable reader has now stays at the server.
pub const PULL_SETTLE: Duration = Duration::from_millis(20);
/// The longest that a question stays there before it is asked again. What comes meanwhile to one who hangs is given to another
/// only after its ack wait, so this is not to be long.
pub const PULL_QUESTION: Duration = Duration::from_secs(1);
/// How often one who waits for an answer looks whether the connection is still the one that it asked over.
pub const PULL_LOOK: Duration = Duration::from_secs(1);
/// How long after its end a question is taken for unanswered.
pub const PULL_GRACE: Duration = Duration::from_millis(500);
/// How long a message that a stream is known to keep may take to come; after that it has expired meanwhile.
pub const READ_WAIT: Duration = Duration::from_secs(2);
/// Messages asked for at once inside a page.
pub const BATCH_MESSAGES_MAX: usize = 64;
/// Messages that are read one by one before a consumer is made for the rest.
pub const SINGLE_READS_MAX: usize = 16;
/// Chains of single reads that go side by side, in an account without JetStream.
pub const CHAINS_AT_ONCE: usize = 64;
/// How much longer the next stretches are where little was found in those before.
pub const STRETCH_GROWTH: u64 = 8;
/// How often a consumer is asked for.
pub const CONSUMER_TRIES: usize = 3;
/// How long the server may take to make one before it is asked again.
pub const CONSUMER_WAIT: Duration = Duration::from_secs(2);
/// Keys of one listing.
pub const KEYS_MAX: usize = 1_000_000;
/// After this time the server forgets a consumer whose reader was killed.
pub const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(10);
/// How long a watch waits for the next old entry before it asks the server whether there is one.
pub const WATCH_SETTLE: Duration = Duration::from_secs(1);
/// After so many such waits without an old entry, and without a consumer to ask about, there is none.
pub const WATCH_SILENCES: u32 = 2;

/// How often a watch looks whether its bucket is still the same.
pub const WATCH_LOOK: Duration = Duration::from_secs(3);

/// The payload limit of a server that nobody configured.
pub const PAYLOAD_DEFAULT: usize = 1024 * 1024;
/// How long message ids are remembered when a stream does not say.
pub const DUPLICATE_WINDOW_DEFAULT: Duration = Duration::from_secs(120);
/// Copies of each stream, on clusters that have the servers.
pub const REPLICAS_MAX: usize = 3;

/// How long jobs, returns and events are kept.
pub const HISTORY_AGE: Duration = DAY.saturating_mul(7);
/// A master that has not written its heartbeat for so long is gone.
pub const MASTER_HEARTBEAT_TTL: Duration = Duration::from_secs(6);
/// A lease that was not renewed for so long is free.
pub const LEASE_TTL: Duration = Duration::from_secs(15);

/// How long a reactor may be silent about an event that it took.
pub const REACTOR_ACK_WAIT: Duration = Duration::from_secs(60);
/// Events that all reactors together may have taken and not yet acknowledged.
pub const REACTOR_UNACKED_MAX: usize = 64;
/// How long whoever took a return may be silent about it.
pub const LATE_RETURNS_ACK_WAIT: Duration = Duration::from_secs(30);
/// Returns that all masters together may have taken and not yet acknowledged.
pub const LATE_RETURNS_UNACKED_MAX: usize = 65_536;

/// Largest message of the streams of jobs and events, and of the files. The default payload limit of a server.
pub const MESSAGE_BYTES_MAX: u64 = MIB;
/// Largest heartbeat, lease or other small record.
pub const SMALL_RECORD_BYTES_MAX: u64 = 16 * KIB;

/// How long the audit log is kept.
pub const AUDIT_AGE: Duration = DAY.saturating_mul(400);
pub const AUDIT_BYTES_MAX: u64 = 128 * MIB;
pub const JOB_EVENTS_BYTES_MAX: u64 = 512 * MIB;
pub const EVENTS_BYTES_MAX: u64 = 1024 * MIB;
/// Bytes of what the reactor decided.
pub const LEDGER_BYTES_MAX: u64 = 512 << 20;
pub const EVENTS_MESSAGES_MAX: u64 = 1_000_000;
pub const JOBS_BYTES_MAX: u64 = 256 * MIB;
pub const JOB_RETURNS_BYTES_MAX: u64 = 1024 * MIB;
pub const JOB_TARGETS_BYTES_MAX: u64 = 256 * MIB;
pub const HEARTBEATS_BYTES_MAX: u64 = 64 * MIB;
pub const FACTS_BYTES_MAX: u64 = 256 * MIB;
pub const LEASES_BYTES_MAX: u64 = 4 * MIB;
pub const STATE_FILES_BYTES_MAX: u64 = 512 * MIB;
pub const SETTINGS_FILES_BYTES_MAX: u64 = 128 * MIB;
pub const REACTOR_FILES_BYTES_MAX: u64 = 64 * MIB;
/// A few versions of a roster of thousands of keys.
pub const TRUST_BYTES_MAX: u64 = 16 * MIB;
/// The enrollments of 50,000 peels, and thousands that wait.
pub const ENROLLMENTS_BYTES_MAX: u64 = 128 * MIB;
