//! The public keys of peels: as they publish them, as groups name them, as they are typed.

use crate::answer::Failure;
use crate::app::App;
use crate::connection::Connect;
use crate::fleet::watching::client_failure;
use std::collections::BTreeMap;
use std::path::Path;
use zester_converge::{Error, inputs};
use zester_model::target::{Subject, Target};
use zester_peel::work::PUBLIC_KEY;
use zester_secret::PublicKey;

/// Said whenever a key is used that was published where nobody signs: nobody vouches for it.
const ON_TRUST: &str = "the keys are what the peels published, unsigned: they are taken on trust (compare `zester secret key` there)";

/// Who published which key.
pub struct Published {
    keys: BTreeMap<String, Option<PublicKey>>,
    facts: BTreeMap<String, serde_json::Value>,
    /// Each by the peel itself, with its key of the fleet.
    are_signed: bool,
}

impl Published {
    /// Nobody was asked.
    pub fn none() -> Published {
        Published { keys: BTreeMap::new(), facts: BTreeMap::new(), are_signed: false }
    }

    pub fn is_none(&self) -> bool {
        self.keys.is_empty()
    }

    /// Asks the fleet.
    pub fn read(app: &App, connect: &Connect) -> Result<Published, Failure> {
        let (peels, are_signed) = app.block_on(async {
            let client = connect.client(app).await?;
            let peels = client.peels().await.map_err(client_failure)?;
            Ok((peels, client.link().trust().is_some()))
        })?;
        let mut published = Published { are_signed, ..Published::none() };
        for peel in peels {
            let text = peel.facts.get(PUBLIC_KEY).and_then(|key| key.as_str());
            let key = text.and_then(|text| PublicKey::parse(text).ok());
            published.keys.insert(peel.id.as_str().to_string(), key);
            published.facts.insert(peel.id.as_str().to_string(), serde_json::Value::Object(peel.facts));
        }
        Ok(published)
    }

    /// What is to be said of keys that came from here.
    pub fn warning(&self) -> Option<&'static str> {
        (!self.are_signed).then_some(ON_TRUST)
    }

    pub fn key(&self, peel: &str) -> Option<&PublicKey> {
        self.keys.get(peel)?.as_ref()
    }

    /// The key of a peel, or why there is none.
    pub fn wanted(&self, peel: &str) -> Result<PublicKey, Failure> {
        match self.keys.get(peel) {
            Some(Some(key)) => Ok(key.clone()),
            Some(None) => Err(Failure::usage(format!(
                "{peel} has published no key: it is older than secrets, or has not started since; --key {peel}=KEY gives it"
            ))),
            None => Err(Failure::usage(format!(
                "no peel {peel} was ever seen; `zester peel list` shows who was, --key {peel}=KEY gives its key"
            ))),
        }
    }

    /// The peels that a target names by their ids.
    pub fn named_by(&self, target: &str) -> Result<Vec<String>, Failure> {
        let parsed = Target::parse(target).map_err(|error| Failure::usage(error.message))?;
        if !parsed.by_id_only() {
            return Err(Failure::usage(
                "secrets are sealed by id only (a glob, `E@`, `L@`): facts are what a peel says of itself",
            ));
        }
        let none = serde_json::Value::Null;
        let fits = |(id, facts): &(&String, &serde_json::Value)| {
            parsed.matches(&Subject { id, facts, settings: &none })
        };
        let found: Vec<String> = self.facts.iter().filter(fits).map(|(id, _)| id.clone()).collect();
        match found.is_empty() {
            true => Err(Failure::usage(format!("no peel matches `{target}`"))),
            false => Ok(found),
        }
    }
}

/// `NAME=KEY`, or a key alone.
pub fn typed(text: &str) -> Result<(String, PublicKey), String> {
    let (name, key) = text.split_once('=').unwrap_or(("key", text));
    PublicKey::parse(key).map(|key| (name.to_string(), key)).map_err(|why| why.to_string())
}

/// The members of a group: a YAML file of names to lists of peels.
pub fn group(file: &Path, name: &str) -> Result<Vec<String>, Failure> {
    let place = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(format!(
            "there is no {place}; it names groups as `{name}: [web-1, web-2]`, and --groups FILE names another"
        )),
        _ => Error::io("read the groups", file, error).into(),
    })?;
    let groups = inputs::yaml(&text).map_err(|why| Failure::usage(format!("{place}: {why}")))?;
    let members = groups.get(name).ok_or_else(|| Failure::usage(format!("{place} has no group `{name}`")))?;
    let members =
        members.as_array().map(|members| members.iter().map(|one| one.as_str().map(str::to_string)));
    let members: Option<Vec<String>> = members.and_then(Iterator::collect);
    match members {
        Some(members) if !members.is_empty() => Ok(members),
        _ => Err(Failure::usage(format!("{place}: the group `{name}` is no list of peels"))),
    }
}
