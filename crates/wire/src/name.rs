//! Names that become tokens of subjects and keys. Each is parsed once, at the edge; nothing else builds a subject.

use crate::limits::{TAG_SEGMENTS_MAX, TOKEN_BYTES_MAX};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use svix_ksuid::{Ksuid, KsuidLike};

/// Seconds between 1970 and the epoch of KSUIDs.
const KSUID_EPOCH_SECONDS: u64 = 1_400_000_000;
const REACTION_PREFIX: &str = "rxn-";
const REACTION_DIGITS: usize = 32;

/// A text that is not the name it should be. The text itself is not repeated: a stranger sent it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BadName {
    pub what: &'static str,
    pub why: &'static str,
}

impl fmt::Display for BadName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not a {}: {}", self.what, self.why)
    }
}

impl std::error::Error for BadName {}

/// Letters, digits, `_` and `-`: what can stand between two dots of a subject and mean only itself.
fn check_token(text: &str, what: &'static str) -> Result<(), BadName> {
    let bad = |why| Err(BadName { what, why });
    if text.is_empty() {
        return bad("it is empty");
    }
    if text.len() > TOKEN_BYTES_MAX {
        return bad("it is longer than 128 characters");
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        return bad("only letters, digits, `_` and `-` may stand in it");
    }
    Ok(())
}

/// `^[a-zA-Z0-9][a-zA-Z0-9_-]*$`: names beginning with `_` are kept for origins of our own.
fn check_plain(text: &str, what: &'static str) -> Result<(), BadName> {
    check_token(text, what)?;
    if !text.as_bytes()[0].is_ascii_alphanumeric() {
        return Err(BadName { what, why: "it must begin with a letter or a digit" });
    }
    Ok(())
}

fn check_jid(text: &str) -> Result<(), BadName> {
    const WHAT: &str = "job id";
    if let Some(digits) = text.strip_prefix(REACTION_PREFIX) {
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() == REACTION_DIGITS && digits.bytes().all(lower_hex) {
            return Ok(());
        }
        return Err(BadName { what: WHAT, why: "a reaction's has 32 hex digits after `rxn-`" });
    }
    // A number beyond 160 bits is cut by the decoder; only what comes back as it was is one id and not another.
    match Ksuid::from_base62(text) {
        Ok(id) if id.to_base62() == text => Ok(()),
        _ => Err(BadName { what: WHAT, why: "it is not a KSUID" }),
    }
}

fn check_master(text: &str) -> Result<(), BadName> {
    const WHAT: &str = "master id";
    let Some((name, boot)) = text.split_once('.') else {
        return Err(BadName { what: WHAT, why: "it is `<master>.<boot>`" });
    };
    check_plain(name, WHAT)?;
    check_token(boot, WHAT)
}

fn check_tag(text: &str) -> Result<(), BadName> {
    const WHAT: &str = "event tag";
    if text.split('/').count() > TAG_SEGMENTS_MAX {
        return Err(BadName { what: WHAT, why: "it has more than 16 segments" });
    }
    text.split('/').try_for_each(|segment| check_token(segment, WHAT))
}

/// A newtype over shared text that can only be made by parsing, also from the wire.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<$name, BadName> {
                ($check)(text)?;
                Ok($name(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<$name, BadName> {
                $name::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = String::deserialize(deserializer)?;
                $name::parse(&text).map_err(D::Error::custom)
            }
        }
    };
}

name! {
    /// A job: a KSUID, or for a reaction `rxn-` and 32 hex digits of what caused it.
    Jid, check_jid
}
name! {
    /// A peel: `^[a-zA-Z0-9][a-zA-Z0-9_-]*$`, at most 128.
    PeelId, |text| check_plain(text, "peel id")
}
name! {
    /// One start of one master: `<master>.<boot>` (J-13). New at every start, so that who died stays dead.
    MasterId, check_master
}
name! {
    /// Any other token of a subject: an admin verb, a bucket, a beacon, a lease.
    Token, |text| check_token(text, "name")
}
name! {
    /// An event's tag with slashes: `deploy/web/finished`.
    Tag, check_tag
}

impl Jid {
    /// A jid from a time and 16 random bytes: this crate has neither clock nor dice.
    pub fn new(at: crate::UnixMillis, random: [u8; 16]) -> Jid {
        let seconds = (at.0 / 1000).saturating_sub(KSUID_EPOCH_SECONDS);
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        // A leading zero byte would be dropped by the text form and the id refused by readers; no clock shows 2014.
        let seconds = seconds.max(1 << 24);
        Jid(Ksuid::new_raw(seconds, Some(&random)).to_base62().into())
    }

    /// Whether it follows from what caused it: then the same job is only ever asked for under this very id.
    pub fn is_reaction(&self) -> bool {
        self.0.starts_with(REACTION_PREFIX)
    }
}

impl MasterId {
    pub fn new(name: &str, boot: &str) -> Result<MasterId, BadName> {
        MasterId::parse(&format!("{name}.{boot}"))
    }

    /// The part that stays the same from start to start.
    pub fn name(&self) -> &str {
        self.0.split_once('.').map_or("", |(name, _)| name)
    }
}

impl Tag {
    /// Tokens of a subject to a tag: slash and dot are one to one.
    pub(crate) fn of_segments(segments: &[&str]) -> Result<Tag, BadName> {
        // A slash inside a token would read as a dot, and two subjects would be one tag.
        segments.iter().try_for_each(|segment| check_token(segment, "event tag"))?;
        Tag::parse(&segments.join("/"))
    }

    /// The tag of a beacon: `beacon/<peel>/<name>`. Its parts are tokens, so it needs no parsing.
    pub(crate) fn beacon(peel: &PeelId, name: &Token) -> Tag {
        Tag(format!("beacon/{peel}/{name}").into())
    }

    pub(crate) fn dotted(&self) -> String {
        self.0.replace('/', ".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnixMillis;
    use proptest::prelude::*;
    use zester_rule::rule;

    const HOSTILE: &[&str] = &[
        "",
        ".",
        "*",
        ">",
        "a.b",
        "a.*",
        "a>",
        "a b",
        "a\t",
        "a\n",
        "_a",
        "-a",
        "ä",
        "a/b",
        "$JS",
        "../x",
        "a\0",
        "\u{202e}a",
    ];

    #[test]
    #[rule("I-11")]
    fn i11_hostile_tokens_are_no_names() {
        for text in HOSTILE {
            assert!(PeelId::parse(text).is_err(), "{text:?}");
            assert!(Jid::parse(text).is_err(), "{text:?}");
            assert!(
                MasterId::parse(&format!("m.{text}")).is_err() || ["_a", "-a"].contains(text),
                "{text:?}"
            );
            assert!(
                Tag::parse(&format!("a/{text}")).is_err() || ["_a", "-a", "a/b"].contains(text),
                "{text:?}"
            );
        }
        assert!(PeelId::parse(&"a".repeat(128)).is_ok());
        assert!(PeelId::parse(&"a".repeat(129)).is_err());
        assert!(Tag::parse(&["a"; 17].join("/")).is_err());
    }

    #[test]
    fn a_jid_is_a_ksuid_or_a_reaction() {
        for good in ["2hPx2Kd8VnR7YmWqTz4PLsCfNjA", "rxn-0123456789abcdef0123456789abcdef"] {
            assert_eq!(Jid::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "2hPx2Kd8VnR7YmWqTz4PLsCfNj",
            "zzzzzzzzzzzzzzzzzzzzzzzzzzz",
            "rxn-0123456789ABCDEF0123456789abcdef",
            "rxn-01",
            "active",
        ] {
            assert!(Jid::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_master_id_names_the_master_and_its_start() {
        let id = MasterId::new("m-1", "2hPx2Kd8VnR7YmWqTz4PLsCfNjA").unwrap();
        assert_eq!((id.name(), id.as_str()), ("m-1", "m-1.2hPx2Kd8VnR7YmWqTz4PLsCfNjA"));
        assert!(MasterId::new("m.1", "b").is_err());
        assert!(MasterId::parse("m-1").is_err());
    }

    proptest! {
        #[test]
        fn a_new_jid_parses_and_sorts_by_time(at in 0u64..5_000_000_000_000, random: [u8; 16]) {
            let jid = Jid::new(UnixMillis(at), random);
            prop_assert_eq!(Jid::parse(jid.as_str()), Ok(jid.clone()));
            let later = Jid::new(UnixMillis(at.max(1_500_000_000_000) + 1_000), random);
            prop_assert!(jid < later || at > 5_000_000_000_000);
        }

        #[test]
        fn names_hold_nothing_that_a_subject_reads(text in "\\PC{0,40}") {
            for name in [PeelId::parse(&text).map(|_| ()), Token::parse(&text).map(|_| ()), Jid::parse(&text).map(|_| ())] {
                prop_assert!(name.is_err() || !text.contains(['.', '*', '>', ' ', '/']));
            }
        }
    }
}
