//! `status.*`, `disk.*`: how the machine is doing.

use super::{CallContext, Function, read_only};
use serde_json::{Map, Value as Json, json};
use std::path::Path;
use zester_host::Launch;

/// The largest of the files in `/proc` that are read here.
const PROC_BYTES_MAX: u64 = 1024 * 1024;

pub(super) const UPTIME: Function = read_only(
    "status.uptime",
    &[],
    "status.uptime: since when the machine runs, and how busy it is",
    |place, _| uptime(&text(place, "/proc/uptime")?, &text(place, "/proc/loadavg")?),
);

pub(super) const LOADAVG: Function = read_only(
    "status.loadavg",
    &[],
    "status.loadavg: how many processes wanted to run, over 1, 5 and 15 minutes",
    |place, _| loadavg(&text(place, "/proc/loadavg")?),
);

pub(super) const MEMINFO: Function =
    read_only("status.meminfo", &[], "status.meminfo: how the memory is used", |place, _| {
        meminfo(&text(place, "/proc/meminfo")?)
    });

pub(super) const CPUINFO: Function =
    read_only("status.cpuinfo", &[], "status.cpuinfo: what the processors are", |place, _| {
        Ok(cpuinfo(&text(place, "/proc/cpuinfo")?))
    });

pub(super) const USAGE: Function =
    read_only("disk.usage", &[], "disk.usage: how full each file system is, in KiB", |place, _| usage(place));

pub(super) fn text(place: &CallContext<'_>, path: &str) -> Result<String, String> {
    let bytes = place.host.read(Path::new(path), PROC_BYTES_MAX).map_err(|fault| fault.to_string())?;
    String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8 text"))
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

fn uptime(uptime: &str, load: &str) -> Result<Json, String> {
    let Some(seconds) = numbers(uptime).first().copied() else {
        return Err("/proc/uptime holds no number".to_string());
    };
    let whole = seconds.max(0.0) as u64;
    Ok(json!({
        "seconds": whole,
        "days": whole / 86_400,
        "time": format!("{}:{:02}", whole % 86_400 / 3600, whole % 3600 / 60),
        "loadavg": loadavg(load)?,
    }))
}

fn loadavg(text: &str) -> Result<Json, String> {
    match numbers(text).as_slice() {
        [one, five, fifteen, ..] => Ok(json!({ "1-min": one, "5-min": five, "15-min": fifteen })),
        _ => Err("/proc/loadavg holds no three numbers".to_string()),
    }
}

fn meminfo(text: &str) -> Result<Json, String> {
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let mut words = value.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        Some((name.to_string(), json!({ "value": number, "unit": words.next().unwrap_or("") })))
    };
    let found: Map<String, Json> = text.lines().filter_map(line).collect();
    if found.is_empty() { Err("/proc/meminfo holds nothing".to_string()) } else { Ok(Json::Object(found)) }
}

/// Of all processors alike: what is said of the first.
fn cpuinfo(text: &str) -> Json {
    let mut found = Map::new();
    let mut processors = 0;
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (name, value) = (name.trim(), value.trim());
        match name {
            "processor" => processors += 1,
            "flags" | "Features" => {
                found.entry(name).or_insert_with(|| value.split_whitespace().collect::<Vec<_>>().into());
            }
            _ => {
                found.entry(name).or_insert_with(|| value.into());
            }
        }
    }
    found.insert("processors".into(), processors.into());
    Json::Object(found)
}

fn usage(place: &CallContext<'_>) -> Result<Json, String> {
    df(place, &["-k"]).map(|text| table(&text))
}

/// What `df` prints.
pub(super) fn df(place: &CallContext<'_>, words: &[&str]) -> Result<String, String> {
    let mut launch = Launch::argv(["df", "-P"].iter().chain(words).copied());
    launch.environment = vec![("LC_ALL".into(), "C".into())];
    launch.timeout = Some(zester_model::limits::TEMPLATE_COMMAND_TIMEOUT);
    let ran = place.handle.block_on(place.processes.run(&launch, None, place.cancel));
    let exit = ran.map_err(|fault| fault.to_string())?;
    // It complains of what it may not look at, and tells the rest.
    if exit.stdout.text.is_empty() {
        return Err(exit.failure("`df`").to_string());
    }
    Ok(exit.stdout.text)
}

pub(super) fn table(text: &str) -> Json {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, size, used, free, capacity, rest @ ..] = words.as_slice() else { return None };
        let number = |word: &str| word.parse::<u64>().ok();
        let entry = json!({
            "filesystem": device, "1K-blocks": number(size)?, "used": number(used)?, "available": number(free)?,
            "capacity": capacity,
        });
        Some((rest.join(" "), entry))
    };
    Json::Object(text.lines().skip(1).filter_map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_by_name() {
        let told = uptime("93784.12 100.0\n", "0.50 0.25 0.10 1/200 4242\n").unwrap();
        assert_eq!((&told["days"], &told["time"]), (&json!(1), &json!("2:03")));
        assert_eq!(told["loadavg"]["5-min"], json!(0.25));
        assert_eq!(
            meminfo("MemTotal:  100 kB\nHugePages_Total:  3\n").unwrap(),
            json!({ "MemTotal": { "value": 100, "unit": "kB" }, "HugePages_Total": { "value": 3, "unit": "" } })
        );
        let cpus =
            cpuinfo("processor\t: 0\nmodel name\t: A\nflags\t: a b\n\nprocessor\t: 1\nmodel name\t: A\n");
        assert_eq!(cpus, json!({ "model name": "A", "flags": ["a", "b"], "processors": 2 }));
        assert!(loadavg("x").is_err() && uptime("", "").is_err() && meminfo("").is_err());
    }

    /// What `df -P -k` of Debian 12 printed.
    #[test]
    fn a_table_of_file_systems_is_read_with_spaces_in_its_names() {
        let told = table(
            "Filesystem     1024-blocks     Used Available Capacity Mounted on\n/dev/root         20000000  5000000  15000000      25% /\n\
             tmpfs                 1024        0      1024       0% /run/a b\n",
        );
        assert_eq!(told["/"]["capacity"], json!("25%"));
        assert_eq!(told["/run/a b"]["available"], json!(1024));
    }
}
