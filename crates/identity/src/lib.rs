//! Who is who on the bus, and who may say what. No IO, no clock, no randomness: random bytes and times come in as values.
//!
//! Two fences stand behind each other. The server lets a member publish and subscribe only what [`grants`] lists for its role
//! (I-2), by JWTs that are made of that very table. And because a server can be made to speak for another (a reply subject is
//! not checked against the grants of who named it), every message is signed, and [`Trust`] tells for each whose key signed it
//! and whether [`speaker`] lets that one speak there (I-8).
//!
//! What is trusted in the end is one key, the *anchor*: the account key of the masters. It signs the roster, which names the
//! keys of masters and admins, and the issuers, who sign the certificates of peels.

pub mod accounts;
pub mod address_rate;
pub mod audit;
pub mod authority;
pub mod certificate;
pub mod credentials;
pub mod enrollment;
pub mod grants;
pub mod join_token;
pub mod jwt;
mod key;
pub mod limits;
pub mod nonce;
pub mod roster;
pub mod source_rate;
pub mod speaker;
mod trust;

pub use credentials::Credentials;
pub use key::{BadKey, KeyKind, KeyPair, PublicKey};
pub use speaker::{Principal, Role, Speaker};
pub use trust::{Seen, Spoof, Trust};
