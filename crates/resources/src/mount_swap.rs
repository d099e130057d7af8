//! `mount.swap`: space that the kernel may swap to.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::config_text::{self, ConfigText};
use crate::context::{Checking, Explanation};
use crate::mounts::{FSTAB, FstabEntry, with_entry};
use crate::params::{Absolute, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write, slot};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Fault, HostRead};

/// Whether the kernel swaps to a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Swapping {
    active: bool,
    fstab: ConfigText,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Key {
    device: PathBuf,
    fstab: PathBuf,
}

impl State for Swapping {
    type Key = Key;
    type How = ();

    fn item(key: &Key) -> ManagedItem {
        ManagedItem::Named("swap", key.device.display().to_string())
    }

    async fn current(key: &Key, cx: &Read<'_>) -> Result<Swapping, Fault> {
        let device = cx.host.real_path(&key.device)?.display().to_string();
        let swaps = cx.text("/proc/swaps")?.unwrap_or_default();
        let active = swaps.lines().any(|line| line.split_whitespace().next() == Some(&device));
        Ok(Swapping { active, fstab: config_text::read(cx.host, &key.fstab)? })
    }

    async fn enforce(step: &Step<'_, Swapping>, cx: &Write<'_, Swapping>) -> Result<(), Fault> {
        let device = step.key.device.display().to_string();
        match (step.from.active, step.to.active) {
            (false, true) => drop(cx.run(&["swapon", &device]).await?),
            (true, false) => drop(cx.run(&["swapoff", &device]).await?),
            _ => {}
        }
        config_text::write(&step.key.fstab, &step.from.fstab, &step.to.fstab, cx)
    }

    fn describe(step: &Step<'_, Swapping>, _: bool) -> Explanation {
        let mut told = Explanation::default();
        if step.from.active != step.to.active {
            let word = |active: bool| if active { "on" } else { "off" };
            let device = step.key.device.display();
            told.diff = format!("swap {device}: {} → {}\n", word(step.from.active), word(step.to.active));
            told.details.insert("active".into(), json!({ "old": step.from.active, "new": step.to.active }));
        }
        config_text::explain(&step.key.fstab, &step.from.fstab, &step.to.fstab, &mut told);
        told
    }

    fn predicted(key: &Key, host: &dyn HostRead) -> Option<Swapping> {
        let predicted = host.predicted_state(&slot::<Swapping>(key))?;
        let active = predicted.downcast_ref::<Swapping>()?.active;
        Some(Swapping { active, fstab: config_text::read(host, &key.fstab).ok()? })
    }

    fn predict(key: &Key, to: &Swapping, overlay: &Overlay) -> Result<(), Fault> {
        overlay.predict_state(slot::<Swapping>(key), Arc::new(to.clone()));
        config_text::predict(&key.fstab, &to.fstab, overlay)
    }
}

/// Space that the kernel may swap to.
#[params(kind = "mount.swap", primary = "name", manual = "mount_swap.md")]
pub struct Swap {
    /// The device or file, made with `mkswap`.
    name: Absolute,
    /// `false` writes nothing to the table. Default: true.
    #[param(default = true)]
    persist: bool,
    /// The table. Default: `/etc/fstab`.
    config: Option<Absolute>,
}

impl Resource for Swap {
    type State = Swapping;

    fn key(&self) -> Key {
        let fstab = self.config.as_ref().map_or_else(|| PathBuf::from(FSTAB), |config| config.0.clone());
        Key { device: self.name.0.clone(), fstab }
    }

    async fn desired(&self, now: &Swapping, _: &Checking<'_>) -> Result<Want<Swapping>, Fault> {
        let entry = FstabEntry {
            device: self.name.display().to_string(),
            place: "none".into(),
            fstype: "swap".into(),
            options: "defaults".into(),
            dump: 0,
            pass_num: 0,
        };
        let fstab = if self.persist { with_entry(&now.fstab, &entry) } else { now.fstab.clone() };
        Ok(Want::Be(Swapping { active: true, fstab }))
    }

    fn claims(&self) -> Claims {
        let key = self.key();
        let claims = Claims::of(Claim::new(Swapping::item(&key), "on")).needs([key.device.as_path()]);
        if self.persist { claims.edits(&key.fstab) } else { claims }
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::mounts::fake_mount::fake_mount;
    let case = |params, promise, fstab: &'static str| {
        Case::new("mount.swap", params, promise, move |host| fake_mount(host, "", fstab))
            .with_books(&["/proc"])
    };
    vec![
        case(json!({ "name": "/dev/new" }), Promise::Converges, ""),
        case(json!({ "name": "/dev/new", "persist": false }), Promise::Converges, ""),
        case(json!({ "name": "/dev/old" }), Promise::Converges, "/dev/old none swap sw 0 0\n"),
        case(json!({ "name": "/dev/old" }), Promise::Clean, "/dev/old none swap defaults 0 0\n"),
    ]
}
