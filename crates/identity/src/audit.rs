//! The chain of the audit log (I-6): writing its next entry, and finding where one that was stored breaks.
//!
//! Every start of a master is a chain of its own, because only then a chain has one writer, whatever two masters do at once and wherever
//! one crashes. The first entry of a chain names the end of the one before it, so that nothing is missing at the joint either.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use zester_wire::envelope::joined;
use zester_wire::{AuditEntry, AuditHead, MasterId, UnixMillis, VERSION};

/// Sets our hashes apart from any others over the same bytes.
const DOMAIN: &[u8] = b"zester.audit.1";
/// The act of the first entry of a chain, and of the last of one that ended in order.
pub const STARTED: &str = "started";
pub const STOPPED: &str = "stopped";

/// The hash of an entry, over the bytes that were signed.
pub fn hash(payload: &[u8]) -> Vec<u8> {
    Sha256::digest(joined(&[DOMAIN, payload])).to_vec()
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    pub act: &'static str,
    /// Who wanted it.
    pub who: String,
    pub key: String,
    pub about: String,
    /// Why not; empty where it was done.
    pub refused: String,
    /// The id of the message that asked for it.
    pub request: String,
}

/// The writing end of one chain.
#[derive(Clone, Debug)]
pub struct Chain {
    id: MasterId,
    seq: u64,
    prev: Vec<u8>,
    follows: Option<AuditHead>,
}

impl Chain {
    pub fn new(id: MasterId, follows: Option<AuditHead>) -> Chain {
        Chain { id, seq: 0, prev: Vec::new(), follows }
    }

    /// The next entry. It counts once [`Chain::wrote`] says that it is stored.
    pub fn next(&self, decided: &Decided, ts: UnixMillis, missed: u64) -> AuditEntry {
        let Decided { act, who, key, about, refused, request } = decided.clone();
        AuditEntry {
            v: VERSION,
            chain: self.id.clone(),
            seq: self.seq + 1,
            prev: self.prev.clone(),
            follows: self.follows.clone().filter(|_| self.seq == 0),
            ts,
            act: act.to_string(),
            who,
            key,
            about,
            refused,
            request,
            missed,
        }
    }

    /// The last entry is stored, as these bytes.
    pub fn wrote(&mut self, payload: &[u8]) {
        self.seq += 1;
        self.prev = hash(payload);
    }

    pub fn head(&self) -> AuditHead {
        AuditHead { chain: self.id.clone(), seq: self.seq, hash: self.prev.clone() }
    }
}

/// Where the log is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Of the record in its stream.
    pub sequence: u64,
    pub what: BreakKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BreakKind {
    /// It is not signed by a master, or cannot be read: it was changed, or written by somebody else.
    Unbelieved(String),
    /// Records were taken out of the stream.
    Removed { count: u64 },
    /// Entries of a chain are not there.
    Missing { chain: String, from: u64, to: u64 },
    /// It comes after one that was written later.
    Reordered { chain: String, seq: u64 },
    /// It names another entry before it than the one that is there.
    Unlinked { chain: String, seq: u64 },
    /// The end of an earlier chain is not there, as the one that follows it names it.
    Cut { chain: String, seq: u64 },
    /// The master itself had no room for so many.
    Lost { chain: String, count: u64 },
    /// A master that lives says that it wrote more.
    Behind { chain: String, seq: u64, wrote: u64 },
}

impl fmt::Display for Break {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "record {}: ", self.sequence)?;
        match &self.what {
            BreakKind::Unbelieved(why) => write!(out, "it does not count: {why}"),
            BreakKind::Removed { count } => write!(out, "{count} before it were removed from the stream"),
            BreakKind::Missing { chain, from, to } if from == to => {
                write!(out, "entry {from} of {chain} is missing before it")
            }
            BreakKind::Missing { chain, from, to } => {
                write!(out, "entries {from} to {to} of {chain} are missing before it")
            }
            BreakKind::Reordered { chain, seq } => {
                write!(out, "entry {seq} of {chain} stands behind a later one")
            }
            BreakKind::Unlinked { chain, seq } => {
                write!(out, "entry {seq} of {chain} follows another entry than the one before it")
            }
            BreakKind::Cut { chain, seq } => {
                write!(out, "the end of {chain} (entry {seq}) is missing before it, or is another")
            }
            BreakKind::Lost { chain, count } => {
                write!(out, "{count} entries of {chain} before it were never written: there was no room")
            }
            BreakKind::Behind { chain, seq, wrote } => {
                write!(out, "{chain} ends at entry {seq}, and its master has written {wrote}")
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Seen {
    seq: u64,
    hash: Vec<u8>,
    stopped: bool,
}

/// Reads a stored log from its oldest record to its newest.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    chains: BTreeMap<MasterId, Seen>,
    last: Option<u64>,
    pub entries: u64,
    pub breaks: Vec<Break>,
}

impl Verifier {
    /// The next record: an entry with the bytes that were signed, or why it does not count.
    pub fn take(&mut self, sequence: u64, record: Result<(&AuditEntry, &[u8]), String>) {
        let is_first = self.last.is_none();
        if let Some(last) = self.last
            && sequence > last + 1
        {
            self.note(sequence, BreakKind::Removed { count: sequence - last - 1 });
        }
        self.last = Some(sequence);
        let (entry, payload) = match record {
            Ok(record) => record,
            Err(why) => return self.note(sequence, BreakKind::Unbelieved(why)),
        };
        self.entries += 1;
        let hash = hash(payload);
        let (chain, seq) = (entry.chain.to_string(), entry.seq);
        if entry.missed > 0 {
            self.note(sequence, BreakKind::Lost { chain: chain.clone(), count: entry.missed });
        }
        match self.chains.get(&entry.chain) {
            // The same once more: whoever wrote it did not hear that it was stored.
            Some(seen) if seq == seen.seq && hash == seen.hash => return,
            Some(seen) if seq <= seen.seq => {
                return self.note(sequence, BreakKind::Reordered { chain, seq });
            }
            Some(seen) if seq > seen.seq + 1 => {
                let what = BreakKind::Missing { chain, from: seen.seq + 1, to: seq - 1 };
                self.note(sequence, what);
            }
            Some(seen) if entry.prev != seen.hash => {
                self.note(sequence, BreakKind::Unlinked { chain, seq });
            }
            Some(_) => {}
            // A chain may begin in its middle: what was before has made room, or the sequence of the stream has a gap.
            None => {
                if let Some(before) = &entry.follows {
                    self.joint(sequence, before, is_first);
                }
            }
        }
        let stopped = entry.act == STOPPED;
        self.chains.insert(entry.chain.clone(), Seen { seq, hash, stopped });
    }

    fn joint(&mut self, sequence: u64, before: &AuditHead, is_first: bool) {
        let is_there = self.chains.get(&before.chain);
        let as_said = is_there.is_some_and(|seen| seen.seq == before.seq && seen.hash == before.hash);
        // All of it may have made room for later ones, where nothing older is left.
        if as_said || (is_there.is_none() && is_first) {
            return;
        }
        let (chain, seq) = (before.chain.to_string(), before.seq);
        self.note(sequence, BreakKind::Cut { chain, seq });
    }

    /// What a master that lives says of its own chain: nothing is missing at its end.
    pub fn head(&mut self, head: &AuditHead) {
        let seen = self.chains.get(&head.chain);
        let seq = seen.map_or(0, |seen| seen.seq);
        let is_other = seen.is_some_and(|seen| seen.seq == head.seq && seen.hash != head.hash);
        if seq < head.seq || is_other {
            let what = BreakKind::Behind { chain: head.chain.to_string(), seq, wrote: head.seq };
            self.note(self.last.unwrap_or(0), what);
        }
    }

    /// Chains whose master did not stop in order and does not live: the last entries of each may never have been written.
    pub fn unended(&self, living: &[MasterId]) -> Vec<(String, u64)> {
        let open = self.chains.iter().filter(|(id, seen)| !seen.stopped && !living.contains(id));
        open.map(|(id, seen)| (id.to_string(), seen.seq)).collect()
    }

    pub fn chains(&self) -> usize {
        self.chains.len()
    }

    fn note(&mut self, sequence: u64, what: BreakKind) {
        self.breaks.push(Break { sequence, what });
    }
}
