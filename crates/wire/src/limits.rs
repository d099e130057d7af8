//! The bounds of what is read from the wire.

use std::time::Duration;

/// Largest message or record that is decoded: the most that a NATS server can sensibly be told to carry.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Targets that a job record names itself. Those of a larger job stand on pages of their own (J-23).
pub const TARGETS_INLINE_MAX: usize = 256;
/// Targets of one page. A page of the longest names fits the smallest payload that a server allows by default.
pub const TARGETS_PAGE: usize = 2_000;
/// Bytes of names that one answer holds; who wants to know more reads the pages of the job.
pub const NAMES_ANSWERED_BYTES_MAX: usize = 512 * 1024;
/// The longest target expression that travels on to every peel. Of a longer one only its digest does (J-24).
pub const EXPRESSION_CARRIED_MAX: usize = 512;
/// How deep maps and lists of a message may nest. Decoding recurses, and a worker's stack is small.
pub const NESTING_MAX: usize = 96;
/// Longest name of a peel, a master or any other token of a subject.
pub const TOKEN_BYTES_MAX: usize = 128;
/// Segments of one event tag.
pub const TAG_SEGMENTS_MAX: usize = 16;
/// Longest subject that is parsed.
pub const SUBJECT_BYTES_MAX: usize = 1024;
/// Longest message id.
pub const MESSAGE_ID_BYTES_MAX: usize = 128;
/// How much of a decoder's own words an error repeats: they quote what a stranger sent.
pub const ERROR_WORDS_BYTES_MAX: usize = 200;
/// Jobs that one heartbeat names; a peel that works on more names them in turn.
pub const HEARTBEAT_JOBS_MAX: usize = 32;
/// How often a peel writes down that it is there. In between only its heartbeats say so, which cost no disk (J-26).
pub const SEEN_EVERY: Duration = Duration::from_secs(300);
/// The longest time between two heartbeats of a peel, however large its fleet is (J-26). A server asks by itself whoever is silent for
/// two minutes.
pub const HEARTBEAT_EVERY_MAX: Duration = Duration::from_secs(100);
/// A peel that was told to beat more seldom is gone after so many heartbeats that did not come.
pub const HEARTBEATS_MISSED: u32 = 3;
/// Heartbeats for each record of a peel that beats seldom.
pub const HEARTBEATS_A_RECORD: u32 = 6;
/// Peels of one page of a listing. A page must fit the smallest payload that a server allows by default.
pub const PEELS_PAGE_MAX: usize = 1_000;
/// Peels of one page of explanations, which are longer than a line of a listing.
pub const EXPLAINED_PAGE_MAX: usize = 250;
/// Peels that one request may forget.
pub const FORGET_MAX: usize = 1_000;
