//! Arbitrary bytes as what a stranger says at the door: a request, its nonce and its proof, the word of a token, the record of a
//! name. Nobody gets in who did not sign.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr};
use zester_identity::enrollment::{self, Newcomer, Waiting};
use zester_identity::nonce::Nonces;
use zester_identity::{KeyKind, PublicKey, join_token};
use zester_wire::{
    AdminRequest, EnrollAnswer, EnrollRequest, Enrollment, EnrollmentStatus, JoinToken, UnixMillis, decode,
};

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fuzz_target!(|bytes: &[u8]| {
    let mut nonces = Nonces::new([7; 32]);
    let _ = decode::<EnrollAnswer>(bytes);
    let _ = decode::<AdminRequest>(bytes);
    if let Ok(request) = decode::<EnrollRequest>(bytes) {
        // Nobody guesses a nonce of this master.
        assert!(nonces.redeem(&request.nonce, NOW).is_err());
        if let Ok(key) = PublicKey::of_kind(&request.key, KeyKind::User) {
            let _ = join_token::is_proven(&key, &request.peel, &request.nonce, &request.proof);
            let by = Newcomer { peel: &request.peel, key: &key, address: ADDRESS };
            if let Ok(asked) = enrollment::asked(None, &by, None, Waiting::default(), NOW) {
                assert_eq!(asked.record.status, EnrollmentStatus::Pending);
                assert_eq!(enrollment::peel_of_id(asked.record.id.as_str()), Some(request.peel.clone()));
            }
            let _ = request.token.as_deref().map(join_token::digest);
        }
    }
    if let Ok(record) = decode::<Enrollment>(bytes) {
        let _ = enrollment::ended_keys(&record).count();
        let _ = enrollment::address_is(&record.reason, &record.address);
    }
    let _ = decode::<JoinToken>(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = enrollment::peel_of_id(text);
        let (wanted, found) = text.split_once(' ').unwrap_or((text, text));
        let _ = enrollment::address_is(wanted, found);
    }
    let _ = nonces.check(bytes, NOW);
});
