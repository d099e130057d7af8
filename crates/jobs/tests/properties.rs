//! Whatever comes in whatever order: no panic, and what is refused changes nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::{T0, job, master, peel, ret, ret_of};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;
use zester_jobs::dedup::Dispatch;
use zester_jobs::peel::{self as end, Moment};
use zester_jobs::queue::{Lane, Queue};
use zester_jobs::{Command, Event, Failed, History, Owner, Peel, Timing, Written, messages};
use zester_rule::rule;
use zester_wire::*;

fn any_event() -> impl Strategy<Value = Event> {
    (0usize..23, 1usize..4, 1u64..3, any::<bool>()).prop_map(|(which, number, epoch, good)| {
        let result = if good { Ok(()) } else { Err(Failed) };
        let returned = ret(number, epoch, good);
        match which {
            0 => Event::Begin { absent: [peel(number)].into() },
            1 | 2 => Event::Record(Written::Done { revision: epoch }),
            3 => Event::Record(Written::Failed),
            4 => {
                let owner = if good { master("m1") } else { master("m2") };
                let found = Job { owner, epoch, status: JobStatus::Running, ..job(2, 60) };
                Event::Record(Written::Conflict { found: good.then(|| (Box::new(found), 9)) })
            }
            5 => Event::Marked(result),
            6 | 7 => Event::Announced(result),
            8 => Event::Loaded(Ok(vec![returned])),
            9 => {
                Event::Replayed(Ok(History { acks: vec![peel(1)], returns: vec![returned], canceled: None }))
            }
            10 => Event::Ack { peel: peel(number), dispatch_epoch: epoch },
            11 | 12 => Event::Return(Box::new(returned)),
            13 => Event::Return(Box::new(ret_of(number, epoch, Cause::Deadline))),
            14 | 15 => Event::Persisted { peel: peel(number) },
            16 => Event::PersistFailed { ret: Box::new(returned) },
            17 if good => Event::Connected { peel: peel(number) },
            17 => Event::Gone { peel: peel(number), stopped: number == 1 },
            22 => Event::Hearing(good),
            18 => Event::Cancel { by: "alice".into() },
            19 if good => Event::Detach,
            19 => Event::Superseded,
            20 => Event::Emitted(result),
            21 if good => Event::Purged(result),
            _ => Event::Tick,
        }
    })
}

fn any_peel_event() -> impl Strategy<Value = end::Event> {
    (0usize..12, 1u8..4, 1u64..3, any::<bool>()).prop_map(|(which, number, epoch, good)| {
        let jid = Jid::new(UnixMillis(T0), [number; 16]);
        let dispatch = Dispatch { jid: jid.clone(), epoch };
        let function = if number == 3 { "test.ping" } else { "state.apply" };
        let job = Job { jid: jid.clone(), dispatch_epoch: epoch, function: function.into(), ..job(1, 60) };
        let mut request = messages::exec_request(&job, Duration::from_secs(60));
        request.direct = which == 4 && good;
        let ret = Box::new(Return { jid: jid.clone(), ..ret(1, epoch, good) });
        match which {
            0 => end::Event::Start { entries: Vec::new() },
            1 => end::Event::LeftoversGone,
            2..=4 => end::Event::Exec {
                request: Box::new(request),
                signed: UnixMillis(T0),
                terms: end::Terms::default(),
            },
            5 => end::Event::Cancel { jid, dispatch_epoch: epoch },
            6 => end::Event::Stored { dispatch, result: if good { Ok(()) } else { Err(Failed) } },
            7 => end::Event::Finished { dispatch, ret },
            8 => end::Event::ReturnStored { dispatch },
            9 if good => end::Event::ReturnStoreFailed { ret },
            9 => end::Event::Delivered { dispatch },
            10 if good => end::Event::Connected,
            10 => end::Event::Disconnected,
            _ => end::Event::Tick,
        }
    })
}

proptest! {
    #[test]
    #[rule("J-20")]
    fn j20_an_owner_takes_any_events_and_ends_at_most_once(
        adopted: bool,
        events in proptest::collection::vec((any_event(), 0u64..8_000), 0..60),
    ) {
        let record = Job { status: JobStatus::Running, epoch: 1, dispatch_epoch: 1, ..job(2, 60) };
        let mut owner = match adopted {
            true => Owner::adopt(record, 3, master("m1"), Timing::default()).unwrap(),
            false => Owner::dispatch(record, master("m1"), Timing::default()),
        };
        let mut now = UnixMillis(T0);
        owner.step(Event::Begin { absent: BTreeSet::new() }, now).unwrap();
        let mut terminal = BTreeSet::new();
        for (event, pause) in events {
            now = now.plus(Duration::from_millis(pause));
            let before = format!("{owner:?}");
            match owner.step(event, now) {
                Err(_) => prop_assert_eq!(before, format!("{owner:?}")),
                Ok(commands) => terminal.extend(commands.iter().filter_map(|command| match command {
                    Command::WriteRecord { job, .. } if job.status.is_terminal() => Some(job.status.as_str()),
                    _ => None,
                })),
            }
            prop_assert!(terminal.len() <= 1, "J-1: {:?}", terminal);
            prop_assert!(!owner.is_finished() || owner.next_wake().is_none());
        }
    }

    #[test]
    #[rule("J-7")]
    fn j7_a_peel_takes_any_events_and_starts_nothing_twice(
        events in proptest::collection::vec((any_peel_event(), 0u64..8_000), 0..80),
    ) {
        let mut peel = Peel::new(peel(1), Timing::default());
        let mut millis = 0;
        let moment = |millis| Moment { wall: UnixMillis(T0 + millis), run: Duration::from_millis(millis) };
        peel.step(end::Event::Start { entries: Vec::new() }, moment(0)).unwrap();
        let mut started = BTreeSet::new();
        for (event, pause) in events {
            millis += pause;
            let before = format!("{peel:?}");
            match peel.step(event, moment(millis)) {
                Err(_) => prop_assert_eq!(before, format!("{peel:?}")),
                Ok(commands) => for command in commands {
                    if let end::Command::Execute { request } = command {
                        prop_assert!(started.insert((request.jid.clone(), request.dispatch_epoch)), "J-7");
                    }
                },
            }
        }
    }

    /// Against a list that is searched from the front.
    #[test]
    #[rule("J-15")]
    fn j15_one_mutating_at_a_time_in_arrival_order(moves in proptest::collection::vec((0u8..4, 0u32..12), 0..120)) {
        let mut queue = Queue::default();
        let (mut arrived, mut ready, mut running, mut next) = (Vec::new(), BTreeSet::new(), None, 0u32);
        for (which, pick) in moves {
            match which {
                0 if arrived.len() < 64 => {
                    prop_assert!(queue.place(next, Lane::Mutating).is_some());
                    arrived.push(next);
                    next += 1;
                }
                1 if !arrived.is_empty() => {
                    let key = arrived[pick as usize % arrived.len()];
                    queue.ready(&key);
                    ready.insert(key);
                }
                2 if !arrived.is_empty() => {
                    let key = arrived.remove(pick as usize % arrived.len());
                    queue.leave(&key);
                }
                3 => if let Some(key) = running.take() {
                    queue.leave(&key);
                },
                _ => {}
            }
            let first = arrived.first().copied().filter(|key| running.is_none() && ready.contains(key));
            prop_assert_eq!(queue.start_next(), first);
            if first.is_some() {
                running = first;
                arrived.remove(0);
            }
            prop_assert_eq!(queue.len(), arrived.len() + usize::from(running.is_some()));
        }
    }
}
