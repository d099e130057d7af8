//! `git.config_set`, `git.config_unset`: what git is told in its configuration.

use crate::accounts;
use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Absolute, Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write};
use crate::text::pattern::{Flags, Pattern};
use crate::tree;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::process::read_tools::GIT_CONFIG_GET;
use zester_host::{Fault, FaultKind, HostRead, Launch};

/// The file for all users of a machine.
const SYSTEM: &str = "/etc/gitconfig";

/// Whose configuration, and what of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    place: Place,
    /// `user.name`
    name: String,
    /// Who writes the file, and so owns it.
    user: Option<String>,
}

/// Where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    /// The file of a repository.
    Repository(PathBuf),
    /// The file of a user, by name; none is whoever runs.
    User(Option<String>),
    System,
}

impl Place {
    fn words(&self) -> String {
        match self {
            Place::Repository(path) => path.display().to_string(),
            Place::User(Some(user)) => format!("of the user {user}"),
            Place::User(None) => "of its user".to_string(),
            Place::System => "of the system".to_string(),
        }
    }

    /// The file itself, behind links that may be followed: git follows any, and whoever owns a repository must not lead root
    /// to the file of another.
    fn real_file(&self, host: &dyn HostRead) -> Result<PathBuf, Fault> {
        tree::behind_links(host, &tree::resolve_again(host, &self.file(host)?)?)
    }

    /// That there is no repository, or nobody of that name, is a fault.
    fn file(&self, host: &dyn HostRead) -> Result<PathBuf, Fault> {
        match self {
            Place::System => Ok(SYSTEM.into()),
            Place::User(name) => {
                let name = match name.as_deref() {
                    Some(name) => name,
                    None if host.me().uid == 0 => "root",
                    None => {
                        let message = "whose configuration it is only root need not say";
                        return Err(Fault::new(FaultKind::Unsupported, message).hint("name the `user`"));
                    }
                };
                let user = host.user(name)?.ok_or_else(|| accounts::nobody(name))?;
                Ok(user.home.join(".gitconfig"))
            }
            Place::Repository(path) => {
                let inside = path.join(".git");
                let places = [inside.join("config"), path.join("config")];
                let found = places.into_iter().zip([inside.join("HEAD"), path.join("HEAD")]);
                for (config, head) in found {
                    if host.stat_followed(&head)?.is_some() {
                        return Ok(config);
                    }
                }
                let message = format!("{} is no git repository", path.display());
                Err(Fault::new(FaultKind::NotFound, message)
                    .hint("a `git.cloned` or `git.latest` state makes one"))
            }
        }
    }
}

/// The values that a name has, in their order; one may have several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Values {
    values: Vec<String>,
}

impl State for Values {
    type Key = Entry;
    type How = ();

    fn item(key: &Entry) -> ManagedItem {
        ManagedItem::Named("git configuration", format!("{} ({})", key.name, key.place.words()))
    }

    async fn current(key: &Entry, cx: &Read<'_>) -> Result<Values, Fault> {
        let file = key.place.real_file(cx.host)?;
        if cx.host.stat_followed(&file)?.is_none() {
            return Ok(Values::default());
        }
        let path = file.display().to_string();
        let exit = cx.ask_for_text("what git is told", GIT_CONFIG_GET, &["--file", &path, &key.name]).await?;
        match exit.code {
            Some(0) => {
                let values = exit.stdout.text.split_terminator('\0').map(str::to_string).collect();
                Ok(Values { values })
            }
            // Nothing of that name.
            Some(1) => Ok(Values::default()),
            _ => Err(exit.failure(&format!("`git config --get-all {}`", key.name))),
        }
    }

    async fn enforce(step: &Step<'_, Values>, cx: &Write<'_, Values>) -> Result<(), Fault> {
        let Step { key, from, to, .. } = step;
        let path = key.place.real_file(cx.host)?.display().to_string();
        let tell = async |words: &[&str]| {
            let head = ["git", "config", "--file", path.as_str()];
            let mut launch = Launch::argv(head.iter().chain(words).map(ToString::to_string));
            launch.user = key.user.clone();
            cx.launch(launch).await.map(drop)
        };
        match to.values.as_slice() {
            [] if from.values.is_empty() => Ok(()),
            [] => tell(&["--unset-all", &key.name]).await,
            [first, others @ ..] => {
                tell(&["--replace-all", &key.name, first]).await?;
                for value in others {
                    tell(&["--add", &key.name, value]).await?;
                }
                Ok(())
            }
        }
    }

    /// Several values come one at a time.
    fn is_between(&self, _: &Values, after: &Values) -> bool {
        !self.values.is_empty() && after.values.starts_with(&self.values)
    }
}

/// What git is told in its configuration.
#[params(kind = "git.config_set", primary = "name", manual = "git_config_set.md")]
pub struct Set {
    /// What is set: `user.name`, `remote.origin.url`.
    name: String,
    /// Its value.
    value: Option<String>,
    /// Several values, in this order and no others.
    #[param(list)]
    multivar: Option<Vec<String>>,
    /// The repository whose configuration it is.
    repo: Option<Absolute>,
    /// The configuration of `user`, or of whoever runs this, not of a repository.
    #[param(default)]
    global: bool,
    /// The configuration of all users of the machine.
    #[param(default)]
    system: bool,
    /// Whose configuration it is with `global`, and who writes the file.
    user: Option<String>,
}

/// What git is not told in its configuration.
#[params(kind = "git.config_unset", primary = "name", manual = "git_config_unset.md")]
pub struct Unset {
    /// What is not set: `user.name`, `remote.origin.url`.
    name: String,
    /// Only values that this pattern is found in.
    value_regex: Option<String>,
    /// Also where it has several values; without it, that is an error.
    #[param(default)]
    all: bool,
    /// The repository whose configuration it is.
    repo: Option<Absolute>,
    /// The configuration of `user`, or of whoever runs this, not of a repository.
    #[param(default)]
    global: bool,
    /// The configuration of all users of the machine.
    #[param(default)]
    system: bool,
    /// Whose configuration it is with `global`, and who writes the file.
    user: Option<String>,
}

fn entry(name: &str, repo: Option<&Path>, system: bool, user: Option<&str>) -> Entry {
    let user = user.map(str::to_string);
    let place = match repo {
        Some(path) => Place::Repository(path.to_path_buf()),
        None if system => Place::System,
        None => Place::User(user.clone()),
    };
    Entry { place, name: name.to_string(), user }
}

/// A section, perhaps something in it, and a name of letters.
fn invalid_name(name: &str) -> Option<Invalid> {
    let plain = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    let (section, last) =
        (name.split('.').next().unwrap_or_default(), name.rsplit('.').next().unwrap_or_default());
    let well = name.contains('.')
        && !section.is_empty()
        && !section.starts_with('-')
        && plain(section)
        && last.starts_with(|first: char| first.is_ascii_alphabetic())
        && plain(last)
        && !name.contains(['\n', '\0']);
    (!well).then(|| Invalid {
        hint: Some("write it like `user.name` or `remote.origin.url`".to_string()),
        ..Invalid::new("name", format!("`{name}` cannot be a name in a git configuration"))
    })
}

fn invalid_place(repo: bool, global: bool, system: bool) -> Option<Invalid> {
    match [repo, global, system].iter().filter(|said| **said).count() {
        1 => None,
        0 => Some(Invalid::new(
            "repo",
            "whose configuration? name a `repo`, or say `global: true` or `system: true`",
        )),
        _ => Some(Invalid::new("repo", "only one of `repo`, `global` and `system` can be meant")),
    }
}

fn claims_of(key: &Entry, claim: Claim) -> Claims {
    let claims = Claims::of(claim).accounts(key.user.as_deref(), None);
    match &key.place {
        Place::Repository(path) => claims.edits(&path.join(".git/config")),
        Place::System => claims.edits(Path::new(SYSTEM)),
        // Where that is only the account database knows; those of one user come one after the other.
        Place::User(user) => {
            claims.edits(&Path::new("/home").join(user.as_deref().unwrap_or("~")).join(".gitconfig"))
        }
    }
}

impl Set {
    fn values(&self) -> Vec<String> {
        self.multivar.clone().unwrap_or_else(|| self.value.iter().cloned().collect())
    }
}

impl Resource for Set {
    type State = Values;

    fn key(&self) -> Entry {
        entry(&self.name, self.repo.as_deref(), self.system, self.user.as_deref())
    }

    async fn desired(&self, _: &Values, _: &Checking<'_>) -> Result<Want<Values>, Fault> {
        Ok(Want::Be(Values { values: self.values() }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid: Vec<Invalid> = invalid_name(&self.name).into_iter().collect();
        invalid.extend(invalid_place(self.repo.is_some(), self.global, self.system));
        if self.value.is_some() == self.multivar.is_some() || self.values().is_empty() {
            invalid.push(Invalid::new("value", "give either `value` or `multivar`"));
        }
        if self.values().iter().any(|value| value.contains('\0')) {
            invalid.push(Invalid::new("value", "a value holds no NUL"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let key = self.key();
        let claim = Claim::new(Values::item(&key), "set").with("values", Some(self.values()));
        claims_of(&key, claim)
    }
}

impl Resource for Unset {
    type State = Values;

    fn key(&self) -> Entry {
        entry(&self.name, self.repo.as_deref(), self.system, self.user.as_deref())
    }

    async fn desired(&self, now: &Values, _: &Checking<'_>) -> Result<Want<Values>, Fault> {
        let goes = |value: &String| match &self.value_regex {
            None => Ok(true),
            Some(regex) => Pattern::new(regex, Flags::NONE).and_then(|pattern| pattern.found_in(value)),
        };
        let mut left = Vec::new();
        for value in &now.values {
            if !goes(value).map_err(|why| Fault::new(FaultKind::Unsupported, why))? {
                left.push(value.clone());
            }
        }
        if now.values.len() - left.len() > 1 && !self.all {
            let message = format!("`{}` has {} values", self.name, now.values.len());
            return Err(Fault::new(FaultKind::Unsupported, message)
                .hint("`all: true` takes them all away, `value_regex` says which"));
        }
        Ok(Want::Be(Values { values: left }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid: Vec<Invalid> = invalid_name(&self.name).into_iter().collect();
        invalid.extend(invalid_place(self.repo.is_some(), self.global, self.system));
        let odd = self.value_regex.as_ref().and_then(|regex| Pattern::new(regex, Flags::NONE).err());
        invalid.extend(odd.map(|why| Invalid::new("value_regex", why)));
        invalid
    }

    fn claims(&self) -> Claims {
        let key = self.key();
        let claim = Claim::new(Values::item(&key), "unset").with("values", self.value_regex.as_ref());
        claims_of(&key, claim)
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::cases;
