//! One job, three masters that may all believe to own it, peels that crash, and a bus that loses, repeats and reorders.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;
mod world;

use fleet::{Watched, at, jid, peel, ret, ret_of};
use std::collections::BTreeMap;
use world::World;
use zester_jobs::{Command, Event};
use zester_rule::rule;
use zester_wire::{Cause, JobStatus, PeelId};

/// One thing happens, by the dice.
fn happen(world: &mut World) {
    let peels: Vec<PeelId> = world.nodes.keys().cloned().collect();
    let id = peels[world.dice.roll(peels.len())].clone();
    let seat = world.dice.roll(world.seats.len());
    match world.dice.roll(40) {
        0..10 => {
            world.work(seat);
        }
        10..18 => {
            world.work_peel(&id);
        }
        18..27 if !world.net.is_empty() => {
            let at = world.dice.roll(world.net.len());
            let message = world.net.swap_remove(at);
            match world.dice.roll(6) {
                0 => {}
                1 => {
                    world.net.push(message.clone());
                    world.deliver(message, true);
                }
                _ => world.deliver(message, true),
            }
        }
        27..31 => {
            let success = world.dice.roll(4) > 0;
            world.finish(&id, success);
        }
        31..35 => {
            let millis = [10, 300, 1_000, 4_000, 9_000][world.dice.roll(5)];
            world.pass(millis);
        }
        35 => world.adopt(seat),
        36 if world.dice.roll(3) == 0 => world.kill_master(seat),
        37 if world.dice.roll(2) == 0 => world.boot(&id),
        38 if world.dice.roll(4) == 0 => world.cancel(seat),
        39 if world.dice.roll(4) == 0 => world.tell_detach(seat),
        _ => {}
    }
}

impl World {
    fn tell_detach(&mut self, seat: usize) {
        if self.seats[seat].owner.is_some() {
            self.tell(seat, Event::Detach);
        }
    }

    /// Nothing fails any more: everything that is open comes to its end.
    fn calm(&mut self) {
        self.unkind = false;
        for _ in 0..200 {
            for seat in 0..self.seats.len() {
                while self.work(seat) {}
            }
            let peels: Vec<PeelId> = self.nodes.keys().cloned().collect();
            for id in &peels {
                while self.work_peel(id) {}
                while self.finish(id, true) {}
                while self.work_peel(id) {}
            }
            for message in std::mem::take(&mut self.net) {
                self.deliver(message, false);
            }
            let owned =
                self.seats.iter().any(|seat| seat.owner.as_ref().is_some_and(|owner| !owner.is_finished()));
            if !owned {
                self.adopt(0);
            }
            self.pass(2_000);
        }
    }
}

/// One life; how the job ended, if it was ever recorded, and how many executions began.
fn live(seed: u64) -> (Option<JobStatus>, usize) {
    let peels = 1 + (seed % 3) as usize;
    let mut world = World::new(seed, peels);
    for _ in 0..300 {
        happen(&mut world);
    }
    world.calm();
    if let Some((job, _)) = &world.record {
        assert!(job.status.is_terminal(), "the job never ended: {:?}", job.status);
        assert!(!world.active, "J-10: the active key is left");
    }
    assert_eq!(world.undelivered(), 0, "J-22: a return was never handed over");
    (world.record.as_ref().map(|(job, _)| job.status), world.starts())
}

#[test]
#[rule("J-20")]
fn j20_whatever_the_bus_does_the_rules_hold() {
    let seeds = if std::env::var_os("ZESTER_SOAK").is_some() { 200_000 } else { 1_500 };
    let (mut ends, mut starts) = (BTreeMap::new(), 0);
    for seed in 0..seeds {
        let outcome = std::panic::catch_unwind(|| live(seed));
        let Ok((status, began)) = outcome else { panic!("seed {seed}") };
        *ends.entry(status.map(JobStatus::as_str)).or_insert(0) += 1;
        starts += began;
    }
    // A world in which nothing happens would hold every rule.
    for status in ["complete", "failed", "partial", "timeout", "canceled"] {
        assert!(ends.get(&Some(status)).is_some_and(|count| *count > 10), "{status}: {ends:?}");
    }
    assert!(starts > 500, "{starts}");
}

/// Every order of a handful of events at one owner: each ends once, in a status that follows from what came first.
#[test]
#[rule("J-20")]
fn j20_every_order_of_a_handful_of_events() {
    let events = [
        Event::Ack { peel: peel(1), dispatch_epoch: 1 },
        Event::Return(Box::new(ret(1, 1, true))),
        Event::Return(Box::new(ret(1, 1, false))),
        Event::Return(Box::new(ret_of(2, 1, Cause::Finished))),
        Event::Cancel { by: "alice".into() },
        Event::Connected { peel: peel(2) },
        Event::Tick,
    ];
    let mut orders = Vec::new();
    permute(&mut (0..events.len()).collect::<Vec<_>>(), 0, &mut orders);
    assert_eq!(orders.len(), 5_040);
    for order in orders {
        let mut watched = Watched::dispatched(2, 60, &[]);
        let mut over = false;
        for index in &order {
            // The tick is the one at the deadline, so nothing comes in time after it.
            if events[*index] == Event::Tick {
                watched.now = at(60_000);
            }
            let out = watched.send(events[*index].clone());
            let ends = |command: &Command| matches!(command, Command::WriteRecord { job, .. } if job.status.is_terminal());
            let ended = out.iter().filter(|command| ends(command)).count();
            assert!(ended <= usize::from(!over), "J-1: {order:?}");
            over |= ended > 0;
            let sends = out.iter().any(|command| matches!(command, Command::SendExec { .. }));
            assert!(!(sends && over), "{order:?}");
        }
        let job = watched.record.clone().unwrap();
        let place = |index: usize| order.iter().position(|at| *at == index).unwrap();
        let first = place(1).min(place(2));
        let both = first.max(place(3));
        let (cancel, deadline) = (place(4), place(6));
        let expected = if both < cancel.min(deadline) {
            JobStatus::Failed
        } else if cancel < deadline {
            JobStatus::Canceled
        } else if first.min(place(3)) < deadline {
            JobStatus::Partial
        } else {
            JobStatus::Timeout
        };
        assert_eq!((job.jid.clone(), job.status), (jid(), expected), "{order:?}");
    }
}

fn permute(items: &mut Vec<usize>, from: usize, out: &mut Vec<Vec<usize>>) {
    if from == items.len() {
        return out.push(items.clone());
    }
    for index in from..items.len() {
        items.swap(from, index);
        permute(items, from + 1, out);
        items.swap(from, index);
    }
}
