//! Who gets in with a join token, and who does not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::time::Duration;
use zester_identity::join_token::{BadToken, JoinToken, Newcomer, Refused, is_proven, prove};
use zester_identity::limits::JOIN_TOKEN_LIFE_MAX;
use zester_identity::{KeyKind, KeyPair};
use zester_rule::rule;
use zester_wire::{PeelId, UnixMillis};

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);

fn pair(seed: u8) -> KeyPair {
    KeyPair::new(KeyKind::User, [seed; 32]).unwrap()
}

/// As much of globs as is needed here.
fn is_prefixed(glob: &str, peel: &PeelId) -> bool {
    glob.strip_suffix('*').map_or(glob == peel.as_str(), |start| peel.as_str().starts_with(start))
}

#[test]
#[rule("I-4")]
fn i4_a_join_token_lets_one_key_in_under_its_name_from_its_address_in_its_time() {
    let here: IpAddr = "192.0.2.7".parse().unwrap();
    let there: IpAddr = "192.0.2.8".parse().unwrap();
    let token = JoinToken::new("word", "web-*", Some(here), NOW, HOUR).unwrap();
    let (first, second) = (pair(1), pair(2));
    let tried = |token: &JoinToken, word: &str, name: &str, pair: &KeyPair, address, at| {
        let peel = PeelId::parse(name).unwrap();
        token.used(word, Newcomer { peel: &peel, key: pair.public(), address }, at, is_prefixed)
    };
    let late = UnixMillis(NOW.plus(HOUR).0 + 1);
    assert_eq!(tried(&token, "other", "web-1", &first, here, NOW), Err(Refused::Unknown));
    assert_eq!(tried(&token, "word", "db-1", &first, here, NOW), Err(Refused::Name));
    assert_eq!(tried(&token, "word", "web-1", &first, there, NOW), Err(Refused::Address));
    assert_eq!(tried(&token, "word", "web-1", &first, here, late), Err(Refused::Expired));
    let used = tried(&token, "word", "web-1", &first, here, NOW).unwrap();
    assert_eq!(tried(&used, "word", "web-2", &second, here, NOW), Err(Refused::Used));
    assert_eq!(tried(&used, "word", "web-1", &first, here, NOW).as_ref(), Ok(&used));
}

#[test]
#[rule("I-4")]
fn i4_a_join_token_counts_for_a_limited_time() {
    let long = JOIN_TOKEN_LIFE_MAX + Duration::from_secs(1);
    assert_eq!(JoinToken::new("word", "web-1", None, NOW, long), Err(BadToken::Life));
}

#[test]
#[rule("I-4")]
fn i4_a_proof_is_of_one_key_one_name_and_one_nonce() {
    let (own, other) = (pair(1), pair(2));
    let (web, db) = (PeelId::parse("web-1").unwrap(), PeelId::parse("db-1").unwrap());
    let proof = prove(&own, &web, &[7; 32]);
    assert!(is_proven(own.public(), &web, &[7; 32], &proof));
    assert!(!is_proven(other.public(), &web, &[7; 32], &proof));
    assert!(!is_proven(own.public(), &db, &[7; 32], &proof));
    assert!(!is_proven(own.public(), &web, &[8; 32], &proof));
    assert!(!is_proven(own.public(), &web, &[7; 32], b""));
}
