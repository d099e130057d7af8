//! Who gets in with a join token, and who does not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::time::Duration;
use zester_identity::enrollment::Newcomer;
use zester_identity::join_token::{self, BadToken, Refused, is_proven, prove};
use zester_identity::limits::JOIN_TOKEN_LIFE_MAX;
use zester_identity::{KeyKind, KeyPair};
use zester_rule::rule;
use zester_wire::{JoinToken, NewToken, PeelId, UnixMillis};

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);

fn pair(seed: u8) -> KeyPair {
    KeyPair::new(KeyKind::User, [seed; 32]).unwrap()
}

/// As much of globs as is needed here.
fn is_prefixed(glob: &str, peel: &PeelId) -> bool {
    glob.strip_suffix('*').map_or(glob == peel.as_str(), |start| peel.as_str().starts_with(start))
}

fn order(word: &str, names: &str) -> NewToken {
    let digest = join_token::digest(word).to_vec();
    NewToken { digest, names: names.into(), address: None, life: HOUR, label: "l".into(), hold: false }
}

#[test]
#[rule("I-4")]
fn i4_a_join_token_lets_one_key_in_under_its_name_from_its_address_in_its_time() {
    let here: IpAddr = "192.0.2.7".parse().unwrap();
    let there: IpAddr = "192.0.2.8".parse().unwrap();
    let bound = NewToken { address: Some(here.to_string()), ..order("word", "web-*") };
    let token = join_token::make(&bound, "ann", NOW).unwrap();
    let (first, second) = (pair(1), pair(2));
    let tried = |token: &JoinToken, word: &str, name: &str, pair: &KeyPair, address, at| {
        let peel = PeelId::parse(name).unwrap();
        let by = Newcomer { peel: &peel, key: pair.public(), address };
        join_token::used(token, word, &by, at, is_prefixed)
    };
    let late = UnixMillis(NOW.plus(HOUR).0 + 1);
    assert_eq!(tried(&token, "other", "web-1", &first, here, NOW), Err(Refused::Unknown));
    assert_eq!(tried(&token, "word", "db-1", &first, here, NOW), Err(Refused::Name));
    assert_eq!(tried(&token, "word", "web-1", &first, there, NOW), Err(Refused::Address));
    assert_eq!(tried(&token, "word", "web-1", &first, here, late), Err(Refused::Expired));
    let (used, voucher) = tried(&token, "word", "web-1", &first, here, NOW).unwrap();
    assert!(voucher.approves && !voucher.exact && voucher.token.label == "l");
    assert_eq!(tried(&used, "word", "web-2", &second, here, NOW), Err(Refused::Used));
    assert_eq!(tried(&used, "word", "web-1", &second, here, NOW), Err(Refused::Used));
    // One machine, one name: it cannot bring a second name in with it.
    assert_eq!(tried(&used, "word", "web-2", &first, here, NOW), Err(Refused::Used));
    // The same one again, whose answer was lost: also when the token has ended meanwhile.
    for at in [NOW, late] {
        assert_eq!(tried(&used, "word", "web-1", &first, here, at).unwrap().0, used);
    }
}

#[test]
#[rule("I-4")]
fn i4_a_token_that_holds_vouches_and_one_for_a_name_says_so() {
    let (peel, own) = (PeelId::parse("web-1").unwrap(), pair(1));
    let by = Newcomer { peel: &peel, key: own.public(), address: "192.0.2.7".parse().unwrap() };
    let held = join_token::make(&NewToken { hold: true, ..order("word", "web-1") }, "ann", NOW).unwrap();
    let (_, voucher) = join_token::used(&held, "word", &by, NOW, is_prefixed).unwrap();
    assert!(!voucher.approves && voucher.exact);
}

#[test]
#[rule("I-4")]
fn i4_what_is_no_token_is_not_made() {
    let good = order("word", "web-1");
    let long = JOIN_TOKEN_LIFE_MAX + Duration::from_secs(1);
    for (bad, why) in [
        (NewToken { life: long, ..good.clone() }, BadToken::Life),
        (NewToken { life: Duration::ZERO, ..good.clone() }, BadToken::Life),
        (NewToken { names: String::new(), ..good.clone() }, BadToken::Names),
        (NewToken { names: "x".repeat(300), ..good.clone() }, BadToken::Names),
        (NewToken { label: "a\nb".into(), ..good.clone() }, BadToken::Label),
        (NewToken { address: Some("here".into()), ..good.clone() }, BadToken::Address),
        (NewToken { digest: vec![1; 31], ..good.clone() }, BadToken::Digest),
    ] {
        assert_eq!(join_token::make(&bad, "ann", NOW), Err(why));
    }
}

#[test]
#[rule("I-10")]
fn i10_what_is_kept_of_a_token_does_not_hold_the_word() {
    let word = join_token::word(&[9; 32]);
    assert!(word.starts_with("zj-") && word.len() == 35, "{word}");
    let token = join_token::make(&order(&word, "web-1"), "ann", NOW).unwrap();
    assert!(!format!("{token:?}").contains(&word));
    let id = join_token::id_of(&token.digest).unwrap();
    assert!(id.as_str().len() == 16 && !word.contains(id.as_str()));
}

#[test]
#[rule("I-4")]
fn i4_a_proof_is_of_one_key_one_name_and_one_nonce() {
    let (own, other) = (pair(1), pair(2));
    let (web, db) = (PeelId::parse("web-1").unwrap(), PeelId::parse("db-1").unwrap());
    let proof = prove(&own, &web, &[7; 40]);
    assert!(is_proven(own.public(), &web, &[7; 40], &proof));
    assert!(!is_proven(other.public(), &web, &[7; 40], &proof));
    assert!(!is_proven(own.public(), &db, &[7; 40], &proof));
    assert!(!is_proven(own.public(), &web, &[8; 40], &proof));
    assert!(!is_proven(own.public(), &web, &[7; 40], b""));
}
