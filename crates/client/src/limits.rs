//! Every bound of the client, by name.

use std::time::Duration;

/// How long one master may take to answer before another is asked.
pub const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// How long masters are asked again before there is said to be none.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Between two questions to the masters.
pub const ASK_PAUSE: Duration = Duration::from_millis(250);

/// How long masters are asked to publish before nobody is said to: a dead one keeps its lease for 15 s.
pub const PUBLISH_PATIENCE: Duration = Duration::from_secs(30);
/// How long one publish may take.
pub const PUBLISH_LIMIT: Duration = Duration::from_secs(900);
/// How often a tree is brought again because what was brought is not whole: a master may just have removed what nobody listed.
pub const UPLOAD_TRIES: usize = 3;

/// How often the record of a followed job is read: events may be lost, and masters may fail over in silence.
pub const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How soon the record is read again when an event says that the job is over and the record does not yet.
pub const POLL_SOON: Duration = Duration::from_millis(200);
/// How long after its deadline a job is still followed. A failover takes up to two looks of 3 s and the 6 s that a dead master's
/// heartbeat lives, and a cluster may elect a leader meanwhile; after that nobody will finish the job.
pub const FINISH_GRACE: Duration = Duration::from_secs(60);
/// Messages of a followed job that may wait. What is dropped beyond is read from the stream instead.
pub const FOLLOW_QUEUE: usize = 16_384;

/// Requests of a direct call that are under way at once.
pub const DIRECT_IN_FLIGHT: usize = 256;
/// How much longer than the work a direct answer may take.
pub const DIRECT_GRACE: Duration = Duration::from_secs(2);

/// Records that are read at once.
pub const READS_IN_FLIGHT: usize = 64;
/// How often returns are read that the record counts and the server that was asked does not have yet.
pub const LAG_READS: usize = 10;
/// Between two such reads.
pub const LAG_PAUSE: Duration = Duration::from_millis(200);
/// How far back a listing reads at first, for each job that is wanted: about as much as one writes to its bucket.
pub const WRITES_A_JOB: u64 = 8;
/// Jobs of reactions that the tree of an event looks at. Their ids do not sort by time.
pub const REACTIONS_LISTED: usize = 1_000;
/// Jobs that are named when a prefix fits several.
pub const CANDIDATES_NAMED: usize = 5;
/// How long a master may take to say who is there, before the records have to do.
pub const LIST_WAIT: Duration = Duration::from_secs(2);
/// Peels that one question names.
pub const NAMED_AT_ONCE: usize = 500;

/// Events of a watch that may wait. What is dropped beyond is read from the stream instead.
pub const WATCH_QUEUE: usize = 16_384;
/// Events that a watch remembers to have shown.
pub const EVENTS_REMEMBERED: usize = 65_536;

/// Events that are looked at for what a reaction led to.
pub const CHAIN_EVENTS_READ: usize = 200_000;
/// Events, jobs and decisions of one tree.
pub const TREE_NODES_MAX: usize = 1_000;
