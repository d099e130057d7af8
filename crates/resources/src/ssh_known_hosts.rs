//! `ssh_known_hosts.present`, `ssh_known_hosts.absent`: keys by which hosts are known.

use crate::authorized_keys::{UserFile, file_of, is_key, is_sort};
use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::file_change::{FileChange, FileWish};
use crate::file_resource::FileResource;
use crate::params::{Invalid, Mode, params};
use std::path::{Path, PathBuf};
use zester_host::{Fault, FaultKind};

/// For everybody, and for one.
const OF_ALL: &str = "/etc/ssh/ssh_known_hosts";
const OF_USER: &str = ".ssh/known_hosts";

/// One line: the hosts that a key is of. Marked (`@revoked`) and hashed ones are nobody's to change.
fn parts(line: &str) -> Option<(Vec<&str>, &str, &str)> {
    let mut words = line.split_whitespace();
    let hosts = words.next().filter(|first| !first.starts_with(['#', '@', '|']))?;
    let (enc, key) = (words.next()?, words.next()?);
    is_sort(enc).then(|| (hosts.split(',').collect(), enc, key))
}

/// How a host stands in the file: with its port, where that is not the usual one.
fn host_name(name: &str, port: Option<u16>) -> String {
    match port {
        None | Some(22) => name.to_string(),
        Some(port) => format!("[{name}]:{port}"),
    }
}

fn find(
    (user, config): (Option<&str>, Option<&str>),
    edit: &dyn Fn(&[String]) -> Vec<String>,
    cx: &Checking<'_>,
) -> Result<Option<FileChange>, Fault> {
    let (path, group): (PathBuf, Option<String>) = match (user, config) {
        (Some(user), config) => {
            let UserFile { path, group } = file_of(user, config.unwrap_or(OF_USER), cx)?;
            (path, Some(group))
        }
        (None, config) => (config.unwrap_or(OF_ALL).into(), None),
    };
    let content = |old: Option<&[u8]>| {
        let text = std::str::from_utf8(old.unwrap_or_default()).map_err(|_| {
            Fault::new(FaultKind::Unsupported, format!("{} is not UTF-8 text", path.display()))
        })?;
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        let edited = edit(&lines);
        let text: String = edited.iter().map(|line| line.clone() + "\n").collect();
        Ok((edited != lines).then(|| text.into_bytes().into()))
    };
    let is_new = cx.host.stat_followed(&path)?.is_none();
    let wish = FileWish {
        edits: true,
        makedirs: true,
        user: user.filter(|_| is_new),
        group: group.as_deref().filter(|_| is_new),
        dir_mode: user.map(|_| Mode(0o700)),
        ..FileWish::new(&path, &content)
    };
    wish.find(cx)
}

fn invalid_file(user: Option<&str>, config: Option<&str>) -> Option<Invalid> {
    let odd = user.is_none() && config.is_some_and(|config| !config.starts_with('/'));
    odd.then(|| Invalid::new("config", "without a `user` it is a path from the root"))
}

fn claims_of(claims: Claims, user: Option<&str>, config: Option<&str>) -> Claims {
    let file = match user {
        Some(user) => Path::new("/home").join(user).join(config.unwrap_or(OF_USER)),
        None => PathBuf::from(config.unwrap_or(OF_ALL)),
    };
    claims.edits(&file).accounts(user, None)
}

/// A key by which a host is known.
#[params(kind = "ssh_known_hosts.present", primary = "name", manual = "ssh_known_hosts_present.md")]
pub struct Present {
    /// The host.
    name: String,
    /// Its key: the line of its `.pub` file, or the body alone.
    key: String,
    /// The sort of the key, where `key` does not say it.
    #[param(default = "ssh-ed25519".to_string())]
    enc: String,
    /// The port, where it is not the usual one.
    port: Option<u16>,
    /// To whom it is known. Unset: to everybody.
    user: Option<String>,
    /// The file, below the home of the user.
    config: Option<String>,
    /// Only `false`: names are written as they are.
    #[param(default)]
    hash_known_hosts: bool,
}

impl Present {
    /// The sort and the body of the key.
    fn key(&self) -> (String, String) {
        let words: Vec<&str> = self.key.split_whitespace().collect();
        match words.as_slice() {
            [enc, key, ..] if is_sort(enc) => ((*enc).to_string(), (*key).to_string()),
            [key, ..] => (self.enc.clone(), (*key).to_string()),
            [] => (self.enc.clone(), String::new()),
        }
    }
}

impl FileResource for Present {
    type Drift = FileChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        let (host, (enc, key)) = (host_name(&self.name, self.port), self.key());
        let edit = |lines: &[String]| {
            let is_it = |line: &String| {
                parts(line).is_some_and(|(hosts, own, _)| own == enc && hosts.contains(&host.as_str()))
            };
            let mut lines = lines.to_vec();
            match lines.iter_mut().find(|line| is_it(line)) {
                Some(line) if parts(line).is_some_and(|(_, _, own)| own == key) => {}
                Some(line) => {
                    let hosts = line.split_whitespace().next().unwrap_or(&host).to_string();
                    *line = format!("{hosts} {enc} {key}");
                }
                None => lines.push(format!("{host} {enc} {key}")),
            }
            lines
        };
        find((self.user.as_deref(), self.config.as_deref()), &edit, cx)
    }

    fn validate(&self) -> Vec<Invalid> {
        let (enc, key) = self.key();
        let mut invalid: Vec<Invalid> =
            invalid_file(self.user.as_deref(), self.config.as_deref()).into_iter().collect();
        if !is_sort(&enc) || !is_key(&key) {
            let mut odd = Invalid::new("key", "it is no public key");
            odd.hint = Some(
                "`ssh-keyscan HOST` prints the keys of a host: compare them with what its owner says".into(),
            );
            invalid.push(odd);
        }
        if self.hash_known_hosts {
            invalid.push(Invalid::new(
                "hash_known_hosts",
                "names are written as they are; `ssh-keygen -H` hashes a file",
            ));
        }
        if self.name.is_empty() || self.name.contains(char::is_whitespace) {
            invalid.push(Invalid::new("name", format!("`{}` cannot name a host", self.name)));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let (enc, key) = self.key();
        let item = ManagedItem::Named("known host", format!("{} ({enc})", host_name(&self.name, self.port)));
        let claim = Claim::new(item, "present").with("key", Some(key));
        claims_of(Claims::of(claim), self.user.as_deref(), self.config.as_deref())
    }
}

/// A host that is not known.
#[params(kind = "ssh_known_hosts.absent", primary = "name", manual = "ssh_known_hosts_absent.md")]
pub struct Absent {
    /// The host.
    name: String,
    /// The port, where it is not the usual one.
    port: Option<u16>,
    /// To whom it was known. Unset: to everybody.
    user: Option<String>,
    /// The file, below the home of the user.
    config: Option<String>,
}

impl FileResource for Absent {
    type Drift = FileChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        if let Some(user) = &self.user
            && cx.host.user(user)?.is_none()
        {
            return Ok(None);
        }
        let host = host_name(&self.name, self.port);
        let left = |line: &String| match parts(line) {
            Some((hosts, enc, key)) if hosts.contains(&host.as_str()) => {
                let others: Vec<&str> = hosts.into_iter().filter(|own| *own != host).collect();
                (!others.is_empty()).then(|| format!("{} {enc} {key}", others.join(",")))
            }
            _ => Some(line.clone()),
        };
        let edit = |lines: &[String]| -> Vec<String> { lines.iter().filter_map(left).collect() };
        find((self.user.as_deref(), self.config.as_deref()), &edit, cx)
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid_file(self.user.as_deref(), self.config.as_deref()).into_iter().collect()
    }

    fn claims(&self) -> Claims {
        claims_of(Claims::default(), self.user.as_deref(), self.config.as_deref())
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use serde_json::json;
    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIA";
    const KNOWN: &str = "# known\n|1|hashed= ssh-rsa AAAAB3NzaC1yc2EAAAAD\nweb,10.0.0.1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA\n";
    let case = |kind, params, promise, known: &'static str| {
        Case::new(kind, params, promise, move |host| {
            let processes = furnish(host, "d /etc 0755\nd /etc/ssh 0755\nd /srv 0755");
            if !known.is_empty() {
                put_text(host, OF_ALL, known);
            }
            processes
        })
    };
    vec![
        case("ssh_known_hosts.present", json!({ "name": "web", "key": KEY }), Promise::Converges, ""),
        case("ssh_known_hosts.present", json!({ "name": "web", "key": KEY }), Promise::Clean, KNOWN),
        case(
            "ssh_known_hosts.present",
            json!({ "name": "web", "key": "AAAAC3NzaC1lZDI1NTE5AAAAIB" }),
            Promise::Converges,
            KNOWN,
        ),
        case(
            "ssh_known_hosts.present",
            json!({ "name": "web", "key": KEY, "port": 2222 }),
            Promise::Converges,
            KNOWN,
        ),
        case(
            "ssh_known_hosts.present",
            json!({ "name": "web", "key": KEY, "user": "web" }),
            Promise::Converges,
            "",
        ),
        case("ssh_known_hosts.absent", json!({ "name": "web" }), Promise::Converges, KNOWN),
        case("ssh_known_hosts.absent", json!({ "name": "db" }), Promise::Clean, KNOWN),
    ]
}
