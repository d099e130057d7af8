//! `ps.*`: what runs, and who ends it.

use super::status::text as file_text;
use super::{Access, CallContext, Function, Takes, read_only, text, value};
use serde_json::{Map, Value as Json, json};
use std::path::Path;
use zester_host::Launch;

const PID: &[Takes] = &[Takes { text: false, ..text("pid") }];

pub(super) const TABLE: &[Function] = &[
    read_only(
        "ps.boot_time",
        &[],
        "ps.boot_time: when the machine started, in seconds since 1970",
        |place, _| {
            let stat = file_text(place, "/proc/stat")?;
            let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
            line.and_then(|line| line.trim().parse::<u64>().ok())
                .map(Json::from)
                .ok_or("/proc/stat says no btime".into())
        },
    ),
    read_only("ps.get_pid_list", &[], "ps.get_pid_list: the numbers of all processes", |place, _| {
        Ok(json!(pids(place)?))
    }),
    Function {
        name: "ps.kill_pid",
        access: Access::Command,
        takes: &[Takes { text: false, ..text("pid") }, value("signal")],
        doc: "ps.kill_pid PID [SIGNAL]: sends a process a signal, 15 unless it is said",
        call: |place, args| {
            let pid = number(args.get(0, "pid"), "pid")?;
            let signal = args.get(1, "signal").map_or(Ok(15), |given| number(Some(given), "signal"))?;
            let mut launch =
                Launch::argv(["kill".to_string(), format!("-{signal}"), "--".into(), pid.to_string()]);
            launch.timeout = Some(zester_model::limits::TEMPLATE_COMMAND_TIMEOUT);
            let exit = place.handle.block_on(place.processes.run(&launch, None, place.cancel));
            let exit = exit.map_err(|fault| fault.to_string())?;
            if exit.code == Some(0) { Ok(json!(true)) } else { Err(exit.failure("`kill`").to_string()) }
        },
    },
    read_only(
        "ps.pgrep",
        &[text("pattern"), value("user"), value("full")],
        "ps.pgrep PATTERN [USER] [FULL]: the numbers of processes whose name holds a text; with FULL, whose command line does",
        |place, args| {
            let (pattern, full) = (args.text(0, "pattern")?, args.flag(2, "full", false)?);
            let user = args.get(1, "user").and_then(Json::as_str);
            let mut found = Vec::new();
            for pid in pids(place)? {
                // One that ended meanwhile is none.
                let Ok(told) = process(place, pid) else { continue };
                let words = if full { "cmdline" } else { "name" };
                let fits = told[words].as_str().is_some_and(|name| name.contains(&pattern));
                if fits && user.is_none_or(|user| told["user"] == user) {
                    found.push(pid);
                }
            }
            Ok(json!(found))
        },
    ),
    read_only("ps.proc_info", PID, "ps.proc_info PID: what is to be known about a process", |place, args| {
        process(place, number(args.get(0, "pid"), "pid")?)
    }),
    read_only("ps.swap_memory", &[], "ps.swap_memory: how much is swapped, in bytes", |place, _| {
        let memory = memory(place)?;
        let (total, free) = (memory("SwapTotal"), memory("SwapFree"));
        Ok(
            json!({ "total": total, "free": free, "used": total.saturating_sub(free), "percent": percent(total.saturating_sub(free), total) }),
        )
    }),
    read_only("ps.virtual_memory", &[], "ps.virtual_memory: how the memory is used, in bytes", |place, _| {
        let memory = memory(place)?;
        let (total, available) = (memory("MemTotal"), memory("MemAvailable"));
        let used = total.saturating_sub(memory("MemFree") + memory("Buffers") + memory("Cached"));
        Ok(json!({
            "total": total, "available": available, "free": memory("MemFree"), "used": used, "buffers": memory("Buffers"),
            "cached": memory("Cached"), "percent": percent(total.saturating_sub(available), total),
        }))
    }),
];

fn number(given: Option<&Json>, name: &str) -> Result<u64, String> {
    let number = given.and_then(|given| given.as_u64().or_else(|| given.as_str()?.parse().ok()));
    number.filter(|number| *number > 0).ok_or_else(|| format!("`{name}` must be a number above 0"))
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 * 1000.0 / whole as f64).round() / 10.0 }
}

/// Values of `/proc/meminfo` by their names, in bytes.
fn memory(place: &CallContext<'_>) -> Result<impl Fn(&str) -> u64, String> {
    let text = file_text(place, "/proc/meminfo")?;
    Ok(move |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let words = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        words.unwrap_or_default() * 1024
    })
}

fn pids(place: &CallContext<'_>) -> Result<Vec<u64>, String> {
    let names = place.host.list(Path::new("/proc")).map_err(|fault| fault.to_string())?;
    let mut pids: Vec<u64> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// From `status` and `cmdline` of a process.
fn process(place: &CallContext<'_>, pid: u64) -> Result<Json, String> {
    let path = format!("/proc/{pid}");
    let there = place.host.stat(Path::new(&path)).map_err(|fault| fault.to_string())?;
    if there.is_none() {
        return Err(format!("there is no process {pid}"));
    }
    let status = file_text(place, &format!("{path}/status"))?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let first = |name: &str| field(name).and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let uid = first("Uid").unwrap_or_default();
    let cmdline = file_text(place, &format!("{path}/cmdline"))?;
    let words: Vec<&str> = cmdline.split_terminator('\0').collect();
    let mut told = Map::new();
    told.insert("pid".into(), json!(pid));
    told.insert("name".into(), json!(field("Name").unwrap_or_default()));
    told.insert("ppid".into(), json!(first("PPid")));
    told.insert("status".into(), json!(field("State").unwrap_or_default()));
    told.insert("uid".into(), json!(uid));
    told.insert(
        "user".into(),
        json!(super::files::name_of(place, "/etc/passwd", u32::try_from(uid).unwrap_or(u32::MAX))?),
    );
    told.insert("threads".into(), json!(first("Threads")));
    told.insert("rss".into(), json!(first("VmRSS").unwrap_or_default() * 1024));
    told.insert("cmdline".into(), json!(words.join(" ")));
    Ok(Json::Object(told))
}

#[cfg(test)]
mod tests {
    use crate::functions::try_function::TestHost;
    use serde_json::json;
    use zester_host::process::fake::{Scripted, exit};

    #[tokio::test(flavor = "multi_thread")]
    async fn processes_are_found_and_told_to_end() {
        let mut machine = TestHost::with(&[
            ("/etc/passwd", "web:x:33:33::/:/bin/sh\n"),
            ("/proc/1/status", "Name:\tinit\nState:\tS (sleeping)\nPPid:\t0\nUid:\t0\t0\t0\t0\n"),
            ("/proc/1/cmdline", "/sbin/init\0"),
            (
                "/proc/42/status",
                "Name:\tnginx\nState:\tR (running)\nPPid:\t1\nUid:\t33\t33\t33\t33\nThreads:\t2\nVmRSS:\t 100 kB\n",
            ),
            ("/proc/42/cmdline", "nginx:\0worker\0"),
            ("/proc/stat", "cpu 1 2\nbtime 1700000000\n"),
            (
                "/proc/meminfo",
                "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 500 kB\nBuffers: 50 kB\nCached: 50 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
            ),
        ]);
        machine.processes = Scripted::new().with(|_| Some(Ok(exit(0, "", ""))));
        for (function, words, wanted) in [
            ("ps.get_pid_list", &[][..], json!([1, 42])),
            ("ps.pgrep", &["ngi"], json!([42])),
            ("ps.pgrep", &["worker"], json!([])),
            ("ps.pgrep", &["worker", "full=true"], json!([42])),
            ("ps.pgrep", &["i", "web"], json!([42])),
            ("ps.boot_time", &[], json!(1_700_000_000)),
            ("ps.kill_pid", &["42", "9"], json!(true)),
        ] {
            assert_eq!(machine.call(function, words), Ok(wanted), "{function} {words:?}");
        }
        assert_eq!(machine.processes.ran(), ["kill -9 -- 42"]);
        let told = machine.call("ps.proc_info", &["42"]).unwrap();
        assert_eq!(
            (&told["user"], &told["threads"], &told["rss"]),
            (&json!("web"), &json!(2), &json!(102_400))
        );
        assert_eq!(machine.call("ps.virtual_memory", &[]).unwrap()["percent"], json!(50.0));
        assert_eq!(machine.call("ps.proc_info", &["7"]), Err("there is no process 7".into()));
        assert_eq!(machine.call("ps.kill_pid", &["-1"]), Err("`pid` must be a number above 0".into()));
    }
}
