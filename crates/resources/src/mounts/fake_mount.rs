//! Small `mount`, `umount`, `swapon` and `swapoff` for tests. What they did lies in `/proc` of the machine in memory.

use crate::laws::{furnish, put_text};
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::{Exit, HostRead};

const INFO: &str = "/proc/self/mountinfo";
const SWAPS: &str = "/proc/swaps";

fn text(host: &Overlay, path: &str) -> String {
    String::from_utf8(host.read(Path::new(path), 1 << 20).unwrap()).unwrap()
}

fn line(device: &str, place: &str, fstype: &str, options: &str) -> String {
    format!("40 1 0:40 / {place} rw - {fstype} {device} {options}\n")
}

fn is_at(line: &str, place: &str) -> bool {
    line.contains(&format!(" / {place} "))
}

fn answer(host: &Arc<Overlay>, words: &[&str]) -> Option<Exit> {
    let info = text(host, INFO);
    let without = |place: &str| {
        info.lines().filter(|line| !is_at(line, place)).map(|line| format!("{line}\n")).collect::<String>()
    };
    match words {
        ["mount", "-o", options, place] => {
            let old = info.lines().find(|line| is_at(line, place))?;
            let back: Vec<&str> = old.split_once(" - ")?.1.split(' ').collect();
            let options = options.strip_prefix("remount,")?;
            put_text(host, INFO, &(without(place) + &line(back[1], place, back[0], options)));
        }
        ["mount", "-t", fstype, "-o", options, device, place] => {
            if host.stat(Path::new(place)).unwrap().is_none() {
                return Some(exit(32, "", &format!("mount: {place}: mount point does not exist.")));
            }
            put_text(host, INFO, &(info.clone() + &line(device, place, fstype, options)));
        }
        ["umount", place] => put_text(host, INFO, &without(place)),
        ["swapon", device] => put_text(host, SWAPS, &(text(host, SWAPS) + device + " partition 1024 0 -2\n")),
        ["swapoff", device] => {
            let left: String = text(host, SWAPS)
                .lines()
                .filter(|line| !line.starts_with(device))
                .map(|line| format!("{line}\n"))
                .collect();
            put_text(host, SWAPS, &left);
        }
        _ => return None,
    }
    Some(exit(0, "", ""))
}

/// A machine on which this is mounted, one mount a line as `DEVICE PLACE FSTYPE OPTIONS`, with this `/etc/fstab`.
pub(crate) fn fake_mount(host: &Arc<Overlay>, mounts: &str, fstab: &str) -> Arc<Scripted> {
    furnish(host, "d /etc 0755\nd /mnt 0755\nd /proc 0755\nd /proc/self 0755");
    let mut info = String::from("1 1 0:1 / / rw - ext4 /dev/root rw\n");
    for words in mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()) {
        info.push_str(&line(words[0], words[1], words[2], words[3]));
    }
    put_text(host, INFO, &info);
    put_text(host, SWAPS, "Filename Type Size Used Priority\n/dev/old partition 1024 0 -2\n");
    if !fstab.is_empty() {
        put_text(host, super::FSTAB, fstab);
    }
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| {
        let line = command_line(launch);
        answer(&host.upgrade()?, &line.split(' ').collect::<Vec<_>>()).map(Ok)
    }))
}
