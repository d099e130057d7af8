//! The bounds of the actor.

use std::time::Duration;

/// Messages that may wait to be read. More are dropped and counted. A master that misses an ack asks again; a cancel that
/// was dropped comes again as the answer to the next heartbeat, which is sent at once.
pub const COMMANDS_WAITING_MAX: usize = 256;
/// Requests that were read and wait for a task; more are dropped, and the master asks again.
pub const REQUESTS_WAITING_MAX: usize = 256;
/// Tasks under way; with so many, requests wait until some have ended. Cancels do not.
pub const TASKS_MAX: usize = 1_024;
/// Returns that are on their way to a master at once: each is held in memory meanwhile.
pub const SENDS_MAX: usize = 16;
/// How often an ack is tried. A master that misses it asks again.
pub const ACK_TRIES: usize = 3;
/// Progress of one execution that may wait to be sent; more is dropped, the return has it all.
pub const PROGRESS_WAITING_MAX: usize = 256;
/// How long the last progress of an execution may take before its return goes on without it.
pub const PROGRESS_DRAIN: Duration = Duration::from_secs(1);
/// What an envelope, the subject and the headers take of a message.
pub const ENVELOPE_ROOM: usize = 4 * 1024;
/// How deep an answer may nest: readers refuse what is deeper, envelope and return around it included.
pub const ANSWER_NESTING_MAX: usize = 64;
/// A line on which no heartbeat was answered for so long is given up for another.
pub const LINE_SILENT_MAX: Duration = Duration::from_secs(15);
/// How often the facts are gathered.
pub const FACTS_EVERY: Duration = Duration::from_secs(300);
/// How often it is tried whether the disk takes what is written; with every heartbeat while it does not.
pub const DISK_CHECK_EVERY: Duration = Duration::from_secs(60);
/// How much longer than the processes of an execution a stopping peel may take, to store and send what it has.
pub const STOP_ROOM: Duration = Duration::from_secs(10);
/// How long a stopping peel may take to say so.
pub const GOODBYE_LIMIT: Duration = Duration::from_secs(2);
/// Events of beacons that wait for the bus; of more, the oldest goes.
pub const BEACON_EVENTS_WAITING_MAX: usize = 256;
/// How soon an event that could not be sent is tried again.
pub const BEACON_SEND_PAUSE: Duration = Duration::from_secs(1);
/// Events of beacons that are sent on end, and the rest after each so many: masters take 30 at once and two a second of one
/// source, and drop what is more.
pub const BEACON_BURST: usize = 20;
pub const BEACON_BURST_PAUSE: Duration = Duration::from_secs(10);
/// How often an event of a job is tried while there is a connection.
pub const EVENT_TRIES: usize = 3;
/// How long the states of the start may take: a new machine has much to install.
pub const STARTUP_BUDGET: Duration = Duration::from_secs(24 * 60 * 60);
