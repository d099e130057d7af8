//! The packages of one python environment: read and changed by its own `pip`.

use super::requirement::plain_name;
use crate::claims::ManagedItem;
use crate::context::Explanation;
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;
use zester_host::{Fault, FaultKind, Launch, Question};

/// What stands for the version of a package that pip is to choose.
pub(super) const NEWEST: &str = "newest";
/// How long an installation may take: some packages are compiled.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(3600);

/// Whose packages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// Its `pip`.
    pub(super) pip: String,
    /// Who runs it.
    pub(super) user: Option<String>,
    /// Where packages come from: what a revert needs too.
    pub(super) index: Vec<String>,
}

/// All packages of an environment with their versions. None: not there, which only a revert says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Packages(pub(super) BTreeMap<String, Option<String>>);

/// How packages are installed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Install {
    /// Requirements as they are written, by the package that each is about.
    pub(super) wanted: BTreeMap<String, Vec<String>>,
    pub(super) words: Vec<String>,
    pub(super) cwd: Option<std::path::PathBuf>,
    pub(super) environment: Vec<(String, String)>,
}

impl Environment {
    async fn ask(&self, words: &[&str], cx: &Read<'_>) -> Result<Vec<Json>, Fault> {
        let all: Vec<String> = words.iter().map(ToString::to_string).collect();
        let question = Question::Pip { program: &self.pip, user: self.user.as_deref(), words: &all };
        let exit = cx.query.ask(question, cx.cancel).await.map_err(|fault| match fault.kind {
            FaultKind::NotFound => {
                fault.hint("install it first (`python3-pip`), or name the virtual environment in `bin_env`")
            }
            _ => fault,
        })?;
        if exit.code != Some(0) {
            return Err(exit.failure(&format!("`{} list`", self.pip)));
        }
        serde_json::from_str(exit.stdout.text.trim()).map_err(|error| {
            let message = format!("`{} list` did not answer in JSON: {error}", self.pip);
            Fault::new(FaultKind::Unsupported, message).hint("pip 9 or newer can")
        })
    }

    /// Those of which there is a newer version.
    pub(super) async fn outdated(&self, cx: &Read<'_>) -> Result<BTreeMap<String, String>, Fault> {
        let mut words = vec!["--outdated"];
        words.extend(self.index.iter().map(String::as_str));
        let told = self.ask(&words, cx).await?;
        Ok(told.iter().filter_map(|entry| Some((name_of(entry)?, text(entry, "latest_version")?))).collect())
    }

    async fn tell<S>(&self, words: Vec<String>, how: &Install, cx: &Write<'_, S>) -> Result<String, Fault> {
        let mut launch = Launch::argv(std::iter::once(self.pip.clone()).chain(words));
        launch.user = self.user.clone();
        launch.cwd = how.cwd.clone();
        launch.environment = how.environment.clone();
        launch.timeout = Some(INSTALL_TIMEOUT);
        cx.launch(launch).await.map(|exit| exit.stdout.text).map_err(|fault| {
            match fault.message.contains("externally-managed-environment") {
                true => Fault::new(
                    FaultKind::Denied,
                    format!("{} is managed by the packages of the system", self.pip),
                )
                .hint(
                    "name a virtual environment in `bin_env`, or say `extra_args: --break-system-packages`",
                ),
                false => fault,
            }
        })
    }
}

fn text(entry: &Json, key: &str) -> Option<String> {
    entry.get(key)?.as_str().map(str::to_string)
}

fn name_of(entry: &Json) -> Option<String> {
    text(entry, "name").map(|name| plain_name(&name))
}

impl State for Packages {
    type Key = Environment;
    type How = Install;

    fn item(key: &Environment) -> ManagedItem {
        ManagedItem::Named("python packages of", key.pip.clone())
    }

    async fn current(key: &Environment, cx: &Read<'_>) -> Result<Packages, Fault> {
        let told = key.ask(&[], cx).await?;
        Ok(Packages(
            told.iter().filter_map(|entry| Some((name_of(entry)?, text(entry, "version")))).collect(),
        ))
    }

    async fn enforce(step: &Step<'_, Packages>, cx: &Write<'_, Packages>) -> Result<(), Fault> {
        let told = change(step, cx).await;
        // Others may have come along, and the versions are what pip chose: it tells both at its end.
        match told.as_deref().map(came) {
            Ok(came) if !came.is_empty() => {
                let mut reached = step.to.clone();
                reached.0.extend(came.into_iter().map(|(name, version)| (name, Some(version))));
                cx.reached(reached);
            }
            Ok(_) if step.to.0.values().flatten().all(|version| version != NEWEST) => {}
            Err(_) if !cx.processes.begun() => {}
            _ => cx.reached(Packages::current(step.key, &cx.read()).await.map_err(Fault::touched)?),
        }
        told.map(drop)
    }

    fn describe(step: &Step<'_, Packages>, _: bool) -> Explanation {
        let mut told = Explanation::default();
        for (name, old, new) in differing(step) {
            let word = |version: Option<&String>| version.map_or("none".to_string(), Clone::clone);
            told.diff.push_str(&format!("{name}: {} → {}\n", word(old), word(new)));
            told.details.insert(name.clone(), json!({ "old": old, "new": new }));
        }
        if told.diff.is_empty() && step.acts {
            let names: Vec<&str> = step.how.wanted.keys().map(String::as_str).collect();
            told.diff = format!("{}: installed again\n", names.join(", "));
        }
        told
    }

    /// Whatever pip chose in place of the newest, and what it got to.
    fn is_between(&self, before: &Packages, after: &Packages) -> bool {
        let at = |state: &Packages, name: &String| state.0.get(name).cloned().flatten();
        after.0.keys().chain(before.0.keys()).all(|name| {
            let (own, old, new) = (at(self, name), at(before, name), at(after, name));
            own == old || own == new || new.as_deref() == Some(NEWEST)
        })
    }
}

/// What pip says at its end: `Successfully installed a-1.5 b-2.0`.
fn came(told: &str) -> Vec<(String, String)> {
    let line = told.lines().rev().find_map(|line| line.trim().strip_prefix("Successfully installed "));
    let one =
        |word: &str| word.rsplit_once('-').map(|(name, version)| (plain_name(name), version.to_string()));
    line.into_iter().flat_map(str::split_whitespace).filter_map(one).collect()
}

/// Packages whose versions differ, with the old one and the new.
fn differing<'a>(step: &Step<'a, Packages>) -> Vec<(&'a String, Option<&'a String>, Option<&'a String>)> {
    let (from, to) = (&step.from.0, &step.to.0);
    let names = from.keys().chain(to.keys().filter(|name| !from.contains_key(*name)));
    let at = |map: &'a BTreeMap<String, Option<String>>, name| map.get(name).and_then(Option::as_ref);
    names.map(|name| (name, at(from, name), at(to, name))).filter(|(_, old, new)| old != new).collect()
}

/// What pip said of the packages that it installed.
async fn change(step: &Step<'_, Packages>, cx: &Write<'_, Packages>) -> Result<String, Fault> {
    let Step { key, how, .. } = step;
    let differing = differing(step);
    let gone: Vec<String> =
        differing.iter().filter(|(_, _, new)| new.is_none()).map(|(name, ..)| name.to_string()).collect();
    if !gone.is_empty() {
        let words = ["uninstall", "--yes", "--disable-pip-version-check", "--"].map(String::from);
        key.tell(words.into_iter().chain(gone).collect(), how, cx).await?;
    }
    let mut wanted: Vec<String> = how.wanted.values().flatten().cloned().collect();
    let mut own = how.words.clone();
    if wanted.is_empty() {
        // A revert: these very versions, and nothing along with them.
        let back = differing.iter().filter_map(|(name, _, new)| new.map(|new| format!("{name}=={new}")));
        wanted.extend(back);
        own.push("--no-deps".to_string());
    }
    if wanted.is_empty() {
        return Ok(String::new());
    }
    let words = ["install", "--no-input", "--disable-pip-version-check"].map(String::from);
    let words = words.into_iter().chain(key.index.iter().cloned()).chain(own).chain(wanted);
    key.tell(words.collect(), how, cx).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What pip 23.0.1 printed.
    #[test]
    fn pip_tells_what_came_along() {
        let told = "Looking in links: wheels\nProcessing ./wheels/zestb-2.0-py3-none-any.whl\nInstalling collected packages: zesta, zestb\n\
            Successfully installed Zest_A-1.5 zestb-2.0.post1\n";
        assert_eq!(came(told), [("zest-a".into(), "1.5".into()), ("zestb".into(), "2.0.post1".into())]);
        assert!(came("Requirement already satisfied: zesta in ./env\n").is_empty());
    }
}
