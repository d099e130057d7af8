//! The disks: block devices that are hardware to this machine.

use crate::{Facts, read};
use serde_json::{Map, Value};

pub fn collect(facts: &mut Facts) {
    let disks: Vec<Disk> = read::names_in("/sys/block")
        .into_iter()
        .filter(|name| is_disk(name))
        .map(|name| {
            let sectors = read::system_line(format!("/sys/block/{name}/size"));
            let rotational = read::system_line(format!("/sys/block/{name}/queue/rotational"));
            understand(name, &sectors, &rotational)
        })
        .collect();
    let names = |wanted: fn(&Disk) -> bool| -> Value {
        disks.iter().filter(|disk| wanted(disk)).map(|disk| disk.name.clone()).collect()
    };
    let sizes: Map<String, Value> =
        disks.iter().map(|disk| (disk.name.clone(), disk.mebibytes.into())).collect();
    facts.insert("disks".into(), names(|_| true));
    facts.insert("ssds".into(), names(|disk| disk.solid_state));
    facts.insert("disk_sizes".into(), sizes.into());
}

#[derive(Debug, PartialEq)]
struct Disk {
    name: String,
    mebibytes: u64,
    solid_state: bool,
}

/// What the kernel makes up itself is no disk: loops, memory, and what is built on other disks.
fn is_disk(name: &str) -> bool {
    let made_up = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "zd"];
    !made_up.iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// The kernel counts sectors of 512 bytes, whatever the disk does.
fn understand(name: String, sectors: &str, rotational: &str) -> Disk {
    let sectors: u64 = sectors.parse().unwrap_or(0);
    Disk { name, mebibytes: sectors / 2048, solid_state: rotational == "0" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_only_hardware_is_a_disk() {
        for name in ["sda", "vda", "nvme0n1", "xvda", "mmcblk0", "hda", "sdaa", "dasda"] {
            assert!(is_disk(name), "{name}");
        }
        for name in ["loop0", "ram3", "zram0", "dm-1", "md127", "sr0", "fd0", "nbd2"] {
            assert!(!is_disk(name), "{name}");
        }
        let disk = understand("vda".into(), "41943040", "0");
        assert_eq!((disk.mebibytes, disk.solid_state), (20480, true));
        assert_eq!(understand("sda".into(), "", "1").mebibytes, 0);
    }
}
