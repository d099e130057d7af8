//! How many processors, of which model, with which flags.

use crate::{Facts, read};
use std::path::Path;

/// Holds the first processor of any machine; the kernel writes no more of the file than is read.
const FIRST_PROCESSOR_BYTES: usize = 16 * 1024;

pub fn collect(facts: &mut Facts) {
    let start = read::start_of(Path::new("/proc/cpuinfo"), FIRST_PROCESSOR_BYTES).unwrap_or_default();
    let first = understand(&String::from_utf8_lossy(&start));
    let online = count_range(&read::system_line("/sys/devices/system/cpu/online"));
    let count = online.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    facts.insert("num_cpus".into(), count.into());
    facts.insert("cpu_model".into(), first.model.into());
    facts.insert("cpu_flags".into(), first.flags.into());
}

#[derive(Debug, Default, PartialEq)]
struct Processor {
    model: String,
    flags: Vec<String>,
}

/// The first processor of `/proc/cpuinfo`. ARM says `Features`, and of the model only numbers or what board it is on.
fn understand(cpuinfo: &str) -> Processor {
    let fields = || {
        let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.trim(), value.trim()))
    };
    let first = |names: &[&str]| {
        let found = names.iter().find_map(|wanted| fields().find(|(name, _)| name == wanted));
        found.map(|(_, value)| value).unwrap_or_default()
    };
    let flags = first(&["flags", "Features", "features"]);
    Processor {
        model: first(&["model name", "Processor", "cpu model", "cpu", "Model", "Hardware"]).to_string(),
        flags: flags.split_whitespace().map(str::to_string).collect(),
    }
}

/// Counts `0-3,8,10-11`.
fn count_range(text: &str) -> Option<usize> {
    let mut count = 0;
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        count += high.checked_sub(low)? + 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_model_and_flags_on_x86_and_arm() {
        let x86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nflags\t\t: fpu vme sse2\n\nprocessor\t: 1\nmodel name\t: other\n";
        let found = understand(x86);
        assert_eq!(found.model, "AMD EPYC");
        assert_eq!(found.flags, ["fpu", "vme", "sse2"]);
        let arm = "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd\nCPU part\t: 0xd08\n\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.1\n";
        let found = understand(arm);
        assert_eq!((found.model.as_str(), found.flags.len()), ("Raspberry Pi 4 Model B Rev 1.1", 2));
        assert_eq!(understand(""), Processor::default());
    }

    #[test]
    #[rule("D-7")]
    fn d7_ranges_of_processors_are_counted() {
        for (text, count) in [
            ("0", Some(1)),
            ("0-3", Some(4)),
            ("0-3,8,10-11", Some(7)),
            ("", None),
            ("3-1", None),
            ("x", None),
        ] {
            assert_eq!(count_range(text), count, "{text}");
        }
    }
}
