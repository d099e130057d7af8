//! What was measured, for people and for machines.

use super::measure::Measured;
use serde_json::{Value as Json, json};
use std::time::Duration;

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
    json!({ "counts": counts, "growth": growth })
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
            idle: Idle { server: 0.05, ..Idle::default() },
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
    }

    #[test]
    fn one_count_says_nothing_of_growth() {
        assert!(document(&[measured(10, 1, 1)])["growth"].is_null());
        assert_eq!(growth_text(&[measured(10, 1, 1)]), "");
    }
}
