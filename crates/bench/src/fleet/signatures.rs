//! What keys cost: signing a message, and telling whose it is.

use crate::report::Report;
use serde_json::json;
use std::time::{Duration, Instant};
use zester_identity::authority::{self, Fleet, PEEL_LIFE, Secrets};
use zester_identity::{Credentials, KeyKind, KeyPair, Seen, Speaker, Trust};
use zester_wire::{Ack, Envelope, Jid, MessageId, PeelId, Subject, UnixMillis, VERSION};

const PEELS: u16 = 100;
const MESSAGES: usize = 10_000;

pub fn claim(report: &mut Report) -> Result<(), String> {
    let now = UnixMillis(1_790_000_000_000);
    let (trust, peels) = fleet(now).map_err(|error| error.to_string())?;
    let jid = Jid::new(now, [7; 16]);
    let id = MessageId::parse("bench").map_err(|bad| bad.to_string())?;
    let (mut signing, mut verifying) = (Duration::ZERO, Duration::ZERO);
    for number in 0..MESSAGES {
        let (peel, credentials) = &peels[number % peels.len()];
        let ack =
            Ack { v: VERSION, jid: jid.clone(), peel: peel.clone(), dispatch_epoch: 1, ts: now, ahead: 0 };
        let subject = Subject::JobAck { jid: jid.clone(), peel: peel.clone() };
        let text = subject.to_string();
        let began = Instant::now();
        let sealed =
            Envelope::seal(&text, id.clone(), now, &ack, credentials).map_err(|error| error.to_string())?;
        signing += began.elapsed();
        let began = Instant::now();
        let speaker = Speaker::of_subject(&subject);
        trust.verify(&sealed, &text, &speaker, Seen::live(now)).map_err(|spoof| spoof.to_string())?;
        verifying += began.elapsed();
    }
    let each = |total: Duration| total.as_secs_f64() * 1000.0 / MESSAGES as f64;
    let notes = json!({ "sign": each(signing), "verify": each(verifying), "messages": MESSAGES });
    report.claim("sign and verify a message", each(signing) + each(verifying), "ms", 0.5, notes);
    Ok(())
}

/// Peels, and somebody who believes them.
type Members = (Trust, Vec<(PeelId, Credentials)>);

fn fleet(now: UnixMillis) -> Result<Members, Box<dyn std::error::Error>> {
    let mut seed = 0;
    let secrets = Secrets::new(|| {
        seed += 1;
        [seed; 32]
    })?;
    let mut fleet = Fleet::new(&secrets);
    let roster = authority::first_roster(secrets.issuer.public(), now)?;
    let signed = authority::signed(&roster, &secrets.core)?;
    let mut peels = Vec::new();
    for number in 0..PEELS {
        let mut random = [200; 32];
        random[..2].copy_from_slice(&number.to_be_bytes());
        let id = PeelId::parse(&format!("web-{number:04}"))?;
        let made = fleet.peel(&id, KeyPair::new(KeyKind::User, random)?, &secrets.issuer, now, PEEL_LIFE)?;
        peels.push((id, made.with_roster(secrets.core.public(), &signed)));
    }
    Ok((Trust::new(secrets.core.public().clone(), &signed)?, peels))
}
