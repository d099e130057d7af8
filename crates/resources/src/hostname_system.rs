//! `hostname.system`: the name of the machine.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::config_text::{self, ConfigText};
use crate::context::{Checking, Explanation};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write, slot};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Fault, HostRead};

const FILE: &str = "/etc/hostname";
const LIVE: &str = "/proc/sys/kernel/hostname";
/// The longest name that the kernel takes.
const NAME_BYTES_MAX: usize = 64;

/// What the machine is called.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hostname {
    /// Now.
    live: Option<String>,
    /// At the next start.
    file: ConfigText,
}

impl State for Hostname {
    type Key = ();
    type How = ();

    fn item((): &()) -> ManagedItem {
        ManagedItem::Named("name of", "the machine".to_string())
    }

    async fn current((): &(), cx: &Read<'_>) -> Result<Hostname, Fault> {
        let live = cx.text(LIVE)?.map(|text| text.trim().to_string());
        Ok(Hostname { live, file: config_text::read(cx.host, Path::new(FILE))? })
    }

    async fn enforce(step: &Step<'_, Hostname>, cx: &Write<'_, Hostname>) -> Result<(), Fault> {
        if let Some(name) = step.to.live.as_ref().filter(|_| step.from.live != step.to.live) {
            cx.run(&["hostname", name]).await?;
        }
        config_text::write(Path::new(FILE), &step.from.file, &step.to.file, cx)
    }

    fn describe(step: &Step<'_, Hostname>, _: bool) -> Explanation {
        let Step { from, to, .. } = step;
        let mut told = Explanation::default();
        if from.live != to.live {
            let word = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_string());
            told.diff = format!("the hostname: {} → {}\n", word(&from.live), word(&to.live));
            told.details.insert("hostname".into(), json!({ "old": from.live, "new": to.live }));
        }
        config_text::explain(Path::new(FILE), &from.file, &to.file, &mut told);
        told
    }

    fn predict((): &(), to: &Hostname, overlay: &Overlay) -> Result<(), Fault> {
        overlay.predict_state(slot::<Hostname>(&()), Arc::new(to.clone()));
        config_text::predict(Path::new(FILE), &to.file, overlay)
    }

    fn predicted((): &(), host: &dyn HostRead) -> Option<Hostname> {
        host.predicted_state(&slot::<Hostname>(&()))?.downcast_ref::<Hostname>().cloned()
    }
}

/// The name of the machine.
#[params(kind = "hostname.system", primary = "name", manual = "hostname_system.md")]
pub struct System {
    /// The name.
    name: String,
    /// `false` sets it for the next start only. Default: true.
    #[param(default = true)]
    apply_hostname: bool,
    /// `false` sets it only until the next start. Default: true.
    #[param(default = true)]
    retain_settings: bool,
}

impl Resource for System {
    type State = Hostname;

    fn key(&self) {}

    async fn desired(&self, now: &Hostname, _: &Checking<'_>) -> Result<Want<Hostname>, Fault> {
        let live = if self.apply_hostname { Some(self.name.clone()) } else { now.live.clone() };
        let is_so = now.file.as_deref().map(str::trim) == Some(&self.name) || !self.retain_settings;
        let file = if is_so { now.file.clone() } else { Some(format!("{}\n", self.name)) };
        Ok(Want::Be(Hostname { live, file }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
        let parts = self.name.split('.').all(|part| {
            !part.is_empty() && part.len() < 64 && !part.starts_with('-') && !part.ends_with('-')
        });
        match parts && self.name.len() <= NAME_BYTES_MAX && self.name.chars().all(plain) {
            true => Vec::new(),
            false => vec![Invalid::new("name", format!("`{}` cannot name a machine", self.name))],
        }
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(Hostname::item(&()), "set").with("name", Some(&self.name));
        Claims::of(claim).edits(Path::new(FILE))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use zester_host::process::fake::{Scripted, command_line, exit};
    let case = |params, promise, file: &'static str| {
        Case::new("hostname.system", params, promise, move |host| {
            furnish(host, "d /etc 0755\nd /proc 0755\nd /proc/sys 0755\nd /proc/sys/kernel 0755");
            put_text(host, LIVE, "old\n");
            if !file.is_empty() {
                put_text(host, FILE, file);
            }
            let host = Arc::downgrade(host);
            Arc::new(Scripted::new().with(move |launch| {
                let line = command_line(launch);
                put_text(&host.upgrade()?, LIVE, &format!("{}\n", line.strip_prefix("hostname ")?));
                Some(Ok(exit(0, "", "")))
            }))
        })
        .with_books(&["/proc"])
    };
    vec![
        case(json!({ "name": "new" }), Promise::Converges, ""),
        case(json!({ "name": "new.example.org" }), Promise::Converges, "old\n"),
        case(json!({ "name": "old" }), Promise::Clean, "old\n"),
        case(json!({ "name": "new", "apply_hostname": false }), Promise::Converges, "old\n"),
        case(json!({ "name": "new", "retain_settings": false }), Promise::Converges, "old\n"),
    ]
}
