//! How much memory and swap, in MiB.

use crate::{Facts, read};

pub fn collect(facts: &mut Facts) {
    let meminfo = read::system_text("/proc/meminfo");
    facts.insert("mem_total".into(), mebibytes(&meminfo, "MemTotal").into());
    facts.insert("swap_total".into(), mebibytes(&meminfo, "SwapTotal").into());
}

/// A line of `/proc/meminfo`, which counts in KiB whatever it calls them.
fn mebibytes(meminfo: &str, name: &str) -> u64 {
    let mut fields = meminfo.lines().filter_map(|line| line.split_once(':'));
    let value = fields.find(|(field, _)| *field == name).map_or("", |(_, value)| value);
    value.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_memory_is_in_mebibytes() {
        let meminfo =
            "MemTotal:       24682416 kB\nMemFree:        23212740 kB\nSwapTotal:       2097148 kB\n";
        assert_eq!((mebibytes(meminfo, "MemTotal"), mebibytes(meminfo, "SwapTotal")), (24103, 2047));
        assert_eq!(mebibytes("", "MemTotal"), 0);
    }
}
