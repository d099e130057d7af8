//! Arbitrary bytes as everything that a stranger may send: an envelope, a certificate, a roster, a JWT, credentials.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zester_identity::{Credentials, KeyKind, KeyPair, Seen, Speaker, Trust, authority, jwt, roster};
use zester_wire::{Envelope, UnixMillis, decode};

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

fuzz_target!(|bytes: &[u8]| {
    let pair = |seed| KeyPair::new(KeyKind::Account, [seed; 32]);
    let (Ok(anchor), Ok(issuer)) = (pair(1), pair(2)) else { return };
    let first =
        authority::first_roster(issuer.public(), NOW).and_then(|first| authority::signed(&first, &anchor));
    let Ok(trust) = Trust::new(anchor.public().clone(), &first.unwrap_or_default()) else { return };
    assert!(roster::read(bytes, issuer.public()).is_err());
    assert_ne!(trust.take(bytes), Ok(true));
    if let Ok(envelope) = decode::<Envelope>(bytes) {
        assert!(trust.verify(&envelope, "zester.heartbeat.a", &Speaker::Anybody, Seen::live(NOW)).is_err());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = jwt::verify(text);
        let _ = Credentials::parse(text);
    }
});
