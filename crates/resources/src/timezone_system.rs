//! `timezone.system`: the time zone of the machine.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::config_text::{self, ConfigText};
use crate::context::{Checking, Explanation};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write, slot};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind, FileKind, HostWrite};

const ZONES: &str = "/usr/share/zoneinfo";
const LOCALTIME: &str = "/etc/localtime";
const TIMEZONE: &str = "/etc/timezone";
const ADJTIME: &str = "/etc/adjtime";
/// What the clock file says where there is none.
const NEW_ADJTIME: &str = "0.0 0 0.0\n0\nUTC\n";

/// Which zone the machine is in, and what its hardware clock counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Zone {
    /// Where the link leads that programs read; none where there is no link.
    localtime: Option<String>,
    /// The name that Debian keeps beside it; none where there is no such file.
    timezone: ConfigText,
    adjtime: ConfigText,
}

impl State for Zone {
    type Key = ();
    type How = ();

    fn item((): &()) -> ManagedItem {
        ManagedItem::Named("time zone of", "the machine".to_string())
    }

    async fn current((): &(), cx: &Read<'_>) -> Result<Zone, Fault> {
        let path = Path::new(LOCALTIME);
        let localtime = match cx.host.stat(path)? {
            None => None,
            Some(meta) if meta.kind == FileKind::Link => Some(cx.host.read_link(path)?.display().to_string()),
            Some(_) => {
                let message = format!("{LOCALTIME} is no link, so its zone has no name");
                return Err(
                    Fault::new(FaultKind::InTheWay, message).hint("replace it by a link once, by hand")
                );
            }
        };
        let text = |path: &str| config_text::read(cx.host, Path::new(path));
        Ok(Zone { localtime, timezone: text(TIMEZONE)?, adjtime: text(ADJTIME)? })
    }

    async fn enforce(step: &Step<'_, Zone>, cx: &Write<'_, Zone>) -> Result<(), Fault> {
        let Step { from, to, .. } = step;
        if from.localtime != to.localtime {
            put_link(to, cx.host)?;
        }
        config_text::write(Path::new(TIMEZONE), &from.timezone, &to.timezone, cx)?;
        config_text::write(Path::new(ADJTIME), &from.adjtime, &to.adjtime, cx)
    }

    fn describe(step: &Step<'_, Zone>, _: bool) -> Explanation {
        let Step { from, to, .. } = step;
        let mut told = Explanation::default();
        if from.localtime != to.localtime {
            let name = |zone: &Zone| zone.name().unwrap_or("none").to_string();
            told.diff = format!("the time zone: {} → {}\n", name(from), name(to));
            told.details.insert("timezone".into(), json!({ "old": name(from), "new": name(to) }));
        }
        config_text::explain(Path::new(TIMEZONE), &from.timezone, &to.timezone, &mut told);
        config_text::explain(Path::new(ADJTIME), &from.adjtime, &to.adjtime, &mut told);
        told
    }

    fn predict((): &(), to: &Zone, overlay: &Overlay) -> Result<(), Fault> {
        put_link(to, overlay)?;
        config_text::predict(Path::new(TIMEZONE), &to.timezone, overlay)?;
        config_text::predict(Path::new(ADJTIME), &to.adjtime, overlay)?;
        overlay.predict_state(slot::<Zone>(&()), Arc::new(to.clone()));
        Ok(())
    }
}

fn put_link(to: &Zone, host: &dyn HostWrite) -> Result<(), Fault> {
    let path = Path::new(LOCALTIME);
    match &to.localtime {
        Some(target) => host.put_link(path, Path::new(target), host.me()),
        None => host.remove_file(path),
    }
}

impl Zone {
    /// The name below the directory of zones.
    fn name(&self) -> Option<&str> {
        self.localtime.as_deref()?.split_once("zoneinfo/").map(|(_, name)| name)
    }
}

/// The time zone of the machine.
#[params(kind = "timezone.system", primary = "name", manual = "timezone_system.md")]
pub struct System {
    /// The zone: `Europe/Berlin`.
    name: String,
    /// Whether the hardware clock counts UTC. Unset: as it is.
    utc: Option<bool>,
}

impl System {
    /// The third line of the clock file says what the clock counts.
    fn adjtime(&self, now: &ConfigText) -> ConfigText {
        let Some(utc) = self.utc else { return now.clone() };
        let counted = now.as_deref().unwrap_or(NEW_ADJTIME);
        let is_utc = counted.lines().nth(2).is_none_or(|word| word.trim() != "LOCAL");
        if is_utc == utc {
            return now.clone();
        }
        let mut lines: Vec<&str> = counted.lines().collect();
        lines.resize(3, "0");
        lines[2] = if utc { "UTC" } else { "LOCAL" };
        Some(lines.iter().flat_map(|line| [*line, "\n"]).collect())
    }
}

impl Resource for System {
    type State = Zone;

    fn key(&self) {}

    async fn desired(&self, now: &Zone, cx: &Checking<'_>) -> Result<Want<Zone>, Fault> {
        let zone = Path::new(ZONES).join(&self.name);
        if cx.host.stat_followed(&zone)?.is_none_or(|meta| meta.kind != FileKind::File) {
            let message = format!("this machine knows no time zone `{}`", self.name);
            return Err(Fault::new(FaultKind::NotFound, message).hint("`tzdata` has them all"));
        }
        let timezone = match &now.timezone {
            Some(text) if text.trim() != self.name => Some(format!("{}\n", self.name)),
            same => same.clone(),
        };
        let localtime = match now.name() == Some(&self.name) {
            true => now.localtime.clone(),
            false => Some(zone.display().to_string()),
        };
        Ok(Want::Be(Zone { localtime, timezone, adjtime: self.adjtime(&now.adjtime) }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "_+-/".contains(letter);
        let odd = self.name.is_empty()
            || !self.name.chars().all(plain)
            || PathBuf::from(&self.name).is_absolute()
            || self.name.split('/').any(str::is_empty);
        if odd { vec![Invalid::new("name", format!("`{}` is no time zone", self.name))] } else { Vec::new() }
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(Zone::item(&()), "set").with("name", Some(&self.name)).with("utc", self.utc);
        Claims::of(claim).edits(Path::new(LOCALTIME))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use zester_host::HostRead;
    const MACHINE: &str = "d /etc 0755\nd /usr 0755\nd /usr/share 0755\nd /usr/share/zoneinfo 0755\n\
        d /usr/share/zoneinfo/Europe 0755\nf /usr/share/zoneinfo/Europe/Berlin 0644 TZif\nf /usr/share/zoneinfo/UTC 0644 TZif";
    let case = |params, promise, link: &'static str, debian: bool| {
        Case::new("timezone.system", params, promise, move |host| {
            let processes = furnish(host, MACHINE);
            if !link.is_empty() {
                host.put_link(Path::new(LOCALTIME), Path::new(link), host.me()).unwrap();
            }
            if debian {
                put_text(host, TIMEZONE, "Etc/UTC\n");
            }
            processes
        })
    };
    vec![
        case(json!({ "name": "Europe/Berlin" }), Promise::Converges, "", false),
        case(json!({ "name": "Europe/Berlin" }), Promise::Converges, "/usr/share/zoneinfo/UTC", true),
        case(json!({ "name": "UTC" }), Promise::Clean, "../usr/share/zoneinfo/UTC", false),
        case(json!({ "name": "UTC", "utc": false }), Promise::Converges, "../usr/share/zoneinfo/UTC", false),
        case(json!({ "name": "UTC", "utc": true }), Promise::Clean, "../usr/share/zoneinfo/UTC", false),
        case(json!({ "name": "Mars/Base" }), Promise::Fails, "", false),
    ]
}
