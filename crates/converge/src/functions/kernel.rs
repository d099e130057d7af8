//! `status.*` and `disk.*` besides: counters of the kernel, and file systems.

use super::status::{df, text as file_text};
use super::{Function, maybe, read_only, text};
use serde_json::{Map, Value as Json, json};

pub(super) const TABLE: &[Function] = &[
    read_only(
        "disk.inodeusage",
        &[],
        "disk.inodeusage: how many files each file system holds",
        |place, _| {
            let line = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let [device, inodes, used, free, percent, rest @ ..] = words.as_slice() else { return None };
                let entry = json!({ "filesystem": device, "inodes": number(inodes)?, "used": number(used)?, "free": number(free)?, "use": percent });
                Some((rest.join(" "), entry))
            };
            Ok(Json::Object(df(place, &["-i"])?.lines().skip(1).filter_map(line).collect()))
        },
    ),
    read_only(
        "disk.percent",
        &[maybe("args")],
        "disk.percent [PATH]: how full file systems are, or the one mounted at a path",
        |place, args| {
            let all = super::status::table(&df(place, &["-k"])?);
            let percent = |entry: &Json| entry["capacity"].clone();
            match args.optional(0, "args")? {
                Some(path) => {
                    all.get(&path).map(percent).ok_or_else(|| format!("nothing is mounted at {path}"))
                }
                None => Ok(Json::Object(
                    all.as_object()
                        .into_iter()
                        .flatten()
                        .map(|(path, entry)| (path.clone(), percent(entry)))
                        .collect(),
                )),
            }
        },
    ),
    read_only(
        "status.cpustats",
        &[],
        "status.cpustats: what the processors did since the start, in ticks",
        |place, _| {
            let text = file_text(place, "/proc/stat")?;
            let names = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
            let line = |line: &str| {
                let (name, rest) = line.split_once(' ')?;
                let values = rest.split_whitespace().map(number);
                let value = match name.starts_with("cpu") {
                    true => Json::Object(
                        names.iter().map(ToString::to_string).zip(values.map(|value| json!(value))).collect(),
                    ),
                    false => json!(rest.split_whitespace().next().and_then(number)),
                };
                Some((name.to_string(), value))
            };
            Ok(Json::Object(text.lines().filter_map(line).collect()))
        },
    ),
    read_only(
        "status.diskstats",
        &[],
        "status.diskstats: what was read from and written to each disk",
        |place, _| {
            let text = file_text(place, "/proc/diskstats")?;
            let line = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let at = |index: usize| words.get(index).and_then(|word| number(word));
                let told = json!({
                    "major": at(0), "minor": at(1), "reads_issued": at(3), "sectors_read": at(5), "writes_completed": at(7), "sectors_written": at(9),
                });
                Some((words.get(2)?.to_string(), told))
            };
            Ok(Json::Object(text.lines().filter_map(line).collect()))
        },
    ),
    read_only("status.netdev", &[], "status.netdev: what each interface sent and received", |place, _| {
        let text = file_text(place, "/proc/net/dev")?;
        let line = |line: &str| {
            let (name, rest) = line.split_once(':')?;
            let words: Vec<&str> = rest.split_whitespace().collect();
            let at = |index: usize| words.get(index).and_then(|word| number(word));
            let told = json!({
                "rx_bytes": at(0), "rx_packets": at(1), "rx_errs": at(2), "rx_drop": at(3),
                "tx_bytes": at(8), "tx_packets": at(9), "tx_errs": at(10), "tx_drop": at(11),
            });
            Some((name.trim().to_string(), told))
        };
        Ok(Json::Object(text.lines().skip(2).filter_map(line).collect()))
    }),
    read_only("status.nproc", &[], "status.nproc: how many processors there are", |place, _| {
        let text = file_text(place, "/proc/cpuinfo")?;
        Ok(json!(text.lines().filter(|line| line.starts_with("processor")).count()))
    }),
    read_only(
        "status.pid",
        &[text("sig")],
        "status.pid TEXT: the numbers of processes whose command line holds a text, a line each",
        |place, args| {
            let found = super::find("ps.pgrep").map(|pgrep| {
                let arguments = super::Arguments {
                    positional: vec![json!(args.text(0, "sig")?), Json::Null, json!(true)],
                    named: Map::new(),
                };
                pgrep.answer(place, &arguments)
            });
            let found = found.ok_or("there is no ps.pgrep")??;
            let lines: Vec<String> =
                found.as_array().into_iter().flatten().map(ToString::to_string).collect();
            Ok(json!(lines.join("\n")))
        },
    ),
    read_only("status.version", &[], "status.version: what the kernel calls itself", |place, _| {
        Ok(json!(file_text(place, "/proc/version")?.trim()))
    }),
    read_only("status.vmstats", &[], "status.vmstats: counters of the memory", |place, _| {
        let text = file_text(place, "/proc/vmstat")?;
        let line = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_string(), json!(number(value.trim())?)))
        };
        Ok(Json::Object(text.lines().filter_map(line).collect()))
    }),
];

fn number(word: &str) -> Option<u64> {
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::functions::try_function::TestHost;
    use serde_json::json;
    use zester_host::process::fake::{Scripted, command_line, exit};

    #[tokio::test(flavor = "multi_thread")]
    async fn counters_and_file_systems_are_told_by_name() {
        let mut machine = TestHost::with(&[
            ("/proc/stat", "cpu  1 2 3 4 5 6 7 8 0 0\nctxt 99\nbtime 7\n"),
            ("/proc/net/dev", "Inter-|\n face |\n  eth0: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n"),
            ("/proc/cpuinfo", "processor\t: 0\nmodel name: a\n\nprocessor\t: 1\n"),
            ("/proc/vmstat", "nr_free_pages 5\npgfault 6\n"),
            ("/proc/version", "Linux version 6.1\n"),
            ("/proc/diskstats", "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n"),
        ]);
        machine.processes = Scripted::new().with(|launch| {
            Some(Ok(exit(
                0,
                match command_line(launch).contains("-i") {
                    true => "Filesystem Inodes IUsed IFree IUse% Mounted on\n/dev/root 100 10 90 10% /\n",
                    false => {
                        "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/root 20 5 15 25% /\n"
                    }
                },
                "",
            )))
        });
        for (function, words, wanted) in [
            ("status.nproc", &[][..], json!(2)),
            ("status.version", &[], json!("Linux version 6.1")),
            ("status.vmstats", &[], json!({ "nr_free_pages": 5, "pgfault": 6 })),
            ("disk.percent", &["/"], json!("25%")),
            ("disk.percent", &[], json!({ "/": "25%" })),
            (
                "disk.inodeusage",
                &[],
                json!({ "/": { "filesystem": "/dev/root", "inodes": 100, "used": 10, "free": 90, "use": "10%" } }),
            ),
        ] {
            assert_eq!(machine.call(function, words), Ok(wanted), "{function} {words:?}");
        }
        assert_eq!(machine.call("status.cpustats", &[]).unwrap()["cpu"]["idle"], json!(4));
        assert_eq!(machine.call("status.cpustats", &[]).unwrap()["ctxt"], json!(99));
        assert_eq!(machine.call("status.netdev", &[]).unwrap()["eth0"]["tx_bytes"], json!(20));
        assert_eq!(machine.call("status.diskstats", &[]).unwrap()["sda"]["sectors_read"], json!(3));
        assert_eq!(machine.call("disk.percent", &["/x"]), Err("nothing is mounted at /x".into()));
    }
}
