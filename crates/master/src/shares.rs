//! What each member may ask of this master in a while (I-13): one that floods it is refused, and holds up nobody else for long.

use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use zester_identity::limits::{MEMBER_SHARE, PEEL_QUESTIONS, SOURCES_MAX};
use zester_identity::source_rate::{Share, SourceRate};
use zester_identity::{Principal, Role};
use zester_link::{Dropped, Reason};
use zester_wire::{Refusal, RefusalKind};

pub struct Shares {
    begun: Instant,
    /// By key: names are labels.
    peels: Mutex<SourceRate<String>>,
    others: Mutex<SourceRate<String>>,
}

impl Shares {
    pub fn new() -> Shares {
        let rate = |share| Mutex::new(SourceRate::new(share, SOURCES_MAX));
        Shares { begun: Instant::now(), peels: rate(PEEL_QUESTIONS), others: rate(MEMBER_SHARE) }
    }

    /// Takes one request of a member, or refuses it. Where nobody signs, nobody can be told from another.
    pub fn take(&self, who: Option<&Principal>, dropped: &Dropped) -> Result<(), Refusal> {
        let Some(who) = who else { return Ok(()) };
        let (rate, Share { per_second, .. }) = match who.role {
            Role::Peel => (&self.peels, PEEL_QUESTIONS),
            Role::Master | Role::Admin | Role::Operator => (&self.others, MEMBER_SHARE),
        };
        if lock(rate).takes(&who.key, self.begun.elapsed()) {
            return Ok(());
        }
        dropped.add(Reason::Flood, 1);
        let why = format!("{who} asks more than its share of {per_second} requests a second; ask again");
        Err(Refusal::new(RefusalKind::Unavailable, why))
    }
}

fn lock(rate: &Mutex<SourceRate<String>>) -> MutexGuard<'_, SourceRate<String>> {
    rate.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn who(role: Role, key: &str) -> Principal {
        Principal { role, name: "same-name".into(), key: key.into() }
    }

    #[tokio::test(start_paused = true)]
    #[rule("I-13")]
    async fn i13_a_peel_that_floods_the_masters_with_questions_takes_no_share_of_others() {
        let (shares, dropped) = (Shares::new(), Dropped::default());
        let take = |who: &Principal| shares.take(Some(who), &dropped).is_ok();
        let (flooder, other, ann) = (who(Role::Peel, "A"), who(Role::Peel, "B"), who(Role::Admin, "A"));
        let taken = (0..10_000).filter(|_| take(&flooder)).count() as u64;
        assert_eq!(taken, PEEL_QUESTIONS.burst);
        assert_eq!(dropped.of(Reason::Flood), 10_000 - taken);
        assert!(take(&other) && take(&ann));
        let refusal = shares.take(Some(&flooder), &dropped).unwrap_err();
        assert!(refusal.kind.is_retryable() && refusal.message.contains("more than its share"), "{refusal}");
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert!(take(&flooder), "it may ask again");
        assert!(shares.take(None, &dropped).is_ok());
    }
}
