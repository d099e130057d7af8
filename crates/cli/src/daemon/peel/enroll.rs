//! How a peel gets into a fleet by itself (I-4): it makes its key, shows that it has it at the door of a master, waits until
//! somebody lets it in, keeps what it is given, and renews it before it ends (I-15). The key never leaves this machine.

use super::kept::Kept;
use crate::answer::Failure;
use crate::connection::Connect;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use zester_bus::Bus;
use zester_bus::nats::{Passport, Proof, Prove};
use zester_door::{Caller, DoorUrl, Kind, Pin};
use zester_health::{Health, State};
use zester_identity::{Credentials, KeyPair, join_token};
use zester_link::Link;
use zester_master::{NONCE_PATH, REQUEST_PATH};
use zester_wire::{
    EnrollAnswer, EnrollGrant, EnrollNonce, EnrollOutcome, EnrollRequest, PeelId, ReplacedKey, VERSION,
    decode, encode,
};

/// How long to wait before asking again, at first and at most: somebody may be about to decide, or asleep.
const ASK_PAUSE: Duration = Duration::from_secs(2);
const ASK_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a start waits for new credentials while those it has still count.
const RENEW_AT_START: Duration = Duration::from_secs(10);
/// The longest between two looks whether the time has come: a machine may sleep meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(3_600);
/// How often to look whether somebody wants a new key.
const NEXT_KEY_LOOK: Duration = Duration::from_secs(2);
const PART: &str = "enrollment";

/// What the words of a peel say about getting in.
#[derive(Clone)]
pub struct Wanted {
    pub id: PeelId,
    pub url: DoorUrl,
    pub pin: Pin,
    pub token: Option<String>,
    pub data_dir: PathBuf,
}

impl Wanted {
    /// None: nobody named a master.
    pub fn read(
        id: &PeelId,
        (url, pin): (Option<&str>, Option<&str>),
        token: Option<&str>,
        data_dir: PathBuf,
    ) -> Result<Option<Wanted>, Failure> {
        let (url, pin) = match (url, pin) {
            (None, None) if token.is_none() => return Ok(None),
            (None, _) => return Err(Failure::usage("--pin and --token are for --master https://HOST:PORT")),
            (Some(_), None) => {
                let why = "--master needs --pin sha256:…, or whoever is in between could be the master; `zester auth show --dir KEYS` prints it";
                return Err(Failure::usage(why));
            }
            (Some(url), Some(pin)) => (url, pin),
        };
        let url = url.parse().map_err(|why: String| Failure::usage(format!("--master: {why}")))?;
        let pin = pin.parse().map_err(|bad| Failure::usage(format!("--pin: {bad}")))?;
        Ok(Some(Wanted { id: id.clone(), url, pin, token: token.map(String::from), data_dir }))
    }
}

/// A peel that is in.
pub struct Enrolled {
    wanted: Wanted,
    kept: Kept,
    passport: Passport,
}

/// What became of one visit.
enum Visit {
    In(Box<Kept>),
    /// Ask again; why, for people.
    Again(String),
    Never(String),
}

/// Gets in, however long that takes. None: it was told to stop meanwhile.
pub async fn get_in(
    wanted: Wanted,
    health: &Health,
    stop: &CancellationToken,
) -> Result<Option<Enrolled>, Failure> {
    let pair = Kept::own_key(&wanted.data_dir)?;
    let mut kept = Kept::open(&wanted.data_dir, &pair, &wanted.id, wanted.pin)?;
    // The door may have taken the next key just before the end of an earlier life.
    let next = Kept::next_key(&wanted.data_dir).unwrap_or_else(|failure| {
        // The key that it has still counts: whoever wants another must not keep it out.
        tracing::warn!("the key is not replaced: {}", failure.error);
        None
    });
    if let (Some(before), Some(next)) = (&kept, next) {
        match tokio::time::timeout(RENEW_AT_START, visit_with_next(&wanted, &next, before)).await {
            Ok(Visit::In(rekeyed)) => return Ok(Some(Enrolled::new(wanted, *rekeyed))),
            Ok(Visit::Never(why) | Visit::Again(why)) => tracing::warn!("the key is not replaced yet: {why}"),
            Err(_) => tracing::warn!("the key is not replaced yet: {} does not answer", wanted.url),
        }
    }
    if kept.as_ref().is_some_and(Kept::is_due) {
        // Those it has may still count: a door that is closed just now must not keep it out.
        let visit = tokio::time::timeout(RENEW_AT_START, visit(&wanted, &pair)).await;
        match visit {
            Ok(Visit::In(renewed)) => kept = Some(*renewed),
            Ok(Visit::Never(why)) if kept.as_ref().is_none_or(Kept::has_ended) => {
                return Err(Failure::usage(why));
            }
            Ok(Visit::Never(why) | Visit::Again(why)) => {
                tracing::warn!("the credentials are not renewed yet: {why}")
            }
            Err(_) => tracing::warn!("the credentials are not renewed yet: {} does not answer", wanted.url),
        }
    }
    if let Some(kept) = kept.filter(|kept| !kept.has_ended()) {
        return Ok(Some(Enrolled::new(wanted, kept)));
    }
    let id = zester_identity::enrollment::id_of(&wanted.id, pair.public().as_str());
    let id = id.map_err(|why| Failure::usage(why.to_string()))?;
    tracing::info!(%id, door = %wanted.url, "asking to be let in");
    let (mut pause, mut told) = (ASK_PAUSE, String::new());
    loop {
        let asked = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(None),
            asked = visit(&wanted, &pair) => asked,
        };
        match asked {
            Visit::In(kept) => {
                health.set(PART, State::Up);
                tracing::info!(peel = %wanted.id, "let in");
                return Ok(Some(Enrolled::new(wanted, *kept)));
            }
            Visit::Never(why) => return Err(Failure::usage(why)),
            Visit::Again(why) => {
                health.set(PART, State::Down(why.clone()));
                // Once, however long it takes.
                if why != told {
                    tracing::info!(%id, "waiting: {why}");
                    told = why;
                }
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(None),
            () = sleep(pause.mul_f64(share())) => {}
        }
        pause = pause.mul_f64(1.5).min(ASK_PAUSE_MAX);
    }
}

/// Between three quarters and five: many that wait alike do not all come at once.
fn share() -> f64 {
    use zester_link::Dice;
    0.75 + f64::from(zester_link::OsDice.roll()[0]) / f64::from(u8::MAX) / 2.0
}

/// Goes to the door once: a nonce, the proof, the answer.
async fn visit(wanted: &Wanted, pair: &KeyPair) -> Visit {
    let keep = |grant: &EnrollGrant| Kept::keep(&wanted.data_dir, pair, &wanted.id, wanted.pin, grant);
    visit_with(wanted, pair, None, keep).await
}

/// The same with the key that is to take the place of ours.
async fn visit_with_next(wanted: &Wanted, next: &KeyPair, before: &Kept) -> Visit {
    let Credentials { pair, anchor, .. } = &before.credentials;
    let keep =
        |grant: &EnrollGrant| Kept::keep_next(&wanted.data_dir, next, &wanted.id, wanted.pin, grant, anchor);
    visit_with(wanted, next, Some(pair), keep).await
}

async fn visit_with(
    wanted: &Wanted,
    pair: &KeyPair,
    replaces: Option<&KeyPair>,
    keep: impl FnOnce(&EnrollGrant) -> Result<Kept, Failure>,
) -> Visit {
    let answer = match ask(wanted, pair, replaces).await {
        Ok(answer) => answer,
        // A pin that does not fit now will not fit later; somebody has to look.
        Err((Kind::NotTheDoor, why)) => return Visit::Never(why),
        Err((_, why)) => return Visit::Again(why),
    };
    match (answer.outcome, answer.grant) {
        (EnrollOutcome::Granted, Some(grant)) => match keep(&grant) {
            Ok(kept) => Visit::In(Box::new(kept)),
            Err(failure) => Visit::Again(failure.error.to_string()),
        },
        (EnrollOutcome::Rejected | EnrollOutcome::Revoked | EnrollOutcome::Refused, _) => {
            Visit::Never(format!("{} does not let this peel in: {}", wanted.url, answer.message))
        }
        _ => Visit::Again(answer.message),
    }
}

async fn ask(
    wanted: &Wanted,
    pair: &KeyPair,
    replaces: Option<&KeyPair>,
) -> Result<EnrollAnswer, (Kind, String)> {
    let failed = |error: zester_door::Error| (error.kind, error.to_string());
    let unreadable = |error: zester_wire::DecodeError| (Kind::Refused, format!("the door says {error}"));
    let mut caller = Caller::connect(&wanted.url, wanted.pin).await.map_err(failed)?;
    let nonce = caller.post(NONCE_PATH, Vec::new()).await.map_err(failed)?;
    let nonce = decode::<EnrollNonce>(&nonce).map_err(unreadable)?.nonce;
    let proof = join_token::prove(pair, &wanted.id, &nonce);
    let replaces = replaces.map(|before| ReplacedKey {
        key: before.public().to_string(),
        proof: join_token::hand_over(before, &wanted.id, &nonce, pair.public()),
    });
    let (key, token) = (pair.public().to_string(), wanted.token.clone());
    let request = EnrollRequest { v: VERSION, peel: wanted.id.clone(), key, nonce, proof, token, replaces };
    let request = encode(&request).map_err(|error| (Kind::Refused, error.to_string()))?;
    let answer = caller.post(REQUEST_PATH, request).await.map_err(failed)?;
    decode::<EnrollAnswer>(&answer).map_err(unreadable)
}

fn prover(credentials: &Credentials) -> Arc<Prove> {
    let (jwt, pair) = (credentials.jwt.clone(), credentials.pair.clone());
    Arc::new(move |nonce: &[u8]| Proof { jwt: jwt.clone(), signature: pair.sign(nonce) })
}

impl Enrolled {
    fn new(wanted: Wanted, kept: Kept) -> Enrolled {
        let passport = Passport::new(prover(&kept.credentials));
        Enrolled { wanted, kept, passport }
    }

    /// How to connect with what it was given. Another address of the bus may have been named.
    pub fn connect(&self, named: &Connect) -> Connect {
        Connect {
            nats: named.nats.clone().or_else(|| Some(self.kept.nats.clone())),
            creds: Some(self.kept.creds_file.clone()),
            ca: named.ca.clone().or_else(|| self.kept.ca_file.clone()),
            insecure: named.insecure,
        }
    }

    pub fn passport(&self) -> Passport {
        self.passport.clone()
    }

    /// Renews the credentials while the peel runs, and shows the server the new ones. Ends only with its task.
    pub async fn stay_in(self, link: Link, bus: Arc<dyn Bus>, health: Arc<Health>) {
        let Enrolled { wanted, mut kept, passport } = self;
        let (mut pause, mut unreadable) = (ASK_PAUSE, String::new());
        loop {
            sleep(kept.due_in().min(LOOK_MAX).min(NEXT_KEY_LOOK)).await;
            let next = next_key(&wanted, &health, &mut unreadable);
            let visited = match &next {
                // Where that fails for long, what it has is renewed all the same.
                Some(next) => match visit_with_next(&wanted, next, &kept).await {
                    Visit::Again(why) | Visit::Never(why) if kept.is_due() => {
                        tracing::warn!("the key is not replaced yet: {why}");
                        visit(&wanted, &kept.credentials.pair).await
                    }
                    visited => visited,
                },
                None if kept.is_due() => visit(&wanted, &kept.credentials.pair).await,
                None => continue,
            };
            match visited {
                Visit::In(renewed) => {
                    kept = *renewed;
                    link.renew(kept.credentials.clone());
                    passport.renew(prover(&kept.credentials));
                    // The server counts the life of a connection by what it was shown.
                    let shown = reconnected(bus.as_ref()).await;
                    let key = kept.credentials.pair.public();
                    match next.as_ref().filter(|next| next.public() == key) {
                        Some(_) => {
                            tracing::info!(%key, until = kept.until.0, shown, "the key is replaced");
                        }
                        None => tracing::info!(until = kept.until.0, shown, "the credentials are renewed"),
                    }
                    health.set(PART, State::Up);
                    pause = ASK_PAUSE;
                }
                Visit::Again(why) | Visit::Never(why) if next.is_some() => {
                    tracing::warn!("the key is not replaced yet: {why}");
                    health.set(PART, State::Degraded(format!("the key cannot be replaced: {why}")));
                    sleep(pause.mul_f64(share())).await;
                    pause = pause.mul_f64(1.5).min(ASK_PAUSE_MAX);
                }
                Visit::Again(why) | Visit::Never(why) => {
                    let left = kept.ends_in().as_secs();
                    tracing::warn!("the credentials end in {left} s and cannot be renewed: {why}");
                    health.set(PART, State::Degraded(format!("the credentials cannot be renewed: {why}")));
                    sleep(pause.mul_f64(share())).await;
                    pause = pause.mul_f64(1.5).min(ASK_PAUSE_MAX * 10);
                }
            }
        }
    }
}

/// The key that somebody wants in the place of ours. One that cannot be read is none; `told`: why, which is said once.
fn next_key(wanted: &Wanted, health: &Health, told: &mut String) -> Option<KeyPair> {
    match Kept::next_key(&wanted.data_dir) {
        Ok(next) => {
            if !told.is_empty() {
                told.clear();
                health.set(PART, State::Up);
            }
            next
        }
        Err(failure) => {
            let why = failure.error.to_string();
            if why != *told {
                tracing::warn!("the key is not replaced: {why}");
                health.set(PART, State::Degraded(format!("the key cannot be replaced: {why}")));
                *told = why;
            }
            None
        }
    }
}

/// Makes the connection anew. If that does not work now, the next one shows the new credentials too.
async fn reconnected(bus: &dyn Bus) -> bool {
    let begun = Instant::now();
    let done = bus.reconnect().await.is_ok();
    tracing::debug!("reconnecting took {:?}", begun.elapsed());
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("I-15")]
    fn i15_a_next_key_that_cannot_be_read_is_told_once_and_is_none() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("creds/next.nk");
        std::fs::create_dir(data.path().join("creds")).unwrap();
        crate::auth::directory::write_secret(&path, b"half of a ke").unwrap();
        let wanted = Wanted {
            id: PeelId::parse("web-1").unwrap(),
            url: "https://localhost:4443".parse().unwrap(),
            pin: format!("sha256:{}", "0".repeat(64)).parse().unwrap(),
            token: None,
            data_dir: data.path().to_path_buf(),
        };
        let (health, mut told) = (Health::new(), String::new());
        assert!(next_key(&wanted, &health, &mut told).is_none());
        assert!(told.contains("next.nk"), "{told}");
        std::fs::remove_file(&path).unwrap();
        assert!(next_key(&wanted, &health, &mut told).is_none() && told.is_empty());
    }
}
