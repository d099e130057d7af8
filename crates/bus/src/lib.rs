//! What masters, peels and the command line need of a bus, and nothing of how NATS does it.
//!
//! [`Bus`] is one object-safe trait with two bodies: [`nats`] is the only code of the product that names the NATS client,
//! [`memory`] keeps everything in a process, on a clock that is handed in, with faults from a seed. The laws in `tests/laws/`
//! hold for both; that is what lets a simulator stand for a fleet.
//!
//! Three habits run through it:
//!
//! - Nothing waits for ever. A call on a bus without a connection fails at once with [`Kind::Disconnected`], so no old message
//!   turns up minutes later; a call on a closed bus fails with [`Kind::Closed`]; every answer of the server has a deadline.
//! - [`Kind::Timeout`] means "unknown", never "no". Repeat with the same message id, or read before writing again.
//! - Nothing is lost in silence. A subscription is bounded and says how many messages it dropped, and where.
//!
//! What a peel uses (`publish`, `publish_stored`, `request`, `subscribe`, `get`, `put`, `create`, `update`) makes no JetStream
//! consumer, and names the key in the subject, so that grants can name keys. `keys`, `scan`, `replay`, `watch`, `purge`,
//! `ensure` and durable readers are for masters and operators.

mod durable;
mod error;
mod event;
pub mod limits;
pub mod memory;
mod message;
pub mod nats;
mod pattern;
mod queue;
pub mod storage;
mod subscription;

pub use durable::{Acknowledge, DurableReader, Pending, Reached, Start, Taken};
pub use error::{Error, Kind};
pub use event::{Event, Events};
pub use message::{Entry, Info, Message, Page, Record, Seen, Sequence, Stored, Usage};
pub use queue::Delivery;
pub use storage::{Drift, Found, Store};
pub use subscription::{Listen, Subscription, Watch};

pub use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The future of one call.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// One connection to the bus. Share it as `Arc<dyn Bus>`; any number of calls may be under way at once.
pub trait Bus: Send + Sync {
    /// What is known of the server now.
    fn info(&self) -> Info;

    /// What happens to the connection from now on.
    fn events(&self) -> Events;

    /// Sends a message to whoever listens now. Once this returns the message may still be lost.
    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, ()>;

    /// Sends a message that a stream keeps, and waits until it is kept. Of messages with the same id within the stream's
    /// window the first is kept.
    fn publish_stored<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        id: Option<&'a str>,
    ) -> Answer<'a, Stored>;

    /// The same for what a subject says once: the first message of the subject is kept, and a conflict says that the stream has
    /// one, however long ago it came.
    fn publish_first<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, Stored>;

    /// Sends a message and waits for the first answer. Fails at once when nobody listens.
    fn request<'a>(&'a self, subject: &'a str, payload: Bytes, timeout: Duration) -> Answer<'a, Message>;

    /// Listens. When there is a connection, the server knows of it once this returns; else it will once there is one.
    fn subscribe<'a>(&'a self, pattern: &'a str, listen: Listen) -> Answer<'a, Subscription>;

    /// The value of a key, read without a consumer. On a cluster any server that has the bucket answers, which may lag.
    fn get<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>>;

    /// The value of a key as the leader of the bucket has it: never older than the last write that was answered. Costs the
    /// leader more than [`Bus::get`]: for what decides who owns something.
    fn get_latest<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>>;

    /// Writes a key, whatever it was.
    fn put<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence>;

    /// Writes a key that does not exist; else [`Kind::Conflict`].
    fn create<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence>;

    /// Writes a key whose revision is the expected one; else [`Kind::Conflict`].
    fn update<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Bytes,
        expected: Sequence,
    ) -> Answer<'a, Sequence>;

    /// Removes a key without a trace. With an expected revision it is removed only if that is still the current one, else
    /// [`Kind::Conflict`]; that holds for buckets that keep one value a key.
    fn purge<'a>(&'a self, bucket: &'a str, key: &'a str, expected: Option<Sequence>) -> Answer<'a, ()>;

    /// Removes all keys of a pattern without a trace.
    fn purge_all<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, ()>;

    /// The keys of a pattern (`active.*`, `>`), sorted, without their values and without a consumer.
    fn keys<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, Vec<String>>;

    /// The values of a pattern in the order they were written, page by page. Begin with 0. Of a bucket that keeps several values a
    /// key, all of them.
    fn scan<'a>(&'a self, bucket: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Entry>>;

    /// What a stream keeps of a pattern in the order it came, page by page. Begin with 0. Leaves no consumer behind.
    fn replay<'a>(&'a self, stream: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Record>>;

    /// Makes a durable reader unless there is one of that name; tells how an existing one differs, and changes nothing about
    /// it. Costs one consumer, however many share it.
    fn ensure_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Found>;

    /// Brings how an existing durable reader gives (its ack wait, its room, its deliveries) to what is wanted, and says what was
    /// different. What it reads, and how far it is, stays.
    fn adjust_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Vec<Drift>>;

    /// Takes up to so many messages of a durable reader; waits that long for the first. Each must be acknowledged. While all
    /// who read have as many unacknowledged as they may, there is nothing to take.
    fn take<'a>(&'a self, reader: &'a DurableReader, count: usize, wait: Duration) -> Answer<'a, Vec<Taken>>;

    /// Says what is to become of a message that was taken. Sent and not waited for: if it is lost, the message comes again.
    fn acknowledge<'a>(&'a self, taken: &'a Taken, what: Acknowledge) -> Answer<'a, ()>;

    /// How much a durable reader has before it.
    fn pending<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Pending>;

    /// The newest message that a stream keeps of one subject, read without a consumer. On a cluster any server that has the
    /// stream answers, which may lag.
    fn last<'a>(&'a self, stream: &'a str, subject: &'a str) -> Answer<'a, Option<Record>>;

    /// The message at one place of a stream, as its leader has it; none when it is gone. Says whose a message is that a
    /// publish called a duplicate.
    fn at<'a>(&'a self, stream: &'a str, sequence: Sequence) -> Answer<'a, Option<Record>>;

    /// Tells the entries of a pattern and what is written to them later, across reconnects. Costs a consumer: only masters
    /// watch. Ends with an error when the bucket is gone or was made again: what was told is of another one then. `capacity` is how far the telling may run ahead of the reader.
    fn watch<'a>(&'a self, bucket: &'a str, pattern: &'a str, capacity: usize) -> Answer<'a, Watch>;

    /// Creates a stream or bucket unless it exists; tells how an existing one differs, and changes nothing about it but that
    /// one with too few copies gets more.
    fn ensure<'a>(&'a self, store: &'a Store, replicas: usize) -> Answer<'a, Found>;

    /// How much a stream or bucket (by the name of its [`Store`]) holds.
    fn usage<'a>(&'a self, store: &'a Store) -> Answer<'a, Usage>;

    /// The place of the newest message of a stream or bucket; 0 where it is empty. Where newer ones were removed, theirs or the place of
    /// what is left.
    fn end<'a>(&'a self, store: &'a Store) -> Answer<'a, Sequence> {
        Box::pin(async move { Ok(self.usage(store).await?.last) })
    }

    /// Waits until the server has taken everything that was sent on this connection before.
    fn flush(&self) -> Answer<'_, ()>;

    /// Gives up the connection, which answers nothing any more, and makes another: told as disconnected and reconnected.
    fn reconnect(&self) -> Answer<'_, ()>;

    /// Sends what waits to be sent, ends all subscriptions and watches, and closes. Calls under way fail with
    /// [`Kind::Closed`]. Closing twice is fine. A bus that is dropped instead may not send what still waits.
    fn close(&self) -> Answer<'_, ()>;
}
