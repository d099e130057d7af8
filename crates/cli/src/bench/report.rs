//! What was measured, for people and for machines.

use super::measure::Measured;
use serde_json::{Value as Json, json};
use std::time::Duration;
use zester_jobs::Timing;
use zester_jobs::pace::heartbeat_every;

const MEGABYTE: f64 = 1024.0 * 1024.0;

pub fn heading() -> String {
    format!(
        "{:>7} {:>10} {:>9} {:>9} {:>8} {:>10} {:>10} {:>10} {:>10} {:>22}\n",
        "peels",
        "connected",
        "returned",
        "ended",
        "missing",
        "server",
        "master",
        "peels",
        "consumers",
        "idle, % of a core"
    )
}

/// One count, under the heading.
pub fn line(one: &Measured) -> String {
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    let megabytes = |bytes: u64| format!("{:.0} MB", bytes as f64 / MEGABYTE);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let idle = [one.idle.server, one.idle.master, one.idle.peels].map(percent).join(" + ");
    format!(
        "{:>7} {:>10} {:>9} {:>9} {:>8} {:>10} {:>10} {:>10} {:>10} {:>22}\n",
        one.peels,
        seconds(one.connect),
        seconds(one.ping),
        seconds(one.ended),
        one.missing,
        megabytes(one.server_bytes),
        megabytes(one.master_bytes),
        megabytes(one.peels_bytes),
        one.consumers,
        idle
    )
}

/// How the last count compares with the first; 1 is as many times as there are more peels.
struct Growth {
    from: u32,
    to: u32,
    ping: f64,
    memory: f64,
}

fn growth(all: &[Measured]) -> Option<Growth> {
    let (first, last) = (all.first()?, all.last()?);
    if first.peels == last.peels {
        return None;
    }
    let times = f64::from(last.peels) / f64::from(first.peels);
    let memory = |one: &Measured| (one.server_bytes + one.master_bytes + one.peels_bytes) as f64;
    Some(Growth {
        from: first.peels,
        to: last.peels,
        ping: last.ping.as_secs_f64() / (times * first.ping.as_secs_f64()),
        memory: memory(last) / (times * memory(first)),
    })
}

pub fn growth_text(all: &[Measured]) -> String {
    let Some(Growth { from, to, ping, memory }) = growth(all) else { return String::new() };
    format!(
        "\nfrom {from} to {to} peels, where 1 is linear: time of test.ping {ping:.2}, memory of all {memory:.2}\n"
    )
}

/// Peels of the fleet that the cost of an idle one is told for (J-26).
const LARGE_FLEET: u32 = 50_000;

/// What a heartbeat of the last count cost server and master, with everything else that an idle fleet makes them do, and what that is
/// in a large fleet. None where nothing was measured.
fn idle_of_large(all: &[Measured]) -> Option<(f64, f64)> {
    let idle = all.last().map(|one| one.idle).filter(|idle| idle.heartbeats > 0.0)?;
    let cost = (idle.server + idle.master) / idle.heartbeats;
    let every = heartbeat_every(Timing::default().peel_heartbeat, LARGE_FLEET as usize);
    Some((cost, cost * f64::from(LARGE_FLEET) / every.as_secs_f64()))
}

pub fn idle_text(all: &[Measured]) -> String {
    let Some((cost, cores)) = idle_of_large(all) else { return String::new() };
    let (micros, percent) = (cost * 1e6, cores * 100.0);
    format!(
        "\nan idle peel costs server and master {micros:.0} µs a heartbeat; {LARGE_FLEET} would take {percent:.1} % of a core\n"
    )
}

pub fn document(all: &[Measured]) -> Json {
    let counts: Vec<Json> = all
        .iter()
        .map(|one| {
            json!({
                "peels": one.peels,
                "added": one.added,
                "connect_ms": one.connect.as_millis() as u64,
                "ping_ms": one.ping.as_millis() as u64,
                "ended_ms": one.ended.as_millis() as u64,
                "missing": one.missing,
                "rss": { "server": one.server_bytes, "master": one.master_bytes, "peels": one.peels_bytes },
                "idle_cores": { "server": one.idle.server, "master": one.idle.master, "peels": one.idle.peels },
                "consumers": one.consumers,
            })
        })
        .collect();
    let growth = growth(all).map(|growth| {
        json!({ "from": growth.from, "to": growth.to, "ping": growth.ping, "memory": growth.memory })
    });
    let idle = idle_of_large(all)
        .map(|(cost, cores)| json!({ "heartbeat_us": cost * 1e6, "cores_of_50000": cores }));
    json!({ "counts": counts, "growth": growth, "idle": idle })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::Idle;

    fn measured(peels: u32, ping: u64, bytes: u64) -> Measured {
        let time = Duration::from_millis(ping);
        Measured {
            peels,
            added: peels,
            connect: time,
            ping: time,
            ended: time,
            missing: 0,
            server_bytes: bytes,
            master_bytes: 0,
            peels_bytes: 0,
            idle: Idle { heartbeats: 500.0, server: 0.05, ..Idle::default() },
            consumers: 2,
        }
    }

    #[test]
    fn growth_is_one_where_all_grows_with_the_peels() {
        let all = [measured(1_000, 100, 50), measured(3_000, 1, 1), measured(10_000, 1_000, 1_000)];
        let json = document(&all);
        assert_eq!(json["growth"]["ping"], 1.0);
        assert_eq!(json["growth"]["memory"], 2.0);
        assert_eq!(json["counts"][2]["peels"], 10_000);
        assert_eq!(json["counts"][0]["idle_cores"]["server"], 0.05);
        assert!(line(&all[0]).trim_end().ends_with("5.0 + 0.0 + 0.0"));
        assert!(idle_text(&all).contains("100 µs a heartbeat; 50000 would take 5.0 % of a core"));
    }

    #[test]
    fn one_count_says_nothing_of_growth() {
        assert!(document(&[measured(10, 1, 1)])["growth"].is_null());
        assert_eq!(growth_text(&[measured(10, 1, 1)]), "");
    }
}
