//! Which run somebody means.

use crate::data_dir::DataDir;
use crate::error::Error;
use crate::history;
use crate::journal::JournalSnapshot;
use zester_model::suggest::did_you_mean;

/// Runs named in an answer to somebody who named none of them.
const RUNS_NAMED: usize = 3;

/// The run of that id, or the only one that begins so.
pub fn named(data_dir: &DataDir, given: &str) -> Result<String, Error> {
    let snapshot = JournalSnapshot::read(data_dir)?;
    let listed = history::with_current(data_dir, usize::MAX)?;
    // Newest first: what the journal can undo, then what is only remembered.
    let mut known: Vec<String> = snapshot.runs.into_iter().rev().collect();
    let fresh: Vec<String> =
        listed.into_iter().map(|run| run.run_id).filter(|id| !known.contains(id)).collect();
    known.extend(fresh);
    let fitting: Vec<&String> =
        known.iter().filter(|id| !given.is_empty() && id.starts_with(given)).collect();
    match fitting.as_slice() {
        [one] => Ok(one.to_string()),
        _ if known.iter().any(|id| id == given) => Ok(given.to_string()),
        [] => Err(Error::other(unknown(given, &snapshot.undos, &known))),
        many => {
            let named: Vec<&str> = many.iter().take(RUNS_NAMED).map(|id| id.as_str()).collect();
            let more = if many.len() > RUNS_NAMED { " …" } else { "" };
            let count = many.len();
            let sentence =
                format!("{count} runs begin with `{given}`: {}{more}; write more of it", named.join(" "));
            Err(Error::other(sentence))
        }
    }
}

/// The last run that can be undone.
pub fn newest(data_dir: &DataDir) -> Result<String, Error> {
    let JournalSnapshot { undos, damage, .. } = JournalSnapshot::read(data_dir)?;
    let newest = undos.into_iter().next().map(|undo| undo.run_id);
    newest.ok_or_else(|| match damage.first() {
        Some(damage) => Error::other(format!("nothing that could be reverted can be read: {damage}")),
        None => Error::other("nothing was applied here that could be reverted"),
    })
}

fn unknown(given: &str, undos: &[crate::journal::Undo], known: &[String]) -> String {
    let none = format!("there is no run `{given}` here");
    if let Some(hint) = did_you_mean(given, known.iter().map(String::as_str)) {
        return format!("{none}; {hint}");
    }
    let mut revertible: Vec<&str> = undos.iter().map(|undo| undo.run_id.as_str()).collect();
    revertible.dedup();
    revertible.truncate(RUNS_NAMED);
    match revertible.as_slice() {
        [] => format!("{none}, and none that could be reverted"),
        some => format!("{none}; revert can undo {}; `zester status` lists all", some.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Intent, Journal};
    use zester_rule::rule;

    fn place() -> (tempfile::TempDir, DataDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        for run in ["2hPx1F", "2hPx2K", "3abc"] {
            let journal = Journal::open(&dir, run).unwrap();
            let intent = Intent {
                state: "a".into(),
                kind: "file.managed".into(),
                undo: Some(serde_json::json!(1)),
                depends_on: vec![],
                watchers: vec![],
                objects: vec![],
                confirms: false,
                unconfirmed: false,
            };
            journal.announce(intent).unwrap();
            journal.finish([], []).unwrap();
        }
        (temp, dir)
    }

    #[test]
    #[rule("S-31")]
    fn s31_a_run_may_be_named_by_a_beginning_that_no_other_has() {
        let (_temp, dir) = place();
        assert_eq!(named(&dir, "3").unwrap(), "3abc");
        assert_eq!(named(&dir, "2hPx1F").unwrap(), "2hPx1F");
        let many = named(&dir, "2hPx").unwrap_err().to_string();
        assert!(many.contains("2hPx1F") && many.contains("2hPx2K"), "{many}");
        assert_eq!(newest(&dir).unwrap(), "3abc");
    }

    #[test]
    #[rule("S-31")]
    fn s31_an_unknown_run_is_said_to_be_unknown_and_known_ones_are_named() {
        let (_temp, dir) = place();
        for given in ["nonsense", ""] {
            let unknown = named(&dir, given).unwrap_err().to_string();
            assert!(unknown.contains(&format!("there is no run `{given}`")), "{unknown}");
            assert!(unknown.contains("3abc"), "{unknown}");
        }
    }
}
