//! `mount.mounted`, `mount.unmounted`: what is mounted at a place.

use crate::claims::{Claim, Claims};
use crate::context::Checking;
use crate::mounts::{
    FSTAB, FstabEntry, Key, MountState, Mounted, SECRET_OPTIONS, missing_options, same_device, shown_option,
    split_options, with_entry, without_entry,
};
use crate::params::{Absolute, Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::State;
use std::path::PathBuf;
use zester_host::{Fault, FaultKind};

fn key(path: &Absolute, config: Option<&Absolute>, hidden: &[String]) -> Key {
    let hidden = hidden.iter().cloned().chain(SECRET_OPTIONS.map(str::to_string)).collect();
    Key {
        hidden,
        path: path.0.clone(),
        fstab: config.map_or_else(|| PathBuf::from(FSTAB), |config| config.0.clone()),
    }
}

/// Something that is mounted at a place.
#[params(kind = "mount.mounted", primary = "name", manual = "mount_mounted.md")]
pub struct IsMounted {
    /// The place.
    name: Absolute,
    /// What is mounted there: a device, `UUID=…`, `server:/path`, `tmpfs`.
    device: String,
    /// The file system.
    fstype: String,
    /// Makes the place where it is missing.
    #[param(default)]
    mkmnt: bool,
    /// How it is mounted, as in the fourth field of `/etc/fstab`. Default: `defaults`.
    #[param(list, default)]
    opts: Vec<String>,
    /// Whether `dump` saves it.
    #[param(default)]
    dump: u32,
    /// When it is checked at the start; 0 for never.
    #[param(default)]
    pass_num: u32,
    /// The table. Default: `/etc/fstab`.
    config: Option<Absolute>,
    /// `false` writes nothing to the table. Default: true.
    #[param(default = true)]
    persist: bool,
    /// `false` only writes the table. Default: true.
    #[param(default = true)]
    mount: bool,
    /// Options that the kernel does not tell of.
    #[param(list, default)]
    extra_mount_invisible_options: Vec<String>,
    /// Options whose values are shown nowhere, by their names; `password` is always one. A mount that differs in nothing else
    /// is left alone.
    #[param(list, default)]
    hidden_opts: Vec<String>,
}

impl IsMounted {
    fn options(&self) -> Vec<String> {
        let options: Vec<String> = self.opts.iter().flat_map(|option| split_options(option)).collect();
        if options.is_empty() { vec!["defaults".into()] } else { options }
    }

    fn entry(&self) -> FstabEntry {
        FstabEntry {
            device: self.device.clone(),
            place: self.name.display().to_string(),
            fstype: self.fstype.clone(),
            options: self.options().join(","),
            dump: self.dump,
            pass_num: self.pass_num,
        }
    }

    /// How it is to be mounted, where it is not so already.
    fn wanted(&self, now: Option<&Mounted>, cx: &Checking<'_>) -> Result<Option<Mounted>, Fault> {
        let options = self.options();
        let hidden = self.key().hidden;
        let recorded: Vec<String> = options.iter().map(|option| shown_option(option, &hidden)).collect();
        let fresh = || Mounted {
            device: self.device.clone(),
            fstype: self.fstype.clone(),
            options: recorded.clone(),
        };
        let Some(now) = now else { return Ok(Some(fresh())) };
        let binds = options.iter().any(|option| option == "bind" || option == "rbind");
        // What a part of the tree is mounted from, the kernel does not tell.
        let same = binds || same_device(&self.device, &now.device, cx.host)? && self.is_fstype(&now.fstype);
        if !same {
            return Ok(Some(fresh()));
        }
        let mut invisible: Vec<String> = self.extra_mount_invisible_options.clone();
        invisible.extend(hidden.iter().cloned());
        Ok(Some(match missing_options(&options, &now.options, &invisible).is_empty() {
            true => now.clone(),
            false => Mounted { device: now.device.clone(), fstype: now.fstype.clone(), options: recorded },
        }))
    }

    fn is_fstype(&self, live: &str) -> bool {
        self.fstype == live
            || self.fstype == "auto"
            || self.fstype == "nfs" && live.starts_with("nfs")
            || live == "fuseblk"
            || live.strip_prefix("fuse.").is_some_and(|inner| self.fstype == inner)
    }
}

impl Resource for IsMounted {
    type State = MountState;

    fn key(&self) -> Key {
        key(&self.name, self.config.as_ref(), &self.hidden_opts)
    }

    async fn desired(&self, now: &MountState, cx: &Checking<'_>) -> Result<Want<MountState>, Fault> {
        if self.mount && !now.directory && !self.mkmnt {
            let message = format!("there is nothing at {} to mount upon", self.name.display());
            return Err(Fault::new(FaultKind::NotFound, message).hint("`mkmnt: true` makes it"));
        }
        let mounted = if self.mount { self.wanted(now.mounted.as_ref(), cx)? } else { now.mounted.clone() };
        let fstab = if self.persist { with_entry(&now.fstab, &self.entry()) } else { now.fstab.clone() };
        Ok(Want::Be(MountState { mounted, fstab, directory: now.directory || self.mkmnt }))
    }

    fn how(&self) -> Vec<String> {
        self.options()
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        for (parameter, word) in [("device", &self.device), ("fstype", &self.fstype)] {
            if word.is_empty() || word.starts_with('-') || word.contains('\n') {
                invalid.push(Invalid::new(parameter, format!("`{word}` cannot be mounted")));
            }
        }
        if self.opts.iter().any(|option| option.contains(char::is_whitespace)) {
            invalid.push(Invalid::new("opts", "options are separated by commas, and hold no spaces"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let key = self.key();
        let claim = Claim::new(MountState::item(&key), "mounted")
            .with("device", Some(&self.device))
            .with("opts", Some(self.options()));
        let claims = Claims::of(claim).needs([self.name.0.as_path()]);
        if self.persist { claims.edits(&key.fstab) } else { claims }
    }
}

/// A place at which nothing is mounted.
#[params(kind = "mount.unmounted", primary = "name", manual = "mount_unmounted.md")]
pub struct Unmounted {
    /// The place.
    name: Absolute,
    /// Only what is mounted from this device. Unset: whatever is.
    device: Option<String>,
    /// The table. Default: `/etc/fstab`.
    config: Option<Absolute>,
    /// `true` takes it out of the table too.
    #[param(default)]
    persist: bool,
}

impl Resource for Unmounted {
    type State = MountState;

    fn key(&self) -> Key {
        key(&self.name, self.config.as_ref(), &[])
    }

    async fn desired(&self, now: &MountState, cx: &Checking<'_>) -> Result<Want<MountState>, Fault> {
        let meant = match (&now.mounted, &self.device) {
            (Some(now), Some(device)) => same_device(device, &now.device, cx.host)?,
            _ => true,
        };
        let mounted = now.mounted.clone().filter(|_| !meant);
        let place = self.name.display().to_string();
        let fstab = match self.persist {
            true => without_entry(&now.fstab, |entry| {
                entry.place.trim_end_matches('/') == place
                    && self.device.as_ref().is_none_or(|device| *device == entry.device)
            }),
            false => now.fstab.clone(),
        };
        Ok(Want::Be(MountState { mounted, fstab, ..now.clone() }))
    }

    fn claims(&self) -> Claims {
        let key = self.key();
        let claims = Claims::of(Claim::new(MountState::item(&key), "unmounted"));
        if self.persist { claims.edits(&key.fstab) } else { claims }
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::mounts::fake_mount::fake_mount;
    use serde_json::json;
    let case = |kind, params, promise, mounts: &'static str, fstab: &'static str| {
        Case::new(kind, params, promise, move |host| fake_mount(host, mounts, fstab)).with_books(&["/proc"])
    };
    const LIVE: &str = "tmpfs /mnt tmpfs rw,size=1024k";
    const TABLE: &str = "/dev/sda1 / ext4 defaults 0 1\ntmpfs /mnt tmpfs size=1m 0 0\n";
    let mounted = "mount.mounted";
    let tmpfs = |more: serde_json::Value| {
        let mut params = json!({ "name": "/mnt", "device": "tmpfs", "fstype": "tmpfs", "opts": "size=1m" });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    vec![
        case(mounted, tmpfs(json!({})), Promise::Converges, "", ""),
        case(mounted, tmpfs(json!({})), Promise::Clean, LIVE, TABLE),
        case(mounted, tmpfs(json!({})), Promise::Converges, LIVE, ""),
        case(mounted, tmpfs(json!({ "persist": false })), Promise::Clean, LIVE, ""),
        case(mounted, tmpfs(json!({ "mount": false })), Promise::Converges, "", ""),
        case(mounted, tmpfs(json!({ "opts": ["size=2m", "ro"] })), Promise::Converges, LIVE, TABLE),
        case(mounted, tmpfs(json!({ "device": "other" })), Promise::Converges, LIVE, TABLE),
        case(mounted, tmpfs(json!({ "name": "/new", "mkmnt": true })), Promise::Converges, "", ""),
        case(mounted, tmpfs(json!({ "name": "/new" })), Promise::Fails, "", ""),
        case("mount.unmounted", json!({ "name": "/mnt" }), Promise::Converges, LIVE, TABLE),
        case("mount.unmounted", json!({ "name": "/mnt", "persist": true }), Promise::Converges, LIVE, TABLE),
        case(
            "mount.unmounted",
            json!({ "name": "/mnt", "device": "/dev/other" }),
            Promise::Clean,
            LIVE,
            TABLE,
        ),
        case("mount.unmounted", json!({ "name": "/mnt" }), Promise::Clean, "", ""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::{FewFiles, bind_json};
    use crate::mounts::fake_mount::fake_mount;
    use serde_json::json;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;
    use zester_host::Query;
    use zester_host::overlay::Overlay;

    #[tokio::test]
    async fn options_that_are_not_shown_stand_in_no_diff_and_no_detail() {
        let host = Arc::new(Overlay::empty());
        let processes = fake_mount(&host, "", "//s/x /mnt cifs user=a,password=former,token=older 0 0\n");
        let params = json!({
            "name": "/mnt", "device": "//s/x", "fstype": "cifs", "opts": "user=a,password=hush,token=quiet", "hidden_opts": ["token"],
        });
        let bound = bind_json("mount.mounted", &params).ok().unwrap();
        let cancel = CancellationToken::new();
        let query = Query::through(&*processes);
        let cx =
            Checking { host: &*host, query, files: &FewFiles, forced: None, dry_run: false, cancel: &cancel };
        let drift = bound.check(&cx).await.unwrap().unwrap();
        let told = bound.explain(&drift, false);
        let details = serde_json::to_string(&told.details).unwrap();
        for secret in ["hush", "quiet", "former", "older"] {
            assert!(!told.diff.contains(secret) && !details.contains(secret), "{}{details}", told.diff);
        }
        assert!(told.diff.contains("user=a,password=***,token=***"), "{}", told.diff);
        let record = bound.undo_record(&drift).unwrap();
        assert!(!record["to"]["mounted"].to_string().contains("hush"), "{record}");
        bound.apply(&drift, &crate::context::Applying::new(&*host, &*processes, &cancel)).await.unwrap();
        let ran = processes.ran().join("\n");
        assert!(ran.contains("user=a,password=hush,token=quiet"), "{ran}");
        assert!(bound.check(&cx).await.unwrap().is_none());
    }
}
