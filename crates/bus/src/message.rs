//! What travels and what is kept.

use bytes::Bytes;

/// A position in a stream or bucket. Revisions of one key only ever grow.
pub type Sequence = u64;

/// A message as a subscriber or a requester gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub subject: String,
    /// Where an answer is awaited. Whoever answers must check it: a sender chooses it freely.
    pub reply: Option<String>,
    pub payload: Bytes,
}

/// The answer to a publish that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub stream: String,
    pub sequence: Sequence,
    /// A message with this id was there already. Not necessarily ours: ids can be guessed.
    pub duplicate: bool,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: Bytes,
    pub revision: Sequence,
    /// When the server stored it, in milliseconds since 1970.
    pub at: u64,
}

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub subject: String,
    pub payload: Bytes,
    pub sequence: Sequence,
    /// When the server stored it, in milliseconds since 1970.
    pub at: u64,
}

/// A stretch of a replay or a scan, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins; none when there was nothing more.
    pub next: Option<Sequence>,
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A key was there at the start, or was written since.
    Entry(Entry),
    /// Everything that was there at the start has been told. Comes once.
    Current,
}

/// What the server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub connected: bool,
    /// As the server writes it, for example `2.9.10`. Empty before the first connection.
    pub version: String,
    pub max_payload: usize,
    /// Servers of the cluster, as far as this one knows. One for a server that stands alone.
    pub servers: usize,
    /// Whether this account has no JetStream and reads the stores of another message by message: nobody tells it then how much a
    /// store holds ([`crate::Bus::usage`]).
    pub single_reads: bool,
}

/// How much a stream or bucket holds, and who reads it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub messages: u64,
    pub bytes: u64,
    /// How many bytes it may hold; none where it has no limit.
    pub limit: Option<u64>,
    pub consumers: usize,
    /// The sequence of the last message that it ever took.
    pub last: Sequence,
    /// Whether it takes writes: it has a leader, and more than half of those who keep it are there. One that was just lost is
    /// noticed after some seconds.
    pub led: bool,
}

impl Usage {
    /// How full it is, in percent.
    pub fn percent(&self) -> u64 {
        self.limit.map_or(0, |limit| self.bytes.saturating_mul(100) / limit.max(1))
    }
}
