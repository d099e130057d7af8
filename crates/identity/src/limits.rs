//! Every limit of this crate.

use std::time::Duration;

/// A JWT that is longer is none of ours: those of accounts list every grant.
pub const JWT_BYTES_MAX: usize = 64 * 1024;
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
/// How long a server remembers a question of a peel that nobody answered. Short: peels could ask without end (I-13).
pub const QUESTION_MAX: Duration = Duration::from_secs(60);
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
