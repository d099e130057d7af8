//! Secrets: sealed for named peels, opened on them, shown nowhere (D-6, D-15, I-10).
//!
//! A [`Sealed`] value is a text that anybody may read and only the peels it names can open. Opened, it goes into the
//! [`Secrets`] of a run, and a placeholder takes its place: templates, parameters, diffs, journals and returns see only
//! that. It becomes a text again in two places, a file's content and a child's environment or input, as a [`Revealed`],
//! which can be neither printed nor serialized. Pure: chance comes in as a function.

mod encoded;
mod hide;
mod images;
mod key;
mod open;
mod registry;
mod scan;
mod sealed;

pub use hide::{Redactor, free_name};
pub use key::{KeyError, PrivateKey, PublicKey};
pub use open::{Gpg, Unopened, close_settings, open_settings, sealed_for_others, sealed_in, unsealed_in};
pub use registry::{Damaged, Revealed, SecretText, Secrets};
pub use scan::{BlockLines, MarkedSecret, Unsealed, may_hold_secrets, secrets_in, unsealed_lines};
pub use sealed::{Recipient, SealError, Sealed};

/// Fills the bytes with chance.
pub type Chance<'a> = &'a mut dyn FnMut(&mut [u8]);
