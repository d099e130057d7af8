//! Resolving targets among ten thousand peels.

use crate::report::Report;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zester_master::{Index, NoSettings};
use zester_wire::{FactsRecord, PeelId, UnixMillis, VERSION};

const PEELS: usize = 10_000;
const RUNS: usize = 21;
const TTL: Duration = Duration::from_secs(30);

/// One of each kind of test, alone and joined.
const EXPRESSIONS: [&str; 7] = [
    "*",
    "web*",
    "L@web0000,db0001,mail0002",
    "G@os:Debian and not web1*",
    "E@^(web|db)[0-9]*[05]$",
    "G@kernelrelease:6.?.1*",
    "(G@os_family:Debian and G@roles:frontend) or (E@^db.*7$ and not G@virtual:kvm)",
];

pub fn claim(report: &mut Report) -> Result<(), String> {
    let index = filled()?;
    let (mut slowest, mut all) = (0.0, Map::new());
    for expression in EXPRESSIONS {
        let mut times = Vec::new();
        let mut found = 0;
        for _ in 0..RUNS {
            let began = Instant::now();
            let peels = index.resolve(expression).map_err(|refusal| refusal.message)?.peels;
            times.push(began.elapsed().as_secs_f64() * 1000.0);
            found = peels.len();
        }
        if found == 0 {
            return Err(format!("`{expression}` matches nobody, and measures nothing"));
        }
        times.sort_by(f64::total_cmp);
        let median = times.get(RUNS / 2).copied().unwrap_or_default();
        slowest = f64::max(slowest, median);
        all.insert(expression.into(), json!(median));
    }
    report.claim("resolve among 10,000 peels, the slowest", slowest, "ms", 20.0, Value::Object(all));
    Ok(())
}

fn filled() -> Result<Index, String> {
    let index = Index::new(TTL, Arc::new(NoSettings));
    for number in 0..PEELS {
        let kind = ["web", "db", "mail", "cache"][number % 4];
        let name = format!("{kind}{number:04}");
        let peel = PeelId::parse(&name).map_err(|error| error.to_string())?;
        let Value::Object(facts) = facts(&name, kind, number) else { continue };
        let record = FactsRecord { v: VERSION, peel, ts: UnixMillis(1), hash: name, facts };
        index.put_facts(record);
    }
    Ok(index)
}

/// About what a small server says of itself.
fn facts(name: &str, kind: &str, number: usize) -> Value {
    let os = [("Debian", "Debian"), ("Ubuntu", "Debian"), ("Alpine", "Alpine")][number % 3];
    let (high, low) = (number / 250, number % 250);
    json!({
        "id": name,
        "fqdn": format!("{name}.example.com"),
        "os": os.0,
        "os_family": os.1,
        "osrelease": "12",
        "kernel": "Linux",
        "kernelrelease": format!("6.{}.{}-amd64", number % 7, number % 4),
        "cpuarch": "x86_64",
        "num_cpus": 4 + number % 60,
        "mem_total": 1024 * (number % 64),
        "virtual": if number.is_multiple_of(2) { "kvm" } else { "physical" },
        "ipv4": ["127.0.0.1", format!("10.0.{high}.{low}")],
        "ip_interfaces": { "lo": ["127.0.0.1", "::1"], "eth0": [format!("10.0.{high}.{low}"), "fe80::1"] },
        "disks": ["sda", "sdb"],
        "roles": [kind, if number.is_multiple_of(8) { "frontend" } else { "backend" }],
        "init": "systemd",
        "locale": { "language": "en_US", "encoding": "UTF-8", "timezone": "UTC" },
        "zester_version": "0.1.0",
    })
}
