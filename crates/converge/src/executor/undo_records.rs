//! What a state says that cannot act because nothing could be kept to undo it.
//!
//! Where the journal keeps it is long and of no use to whoever reads the result: only the details have it.

use zester_host::{Fault, FaultKind};
use zester_model::outcome::Details;
use zester_resources::context::BlobStore;

/// Before-images of a state that is about to act.
pub(super) struct UndoRecords<'a>(pub(super) &'a dyn BlobStore);

impl BlobStore for UndoRecords<'_> {
    fn keep(&self, content: &[u8]) -> Result<String, Fault> {
        self.0.keep(content).map_err(|fault| unsaved(&fault.message))
    }

    fn fetch(&self, name: &str) -> Result<Vec<u8>, Fault> {
        self.0.fetch(name)
    }
}

/// `cannot write PATH: no space left on device`, without the path.
pub(super) fn unsaved(why: &str) -> Fault {
    let reason = why.rsplit(": ").next().unwrap_or(why);
    let details = Details::from_iter([("journal".to_string(), why.into())]);
    Fault::new(FaultKind::Io, format!("the undo record could not be saved: {reason}")).details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-31")]
    fn s31_the_place_in_the_journal_is_only_in_the_details() {
        let why = "cannot write /var/lib/zester/journal/objects/0123: no space left on device";
        let fault = unsaved(why);
        assert_eq!(fault.message, "the undo record could not be saved: no space left on device");
        assert_eq!(fault.details["journal"], why);
    }
}
