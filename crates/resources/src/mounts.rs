//! What is mounted, and what is to be mounted when the machine starts.

#[cfg(test)]
pub(crate) mod fake_mount;
mod fstab;
mod options;

pub(crate) use fstab::{FstabEntry, shown_table, with_entry, without_entry};
use options::shown_options;
pub(crate) use options::{SECRET_OPTIONS, missing_options, shown_option, split_options};

use crate::claims::ManagedItem;
use crate::config_text::{self, ConfigText};
use crate::context::Explanation;
use crate::state::{Read, State, Step, Write, slot};
use crate::tree;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FileKind, HostRead};

const MOUNT_INFO: &str = "/proc/self/mountinfo";
pub(crate) const FSTAB: &str = "/etc/fstab";

/// How a place is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountState {
    /// What is mounted there.
    pub(crate) mounted: Option<Mounted>,
    /// The table of what is mounted when the machine starts.
    pub(crate) fstab: ConfigText,
    /// The place itself is there.
    pub(crate) directory: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mounted {
    pub(crate) device: String,
    pub(crate) fstype: String,
    /// As the kernel tells them, or as they are to be given to `mount` but for what is hidden.
    pub(crate) options: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) path: PathBuf,
    pub(crate) fstab: PathBuf,
    /// Names of options whose values are shown nowhere.
    #[serde(default)]
    pub(crate) hidden: Vec<String>,
}

impl Key {
    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// `\040` stands for a space, and so on.
pub(crate) fn unescaped(field: &str) -> String {
    let mut plain = Vec::new();
    let bytes = field.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let code = field
            .get(at + 1..at + 4)
            .filter(|_| bytes[at] == b'\\')
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                plain.push(code);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// What the kernel says is mounted at a place: the last that was put there.
pub(crate) fn mounted_at(info: &str, place: &str) -> Option<Mounted> {
    let read = |line: &str| {
        let (front, back) = line.split_once(" - ")?;
        let front: Vec<&str> = front.split(' ').collect();
        let back: Vec<&str> = back.split(' ').collect();
        if unescaped(front.get(4)?) != place {
            return None;
        }
        let of = |field: Option<&&str>| field.map(|field| split_options(field)).unwrap_or_default();
        let (own, all) = (of(front.get(5)), of(back.get(2)));
        let read_only = own.iter().chain(&all).any(|option| option == "ro");
        let mut options = vec![if read_only { "ro" } else { "rw" }.to_string()];
        for option in own.into_iter().chain(all) {
            if option != "ro" && option != "rw" && !options.contains(&option) {
                options.push(option);
            }
        }
        Some(Mounted { device: unescaped(back.get(1)?), fstype: (*back.first()?).to_string(), options })
    };
    info.lines().rev().find_map(read)
}

impl State for MountState {
    type Key = Key;
    /// The options as they are given to `mount`: what of them is hidden stands in no record.
    type How = Vec<String>;

    fn item(key: &Key) -> ManagedItem {
        ManagedItem::Named("mount at", key.place())
    }

    async fn current(key: &Key, cx: &Read<'_>) -> Result<MountState, Fault> {
        let info = cx.text(MOUNT_INFO)?.unwrap_or_default();
        // The kernel knows a place by its real path.
        let real = tree::behind_links(cx.host, &tree::resolve_again(cx.host, &key.path)?)?;
        let directory = cx.host.stat(&real)?.is_some_and(|meta| meta.kind != FileKind::Link);
        let mounted = mounted_at(&info, &real.display().to_string());
        Ok(MountState { mounted, fstab: config_text::read(cx.host, &key.fstab)?, directory })
    }

    async fn enforce(step: &Step<'_, MountState>, cx: &Write<'_, MountState>) -> Result<(), Fault> {
        let Step { key, from, to, how, .. } = step;
        if to.directory && !from.directory {
            config_text::make_directories(cx.host, &tree::resolve_again(cx.host, &key.path)?)?;
        }
        change_mount(key, from.mounted.as_ref(), to.mounted.as_ref(), how, cx).await?;
        config_text::write(&key.fstab, &from.fstab, &to.fstab, cx)?;
        if from.directory && !to.directory {
            cx.host.remove_directory(&tree::resolve_again(cx.host, &key.path)?)?;
        }
        Ok(())
    }

    fn describe(step: &Step<'_, MountState>, _: bool) -> Explanation {
        let Step { key, from, to, .. } = step;
        let mut told = Explanation::default();
        if from.mounted != to.mounted {
            let words = |mounted: &Option<Mounted>| match mounted {
                None => "nothing mounted".to_string(),
                Some(Mounted { device, fstype, options }) => {
                    let options: Vec<String> =
                        options.iter().map(|option| shown_option(option, &key.hidden)).collect();
                    format!("{device} ({fstype}, {})", options.join(","))
                }
            };
            told.diff = format!("{}: {} → {}\n", key.place(), words(&from.mounted), words(&to.mounted));
            told.details
                .insert("mounted".into(), json!({ "old": words(&from.mounted), "new": words(&to.mounted) }));
        }
        let (old, new) = (shown_table(&from.fstab, &key.hidden), shown_table(&to.fstab, &key.hidden));
        config_text::explain(&key.fstab, &old, &new, &mut told);
        if from.fstab != to.fstab && old == new {
            let table = key.fstab.display().to_string();
            told.diff.push_str(&format!("{table}: an option that is not shown changes\n"));
            told.details.insert("config".into(), table.into());
        }
        told
    }

    fn predicted(key: &Key, host: &dyn HostRead) -> Option<MountState> {
        let predicted = host.predicted_state(&slot::<MountState>(key))?;
        let predicted = predicted.downcast_ref::<MountState>()?;
        Some(MountState { fstab: config_text::read(host, &key.fstab).ok()?, ..predicted.clone() })
    }

    fn predict(key: &Key, to: &MountState, overlay: &Overlay) -> Result<(), Fault> {
        if to.directory && overlay.stat_followed(&key.path)?.is_none() {
            config_text::make_directories(overlay, &key.path)?;
        }
        overlay.predict_state(slot::<MountState>(key), Arc::new(to.clone()));
        config_text::predict(&key.fstab, &to.fstab, overlay)
    }

    /// The kernel tells options in its own words: what is mounted of the same device is ours.
    fn is_between(&self, before: &MountState, after: &MountState) -> bool {
        let same = |one: &Option<Mounted>, other: &Option<Mounted>| match (one, other) {
            (Some(one), Some(other)) => one.device == other.device && one.fstype == other.fstype,
            (None, None) => true,
            _ => false,
        };
        // Between two devices there is a moment with none.
        let neither = self.mounted.is_none() && before.mounted.is_some() && after.mounted.is_some();
        (neither || same(&self.mounted, &before.mounted) || same(&self.mounted, &after.mounted))
            && (self.fstab == before.fstab || self.fstab == after.fstab)
    }
}

async fn change_mount(
    key: &Key,
    from: Option<&Mounted>,
    to: Option<&Mounted>,
    given: &[String],
    cx: &Write<'_, MountState>,
) -> Result<(), Fault> {
    let place = key.place();
    let options_of = |to: &Mounted| if given.is_empty() { to.options.join(",") } else { given.join(",") };
    let hiding = |mut fault: Fault, options: &str| {
        fault.message = fault.message.replace(options, &shown_options(options, &key.hidden));
        fault
    };
    match (from, to) {
        (from, to) if from == to => Ok(()),
        (Some(from), Some(to)) if from.device == to.device && from.fstype == to.fstype => {
            let options = format!("remount,{}", options_of(to));
            let ran = cx.run(&["mount", "-o", &options, &place]).await;
            ran.map(drop).map_err(|fault| hiding(fault, &options))
        }
        (from, to) => {
            if from.is_some() {
                cx.run(&["umount", &place]).await?;
            }
            let Some(to) = to else { return Ok(()) };
            let options = options_of(to);
            let ran = cx.run(&["mount", "-t", &to.fstype, "-o", &options, &to.device, &place]).await;
            ran.map(drop).map_err(|fault| hiding(fault, &options))
        }
    }
}

/// Whether a device that was written (`UUID=…`, a link in `/dev`) is the one that the kernel names.
pub(crate) fn same_device(wanted: &str, live: &str, host: &dyn HostRead) -> Result<bool, Fault> {
    let by = |directory: &str, name: &str| format!("/dev/disk/{directory}/{}", name.trim_matches('"'));
    let path = match wanted.split_once('=') {
        Some(("UUID", name)) => by("by-uuid", name),
        Some(("LABEL", name)) => by("by-label", name),
        Some(("PARTUUID", name)) => by("by-partuuid", name),
        Some(("PARTLABEL", name)) => by("by-partlabel", name),
        _ => wanted.to_string(),
    };
    if path == live || path.trim_end_matches('/') == live.trim_end_matches('/') {
        return Ok(true);
    }
    if !path.starts_with("/dev/") {
        return Ok(false);
    }
    let real = |path: &str| tree::behind_links(host, &tree::resolve_again(host, Path::new(path))?);
    Ok(real(&path)? == real(live)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        36 35 98:0 / /mnt/a\\040b rw,noatime master:1 - ext4 /dev/sda1 ro,errors=continue\n\
        40 27 0:40 / /srv rw,nosuid,relatime shared:9 - tmpfs tmpfs rw,size=10240k,mode=755\n\
        41 27 0:41 / /srv rw,relatime - tmpfs second rw\n";

    #[test]
    fn what_the_kernel_says_is_read_with_its_escapes_and_the_last_mount_wins() {
        let mounted = mounted_at(INFO, "/mnt/a b").unwrap();
        assert_eq!((mounted.device.as_str(), mounted.fstype.as_str()), ("/dev/sda1", "ext4"));
        assert_eq!(mounted.options, ["ro", "noatime", "errors=continue"]);
        assert_eq!(mounted_at(INFO, "/srv").unwrap().device, "second");
        assert_eq!(mounted_at(INFO, "/srv/x"), None);
    }
}
