//! `ssh_auth.present`, `ssh_auth.absent`, `ssh_auth.manage`: keys that let somebody in.

use crate::authorized_keys::{AuthorizedKey, UserFile, file_of, is_key, is_sort};
use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::file_change::{FileChange, FileWish};
use crate::file_resource::FileResource;
use crate::params::{Invalid, Mode, outside_states, params};
use zester_host::{Fault, FaultKind};

/// Where keys are, unless it is said.
const CONFIG: &str = ".ssh/authorized_keys";
const FILE_MODE: Mode = Mode(0o600);
const DIRECTORY_MODE: Mode = Mode(0o700);

/// What becomes of the lines of the file.
type Edit<'a> = dyn Fn(Vec<String>) -> Vec<String> + 'a;

fn find(user: &str, config: &str, edit: &Edit<'_>, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
    let UserFile { path, group } = file_of(user, config, cx)?;
    let content = |old: Option<&[u8]>| {
        let text = std::str::from_utf8(old.unwrap_or_default()).map_err(|_| {
            Fault::new(FaultKind::Unsupported, format!("{} is not UTF-8 text", path.display()))
        })?;
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        let edited = edit(lines.clone());
        if edited == lines {
            return Ok(None);
        }
        let text: String = edited.iter().map(|line| line.clone() + "\n").collect();
        Ok(Some(text.into_bytes().into()))
    };
    // A file that is there stays whose it is.
    let is_new = cx.host.stat_followed(&path)?.is_none();
    let wish = FileWish {
        edits: true,
        makedirs: true,
        user: is_new.then_some(user),
        group: is_new.then_some(&group),
        mode: is_new.then_some(FILE_MODE),
        dir_mode: Some(DIRECTORY_MODE),
        ..FileWish::new(&path, &content)
    };
    wish.find(cx)
}

/// The key that was written, with what the parameters say about it.
fn key_of(name: &str, enc: &str, options: &[String], comment: &str) -> Option<AuthorizedKey> {
    let mut key = match AuthorizedKey::read(name) {
        Some(key) => key,
        None => AuthorizedKey::read(&format!("{enc} {name}"))?,
    };
    if !options.is_empty() {
        key.options = options.to_vec();
    }
    if !comment.is_empty() {
        key.comment = comment.to_string();
    }
    Some(key)
}

fn keys_of_file(source: &str, cx: &Checking<'_>) -> Result<Vec<AuthorizedKey>, Fault> {
    let text = String::from_utf8(cx.files.read(source)?).unwrap_or_default();
    let keys: Vec<AuthorizedKey> = text.lines().filter_map(AuthorizedKey::read).collect();
    match keys.is_empty() {
        true => Err(Fault::new(FaultKind::Unsupported, format!("there is no key in {source}"))),
        false => Ok(keys),
    }
}

/// Each key on its own line, in place of a line that has the same key.
fn with_keys(lines: Vec<String>, keys: &[AuthorizedKey]) -> Vec<String> {
    keys.iter().fold(lines, |mut lines, key| {
        let same = |line: &String| AuthorizedKey::read(line).is_some_and(|own| own.key == key.key);
        match lines.iter_mut().find(|line| same(line)) {
            Some(line) if AuthorizedKey::read(line).as_ref() == Some(key) => {}
            Some(line) => *line = key.written(),
            None => lines.push(key.written()),
        }
        lines
    })
}

fn without_keys(mut lines: Vec<String>, keys: &[AuthorizedKey]) -> Vec<String> {
    lines.retain(|line| {
        !AuthorizedKey::read(line).is_some_and(|own| keys.iter().any(|key| key.key == own.key))
    });
    lines
}

fn invalid_key(name: &str, enc: &str, source: Option<&str>) -> Vec<Invalid> {
    let mut invalid = Vec::new();
    if !is_sort(enc) {
        invalid.push(Invalid::new(
            "enc",
            format!("`{enc}` is no sort of key; write `ssh-ed25519` or `ssh-rsa`"),
        ));
    }
    match source {
        Some(source) => invalid.extend(outside_states(source).map(|why| Invalid::new("source", why))),
        None if AuthorizedKey::read(name).is_none() && !is_key(name) => {
            let mut odd = Invalid::new("name", "it is no public key");
            odd.hint = Some("write the line of a `.pub` file, or its second word with `enc`".into());
            invalid.push(odd);
        }
        None => {}
    }
    invalid
}

/// A key that is known by its body, whatever stands around it.
fn claim_of(user: &str, key: Option<&AuthorizedKey>, is: &'static str) -> Claims {
    match key {
        Some(key) => {
            let item = ManagedItem::Named(
                "key",
                format!("{}… of {user}", key.key.chars().rev().take(12).collect::<String>()),
            );
            Claims::of(Claim::new(item, is).with("options", (is == "present").then_some(&key.options)))
        }
        None => Claims::default(),
    }
}

/// All states about one file of keys come one after the other.
fn claims_of(claims: Claims, user: &str, config: &str) -> Claims {
    let file = std::path::Path::new("/").join("home").join(user).join(config);
    claims.edits(&file).accounts(Some(user), None)
}

/// A key that lets somebody in.
#[params(kind = "ssh_auth.present", primary = "name", manual = "ssh_auth_present.md")]
pub struct Present {
    /// The key: a line as `.pub` files have it, or its second word.
    name: String,
    /// Whom it lets in.
    user: String,
    /// The sort of the key, where `name` does not say it.
    #[param(default = "ssh-rsa".to_string())]
    enc: String,
    /// What is to stand behind it.
    #[param(default)]
    comment: String,
    /// A file with keys, in place of `name`.
    source: Option<String>,
    /// What stands before it: `no-pty`, `from="10.0.0.1"`.
    #[param(list, default)]
    options: Vec<String>,
    /// The file of keys, below the home of the user.
    #[param(default = CONFIG.to_string())]
    config: String,
}

impl Present {
    fn key(&self) -> Option<AuthorizedKey> {
        key_of(&self.name, &self.enc, &self.options, &self.comment)
    }
}

impl FileResource for Present {
    type Drift = FileChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        let mut keys = match &self.source {
            Some(source) => keys_of_file(source, cx)?,
            None => self.key().into_iter().collect(),
        };
        if self.source.is_some() && !self.options.is_empty() {
            keys.iter_mut().for_each(|key| key.options.clone_from(&self.options));
        }
        find(&self.user, &self.config, &|lines| with_keys(lines, &keys), cx)
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid_key(&self.name, &self.enc, self.source.as_deref())
    }

    fn claims(&self) -> Claims {
        let key = self.key().filter(|_| self.source.is_none());
        claims_of(claim_of(&self.user, key.as_ref(), "present"), &self.user, &self.config)
    }
}

/// A key that lets nobody in.
#[params(kind = "ssh_auth.absent", primary = "name", manual = "ssh_auth_absent.md")]
pub struct Absent {
    /// The key: a line as `.pub` files have it, or its second word.
    name: String,
    /// Whom it let in.
    user: String,
    /// The sort of the key, where `name` does not say it.
    #[param(default = "ssh-rsa".to_string())]
    enc: String,
    /// A file with keys, in place of `name`.
    source: Option<String>,
    /// The file of keys, below the home of the user.
    #[param(default = CONFIG.to_string())]
    config: String,
}

impl FileResource for Absent {
    type Drift = FileChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        // Nobody gets in who is not there.
        if cx.host.user(&self.user)?.is_none() {
            return Ok(None);
        }
        let keys = match &self.source {
            Some(source) => keys_of_file(source, cx)?,
            None => key_of(&self.name, &self.enc, &[], "").into_iter().collect(),
        };
        find(&self.user, &self.config, &|lines| without_keys(lines, &keys), cx)
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid_key(&self.name, &self.enc, self.source.as_deref())
    }

    fn claims(&self) -> Claims {
        let key = key_of(&self.name, &self.enc, &[], "").filter(|_| self.source.is_none());
        claims_of(claim_of(&self.user, key.as_ref(), "absent"), &self.user, &self.config)
    }
}

/// All keys that let somebody in.
#[params(kind = "ssh_auth.manage", primary = "name", manual = "ssh_auth_manage.md")]
pub struct Manage {
    /// What the state is called; means nothing.
    #[param(default)]
    name: String,
    /// Whom they let in.
    user: String,
    /// The keys, and no others.
    #[param(list)]
    ssh_keys: Vec<String>,
    /// The sort of those keys that do not say it.
    #[param(default = "ssh-rsa".to_string())]
    enc: String,
    /// What is to stand behind each that has no comment.
    #[param(default)]
    comment: String,
    /// What stands before each that has no options.
    #[param(list, default)]
    options: Vec<String>,
    /// The file of keys, below the home of the user.
    #[param(default = CONFIG.to_string())]
    config: String,
}

impl Manage {
    fn keys(&self) -> Vec<AuthorizedKey> {
        self.ssh_keys.iter().filter_map(|key| key_of(key, &self.enc, &self.options, &self.comment)).collect()
    }
}

impl FileResource for Manage {
    type Drift = FileChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        let keys = self.keys();
        let edit = |lines: Vec<String>| {
            let wanted = |line: &String| {
                AuthorizedKey::read(line).is_none_or(|own| keys.iter().any(|key| key.key == own.key))
            };
            with_keys(lines.into_iter().filter(wanted).collect(), &keys)
        };
        find(&self.user, &self.config, &edit, cx)
    }

    fn validate(&self) -> Vec<Invalid> {
        let _ = &self.name;
        let odd = |key: &&String| AuthorizedKey::read(key).is_none() && !is_key(key);
        let odd = self.ssh_keys.iter().filter(odd);
        let mut invalid: Vec<Invalid> =
            odd.map(|key| Invalid::new("ssh_keys", format!("`{key}` is no public key"))).collect();
        if !is_sort(&self.enc) {
            invalid.push(Invalid::new("enc", format!("`{}` is no sort of key", self.enc)));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let item = ManagedItem::Named("keys of", self.user.clone());
        let claim = Claim::new(item, "managed").with("ssh_keys", Some(&self.ssh_keys));
        claims_of(Claims::of(claim), &self.user, &self.config)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use serde_json::json;
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA me";
    const OTHER: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB other";
    let case = |kind, params, promise, keys: &'static str| {
        Case::new(kind, params, promise, move |host| {
            if keys.is_empty() {
                return furnish(host, "d /srv 0755");
            }
            let processes = furnish(host, "d /srv 0755\nd /srv/.ssh 0700");
            put_text(host, "/srv/.ssh/authorized_keys", keys);
            processes
        })
    };
    const BOTH: &str =
        "# mine\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA me\nssh-rsa AAAAB3NzaC1yc2EAAAADAQAB other\n";
    vec![
        case("ssh_auth.present", json!({ "name": KEY, "user": "web" }), Promise::Converges, ""),
        case(
            "ssh_auth.present",
            json!({ "name": "AAAAC3NzaC1lZDI1NTE5AAAAIA", "enc": "ssh-ed25519", "user": "web" }),
            Promise::Converges,
            "",
        ),
        case(
            "ssh_auth.present",
            json!({ "name": KEY, "user": "web", "options": ["no-pty"] }),
            Promise::Converges,
            BOTH,
        ),
        case("ssh_auth.present", json!({ "name": KEY, "user": "nobody-here" }), Promise::Fails, ""),
        case("ssh_auth.absent", json!({ "name": KEY, "user": "web" }), Promise::Converges, BOTH),
        case("ssh_auth.absent", json!({ "name": KEY, "user": "web" }), Promise::Clean, ""),
        case("ssh_auth.absent", json!({ "name": KEY, "user": "nobody-here" }), Promise::Clean, ""),
        case("ssh_auth.manage", json!({ "user": "web", "ssh_keys": [OTHER] }), Promise::Converges, BOTH),
        case("ssh_auth.manage", json!({ "user": "web", "ssh_keys": [OTHER] }), Promise::Converges, ""),
    ]
}
