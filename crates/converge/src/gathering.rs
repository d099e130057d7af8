//! Where states of one level meet that are better served together: twenty packages are one transaction.
//!
//! Whoever arrives waits for the others of its sort that are under way: they may have guards to run first, and may turn out
//! to have nothing to do. Once nobody is left who could still come, one of them serves all. With few places (`concurrency`)
//! those meet that have one; with a single place everybody is served alone, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use zester_engine::NodeId;
use zester_host::Fault;

/// What is asked for comes in stages: whoever is behind catches up before others go on.
pub trait Staged {
    fn stage(&self) -> usize;
}

pub struct Gathering<Q, A>(Mutex<Kept<Q, A>>);

struct Kept<Q, A> {
    /// Commands are being given out: more may come.
    stepping: bool,
    /// Who is under way, and may still arrive.
    expected: BTreeSet<NodeId>,
    /// Who is no longer, as soon as all commands are given out.
    leaving: Vec<NodeId>,
    waiting: BTreeMap<NodeId, Guest<Q, A>>,
    /// Who serves, and those who wait for its answers.
    serving: BTreeMap<NodeId, Turns<Q, A>>,
}

type Turns<Q, A> = BTreeMap<NodeId, oneshot::Sender<Gathered<Q, A>>>;

/// Why nobody answered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// Canceled before anybody began.
    Canceled,
    /// Whoever served fell over or was given up, and where it had got to nobody knows.
    Lost,
}

impl Unserved {
    pub fn fault(self) -> Fault {
        match self {
            Unserved::Canceled => Fault::canceled(),
            Unserved::Lost => Fault::canceled().touched(),
        }
    }
}

/// Lets the guests go, whatever becomes of who serves.
struct Serving<'a, Q, A> {
    kept: &'a Mutex<Kept<Q, A>>,
    node: NodeId,
}

impl<Q, A> Drop for Serving<'_, Q, A> {
    fn drop(&mut self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).serving.remove(&self.node);
    }
}

struct Guest<Q, A> {
    request: Q,
    turn: oneshot::Sender<Gathered<Q, A>>,
}

/// What comes of waiting.
enum Gathered<Q, A> {
    /// Serves all of these, in their order; itself among them.
    Serve(Vec<(NodeId, Guest<Q, A>)>),
    Served(A),
}

impl<Q, A> Default for Gathering<Q, A> {
    fn default() -> Gathering<Q, A> {
        Gathering(Mutex::new(Kept {
            stepping: false,
            expected: BTreeSet::new(),
            leaving: Vec::new(),
            waiting: BTreeMap::new(),
            serving: BTreeMap::new(),
        }))
    }
}

impl<Q: Staged, A> Gathering<Q, A> {
    /// Somebody gets a command. Until [`Gathering::settled`] nobody is served: others may get theirs.
    pub fn begin(&self, node: NodeId) {
        let mut kept = self.lock();
        kept.stepping = true;
        kept.leaving.retain(|leaving| *leaving != node);
        kept.expected.insert(node);
    }

    /// Somebody has ended, or waits for its next try.
    pub fn leave(&self, node: NodeId) {
        let mut kept = self.lock();
        kept.stepping = true;
        kept.leaving.push(node);
    }

    /// Somebody hangs: those whom it serves are not to wait for it.
    pub fn give_up(&self, node: NodeId) {
        self.lock().serving.remove(&node);
    }

    /// All commands of a step have been given out.
    pub fn settled(&self) {
        let mut kept = self.lock();
        kept.stepping = false;
        for node in std::mem::take(&mut kept.leaving) {
            kept.expected.remove(&node);
        }
        kept.open();
    }

    /// Waits for the others, and for whoever serves all.
    pub async fn meet<F: Future<Output = Vec<A>>>(
        &self,
        node: NodeId,
        request: Q,
        cancel: &CancellationToken,
        serve: impl FnOnce(Vec<Q>) -> F,
    ) -> Result<A, Unserved> {
        let (turn, mut coming) = oneshot::channel();
        {
            let mut kept = self.lock();
            kept.waiting.insert(node, Guest { request, turn });
            kept.open();
        }
        let turn = tokio::select! {
            biased;
            turn = &mut coming => turn,
            () = cancel.cancelled() => {
                if self.lock().waiting.remove(&node).is_some() {
                    return Err(Unserved::Canceled);
                }
                // Somebody serves it already, and what came of that counts.
                coming.await
            }
        };
        let guests = match turn.map_err(|_| Unserved::Lost)? {
            Gathered::Served(answer) => return Ok(answer),
            Gathered::Serve(guests) => guests,
        };
        let mut turns = Turns::new();
        let (mut order, mut requests) = (Vec::new(), Vec::new());
        for (guest, Guest { request, turn }) in guests {
            turns.insert(guest, turn);
            order.push(guest);
            requests.push(request);
        }
        self.lock().serving.insert(node, turns);
        let serving = Serving { kept: &self.0, node };
        let answers = serve(requests).await;
        // Gone where it was given up meanwhile.
        let mut turns = self.lock().serving.remove(&node).unwrap_or_default();
        drop(serving);
        let mut own = Err(Unserved::Lost);
        for (guest, answer) in order.into_iter().zip(answers) {
            if guest == node {
                own = Ok(answer);
            } else if let Some(turn) = turns.remove(&guest) {
                // Whoever no longer listens was given up.
                let _unheard = turn.send(Gathered::Served(answer));
            }
        }
        own
    }

    fn lock(&self) -> MutexGuard<'_, Kept<Q, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q: Staged, A> Kept<Q, A> {
    /// Lets those at the earliest stage begin, once everybody who may come is here.
    fn open(&mut self) {
        let complete = self.expected.iter().all(|node| self.waiting.contains_key(node));
        if self.stepping || !complete {
            return;
        }
        let Some(stage) = self.waiting.values().map(|guest| guest.request.stage()).min() else { return };
        let nodes: Vec<NodeId> = self.waiting.keys().copied().collect();
        let mut guests = Vec::new();
        for node in nodes {
            if let Some(guest) = self.waiting.remove(&node) {
                if guest.request.stage() == stage {
                    guests.push((node, guest));
                } else {
                    self.waiting.insert(node, guest);
                }
            }
        }
        // Whoever comes first serves; its own place among the others is kept by one that nobody hears.
        let Some((_, first)) = guests.first_mut() else { return };
        let (unheard, _) = oneshot::channel();
        let turn = std::mem::replace(&mut first.turn, unheard);
        if let Err(Gathered::Serve(left)) = turn.send(Gathered::Serve(guests)) {
            // It was given up meanwhile: the others are served without it.
            self.waiting.extend(left.into_iter().skip(1));
            self.open();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use zester_rule::rule;

    struct Ask(usize, u32);

    impl Staged for Ask {
        fn stage(&self) -> usize {
            self.0
        }
    }

    type Seen = Arc<Mutex<Vec<Vec<u32>>>>;

    fn arrive(
        gathering: &Arc<Gathering<Ask, u32>>,
        seen: &Seen,
        cancel: &CancellationToken,
        node: u32,
        stage: usize,
    ) -> tokio::task::JoinHandle<Result<u32, Unserved>> {
        let (gathering, seen, cancel) = (gathering.clone(), seen.clone(), cancel.clone());
        tokio::spawn(async move {
            let serve = |requests: Vec<Ask>| async move {
                let numbers: Vec<u32> = requests.iter().map(|ask| ask.1).collect();
                seen.lock().unwrap().push(numbers.clone());
                numbers.into_iter().map(|number| number * 10).collect()
            };
            gathering.meet(NodeId(node), Ask(stage, node), &cancel, serve).await
        })
    }

    #[tokio::test]
    async fn everybody_who_is_under_way_is_waited_for_and_served_at_once() {
        let (gathering, seen, cancel) =
            (Arc::new(Gathering::default()), Seen::default(), CancellationToken::new());
        (0..4).for_each(|node| gathering.begin(NodeId(node)));
        let first = arrive(&gathering, &seen, &cancel, 2, 0);
        let second = arrive(&gathering, &seen, &cancel, 0, 0);
        tokio::task::yield_now().await;
        gathering.settled();
        assert!(seen.lock().unwrap().is_empty());
        // One has nothing to do, one takes its time.
        gathering.leave(NodeId(1));
        gathering.settled();
        let last = arrive(&gathering, &seen, &cancel, 3, 0);
        assert_eq!(
            (first.await.unwrap(), second.await.unwrap(), last.await.unwrap()),
            (Ok(20), Ok(0), Ok(30))
        );
        assert_eq!(*seen.lock().unwrap(), [[0, 2, 3]]);
    }

    #[tokio::test]
    async fn nobody_is_served_while_commands_are_given_out() {
        let (gathering, seen, cancel) =
            (Arc::new(Gathering::default()), Seen::default(), CancellationToken::new());
        gathering.begin(NodeId(0));
        let first = arrive(&gathering, &seen, &cancel, 0, 0);
        tokio::task::yield_now().await;
        gathering.begin(NodeId(1));
        gathering.settled();
        let second = arrive(&gathering, &seen, &cancel, 1, 0);
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(0), Ok(10)));
        assert_eq!(*seen.lock().unwrap(), [[0, 1]]);
    }

    #[tokio::test]
    async fn whoever_is_behind_catches_up_first() {
        let (gathering, seen, cancel) =
            (Arc::new(Gathering::default()), Seen::default(), CancellationToken::new());
        (0..2).for_each(|node| gathering.begin(NodeId(node)));
        gathering.settled();
        let ahead = arrive(&gathering, &seen, &cancel, 0, 1);
        let behind = arrive(&gathering, &seen, &cancel, 1, 0);
        assert_eq!(behind.await.unwrap(), Ok(10));
        let caught_up = arrive(&gathering, &seen, &cancel, 1, 1);
        assert_eq!((ahead.await.unwrap(), caught_up.await.unwrap()), (Ok(0), Ok(10)));
        assert_eq!(*seen.lock().unwrap(), [vec![1], vec![0, 1]]);
    }

    #[tokio::test]
    async fn a_cancel_ends_the_waiting() {
        let (gathering, seen, cancel) =
            (Arc::new(Gathering::default()), Seen::default(), CancellationToken::new());
        (0..2).for_each(|node| gathering.begin(NodeId(node)));
        gathering.settled();
        let waiting = arrive(&gathering, &seen, &cancel, 0, 0);
        tokio::task::yield_now().await;
        cancel.cancel();
        assert_eq!(waiting.await.unwrap(), Err(Unserved::Canceled));
        assert!(seen.lock().unwrap().is_empty());
    }

    #[tokio::test]
    #[rule("S-32")]
    async fn s32_whoever_is_given_up_while_it_serves_keeps_nobody_waiting() {
        let (gathering, cancel) = (Arc::new(Gathering::default()), CancellationToken::new());
        (0..2).for_each(|node| gathering.begin(NodeId(node)));
        gathering.settled();
        let began = Arc::new(tokio::sync::Notify::new());
        let arrive = |node: u32| {
            let (gathering, cancel, began) = (gathering.clone(), cancel.clone(), began.clone());
            tokio::spawn(async move {
                let serve = |_: Vec<Ask>| async move {
                    began.notify_one();
                    std::future::pending::<Vec<u32>>().await
                };
                gathering.meet(NodeId(node), Ask(0, node), &cancel, serve).await
            })
        };
        let (first, second) = (arrive(0), arrive(1));
        began.notified().await;
        cancel.cancel();
        gathering.give_up(NodeId(0));
        let guest = tokio::time::timeout(std::time::Duration::from_secs(30), second).await;
        assert_eq!(guest.unwrap().unwrap(), Err(Unserved::Lost), "what was done for it nobody knows");
        first.abort();
    }
}
