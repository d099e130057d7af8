//! The newest record that was seen under each key (I-12). Whoever edits a store can put an older one back, well signed as it is; its
//! serial, which is signed with it, tells. What was never seen here cannot be told from the newest: a memory begins with its process.

use std::collections::BTreeMap;
use zester_bus::Sequence;
use zester_wire::Serial;

/// Keys that are remembered, in each of two tables that take turns: more than there are jobs under way.
const KEYS_MAX: usize = 16_384;
/// Who counts by themselves under one key: starts of masters that held a lease.
const LINES_MAX: usize = 64;

/// What a record is to what was seen before.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// Nothing newer is known.
    Newest,
    /// It was stored before what was seen: a server that is behind, or a reader that was overtaken, shows it.
    Behind,
    /// It was stored after what was seen, and is older: somebody put it back.
    PutBack,
}

#[derive(Clone, Debug)]
struct Seen {
    number: [u64; 4],
    revision: Sequence,
}

type Lines = BTreeMap<String, Seen>;

#[derive(Debug, Default)]
pub(crate) struct Newest {
    newer: BTreeMap<String, Lines>,
    older: BTreeMap<String, Lines>,
}

impl Newest {
    /// Takes note of a record, unless a newer one is known.
    pub(crate) fn take(&mut self, key: &str, serial: Serial, revision: Sequence) -> Age {
        let lines = self.lines(key);
        if let Some(seen) = lines.get_mut(&serial.line) {
            let is_older = serial.number < seen.number;
            let is_again = serial.number == seen.number && serial.is_unique && revision > seen.revision;
            if is_older && revision < seen.revision {
                return Age::Behind;
            }
            if is_older || is_again {
                return Age::PutBack;
            }
            seen.number = serial.number;
            seen.revision = seen.revision.max(revision);
            return Age::Newest;
        }
        if lines.len() >= LINES_MAX
            && let Some(oldest) =
                lines.iter().min_by_key(|(_, seen)| seen.revision).map(|(line, _)| line.clone())
        {
            lines.remove(&oldest);
        }
        lines.insert(serial.line, Seen { number: serial.number, revision });
        Age::Newest
    }

    /// Whether nothing newer than this is known: whoever holds it may write it over what was put back.
    pub(crate) fn is_newest(&self, key: &str, serial: &Serial) -> bool {
        let lines = self.newer.get(key).or_else(|| self.older.get(key));
        lines.and_then(|lines| lines.get(&serial.line)).is_none_or(|seen| serial.number >= seen.number)
    }

    /// The highest number that is known, where all who write count together.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        let lines = self.newer.get(key).or_else(|| self.older.get(key))?;
        lines.get("").map(|seen| seen.number[0])
    }

    fn lines(&mut self, key: &str) -> &mut Lines {
        if !self.newer.contains_key(key) {
            let known = self.older.remove(key).unwrap_or_default();
            if self.newer.len() >= KEYS_MAX {
                self.older = std::mem::take(&mut self.newer);
            }
            self.newer.insert(key.to_string(), known);
        }
        self.newer.entry(key.to_string()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn of(number: u64) -> Serial {
        Serial::of([number, 0, 0, 0])
    }

    #[test]
    #[rule("I-12")]
    fn i12_what_was_put_back_is_told_from_what_a_server_that_is_behind_shows() {
        let mut newest = Newest::default();
        assert_eq!(newest.take("k", of(5), 10), Age::Newest);
        assert_eq!(newest.take("k", of(5), 10), Age::Newest, "the same again");
        assert_eq!(newest.take("k", of(6), 12), Age::Newest);
        assert_eq!(newest.take("k", of(5), 10), Age::Behind);
        assert_eq!(newest.take("k", of(5), 13), Age::PutBack);
        assert_eq!(newest.take("k", of(6), 14), Age::Newest, "a number may stand for more than one write");
        assert_eq!(newest.take("other", of(1), 15), Age::Newest);
        assert!(newest.is_newest("k", &of(6)) && !newest.is_newest("k", &of(5)));
        assert_eq!((newest.number("k"), newest.number("unseen")), (Some(6), None));
    }

    #[test]
    #[rule("I-12")]
    fn i12_each_holder_counts_by_itself_and_no_count_comes_twice() {
        let mut newest = Newest::default();
        let of =
            |line: &str, number| Serial { line: line.into(), number: [number, 0, 0, 0], is_unique: true };
        assert_eq!(newest.take("k", of("m1", 9), 1), Age::Newest);
        assert_eq!(newest.take("k", of("m2", 1), 2), Age::Newest, "another holder, who began later");
        assert_eq!(newest.take("k", of("m1", 9), 3), Age::PutBack);
        assert_eq!(newest.take("k", of("m1", 10), 4), Age::Newest);
        assert_eq!(newest.take("k", of("m1", 10), 4), Age::Newest, "read again");
    }

    #[test]
    #[rule("I-12", "I-13")]
    fn i13_the_memory_of_records_is_bounded() {
        let mut newest = Newest::default();
        for number in 0..3 * KEYS_MAX as u64 {
            newest.take(&format!("k{number}"), of(7), number);
        }
        assert!(newest.newer.len() + newest.older.len() <= 2 * KEYS_MAX);
        assert_eq!(newest.take(&format!("k{}", 3 * KEYS_MAX - 1), of(6), u64::MAX), Age::PutBack);
        for number in 0..1_000 {
            let line = number.to_string();
            newest.take("lease", Serial { line, number: [1, 0, 0, 0], is_unique: true }, number);
        }
        assert_eq!(newest.lines("lease").len(), LINES_MAX);
    }
}
