//! Bucket names and keys: the only place that builds and parses them.

use crate::name::{Jid, MasterId, PeelId, Token};
use crate::published::{ContentHash, Published};
use crate::subject::BadSubject;
use std::fmt;

const ROSTER: &str = "roster";

/// The buckets whose keys are made here.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bucket {
    Jobs,
    JobReturns,
    JobTargets,
    MasterHeartbeat,
    /// When each peel was last there, for those who did not hear it.
    PeelSeen,
    Facts,
    Leases,
    StateFiles,
    SettingsFiles,
    ReactorFiles,
    /// Who is who: the newest roster.
    Trust,
    /// Who asked to be a peel and what became of it, and the join tokens.
    Enrollments,
}

impl Bucket {
    pub const ALL: [Bucket; 12] = [
        Bucket::Jobs,
        Bucket::JobReturns,
        Bucket::JobTargets,
        Bucket::MasterHeartbeat,
        Bucket::PeelSeen,
        Bucket::Facts,
        Bucket::Leases,
        Bucket::StateFiles,
        Bucket::SettingsFiles,
        Bucket::ReactorFiles,
        Bucket::Trust,
        Bucket::Enrollments,
    ];

    pub fn of_published(published: Published) -> Bucket {
        match published {
            Published::States => Bucket::StateFiles,
            Published::Settings => Bucket::SettingsFiles,
            Published::Reactor => Bucket::ReactorFiles,
        }
    }

    /// What the files in it are.
    pub fn published(self) -> Option<Published> {
        Published::ALL.into_iter().find(|one| Bucket::of_published(*one) == self)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Bucket::Jobs => "jobs",
            Bucket::JobReturns => "job-returns",
            Bucket::JobTargets => "job-targets",
            Bucket::MasterHeartbeat => "master-heartbeat",
            Bucket::PeelSeen => "peel-seen",
            Bucket::Facts => "facts",
            Bucket::Leases => "leases",
            Bucket::StateFiles => "state-files",
            Bucket::SettingsFiles => "settings-files",
            Bucket::ReactorFiles => "reactor-files",
            Bucket::Trust => "trust",
            Bucket::Enrollments => "enrollments",
        }
    }
}

/// A key of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Job(Jid),
    /// Marks a job that is not over: what the orphan scan reads (J-13).
    Active(Jid),
    Return(Jid, PeelId),
    /// A page of the targets of a large job: of which list, and which page.
    TargetPage(Jid, Token, u32),
    Master(MasterId),
    Peel(PeelId),
    Facts(PeelId),
    Lease(Token),
    /// Content that is published, by its hash.
    Content(Published, ContentHash),
    /// All files of the newest revision, which counts once `_revision` names it.
    Manifest(Published),
    /// The same of one revision.
    ManifestOf(Published, u64),
    Revision(Published),
    /// The newest roster, which its own signature proves (I-8).
    Roster,
    /// Who has a name, or asks for it.
    Enrollment(PeelId),
    /// By its id.
    JoinToken(Token),
}

impl Key {
    pub fn bucket(&self) -> Bucket {
        match self {
            Key::Job(_) | Key::Active(_) => Bucket::Jobs,
            Key::Return(..) => Bucket::JobReturns,
            Key::TargetPage(..) => Bucket::JobTargets,
            Key::Master(_) => Bucket::MasterHeartbeat,
            Key::Peel(_) => Bucket::PeelSeen,
            Key::Facts(_) => Bucket::Facts,
            Key::Lease(_) => Bucket::Leases,
            Key::Roster => Bucket::Trust,
            Key::Enrollment(_) | Key::JoinToken(_) => Bucket::Enrollments,
            Key::Content(of, _) | Key::Manifest(of) | Key::ManifestOf(of, _) | Key::Revision(of) => {
                Bucket::of_published(*of)
            }
        }
    }

    /// The subject that a record is stored under and signed for.
    pub fn subject(&self) -> String {
        format!("$KV.{}.{self}", self.bucket().as_str())
    }

    pub fn parse(bucket: Bucket, text: &str) -> Result<Key, BadSubject> {
        let key = match (bucket, text.split_once('.')) {
            (Bucket::Jobs, Some(("active", jid))) => Key::Active(Jid::parse(jid)?),
            (Bucket::Jobs, None) => Key::Job(Jid::parse(text)?),
            (Bucket::JobReturns, Some((jid, peel))) => Key::Return(Jid::parse(jid)?, PeelId::parse(peel)?),
            (Bucket::JobTargets, Some((jid, rest))) => {
                let bad = BadSubject { why: "no key of that bucket has this shape" };
                let (list, page) = rest.split_once('.').ok_or(bad)?;
                let page = page.parse().ok().filter(|number: &u32| number.to_string() == page).ok_or(bad)?;
                Key::TargetPage(Jid::parse(jid)?, Token::parse(list)?, page)
            }
            (Bucket::MasterHeartbeat, Some(_)) => Key::Master(MasterId::parse(text)?),
            (Bucket::Enrollments, Some(("peel", peel))) => Key::Enrollment(PeelId::parse(peel)?),
            (Bucket::Enrollments, Some(("token", id))) => Key::JoinToken(Token::parse(id)?),
            (Bucket::PeelSeen, None) => Key::Peel(PeelId::parse(text)?),
            (Bucket::Facts, None) => Key::Facts(PeelId::parse(text)?),
            (Bucket::Leases, None) => Key::Lease(Token::parse(text)?),
            (Bucket::Trust, None) if text == ROSTER => Key::Roster,
            (bucket, parts) if bucket.published().is_some() => {
                let bad = BadSubject { why: "no key of that bucket has this shape" };
                let of = bucket.published().ok_or(bad)?;
                match (text, parts) {
                    ("_manifest", _) => Key::Manifest(of),
                    ("_revision", _) => Key::Revision(of),
                    (_, Some(("_manifest", number))) => {
                        let number = number.parse().ok().filter(|one: &u64| one.to_string() == number);
                        Key::ManifestOf(of, number.ok_or(bad)?)
                    }
                    _ => Key::Content(of, ContentHash::parse(text)?),
                }
            }
            _ => return Err(BadSubject { why: "no key of that bucket has this shape" }),
        };
        Ok(key)
    }

    /// What a watch of all `active.*` keys is for.
    pub const ALL_ACTIVE: &'static str = "active.*";

    /// Every enrollment, and every join token.
    pub const ALL_ENROLLMENTS: &'static str = "peel.*";
    pub const ALL_JOIN_TOKENS: &'static str = "token.*";

    /// The manifests that can be taken back.
    pub const ALL_MANIFESTS: &'static str = "_manifest.*";

    /// All pages of targets of one job.
    pub fn all_target_pages(jid: &Jid) -> String {
        format!("{jid}.>")
    }

    /// All returns of one job.
    pub fn all_returns(jid: &Jid) -> String {
        format!("{jid}.*")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Job(jid) => write!(out, "{jid}"),
            Key::Active(jid) => write!(out, "active.{jid}"),
            Key::Return(jid, peel) => write!(out, "{jid}.{peel}"),
            Key::TargetPage(jid, list, page) => write!(out, "{jid}.{list}.{page}"),
            Key::Master(master) => write!(out, "{master}"),
            Key::Peel(peel) | Key::Facts(peel) => write!(out, "{peel}"),
            Key::Lease(name) => write!(out, "{name}"),
            Key::Content(_, hash) => write!(out, "{hash}"),
            Key::Manifest(_) => out.write_str("_manifest"),
            Key::ManifestOf(_, revision) => write!(out, "_manifest.{revision}"),
            Key::Revision(_) => out.write_str("_revision"),
            Key::Roster => out.write_str(ROSTER),
            Key::Enrollment(peel) => write!(out, "peel.{peel}"),
            Key::JoinToken(id) => write!(out, "token.{id}"),
        }
    }
}
