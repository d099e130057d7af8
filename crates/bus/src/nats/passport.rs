//! Credentials that are renewed while the connection lives (I-15).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What a server is shown: the JWT of a user, and its signature of what the server made up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    pub jwt: String,
    pub signature: Vec<u8>,
}

/// Proves who we are. The keys live elsewhere.
pub type Prove = dyn Fn(&[u8]) -> Proof + Send + Sync;

/// Cheap to clone; all clones are renewed together. Every connection that is made from then on shows the newest.
#[derive(Clone)]
pub struct Passport {
    prove: Arc<RwLock<Arc<Prove>>>,
    renewed: Arc<AtomicBool>,
}

impl Passport {
    pub fn new(prove: Arc<Prove>) -> Passport {
        Passport { prove: Arc::new(RwLock::new(prove)), renewed: Arc::default() }
    }

    /// Shows this from now on. Whoever then reconnects does so by its own will, and at once.
    pub fn renew(&self, prove: Arc<Prove>) {
        *self.prove.write().unwrap_or_else(PoisonError::into_inner) = prove;
        self.renewed.store(true, Ordering::Release);
    }

    pub(super) fn prove(&self, nonce: &[u8]) -> Proof {
        let prove = self.prove.read().unwrap_or_else(PoisonError::into_inner).clone();
        prove(nonce)
    }

    /// Whether it was renewed since the last question.
    pub(super) fn was_renewed(&self) -> bool {
        self.renewed.swap(false, Ordering::AcqRel)
    }
}
