//! The hash of a password, which is shown nowhere.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use zester_host::Fault;
use zester_host::digest::sha256_hex;
use zester_secret::Revealed;

/// Stands before what is only the digest of a hash. No hash begins like this.
const DIGEST: &str = "sha256:";

/// What the field of a password holds.
///
/// What the books hold now is recorded as it is, because a revert has to put it back. What a state wants may be a secret, so a
/// record holds its digest, by which a revert tells it again.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Password {
    recorded: String,
    #[serde(skip)]
    wanted: Option<Arc<Revealed>>,
}

impl Password {
    pub(crate) fn present(field: &str) -> Password {
        Password { recorded: field.to_string(), wanted: None }
    }

    pub(crate) fn wanted(hash: Revealed) -> Password {
        Password { recorded: digest(hash.bytes()), wanted: Some(Arc::new(hash)) }
    }

    /// Whether both are the same hash, whoever of them is known by its digest.
    pub(crate) fn is(&self, other: &Password) -> bool {
        self.digest() == other.digest()
    }

    /// As `useradd` leaves it: nobody gets in by it.
    pub(crate) fn is_unset(&self) -> bool {
        ["!", "!!"].into_iter().any(|field| self.is(&Password::present(field)))
    }

    /// The same for a record that outlives the run.
    pub(crate) fn sealed(&self) -> Password {
        Password { recorded: self.digest(), wanted: None }
    }

    fn digest(&self) -> String {
        match self.recorded.starts_with(DIGEST) {
            true => self.recorded.clone(),
            false => digest(self.recorded.as_bytes()),
        }
    }

    /// The line for `chpasswd`.
    pub(crate) fn line(&self, user: &str) -> Result<Vec<u8>, Fault> {
        let mut line = format!("{user}:").into_bytes();
        match &self.wanted {
            Some(hash) => line.extend_from_slice(hash.bytes()),
            None if self.recorded.starts_with(DIGEST) => {
                let message = format!("the former password of `{user}` was not kept");
                return Err(Fault::new(zester_host::FaultKind::NotFound, message));
            }
            None => line.extend_from_slice(self.recorded.as_bytes()),
        }
        line.push(b'\n');
        Ok(line)
    }
}

fn digest(hash: &[u8]) -> String {
    format!("{DIGEST}{}", sha256_hex(hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-15")]
    fn d15_a_record_holds_no_hash_that_was_wished_for() {
        let wanted = Password::wanted(b"$6$salt$hash".to_vec().into());
        let record = serde_json::to_string(&wanted).unwrap();
        assert!(record.starts_with("\"sha256:") && !record.contains("$6$"), "{record}");
        assert!(wanted.is(&Password::present("$6$salt$hash")));
        assert!(!wanted.is(&Password::present("!")));
        assert_eq!(wanted.line("web").unwrap(), b"web:$6$salt$hash\n");
        let read: Password = serde_json::from_str(&record).unwrap();
        assert!(read.is(&wanted));
        assert!(read.line("web").unwrap_err().message.contains("was not kept"));
    }

    #[test]
    fn what_was_there_can_be_put_back_from_its_record() {
        let record = serde_json::to_string(&Password::present("$y$old")).unwrap();
        let read: Password = serde_json::from_str(&record).unwrap();
        assert_eq!(read.line("web").unwrap(), b"web:$y$old\n");
        assert!(read.sealed().line("web").is_err());
    }
}
