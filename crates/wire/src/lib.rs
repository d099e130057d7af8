//! Every byte that leaves a process.
//!
//! One noun a file: a message is a struct that is a MessagePack map on the wire, by name, never by position. Types only ever
//! grow: readers ignore keys they do not know, writers never leave out a key that readers need, and an enum that learns a
//! new word stays readable by those who have not heard of it. `golden/` holds the exact bytes of every type; a golden file
//! is never edited, only joined by a newer one.
//!
//! Every message travels in an [`Envelope`] (I-8), which says who signed it, over which subject, id and time. [`subject`]
//! and [`key`] are the only places that build or parse subjects and bucket keys.
//!
//! What is deliberately not here: IO, a clock, randomness, keys. Times, ids and signatures come in as values.

pub mod ack;
pub mod admin;
pub mod audit;
pub mod codec;
pub mod dispatch;
pub mod enroll;
pub mod envelope;
pub mod event;
pub mod exec;
pub mod facts;
pub mod fit;
pub mod heartbeat;
pub mod job;
pub mod key;
pub mod lease;
pub mod ledger;
pub mod lifecycle;
pub mod limits;
pub mod name;
pub mod notify;
pub mod peels;
pub mod progress;
pub mod publish_report;
pub mod published;
pub mod reactor;
pub mod refusal;
pub mod resolve;
pub mod returns;
pub mod roster;
pub mod subject;
pub mod target_digest;
pub mod time;

pub use ack::Ack;
pub use admin::{AdminReply, AdminRequest, PublishRequest, RetryPart, Rollback, UploadedTree};
pub use audit::{AuditEntry, AuditHead};
pub use codec::{DecodeError, DecodeKind, EncodeError, Message, Serial, decode, encode};
pub use dispatch::{DispatchReply, DispatchRequest, Offline};
pub use enroll::{
    EnrollAnswer, EnrollDecision, EnrollGrant, EnrollNonce, EnrollOrder, EnrollOutcome, EnrollRequest,
    Enrollment, EnrollmentStatus, FormerKey, JoinToken, NewToken, ReplacedKey, TokenName, TokenUse,
};
pub use envelope::{Envelope, MessageId, Signer, Unsigned};
pub use event::Event;
pub use exec::{Cancel, ExecRequest, Pace, PeelCommand, PublishFacts, SharedId};
pub use facts::FactsRecord;
pub use heartbeat::{JobAtPeel, MasterHeartbeat, PeelHeartbeat};
pub use job::{Job, JobStatus, Missing, TargetList, TargetPage};
pub use key::{Bucket, Key};
pub use lease::Lease;
pub use ledger::LedgerEntry;
pub use lifecycle::{JobEvent, JobEventKind};
pub use name::{BadName, Jid, MasterId, PeelId, Tag, Token};
pub use notify::Notice;
pub use peels::{PeelStatus, PeelsReply, PeelsRequest};
pub use progress::Progress;
pub use publish_report::{FileChanges, Problems, PublishReport, PublishStatus};
pub use published::{ContentHash, Manifest, ManifestPage, Published, PublishedFile, Revision};
pub use reactor::{ReactorTestReply, ReactorTestRequest, RuleList, RuleStatus, TestedBlock, TestedRule};
pub use refusal::{Refusal, RefusalKind};
pub use resolve::{ExplainedPage, ExplainedPeel, PartSaidNo, ResolveReply, ResolveRequest};
pub use returns::{Cause, Return, RunRevision, ScheduledRun};
pub use roster::{
    Certificate, Member, MemberRole, OperatorRole, Revoked, RoleEffect, RoleRule, Roster, SignedRoster,
};
pub use subject::{BadSubject, EventSubject, Origin, Subject};
pub use target_digest::{TargetDigest, TargetProof, TargetTree};
pub use time::UnixMillis;

/// The version that this crate writes into `v`. A reader never refuses a higher one: types only grow.
pub const VERSION: u32 = 1;

/// What `v` is when a writer left it out.
pub(crate) fn version() -> u32 {
    VERSION
}
