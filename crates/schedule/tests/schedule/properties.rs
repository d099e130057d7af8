//! Whatever happens to the clock: nothing runs too often, and nothing sleeps for ever.

use super::world::{HOUR, MINUTE, NOON, World};
use proptest::prelude::*;
use zester_rule::rule;
use zester_schedule::{Command, Event};

fn texts() -> impl Strategy<Value = String> {
    let when = prop_oneof![
        (1u64..180).prop_map(|minutes| format!("interval: {minutes}m")),
        Just("cron: '*/7 * * * *'".to_string()),
        Just("cron: '30 2 * * *', timezone: Europe/Berlin".to_string()),
        Just("cron: '15 0 */3 * * *'".to_string()),
    ];
    (when, any::<bool>(), 1usize..3, 0u64..50).prop_map(|(when, catch_up, maxrunning, splay)| {
        format!("a: {{function: test.ping, {when}, catch_up: {catch_up}, maxrunning: {maxrunning}, splay: {splay}s}}")
    })
}

/// A step of time, back or forward, in milliseconds; and whether runs end in it.
fn walks() -> impl Strategy<Value = Vec<(i64, bool, bool)>> {
    let step = prop_oneof![
        8 => 1i64..(20 * MINUTE as i64),
        1 => -(6 * HOUR as i64)..0i64,
        1 => 0i64..(400 * HOUR as i64),
    ];
    prop::collection::vec((step, any::<bool>(), prop::bool::weighted(0.05)), 1..60)
}

proptest! {
    #[test]
    #[rule("D-10")]
    fn d10_whatever_the_clock_does(text in texts(), walk in walks(), share in 0.0f64..1.0) {
        let mut world = World::new(&text);
        world.dice.share = share;
        let allowed = if text.contains("maxrunning: 2") { 2 } else { 1 };
        let mut running = Vec::new();
        for (by, ends, restarts) in walk {
            let now = world.now.0.saturating_add_signed(by).max(NOON - 100 * HOUR);
            let commands = if restarts {
                running.clear();
                let (started, commands) = World::starting(&text, world.schedule.memory().clone(), now);
                let rolled = world.dice.rolled;
                world = started;
                world.dice.share = share;
                // Ids do not come again.
                world.dice.rolled += rolled;
                commands
            } else {
                world.at(now)
            };
            for command in &commands {
                if let Command::Run(run) = command {
                    running.push(run.jid.clone());
                }
            }
            prop_assert!(running.len() <= allowed, "{commands:?}");
            // What was told is not told again, and nothing is due that is not told to be.
            let again = world.at(now);
            let is_quiet = again.iter().all(|one| matches!(one, Command::Save));
            prop_assert!(is_quiet, "{again:?}");
            let wake = world.schedule.next_wake();
            prop_assert!(wake.is_some_and(|wake| wake.0 > now), "{wake:?} {now}");
            // A day has 25 hours at most.
            prop_assert!(wake.is_some_and(|wake| wake.0 <= now + 26 * HOUR), "{wake:?} {now}");
            if ends {
                for jid in running.drain(..) {
                    world.step(Event::Ended { jid, success: true, error: String::new() });
                }
            }
            let known = &world.schedule.memory().entries["a"];
            prop_assert_eq!(known.running.len(), running.len());
        }
    }
}
