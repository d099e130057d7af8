//! `sysctl.present`: a setting of the kernel, now and at the next start.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::config_text::{self, ConfigText};
use crate::context::{Checking, Explanation};
use crate::params::{Absolute, Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write, slot};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind, HostRead};

const CONFIG: &str = "/etc/sysctl.d/99-salt.conf";

/// A setting of the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sysctl {
    /// Its value, with one space between words; none where this kernel has no such setting.
    live: Option<String>,
    /// The file that sets it at the next start.
    config: ConfigText,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Key {
    name: String,
    config: PathBuf,
}

impl State for Sysctl {
    type Key = Key;
    type How = ();

    fn item(key: &Key) -> ManagedItem {
        ManagedItem::Named("setting", key.name.clone())
    }

    async fn current(key: &Key, cx: &Read<'_>) -> Result<Sysctl, Fault> {
        let live = cx.text(&format!("/proc/sys/{}", in_path(&key.name)))?;
        Ok(Sysctl { live: live.map(|text| plain(&text)), config: config_text::read(cx.host, &key.config)? })
    }

    async fn enforce(step: &Step<'_, Sysctl>, cx: &Write<'_, Sysctl>) -> Result<(), Fault> {
        let Step { key, from, to, .. } = step;
        if let Some(value) = to.live.as_ref().filter(|_| from.live != to.live) {
            cx.run(&["sysctl", "-w", &format!("{}={value}", key.name)]).await.map_err(|fault| match fault
                .message
                .contains("Read-only file system")
            {
                true => fault
                    .hint("/proc/sys is read-only here, as in most containers: set it on the machine itself"),
                false => fault,
            })?;
        }
        config_text::write(&key.config, &from.config, &to.config, cx)
    }

    fn describe(step: &Step<'_, Sysctl>, _: bool) -> Explanation {
        let Step { key, from, to, .. } = step;
        let mut told = Explanation::default();
        if from.live != to.live {
            let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_string());
            told.diff = format!("{}: {} → {}\n", key.name, word(&from.live), word(&to.live));
            told.details.insert("value".into(), json!({ "old": from.live, "new": to.live }));
        }
        config_text::explain(&key.config, &from.config, &to.config, &mut told);
        told
    }

    fn predicted(key: &Key, host: &dyn HostRead) -> Option<Sysctl> {
        let predicted = host.predicted_state(&slot::<Sysctl>(key))?;
        let predicted = predicted.downcast_ref::<Sysctl>()?;
        // Others may have edited the file since.
        Some(Sysctl { config: config_text::read(host, &key.config).ok()?, ..predicted.clone() })
    }

    fn predict(key: &Key, to: &Sysctl, overlay: &Overlay) -> Result<(), Fault> {
        overlay.predict_state(slot::<Sysctl>(key), Arc::new(to.clone()));
        config_text::predict(&key.config, &to.config, overlay)
    }
}

/// `net.ipv4.ip_forward` and `net/ipv4/ip_forward` are one; where there are slashes, dots are dots (`net/ipv4/conf/eth0.1/…`).
fn in_path(name: &str) -> String {
    if name.contains('/') { name.to_string() } else { name.replace('.', "/") }
}

fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text that sets it: in place of the last line that does, or behind all others.
fn configured(text: Option<&str>, name: &str, value: &str) -> String {
    let mut lines: Vec<String> = text.unwrap_or_default().lines().map(str::to_string).collect();
    let sets = |line: &String| {
        let line = line.trim_start().trim_start_matches('-');
        let set = line.split_once('=').map(|(own, value)| (own.trim(), plain(value)));
        set.filter(|(own, _)| !own.starts_with(['#', ';']) && in_path(own) == in_path(name))
            .map(|(_, value)| value)
    };
    match lines.iter_mut().rev().find(|line| sets(line).is_some()) {
        Some(line) if sets(line).as_deref() == Some(value) => {}
        Some(line) => *line = format!("{name} = {value}"),
        None => lines.push(format!("{name} = {value}")),
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// A setting of the kernel, now and at the next start.
#[params(kind = "sysctl.present", primary = "name", manual = "sysctl_present.md")]
pub struct Present {
    /// The setting, as `sysctl -a` lists it.
    name: String,
    /// What it is to be.
    value: String,
    /// The file that sets it at the next start. Default: `/etc/sysctl.d/99-salt.conf`.
    config: Option<Absolute>,
    /// Writes the file even where this kernel has no such setting.
    #[param(default)]
    ignore: bool,
}

impl Present {
    fn config(&self) -> PathBuf {
        self.config.as_ref().map_or_else(|| PathBuf::from(CONFIG), |config| config.0.clone())
    }
}

impl Resource for Present {
    type State = Sysctl;

    fn key(&self) -> Key {
        Key { name: self.name.clone(), config: self.config() }
    }

    async fn desired(&self, now: &Sysctl, _: &Checking<'_>) -> Result<Want<Sysctl>, Fault> {
        if now.live.is_none() && !self.ignore {
            let message = format!("the kernel has no setting `{}`", self.name);
            let hint = "load the module that has it first, or write the file only with `ignore: true`";
            return Err(Fault::new(FaultKind::NotFound, message).hint(hint));
        }
        let value = plain(&self.value);
        let text = configured(now.config.as_deref(), &self.name, &value);
        Ok(Want::Be(Sysctl { live: now.live.as_ref().map(|_| value), config: Some(text) }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/@:".contains(letter);
        let mut invalid = Vec::new();
        if !self.name.starts_with(|first: char| first.is_ascii_alphanumeric())
            || !self.name.chars().all(plain)
            || self.name.split('/').any(|part| part == "..")
        {
            invalid.push(Invalid::new("name", format!("`{}` cannot name a setting", self.name)));
        }
        if self.value.contains('\n') {
            invalid.push(Invalid::new("value", "a setting is one line"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(Sysctl::item(&self.key()), "present").with("value", Some(plain(&self.value)));
        Claims::of(claim).edits(&self.config())
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use std::sync::Arc;
    use zester_host::process::fake::{Scripted, command_line, exit};
    const KERNEL: &str =
        "d /etc 0755\nd /etc/sysctl.d 0755\nd /proc 0755\nd /proc/sys 0755\nd /proc/sys/vm 0755";
    let case = |params, promise, config: &'static str| {
        Case::new("sysctl.present", params, promise, move |host| {
            furnish(host, KERNEL);
            put_text(host, "/proc/sys/vm/swappiness", "60\n");
            if !config.is_empty() {
                put_text(host, CONFIG, config);
            }
            let host = Arc::downgrade(host);
            Arc::new(Scripted::new().with(move |launch| {
                let line = command_line(launch);
                let (name, value) = line.strip_prefix("sysctl -w ")?.split_once('=')?;
                put_text(&host.upgrade()?, &format!("/proc/sys/{}", in_path(name)), &format!("{value}\n"));
                Some(Ok(exit(0, "", "")))
            }))
        })
        .with_books(&["/proc"])
    };
    vec![
        case(json!({ "name": "vm.swappiness", "value": 10 }), Promise::Converges, ""),
        case(
            json!({ "name": "vm.swappiness", "value": 10 }),
            Promise::Converges,
            "a = 1\nvm.swappiness=60\nb = 2\n",
        ),
        case(json!({ "name": "vm/swappiness", "value": 60 }), Promise::Clean, "vm.swappiness =  60\n"),
        case(json!({ "name": "vm.swappiness", "value": 60 }), Promise::Converges, "# vm.swappiness = 60\n"),
        case(json!({ "name": "vm.none", "value": 1 }), Promise::Fails, ""),
        case(json!({ "name": "vm.none", "value": 1, "ignore": true }), Promise::Converges, ""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_set_where_it_was_set_last() {
        let text = "# kernel\nnet.ipv4.tcp_rmem = 1 2 3\n-vm.swappiness=1\nvm/swappiness = 2\n";
        let set = configured(Some(text), "vm.swappiness", "10");
        assert_eq!(set, text.replace("vm/swappiness = 2", "vm.swappiness = 10"));
        assert_eq!(configured(Some(text), "net.ipv4.tcp_rmem", "1 2 3"), text);
        assert_eq!(configured(None, "a.b", "1"), "a.b = 1\n");
        assert_eq!(in_path("net/ipv4/conf/eth0.1/forwarding"), "net/ipv4/conf/eth0.1/forwarding");
    }
}
