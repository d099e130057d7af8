//! Every limit of this crate.

use crate::source_rate::Share;
use std::time::Duration;

/// A JWT that is longer is none of ours: those of accounts list every grant, and every key that was revoked.
pub const JWT_BYTES_MAX: usize = 512 * 1024;
/// A roster that is longer is not read.
pub const ROSTER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Keys in one roster.
pub const MEMBERS_MAX: usize = 10_000;
/// Certificates that are remembered as good, so that each is verified once.
pub const CERTIFICATES_KEPT_MAX: usize = 16_384;
/// The largest message that a peel may send (I-13): what a server takes by itself.
pub const PEEL_PAYLOAD_MAX: i64 = 1024 * 1024;
/// Subscriptions that a peel may hold (I-13): one of commands, those of notices, its inbox, and room.
pub const PEEL_SUBSCRIPTIONS_MAX: i64 = 64;
/// Subscriptions that an operator may hold (I-13): those of jobs that are followed at once, and room.
pub const OPERATOR_SUBSCRIPTIONS_MAX: i64 = 1_024;
/// How long a server remembers a question of a peel that nobody answered. Short: peels could ask without end (I-13).
pub const QUESTION_MAX: Duration = Duration::from_secs(60);
/// The same of an operator, whose request to publish may take a quarter of an hour.
pub const OPERATOR_QUESTION_MAX: Duration = Duration::from_secs(1_000);
/// How long a call past the masters may wait for its answer, and whoever is asked may take to answer.
pub const ANSWER_MAX: Duration = Duration::from_secs(24 * 3600);
/// How far the clocks of a fleet may be apart: a signature may be dated that far ahead of its reader, and a key that has ended
/// still counts for that long.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);
/// How old a request to the masters may be: as old as a clock that is behind makes it. What is older may be one that somebody
/// kept and sends again.
pub const REQUEST_AGE_MAX: Duration = CLOCK_TOLERANCE;
/// How long the certificate of a peel counts at most, and so how long an issuer that was replaced can still be of use to anybody.
pub const CERTIFICATE_LIFE_MAX: Duration = Duration::from_secs(400 * 86_400);
/// How long a join token may be good for.
pub const JOIN_TOKEN_LIFE_MAX: Duration = Duration::from_secs(30 * 86_400);
/// Bytes of the name or glob that a join token is for, and of what people call it.
pub const TOKEN_NAMES_BYTES_MAX: usize = 256;
pub const TOKEN_LABEL_BYTES_MAX: usize = 64;
/// How long a newcomer may take to sign a nonce.
pub const NONCE_LIFE: Duration = Duration::from_secs(60);
/// Nonces that were used within that time and are remembered; then the door is too busy for more.
pub const NONCES_USED_MAX: usize = 65_536;
/// Requests that one address may make at the door at once, and each second after that.
pub const ADDRESS_BURST: u64 = 200;
pub const ADDRESS_PER_SECOND: u64 = 10;
/// Addresses whose requests are counted, in each of two tables.
pub const ADDRESSES_MAX: usize = 16_384;
/// The longest name that can enroll: an id is such a name and 17 more letters, and must be a token of a subject.
pub const ENROLL_NAME_BYTES_MAX: usize = 111;
/// Requests that wait for somebody's word, over all addresses and of one. Who brings a join token needs no such place.
pub const PENDING_MAX: usize = 1_000;
pub const PENDING_OF_ADDRESS_MAX: usize = 100;
/// How long a request waits for somebody's word before another key may ask for the same name.
pub const PENDING_LIFE: Duration = Duration::from_secs(7 * 86_400);
/// How long after a request began to wait its being told is repeated, if it asks again. Less than a stream remembers ids for.
pub const NEWS_AGAIN: Duration = Duration::from_secs(60);
/// Keys that had a name before and whose credentials may not have ended yet.
pub const FORMER_KEYS_MAX: usize = 32;
/// Bytes of the reason that somebody gives for a decision.
pub const REASON_BYTES_MAX: usize = 512;
/// How long what a key signed still counts after its machine replaced it: until everything that was under way has come.
pub const REKEY_OVERLAP: Duration = Duration::from_secs(300);
/// How long the credentials of a peel count that came in by the door: it renews them by itself after two thirds.
pub const ENROLLED_LIFE: Duration = Duration::from_secs(30 * 86_400);
/// The shortest that anybody may set.
pub const ENROLLED_LIFE_MIN: Duration = Duration::from_secs(6);
/// Keys that a master knows to be ended by enrollments.
pub const ENDED_KEYS_MAX: usize = 100_000;
/// What one peel may say to a reader: acks, returns and signs of life together. Ten thousand jobs for one peel are within it; a flood
/// costs its reader no more time than that, and what a stream keeps of it is read later.
pub const PEEL_SHARE: Share = Share { burst: 10_000, per_second: 1_000 };
/// What one member may ask of the masters.
pub const MEMBER_SHARE: Share = Share { burst: 5_000, per_second: 500 };
/// What one peel may ask of them: which peels an expression names costs a look at all of them.
pub const PEEL_QUESTIONS: Share = Share { burst: 100, per_second: 10 };
/// How often the facts of one peel are taken up; in between, the newest wait.
pub const FACTS_SHARE: Share = Share { burst: 20, per_second: 1 };
/// Returns of one peel, of jobs that nobody watches, whose jobs are looked up: half of all such looks at most.
pub const LATE_SHARE: Share = Share { burst: 5_000, per_second: 500 };
/// Sources that a reader knows, in each of two tables: more than peels in a fleet.
pub const SOURCES_MAX: usize = 65_536;
