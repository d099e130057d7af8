//! `kmod.present`, `kmod.absent`: modules of the kernel.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::config_text::{self, ConfigText};
use crate::context::{Checking, Explanation};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write, slot};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Fault, HostRead};

/// What is loaded when the machine starts.
const LIST: &str = "/etc/modules-load.d/salt_managed.conf";

/// Which modules are loaded, of those that are asked about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Modules {
    loaded: BTreeMap<String, bool>,
    list: ConfigText,
}

impl State for Modules {
    type Key = Vec<String>;
    type How = ();

    fn item(names: &Vec<String>) -> ManagedItem {
        ManagedItem::Named("kernel module", names.join(", "))
    }

    async fn current(names: &Vec<String>, cx: &Read<'_>) -> Result<Modules, Fault> {
        let modules = cx.text("/proc/modules")?.unwrap_or_default();
        let now: Vec<&str> = modules.lines().filter_map(|line| line.split(' ').next()).collect();
        let mut loaded = BTreeMap::new();
        for name in names {
            // What is built in has no line, and may have a directory.
            let built_in = cx.host.stat(Path::new(&format!("/sys/module/{name}")))?.is_some();
            loaded.insert(name.clone(), now.contains(&name.as_str()) || built_in);
        }
        Ok(Modules { loaded, list: config_text::read(cx.host, Path::new(LIST))? })
    }

    async fn enforce(step: &Step<'_, Modules>, cx: &Write<'_, Modules>) -> Result<(), Fault> {
        for (name, wanted) in &step.to.loaded {
            match (step.from.loaded.get(name), wanted) {
                (Some(false), true) => drop(cx.run(&["modprobe", name]).await?),
                (Some(true), false) => drop(cx.run(&["modprobe", "-r", name]).await?),
                _ => {}
            }
        }
        config_text::write(Path::new(LIST), &step.from.list, &step.to.list, cx)
    }

    fn describe(step: &Step<'_, Modules>, _: bool) -> Explanation {
        let mut told = Explanation::default();
        for (name, wanted) in &step.to.loaded {
            if step.from.loaded.get(name) != Some(wanted) {
                let word = |loaded: bool| if loaded { "loaded" } else { "not loaded" };
                told.diff.push_str(&format!(
                    "the kernel module {name}: {} → {}\n",
                    word(!wanted),
                    word(*wanted)
                ));
                told.details.insert(name.clone(), json!({ "old": !wanted, "new": wanted }));
            }
        }
        config_text::explain(Path::new(LIST), &step.from.list, &step.to.list, &mut told);
        told
    }

    fn predicted(names: &Vec<String>, host: &dyn HostRead) -> Option<Modules> {
        let loaded = host.predicted_state(&slot::<Modules>(names))?.downcast_ref::<Modules>()?.loaded.clone();
        Some(Modules { loaded, list: config_text::read(host, Path::new(LIST)).ok()? })
    }

    fn predict(names: &Vec<String>, to: &Modules, overlay: &Overlay) -> Result<(), Fault> {
        overlay.predict_state(slot::<Modules>(names), Arc::new(to.clone()));
        config_text::predict(Path::new(LIST), &to.list, overlay)
    }
}

/// As the kernel spells it.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn names(name: &str, mods: Option<&Vec<String>>) -> Vec<String> {
    match mods {
        Some(mods) => mods.iter().map(|name| plain(name)).collect(),
        None => vec![plain(name)],
    }
}

fn with_names(list: &ConfigText, names: &[String]) -> ConfigText {
    let mut lines: Vec<String> = list.iter().flat_map(|text| text.lines()).map(str::to_string).collect();
    let missing: Vec<&String> =
        names.iter().filter(|name| !lines.iter().any(|line| plain(line.trim()) == **name)).collect();
    if missing.is_empty() {
        return list.clone();
    }
    lines.extend(missing.into_iter().cloned());
    Some(lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect())
}

fn without_names(list: &ConfigText, names: &[String]) -> ConfigText {
    let text = list.as_deref()?;
    let left: Vec<&str> = text.lines().filter(|line| !names.contains(&plain(line.trim()))).collect();
    if left.len() == text.lines().count() {
        return list.clone();
    }
    Some(left.iter().flat_map(|line| [*line, "\n"]).collect())
}

fn odd(name: &str, mods: Option<&Vec<String>>) -> Vec<Invalid> {
    let parameter = if mods.is_some() { "mods" } else { "name" };
    let fits = |name: &String| {
        name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let odd = names(name, mods).into_iter().filter(|name| !fits(name));
    odd.map(|name| Invalid::new(parameter, format!("`{name}` cannot name a module"))).collect()
}

/// Both kinds are one, with another wish.
macro_rules! kmod {
    ($type:ident, $kind:literal, $manual:literal, $wanted:literal, $listed:expr, $doc:literal, $persist:literal) => {
        #[doc = $doc]
        #[params(kind = $kind, primary = "name", manual = $manual)]
        pub struct $type {
            /// The module, as `modprobe` knows it.
            name: String,
            /// Several modules, in place of `name`.
            #[param(list)]
            mods: Option<Vec<String>>,
            #[doc = $persist]
            #[param(default)]
            persist: bool,
        }

        impl Resource for $type {
            type State = Modules;

            fn key(&self) -> Vec<String> {
                names(&self.name, self.mods.as_ref())
            }

            async fn desired(&self, now: &Modules, _: &Checking<'_>) -> Result<Want<Modules>, Fault> {
                let loaded = now.loaded.keys().map(|name| (name.clone(), $wanted)).collect();
                let listed: fn(&ConfigText, &[String]) -> ConfigText = $listed;
                let list = if self.persist { listed(&now.list, &self.key()) } else { now.list.clone() };
                Ok(Want::Be(Modules { loaded, list }))
            }

            fn validate(&self) -> Vec<Invalid> {
                odd(&self.name, self.mods.as_ref())
            }

            fn claims(&self) -> Claims {
                let item = |name: String| ManagedItem::Named("kernel module", name);
                let owned = self.key().into_iter().map(|name| Claim::new(item(name), $kind)).collect();
                let claims = Claims { owned, ..Claims::default() };
                if self.persist { claims.edits(Path::new(LIST)) } else { claims }
            }
        }
    };
}

kmod!(
    Present,
    "kmod.present",
    "kmod_present.md",
    true,
    with_names,
    "A module that is loaded.",
    "Loads it when the machine starts, too."
);
kmod!(
    Absent,
    "kmod.absent",
    "kmod_absent.md",
    false,
    without_names,
    "A module that is not loaded.",
    "Keeps it from being loaded when the machine starts, too."
);

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use zester_host::process::fake::{Scripted, command_line, exit};
    let case = |kind, params, promise| {
        Case::new(kind, params, promise, move |host| {
            furnish(host, "d /etc 0755\nd /etc/modules-load.d 0755\nd /proc 0755");
            put_text(host, "/proc/modules", "dummy 16384 0 - Live 0x0\n");
            put_text(host, LIST, "dummy\n");
            let host = Arc::downgrade(host);
            Arc::new(Scripted::new().with(move |launch| {
                let host = host.upgrade()?;
                let line = command_line(launch);
                let modules =
                    String::from_utf8(host.read(Path::new("/proc/modules"), 9999).unwrap()).unwrap();
                let left = match line.strip_prefix("modprobe -r ") {
                    Some(name) => modules
                        .lines()
                        .filter(|line| !line.starts_with(&format!("{name} ")))
                        .map(|line| format!("{line}\n"))
                        .collect(),
                    None => modules + &format!("{} 16384 0 - Live 0x0\n", line.strip_prefix("modprobe ")?),
                };
                put_text(&host, "/proc/modules", &left);
                Some(Ok(exit(0, "", "")))
            }))
        })
        .with_books(&["/proc"])
    };
    vec![
        case("kmod.present", json!({ "name": "dummy" }), Promise::Clean),
        case("kmod.present", json!({ "name": "dummy", "persist": true }), Promise::Clean),
        case("kmod.present", json!({ "name": "nf-nat", "persist": true }), Promise::Converges),
        case("kmod.present", json!({ "name": "x", "mods": ["a", "dummy"] }), Promise::Converges),
        case("kmod.absent", json!({ "name": "dummy" }), Promise::Converges),
        case("kmod.absent", json!({ "name": "dummy", "persist": true }), Promise::Converges),
        case("kmod.absent", json!({ "name": "none", "persist": true }), Promise::Clean),
    ]
}
