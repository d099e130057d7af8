//! Rules that hold up others.

use std::sync::Arc;
use zester_reactor::{Place, Stuck};
use zester_rule::rule;
use zester_wire::UnixMillis;

fn place(sequence: u64) -> Place {
    Place { sequence, stored: UnixMillis(1) }
}

#[test]
#[rule("R-1", "R-15")]
fn r1_a_rule_that_fails_for_the_moment_for_many_events_is_told_while_they_wait() {
    let (mut stuck, a, b): (_, Arc<str>, Arc<str>) =
        (Stuck::default(), "reactor.a".into(), "reactor.b".into());
    let until = UnixMillis(10_000);
    for sequence in 0..32 {
        stuck.waits(place(sequence), [a.clone()].into_iter(), until);
    }
    stuck.waits(place(0), [a.clone(), b.clone()].into_iter(), until);
    assert_eq!(stuck.told(32, UnixMillis(0)), [(a.clone(), 32)]);
    assert_eq!(stuck.told(1, UnixMillis(0)), [(a.clone(), 32), (b, 1)]);
    assert!(stuck.is_done(place(7)) && !stuck.is_done(place(7)));
    assert!(stuck.told(32, UnixMillis(0)).is_empty());
    // Whoever took the others meanwhile tells it.
    assert_eq!(stuck.told(31, until), [(a, 31)]);
    assert!(stuck.told(1, until.plus(std::time::Duration::from_millis(1))).is_empty());
}
