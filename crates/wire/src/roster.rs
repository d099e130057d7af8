//! The roster: which keys are masters and admins, and which may vouch for peels (I-8). It is signed by the account key of the
//! masters, the anchor, which every member was given together with its credentials. `zester-identity` signs and judges it.

use crate::codec::Message;
use crate::job::is_false;
use crate::name::{PeelId, Token};
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// A newer roster takes the place of an older one; one with a lower serial is never taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub serial: u64,
    pub issued: UnixMillis,
    /// After this nobody is believed by it.
    pub expires: UnixMillis,
    pub members: Vec<Member>,
    /// Keys that count no more, whatever they signed and whenever.
    #[serde(default)]
    pub revoked: Vec<Revoked>,
    /// What operators may do who may not do everything (I-14).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<OperatorRole>,
}

impl Message for Roster {
    const NAME: &'static str = "roster";
}

/// One key of somebody. During a rotation a name has two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub role: MemberRole,
    pub name: Token,
    /// Its public nkey.
    pub key: String,
    /// What it signed after this does not count: a key that was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixMillis>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberRole {
    Master,
    /// Somebody who may do everything that masters are asked.
    Admin,
    /// Somebody who may do what roles allow. A reader that knows no roles believes them nothing.
    Operator,
    /// Vouches for peels: signs their certificates.
    Issuer,
    #[serde(other)]
    Unknown,
}

/// A role, and who has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRole {
    pub name: Token,
    #[serde(default)]
    pub members: Vec<Token>,
    #[serde(default)]
    pub rules: Vec<RoleRule>,
}

/// One line of a role. `zester-policy` reads and judges it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRule {
    pub effect: RoleEffect,
    /// Globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// What is asked of masters besides jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// A target expression; empty: every peel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub targets: String,
    /// Empty: every environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub test_only: bool,
    /// Past the masters too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub direct: bool,
    /// Where it was written: `roles.yaml:7:5`.
    #[serde(default)]
    pub line: String,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleEffect {
    Allow,
    Deny,
    /// Of a later release: it counts as if it denied everything.
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    pub key: String,
    /// Whose it was, for people.
    #[serde(default)]
    pub name: String,
    pub at: UnixMillis,
}

/// The bytes of a roster, as they were signed, and the signature of the anchor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedRoster {
    #[serde(default = "crate::version")]
    pub v: u32,
    #[serde(with = "serde_bytes")]
    pub roster: Vec<u8>,
    #[serde(with = "serde_bytes")]
    pub sig: Vec<u8>,
}

impl Message for SignedRoster {
    const NAME: &'static str = "signed roster";
}

/// That a key is of a peel: an issuer of the roster says so. It travels with what the peel signs, so that whoever knows the
/// roster needs no list of peels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub peel: PeelId,
    pub key: String,
    /// What the key signed after this does not count.
    pub until: UnixMillis,
    pub issuer: String,
    #[serde(with = "serde_bytes")]
    pub sig: Vec<u8>,
}

impl Message for Certificate {
    const NAME: &'static str = "certificate";
}
