//! Every bound of a master, by name.

use std::time::Duration;

/// Jobs that run at once over all masters (J-27); more are refused as "ask again".
pub const JOBS_MAX: usize = 10_000;
/// Targets of one job (J-27).
pub const TARGETS_MAX: usize = 100_000;
/// Messages that may wait for one job. A burst of acks and returns of the largest job fits; what does not is read again
/// from the stream.
pub const JOB_INBOX: usize = 262_144;
/// Acks, returns or cancels that may wait to be told apart.
pub const ROUTER_QUEUE: usize = 131_072;
/// Requests that may wait for a master.
pub const REQUEST_QUEUE: usize = 4_096;
/// Requests that are worked on at once.
pub const REQUESTS_IN_FLIGHT: usize = 64;
/// What a name costs in an answer beside its letters.
pub const NAME_EXTRA_BYTES: usize = 3;
/// What an answer holds beside names: its envelope.
pub const ANSWER_EXTRA_BYTES: usize = 4_096;
/// Clients that may wait for one job to be accepted.
pub const REQUESTERS_MAX: usize = 64;
/// Names that no peel has and that the record of a job keeps, as the target listed them.
pub const UNKNOWN_PEELS_MAX: usize = 256;
/// Returns that are read from the leader at once, for a retry.
pub const RETRY_READS_IN_FLIGHT: usize = 64;
/// Jobs that wait to be started.
pub const STARTS_WAITING: usize = 64;
/// Returns of one job that are written at once.
pub const PERSISTS_IN_FLIGHT: usize = 128;
/// Bytes of returns that wait in one master, over all its jobs, until they are stored. What does not fit is read again from the
/// stream.
pub const RETURNS_HELD_BYTES_MAX: usize = 256 << 20;
/// Between two looks whether a return that was read from the stream has room.
pub const HELD_PAUSE: Duration = Duration::from_millis(50);
/// Commands that are sent to peels before other work gets its turn.
pub const SENDS_AT_A_TIME: usize = 64;
/// Tries to publish a status or a cancel.
pub const EVENT_TRIES_MAX: u32 = 5;
/// Tells of one job that may wait.
pub const EVENTS_WAITING: usize = 64;

/// Decisions that may wait to be written down.
pub const AUDIT_WAITING: usize = 8_192;
/// Bytes of a text of one of them.
pub const AUDIT_TEXT_MAX: usize = 1_024;
/// Events of a master that may wait to be told, and that are told at once.
pub const TELLS_WAITING: usize = 65_536;
pub const TELLS_IN_FLIGHT: usize = 64;
/// How long an event of a master is tried to be told before it is lost: no longer than the server remembers its id, or it
/// would be told twice.
pub const TELL_LIMIT: Duration = Duration::from_secs(100);
/// Ids that an event is tried under where others have taken them.
pub const IDS_TRIED: usize = 4;
/// From this age of its cause on, what is sent is looked for before it is sent again: well within what the server remembers.
pub const LOOK_BEFORE_SENDING: Duration = Duration::from_secs(60);
/// How long a stop waits for the events that are not told yet, and for the ledger.
pub const EVENTS_END_LIMIT: Duration = Duration::from_secs(3);
/// How often a stop looks whether the ledger has been told.
pub const LEDGER_END_PAUSE: Duration = Duration::from_millis(10);

/// How long a change of presence must last before it is told.
pub const PRESENCE_DAMPING: Duration = Duration::from_secs(30);
/// Changes of more than so much of the fleet within this time are one event.
pub const PRESENCE_STORM_PERCENT: usize = 5;
pub const PRESENCE_STORM_WINDOW: Duration = Duration::from_secs(10);
/// Looks at the presence whose news may wait to be told.
pub const PRESENCE_WAITING: usize = 64;
/// Peels that came, and peels that went, that one event names.
pub const PRESENCE_NAMED: usize = 100;
/// Presence events that a master remembers, and for how long, in case that the one who tells them dies. Less than a message id
/// is remembered.
pub const PRESENCE_REMEMBERED: usize = 4_096;
pub const PRESENCE_RETOLD: Duration = Duration::from_secs(60);

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
/// Heartbeats that may wait to be read: those of 50,000 peels for more than ten seconds.
pub const HEARTBEATS_WAITING: usize = 65_536;
/// Notices that may wait; all say the same.
pub const NOTICES_WAITING: usize = 16;
/// The longest pause between two looks whose heartbeat has ended, and the shortest.
pub const EXPIRY_LOOK_MAX: Duration = Duration::from_secs(5);
pub const EXPIRY_PAUSE: Duration = Duration::from_secs(1);
/// Offline targets that an answer names.
pub const OFFLINE_NAMED: usize = 3;
/// How often peels are looked for that nobody saw for `timing.forget_peels`.
pub const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// Jobs that are looked up at once because peels work on them.
pub const OVER_LOOKS: usize = 64;
/// Peels that wait for the look at one job; who is not among them names the job again.
pub const OVER_WAITING: usize = 65_536;
/// Cancels of jobs that are over, on their way at once.
pub const OVER_SENDS: usize = 1_024;
/// Jobs of which is remembered whether they are over.
pub const OVER_KNOWN: usize = 4_096;
/// How long it is believed that a job is not over: less than a heartbeat.
pub const RUNNING_FRESH: Duration = Duration::from_secs(2);
/// How long it is remembered that one is.
pub const OVER_FRESH: Duration = Duration::from_secs(60);
/// How often the index looks for peels that were removed.
pub const RELIST: Duration = Duration::from_secs(600);
/// Peels that are asked at once to publish their facts again; who is not among them is asked with the next look.
pub const FACTS_ASKED: usize = 10_000;
/// How long after that the index looks who has done so.
pub const FACTS_AWAITED: Duration = Duration::from_secs(15);
/// How often facts are taken up that had to wait, because their peel writes them more often than its share.
pub const FACTS_LATER: Duration = Duration::from_secs(1);
/// How often a master looks whether all stores are there. One that somebody removed is made again.
pub const STORES_ENSURE: Duration = Duration::from_secs(30);
/// How long rendered settings of a peel are good for targeting.
pub const SETTINGS_FRESH: Duration = Duration::from_secs(5);

/// How often the stores are looked at.
pub const STORES_LOOK: Duration = Duration::from_secs(2);
/// Stores that jobs do not need are looked at with every fifth look.
pub const OTHERS_EVERY: u32 = 5;
/// How long after a look that found nothing to remove the next one waits: it reads every record.
pub const PRUNE_PAUSE: Duration = Duration::from_secs(20);
/// How often the holder of the lease looks whether old jobs must make room.
pub const PRUNE_EVERY: Duration = Duration::from_secs(3);
/// How long a kill waits for the job itself to say what became of it.
pub const KILL_WAIT: Duration = Duration::from_secs(2);

/// Records that a scan reads at once.
pub const SCAN_IN_FLIGHT: usize = 16;
/// Claims without `active.<jid>` that a scan looks at, because clients asked for them.
pub const UNMARKED_MAX: usize = 1_024;

/// How often the end of the stream is noted, from where it is read again after a loss.
pub const POSITION_EVERY: Duration = Duration::from_secs(5);
/// Between two pages that are read again: one loss costs the server at most so many pages a second.
pub const CATCH_UP_PAUSE: Duration = Duration::from_millis(50);

/// Returns that are taken at once to see whether any is late.
pub const LATE_BATCH: usize = 512;
/// Batches of them that are under way at once.
pub const LATE_BATCHES_IN_FLIGHT: usize = 32;
/// How long one question for late returns waits at the server.
pub const LATE_WAIT: Duration = Duration::from_secs(5);
/// How long after a batch that is not full the next one is taken.
pub const LATE_GATHER: Duration = Duration::from_millis(50);
/// How long a batch rests before it is looked at, so that the owners of its jobs have written what they heard.
pub const LATE_REST: Duration = Duration::from_secs(1);
/// Jobs and returns that are read at once for one batch.
pub const LATE_LOOKS_IN_FLIGHT: usize = 64;
/// Jobs that are read in one second: a flood of invented job ids costs no more.
pub const LATE_LOOKS_PER_SECOND: u32 = 1_000;
/// How long a return beyond the share of its peel waits at the server: until that share is whole again.
pub const LATE_FLOOD_PAUSE: Duration = Duration::from_secs(10);
/// How often a return without a job is met before it is let go.
pub const LATE_MISSING_LOOKS: u64 = 3;
/// The longest until a return that needs more is met again.
pub const LATE_AGAIN_MAX: Duration = zester_bus::limits::LATE_RETURNS_ACK_WAIT;
/// Jobs that ended here with all their returns and are remembered as such: those of the time that a batch rests, at a thousand a
/// second.
pub const ENDED_JOBS_KNOWN: usize = 4_096;
/// Jobs that are over and remembered as such.
pub const LATE_JOBS_KNOWN: usize = 1_024;
/// How long they are.
pub const LATE_JOB_FRESH: Duration = Duration::from_secs(30);
/// At which try a late return that cannot be stored is told of.
pub const LATE_WARN_AFTER: u64 = 10;

/// The oldest servers without known holes in JetStream: `(minor, patch)` of version 2. Later minors have none.
pub const SERVER_FLOOR: [(u64, u64); 2] = [(10, 27), (11, 1)];

/// Join tokens that may be kept, and how long one is after it ended.
pub const JOIN_TOKENS_MAX: usize = 10_000;
pub const JOIN_TOKEN_KEPT: Duration = Duration::from_secs(7 * 86_400);
/// The longest word of a join token that is looked for.
pub const JOIN_WORD_BYTES_MAX: usize = 256;
/// How often a request is tried while others write the same record.
pub const ENROLL_TRIES_MAX: u32 = 5;
/// First signs of life that may wait to be noted.
pub const SIGHTINGS_WAITING: usize = 1_024;
/// How soon the server is told again of keys that it could not be told of.
pub const REVOKE_AGAIN: Duration = Duration::from_secs(10);
/// How often a master finds out whether the server would still listen, where nobody was ended meanwhile.
pub const REVOKE_LOOK: Duration = Duration::from_secs(60);
/// How long an operator's answer waits for the server to know. Less than the operator waits for it.
pub const REVOKE_WAIT: Duration = Duration::from_secs(3);

/// How often a lease is looked at that is kept by a task of its own.
pub const LEASE_LOOK: Duration = Duration::from_millis(500);
/// How often a master looks whether it has become, or is no longer, the one who publishes.
pub const PUBLISH_LOOK: Duration = Duration::from_millis(500);
/// A directory that changes is published once nothing changed in it for so long.
pub const PUBLISH_QUIET: Duration = Duration::from_millis(200);
/// Within which the system tells of a change to a directory that was read.
pub const PUBLISH_TOLD: Duration = Duration::from_millis(30);
/// How often a directory is read through although nobody told that it changed.
pub const PUBLISH_EVERY: Duration = Duration::from_secs(300);
/// A directory that changes for so long is told, and goes on being waited for.
pub const PUBLISH_RESTLESS: Duration = Duration::from_secs(5);
/// How long a request to publish waits for its end before it is told to ask again.
pub const PUBLISH_ANSWER_WAIT: Duration = Duration::from_secs(2);
/// How long a master waits for the one that publishes: less than a client waits for it.
pub const PASS_WAIT: Duration = Duration::from_secs(4);
/// Requests to publish that may wait.
pub const ORDERS_WAITING: usize = 8;
/// Requests to publish whose answer is remembered for who asks again.
pub const ORDERS_KEPT: usize = 32;
/// How long a master that has nothing of its own to publish keeps the lease after somebody asked it to.
pub const LEASE_WANTED: Duration = Duration::from_secs(60);
/// How old contents are that nobody published before they are removed: longer than an upload and its publish may take.
pub const LEFTOVERS_REST: Duration = Duration::from_secs(1_200);
/// Paths of each sort of change that an answer names.
pub const CHANGES_NAMED: usize = 500;

/// How often each peel is asked for in `settings_ext`, and how often a new one is looked for.
pub const EXTERNAL_EVERY: Duration = Duration::from_secs(60);
pub const EXTERNAL_LOOK: Duration = Duration::from_secs(2);
/// How long one round over all peels may take, and how many are asked for at once.
pub const EXTERNAL_ROUND: Duration = Duration::from_secs(60);
pub const EXTERNAL_AT_ONCE: usize = 8;
/// Problems that `/readyz` names.
pub const EXTERNAL_NAMED: usize = 3;

/// Events that one master works on or that wait in it: at least as many as all masters may have taken.
pub const REACTOR_QUEUE: usize = 64;
/// Events that are taken at once.
pub const REACTOR_BATCH: usize = 64;
/// How long one question for events waits at the server.
pub const REACTOR_WAIT: Duration = Duration::from_secs(5);
/// Files that are rendered at once, when nobody says.
pub const REACTOR_WORKERS: usize = 4;
/// The most that anybody may say.
pub const REACTOR_WORKERS_MAX: usize = 256;
/// How long one file may take to render.
pub const REACTOR_RENDER_TIMEOUT: Duration = Duration::from_secs(30);
/// After so long an event comes again that found no room.
pub const REACTOR_BACKPRESSURE: Duration = Duration::from_secs(5);
/// One that comes again and again comes at most so many times later.
pub const REACTOR_PATIENCE: u32 = 12;
/// Events of which this master remembers that it handed them back untried.
pub const REACTOR_WAITED: usize = 4_096;
/// After so long a reactor that could not start tries again.
pub const REACTOR_START_PAUSE: Duration = Duration::from_secs(60);
/// How often the lag is looked at and breakers are swept.
pub const REACTOR_LOOK: Duration = Duration::from_secs(15);
/// How long rules rest after a change before they are loaded, and up to how much longer.
pub const REACTOR_RELOAD_DEBOUNCE: Duration = Duration::from_secs(2);
pub const REACTOR_RELOAD_JITTER: Duration = Duration::from_secs(5);
/// How often rules are looked at although nobody told of new ones, and while there are none.
pub const REACTOR_RULES_EVERY: Duration = Duration::from_secs(60);
pub const REACTOR_RULES_AWAITED: Duration = Duration::from_secs(2);
/// How often a master looks whether rules were ever published.
pub const FIRST_RULES_LOOK: Duration = Duration::from_secs(2);
/// Blocks that logged and are remembered, so that a rule that is tried again does not say it again.
pub const LOGGED_REMEMBERED: usize = 4_096;
/// An event that waits for another try, of which nothing is heard for so long, is no more this master's.
pub const STUCK_TOLD: Duration = Duration::from_secs(30);
/// How long `/readyz` tells of events that left the stream unread.
pub const UNREAD_TOLD: Duration = Duration::from_secs(3_600);
/// How often the ledger and the log are told of more of them.
pub const UNREAD_EVERY: Duration = Duration::from_secs(10);
/// Stretches of lost events that wait for that and are told apart; more make one stretch with the last.
pub const UNREAD_STRETCHES: usize = 64;
/// Entries that wait to be written to the ledger; more are lost and counted.
pub const LEDGER_QUEUE: usize = 16_384;
/// Entries that are written before other work gets its turn.
pub const LEDGER_BATCH: usize = 256;
/// How often an entry is tried, so long apart: longer than a stream takes to find a leader. Then it is lost and counted.
pub const LEDGER_TRIES: u32 = 6;
pub const LEDGER_AGAIN: Duration = Duration::from_secs(2);
/// Pairs of rule and source whose order is kept at once.
pub const LANES_MAX: usize = 1_024;
/// Tests of rules that may wait, and that run at once.
pub const REACTOR_TESTS_WAITING: usize = 64;
/// Rules that one answer lists.
pub const RULES_LISTED: usize = 2_000;
/// Problems that `/readyz` and an answer name.
pub const RULE_PROBLEMS_NAMED: usize = 10;
