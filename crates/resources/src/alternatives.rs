//! `alternatives.install`, `remove`, `set` and `auto`: which of several programs a common name leads to.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::{Checking, Explanation};
use crate::params::{Absolute, Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use zester_host::process::read_tools::ALTERNATIVES;
use zester_host::{Fault, FaultKind};

/// One program that the name may lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Choice {
    priority: i64,
    /// What follows it: its manual page. By the names in `slaves` of the group.
    #[serde(deserialize_with = "present")]
    slaves: BTreeMap<String, String>,
}

/// What a revert merges says null of what is not there.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    let read: BTreeMap<String, Option<T>> = Deserialize::deserialize(deserializer)?;
    Ok(read.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// A name, and what it may lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The path that leads to the one that is chosen; empty where there is no such name.
    link: String,
    /// Links that follow, by name.
    #[serde(deserialize_with = "present")]
    slaves: BTreeMap<String, String>,
    /// The best one is chosen, not one that somebody named.
    auto: bool,
    value: Option<String>,
    #[serde(deserialize_with = "present")]
    choices: BTreeMap<String, Choice>,
}

impl Group {
    /// What `update-alternatives` makes of it by itself: the best is chosen, unless somebody chose one that is there.
    fn settled(mut self) -> Group {
        let chosen = self.value.as_ref().is_some_and(|value| self.choices.contains_key(value));
        if self.auto || !chosen {
            let best =
                self.choices.iter().max_by_key(|(path, choice)| (choice.priority, std::cmp::Reverse(*path)));
            self.value = best.map(|(path, _)| path.clone());
            self.auto = true;
        }
        if self.choices.is_empty() {
            return Group::default();
        }
        self
    }

    fn with(&self, link: &str, path: &str, priority: i64) -> Group {
        let mut group = self.clone();
        group.auto |= group.choices.is_empty();
        group.link = link.to_string();
        group.choices.entry(path.to_string()).or_default().priority = priority;
        group.settled()
    }

    fn without(&self, path: &str) -> Group {
        let mut group = self.clone();
        group.choices.remove(path);
        group.settled()
    }
}

impl State for Group {
    type Key = String;
    type How = ();

    fn item(name: &String) -> ManagedItem {
        ManagedItem::Named("alternative", name.clone())
    }

    async fn current(name: &String, cx: &Read<'_>) -> Result<Group, Fault> {
        let exit = cx.ask(ALTERNATIVES, &[name]).await?;
        match exit.code {
            Some(0) => Ok(parse(&exit.stdout.text)),
            // It says so of a name that it does not know.
            Some(2) if exit.stderr.text.contains("no alternatives for") => Ok(Group::default()),
            _ => Err(exit.failure("update-alternatives")),
        }
    }

    async fn enforce(step: &Step<'_, Group>, cx: &Write<'_, Group>) -> Result<(), Fault> {
        let Step { key: name, from, to, .. } = step;
        let tool = "update-alternatives";
        for path in from.choices.keys().filter(|path| !to.choices.contains_key(*path)) {
            cx.run(&[tool, "--remove", name, path]).await?;
        }
        for (path, choice) in
            to.choices.iter().filter(|(path, choice)| from.choices.get(*path) != Some(choice))
        {
            let priority = choice.priority.to_string();
            let mut words = vec![tool, "--install", &to.link, name, path, &priority];
            for (slave, target) in &choice.slaves {
                if let Some(link) = to.slaves.get(slave) {
                    words.extend(["--slave", link, slave, target]);
                }
            }
            cx.run(&words).await?;
        }
        let now = Group::current(name, &cx.read()).await?;
        match &to.value {
            _ if to.choices.is_empty() => {}
            _ if to.auto && !now.auto => drop(cx.run(&[tool, "--auto", name]).await?),
            Some(value) if !to.auto && (now.auto || now.value.as_ref() != Some(value)) => {
                cx.run(&[tool, "--set", name, value]).await?;
            }
            _ => {}
        }
        Ok(())
    }

    fn describe(step: &Step<'_, Group>, _done: bool) -> Explanation {
        let Step { key: name, from, to, .. } = step;
        let mut told = Explanation::default();
        for path in from.choices.keys().filter(|path| !to.choices.contains_key(*path)) {
            told.diff.push_str(&format!("{name}: {path} no longer offered\n"));
        }
        for (path, choice) in
            to.choices.iter().filter(|(path, choice)| from.choices.get(*path) != Some(choice))
        {
            told.diff.push_str(&format!("{name}: {path} offered with priority {}\n", choice.priority));
        }
        let shown = |group: &Group| match &group.value {
            Some(value) if group.auto => format!("{value}, the best"),
            Some(value) => value.clone(),
            None => "nothing".to_string(),
        };
        if shown(from) != shown(to) {
            told.diff.push_str(&format!("{name}: {} → {}\n", shown(from), shown(to)));
        }
        told.details.insert("alternative".into(), json!({ "old": from.value, "new": to.value }));
        told
    }

    /// Programs come and go one at a time.
    fn is_between(&self, before: &Group, after: &Group) -> bool {
        let known = |path: &String| before.choices.contains_key(path) || after.choices.contains_key(path);
        self.choices.keys().all(known)
    }
}

/// `update-alternatives --query`: a paragraph of the name, then one of each program.
fn parse(text: &str) -> Group {
    let mut group = Group::default();
    for (place, paragraph) in text.split("\n\n").enumerate() {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let slaves = paragraph.lines().filter_map(|line| line.strip_prefix(' ')?.split_once(' '));
        let slaves = slaves.map(|(name, path)| (name.to_string(), path.to_string())).collect();
        if place == 0 {
            group.link = field("Link:").unwrap_or_default().to_string();
            group.auto = field("Status:") == Some("auto");
            group.value = field("Value:").filter(|value| *value != "none").map(str::to_string);
            group.slaves = slaves;
        } else if let Some(path) = field("Alternative:") {
            let priority = field("Priority:").and_then(|number| number.parse().ok()).unwrap_or_default();
            group.choices.insert(path.to_string(), Choice { priority, slaves });
        }
    }
    group
}

/// It goes onto a command line.
fn refuse_odd_name(name: &str) -> Vec<Invalid> {
    let plain = name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-._".contains(letter));
    if plain {
        Vec::new()
    } else {
        vec![Invalid::new("name", format!("`{name}` cannot name an alternative"))]
    }
}

/// A program that a common name may lead to.
#[params(kind = "alternatives.install", primary = "name", manual = "alternatives_install.md")]
pub struct Install {
    /// The common name: `editor`.
    name: String,
    /// The path that leads to whatever is chosen: `/usr/bin/editor`.
    link: Absolute,
    /// The program.
    path: Absolute,
    /// The one with the highest is chosen, unless somebody chose another.
    priority: i64,
}

/// A program that a common name does not lead to.
#[params(kind = "alternatives.remove", primary = "name", manual = "alternatives_remove.md")]
pub struct Remove {
    /// The common name: `editor`.
    name: String,
    /// The program.
    path: Absolute,
}

/// The program that a common name leads to.
#[params(kind = "alternatives.set", primary = "name", manual = "alternatives_set.md")]
pub struct Set {
    /// The common name: `editor`.
    name: String,
    /// The program.
    path: Absolute,
}

/// A common name that leads to the best program.
#[params(kind = "alternatives.auto", primary = "name", manual = "alternatives_auto.md")]
pub struct Auto {
    /// The common name: `editor`.
    name: String,
}

fn text(path: &Absolute) -> String {
    path.0.display().to_string()
}

fn claim(name: &str) -> Claim {
    Claim::about(ManagedItem::Named("alternative", name.to_string()))
}

impl Resource for Install {
    type State = Group;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &Group, _: &Checking<'_>) -> Result<Want<Group>, Fault> {
        let (link, path) = (text(&self.link), text(&self.path));
        let there = now.choices.get(&path).is_some_and(|choice| choice.priority == self.priority);
        Ok(if there && now.link == link {
            Want::Same
        } else {
            Want::Be(now.with(&link, &path, self.priority))
        })
    }

    fn validate(&self) -> Vec<Invalid> {
        refuse_odd_name(&self.name)
    }

    fn claims(&self) -> Claims {
        Claims::of(claim(&self.name)).needs([self.path.0.as_path()]).holds([self.link.0.as_path()])
    }
}

impl Resource for Remove {
    type State = Group;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &Group, _: &Checking<'_>) -> Result<Want<Group>, Fault> {
        let path = text(&self.path);
        Ok(if now.choices.contains_key(&path) { Want::Be(now.without(&path)) } else { Want::Same })
    }

    fn validate(&self) -> Vec<Invalid> {
        refuse_odd_name(&self.name)
    }

    fn claims(&self) -> Claims {
        Claims::of(claim(&self.name))
    }
}

impl Resource for Set {
    type State = Group;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &Group, _: &Checking<'_>) -> Result<Want<Group>, Fault> {
        let path = text(&self.path);
        if !now.choices.contains_key(&path) {
            let message = format!("{path} is none of the alternatives of {}", self.name);
            return Err(Fault::new(FaultKind::NotFound, message).hint("alternatives.install makes it one"));
        }
        Ok(Want::Be(Group { auto: false, value: Some(path), ..now.clone() }))
    }

    fn validate(&self) -> Vec<Invalid> {
        refuse_odd_name(&self.name)
    }

    fn claims(&self) -> Claims {
        Claims::of(claim(&self.name).with("chosen", Some(text(&self.path)))).holds([self.path.0.as_path()])
    }
}

impl Resource for Auto {
    type State = Group;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &Group, _: &Checking<'_>) -> Result<Want<Group>, Fault> {
        if now.choices.is_empty() {
            let message = format!("there are no alternatives of {}", self.name);
            return Err(Fault::new(FaultKind::NotFound, message).hint("alternatives.install makes one"));
        }
        Ok(Want::Be(Group { auto: true, ..now.clone() }.settled()))
    }

    fn validate(&self) -> Vec<Invalid> {
        refuse_odd_name(&self.name)
    }

    fn claims(&self) -> Claims {
        Claims::of(claim(&self.name).with("chosen", Some("auto")))
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::cases;
