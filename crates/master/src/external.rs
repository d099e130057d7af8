//! Settings from outside (D-6, `settings_ext`): asks for each known peel, every minute and when a peel is new, and says in
//! `/readyz` what did not work. What was there before stays then.

use crate::core::Core;
use crate::limits::{EXTERNAL_AT_ONCE, EXTERNAL_EVERY, EXTERNAL_LOOK, EXTERNAL_NAMED, EXTERNAL_ROUND};
use futures_util::StreamExt;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::{Instant, sleep, timeout_at};
use zester_health::State;
use zester_wire::PeelId;

/// Its name in `/readyz`.
const NAME: &str = "settings_ext";

/// Whether it worked, once that is known.
pub type Refreshing<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Who knows more of each peel than the settings files say.
pub trait ExternalSettings: Send + Sync {
    /// Brings what is known of one peel up to date, or says in a sentence why what was known before stays. Bounded in time.
    fn refresh(&self, peel: PeelId) -> Refreshing<'_>;

    /// Drops what is known of all others.
    fn keep_only(&self, known: &BTreeSet<PeelId>);
}

/// Ends only with its task.
pub(crate) async fn run(core: Arc<Core>, external: Arc<dyn ExternalSettings>) {
    let mut asked = BTreeSet::new();
    let mut next = Instant::now();
    // Whoever the last round over all had no time for is asked first in the next.
    let mut first = None;
    loop {
        // Before the index is complete, everybody would seem to be gone.
        if core.index.is_current() {
            let known: BTreeSet<PeelId> = core.index.snapshot().keys().cloned().collect();
            let all = Instant::now() >= next;
            let mut due: Vec<PeelId> =
                known.iter().filter(|peel| all || !asked.contains(*peel)).cloned().collect();
            if all {
                begin_with(&mut due, first.as_ref());
            }
            let (problems, unanswered) = round(&due, external.as_ref()).await;
            tell(&core, &problems, all);
            if all {
                first = unanswered;
                external.keep_only(&known);
                next = Instant::now() + EXTERNAL_EVERY;
            }
            asked = known;
        }
        sleep(EXTERNAL_LOOK).await;
    }
}

/// The same peels in the same order, from this one on and around.
fn begin_with(due: &mut [PeelId], first: Option<&PeelId>) {
    let at = first.and_then(|first| due.iter().position(|peel| peel >= first));
    due.rotate_left(at.unwrap_or(0));
}

/// Asks for these, a few at a time. Whoever has no answer when the time is over is a problem too; the first of them is told.
async fn round(due: &[PeelId], external: &dyn ExternalSettings) -> (Vec<String>, Option<PeelId>) {
    let end = Instant::now() + EXTERNAL_ROUND;
    let one = |(place, peel): (usize, PeelId)| async move { (place, external.refresh(peel).await) };
    let peels = due.iter().cloned().enumerate();
    let mut answers = futures_util::stream::iter(peels).map(one).buffer_unordered(EXTERNAL_AT_ONCE);
    let (mut answered, mut problems) = (vec![false; due.len()], Vec::new());
    while let Ok(Some((place, answer))) = timeout_at(end, answers.next()).await {
        answered[place] = true;
        problems.extend(answer.err().map(|why| format!("{}: {why}", due[place])));
    }
    problems.sort();
    let late = answered.iter().filter(|answered| !**answered).count();
    if late > 0 {
        problems.push(format!("{late} peels have no answer after {} s", EXTERNAL_ROUND.as_secs()));
    }
    (problems, answered.iter().position(|answered| !answered).map(|place| due[place].clone()))
}

fn tell(core: &Core, problems: &[String], all: bool) {
    if problems.is_empty() {
        // Who was new is well; the others may not be.
        if all {
            core.health.set(NAME, State::Up);
        }
        return;
    }
    let mut why = problems.iter().take(EXTERNAL_NAMED).cloned().collect::<Vec<_>>().join("; ");
    if problems.len() > EXTERNAL_NAMED {
        why.push_str(&format!("; and {} more", problems.len() - EXTERNAL_NAMED));
    }
    let state = State::Degraded(format!("what was known before stays: {why}"));
    if core.health.state(NAME).as_ref() != Some(&state) {
        tracing::warn!("settings_ext: {why}");
    }
    core.health.set(NAME, state);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use zester_rule::rule;

    /// Fails for one peel, and never answers for another.
    #[derive(Default)]
    struct Fake {
        at_once: AtomicUsize,
        most: AtomicUsize,
    }

    impl ExternalSettings for Fake {
        fn refresh(&self, peel: PeelId) -> Refreshing<'_> {
            Box::pin(async move {
                let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                if peel.as_str() == "hangs" {
                    std::future::pending::<()>().await;
                }
                self.at_once.fetch_sub(1, Ordering::SeqCst);
                if peel.as_str() == "bad" { Err("it failed".to_string()) } else { Ok(()) }
            })
        }

        fn keep_only(&self, _: &BTreeSet<PeelId>) {}
    }

    #[tokio::test(start_paused = true)]
    #[rule("D-6")]
    async fn d6_one_peel_that_fails_or_hangs_holds_up_nobody_else() {
        let names: Vec<String> =
            (0..100).map(|n| format!("web-{n}")).chain(["bad".into(), "hangs".into()]).collect();
        let peels: Vec<PeelId> = names.iter().map(|name| PeelId::parse(name).unwrap()).collect();
        let fake = Fake::default();
        let (problems, unanswered) = round(&peels, &fake).await;
        assert_eq!(unanswered.as_ref().map(PeelId::as_str), Some("hangs"));
        assert_eq!(problems, ["bad: it failed", "1 peels have no answer after 60 s"]);
        assert!(fake.most.load(Ordering::SeqCst) <= EXTERNAL_AT_ONCE);
    }

    /// Takes its time, and notes for whom it had an answer.
    #[derive(Default)]
    struct Slow(std::sync::Mutex<Vec<PeelId>>);

    impl ExternalSettings for Slow {
        fn refresh(&self, peel: PeelId) -> Refreshing<'_> {
            Box::pin(async move {
                tokio::time::sleep(EXTERNAL_ROUND * 3 / 20).await;
                self.0.lock().unwrap().push(peel);
                Ok(())
            })
        }

        fn keep_only(&self, _: &BTreeSet<PeelId>) {}
    }

    #[tokio::test(start_paused = true)]
    #[rule("D-6")]
    async fn d6_a_round_begins_where_the_last_one_ended_so_that_everybody_has_a_turn() {
        // A round has time for 48 of them and is cut in the middle of eight more: of 56 it would always be the same.
        let peels: Vec<PeelId> = (0..112).map(|n| PeelId::parse(&format!("web-{n:03}")).unwrap()).collect();
        let (slow, mut first) = (Slow::default(), None);
        for _ in 0..3 {
            let mut due = peels.clone();
            begin_with(&mut due, first.as_ref());
            first = round(&due, &slow).await.1;
        }
        let asked: BTreeSet<PeelId> = slow.0.lock().unwrap().iter().cloned().collect();
        assert_eq!(asked.len(), peels.len());
        let mut due = peels.clone();
        begin_with(&mut due, Some(&PeelId::parse("web-0975").unwrap()));
        assert_eq!(due[0].as_str(), "web-098", "that one is gone; the next has its turn");
        begin_with(&mut due, Some(&PeelId::parse("zzz").unwrap()));
        assert_eq!(due[0].as_str(), "web-098", "beyond all: as they stand");
    }
}
