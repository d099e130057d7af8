//! `pkgrepo.managed` and `pkgrepo.absent`: where packages come from.
//!
//! Repositories are text in files, so files are all that is changed: a line of `sources.list`, a paragraph of a `.sources`
//! file, a section of a `.repo` file, and beside it the key that signs the repository. No other repository in such a file is
//! touched.

mod listing;

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::{Applying, BlobStore, Checking, Explanation, Reverting};
use crate::file_change::{FileChange, FileWish};
use crate::file_resource::{FileDrift, FileResource, only_done};
use crate::params::{Absolute, Invalid, params};
use crate::source::{Remote, invalid as invalid_source};
use listing::{OneLine, edited, removed, rpm_section};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind, HostRead};

const APT_PARTS: &str = "/etc/apt/sources.list.d";
const APT_KEYS: &str = "/etc/apt/keyrings";
const RPM_REPOSITORIES: [&str; 2] = ["/etc/yum.repos.d", "/etc/zypp/repos.d"];
/// How a key in letters begins.
const ARMOR: &[u8] = b"-----BEGIN PGP";

/// The changes of a repository: its key, then the file that names it.
#[derive(Serialize, Deserialize)]
pub struct RepositoryDrift(Vec<FileChange>);

/// Notes what was really done, where that is not what was announced.
fn put_in(done: &mut [FileChange], at: usize, really: Option<FileChange>) -> bool {
    match (done.get_mut(at), really) {
        (Some(place), Some(really)) => {
            *place = really;
            true
        }
        _ => false,
    }
}

impl FileDrift for RepositoryDrift {
    fn explain(&self, done: bool) -> Explanation {
        let mut told = Explanation::default();
        for one in self.0.iter().map(|change| change.explain(done)) {
            told.diff.push_str(&one.diff);
            told.details.extend(one.details);
        }
        told
    }

    fn save_before_image(&mut self, look: &dyn HostRead, blobs: &dyn BlobStore) -> Result<(), Fault> {
        self.0.iter_mut().try_for_each(|change| change.save_before_image(look, blobs))
    }

    async fn apply(&self, cx: &Applying<'_>) -> Result<Option<Self>, Fault> {
        let (mut done, mut differs) = (self.0.clone(), false);
        for (change, done_here) in self.0.iter().zip(0..) {
            let really = match change.apply(cx).await {
                Ok(really) => really,
                Err(mut fault) => {
                    // What it did is a record of this one file.
                    let really = fault.undo.take().and_then(|undo| serde_json::from_value(*undo).ok());
                    differs |= put_in(&mut done, done_here, really);
                    let done = differs.then_some(RepositoryDrift(done));
                    return Err(done.iter().fold(fault, only_done));
                }
            };
            differs |= put_in(&mut done, done_here, really);
        }
        Ok(differs.then_some(RepositoryDrift(done)))
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.0.iter().try_for_each(|change| change.predict(overlay))
    }

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let mut lines = Vec::new();
        for change in self.0.iter().rev() {
            lines.extend(change.revert(cx)?);
        }
        Ok(lines)
    }
}

/// A repository that packages come from.
#[params(kind = "pkgrepo.managed", primary = "name", manual = "pkgrepo_managed.md")]
pub struct Managed {
    /// For apt a line as in sources.list: `deb https://deb.example.com/debian bookworm main`. For dnf and zypper the id of
    /// the repository.
    name: String,
    /// The file that names it. One that ends in `.sources` holds paragraphs (deb822), any other for apt lines. Unset: one of
    /// its own.
    file: Option<Absolute>,
    /// A name for people (dnf, zypper).
    #[param(alias = "humanname")]
    human_name: Option<String>,
    /// The key that signs it: a file of the states directory (`salt://keys/example.asc`), of this machine, or an `https://`
    /// address.
    key_url: Option<String>,
    /// The key itself, in letters.
    #[param(lines)]
    key_text: Option<String>,
    /// Where the key is on this machine already.
    #[param(alias = "keyring")]
    signedby: Option<Absolute>,
    /// The suite, in the place of the one in `name` (apt).
    dist: Option<String>,
    /// The components, in the place of those in `name`, with commas between (apt).
    #[param(list)]
    comps: Option<Vec<String>>,
    /// The architectures that packages are taken for, with commas between (apt).
    #[param(list)]
    architectures: Option<Vec<String>>,
    /// `true` keeps it in the file and has nobody use it.
    #[param(default)]
    disabled: bool,
    /// `false` keeps it in the file and has nobody use it.
    #[param(default = true)]
    enabled: bool,
    /// Where the repository is not as the state says, everything else in its file goes.
    #[param(default)]
    clean_file: bool,
    /// Taken as it comes: the next state that installs something fetches the lists of a repository that has none here yet.
    #[param(alias = "refresh_db")]
    #[allow(dead_code, reason = "it changes nothing here")]
    refresh: Option<bool>,
    /// Only `false`: `apt-key` is gone, and its keys sign every repository.
    aptkey: Option<bool>,
    /// The address (dnf, zypper).
    baseurl: Option<String>,
    /// The address of a list of mirrors (dnf).
    mirrorlist: Option<String>,
    /// `false` takes packages that nobody has signed (dnf, zypper).
    #[param(default = true)]
    gpgcheck: bool,
    /// The address of the key (dnf, zypper).
    gpgkey: Option<String>,
    /// Whether the lists are signed too (dnf, zypper).
    repo_gpgcheck: Option<bool>,
    /// Its rank among the repositories, the lower the better (dnf, zypper).
    priority: Option<i64>,
    /// Packages that are never taken from it (dnf).
    #[param(list)]
    exclude: Option<Vec<String>>,
    /// `false` believes its server without a certificate (dnf).
    sslverify: Option<bool>,
    /// `true`: that it cannot be reached is no failure (dnf).
    skip_if_unavailable: Option<bool>,
    /// How long its lists are good, like `6h` (dnf).
    metadata_expire: Option<String>,
    /// Refused: the archive of one developer is a repository like others.
    ppa: Option<String>,
    /// Refused: who holds the key of an id is for nobody to say.
    #[param(alias = "keyserver")]
    keyid: Option<String>,
}

/// A repository that no packages come from.
#[params(kind = "pkgrepo.absent", primary = "name", manual = "pkgrepo_absent.md")]
pub struct Absent {
    /// As in `pkgrepo.managed`.
    name: String,
    /// The file that names it. Unset: one of its own, as `pkgrepo.managed` makes it.
    file: Option<Absolute>,
}

/// The file that a repository has of its own.
fn own_file(
    name: &str,
    line: Result<OneLine, String>,
    host: Option<&dyn HostRead>,
) -> Result<PathBuf, Fault> {
    match line {
        Ok(line) => Ok(Path::new(APT_PARTS).join(format!("{}.list", line.stem()))),
        Err(_) => {
            let mut directory = RPM_REPOSITORIES[0];
            if let Some(host) = host {
                for candidate in RPM_REPOSITORIES {
                    if host.stat(&host.real_path(Path::new(candidate))?)?.is_some() {
                        directory = candidate;
                        break;
                    }
                }
            }
            Ok(Path::new(directory).join(format!("{name}.repo")))
        }
    }
}

/// The file whose text is edited, as far as that can be told without a look at the machine.
fn edited_file(name: &str, line: Result<OneLine, String>, file: Option<&Absolute>) -> PathBuf {
    match file {
        Some(file) => file.0.clone(),
        None => own_file(name, line, None).unwrap_or_default(),
    }
}

impl Managed {
    /// The line of apt, with what is said beside it.
    fn line(&self) -> Result<OneLine, String> {
        let apart = |words: &[String]| -> Vec<String> {
            let words = words.iter().flat_map(|word| word.split([',', ' ']));
            words.filter(|word| !word.is_empty()).map(str::to_string).collect()
        };
        let line = OneLine::parse(&self.name)?;
        line.with(
            self.dist.as_deref(),
            self.comps.as_deref().map(apart),
            self.architectures.as_deref().map(apart),
        )
    }

    fn is_off(&self) -> bool {
        self.disabled || !self.enabled
    }

    /// Its key, and where that is to be.
    fn key(&self, cx: &Checking<'_>) -> Result<Option<(PathBuf, Vec<u8>)>, Fault> {
        let content = match (&self.key_url, &self.key_text) {
            (Some(source), _) => crate::source::read(cx, source)?,
            (None, Some(text)) => text.clone().into_bytes(),
            (None, None) => return Ok(None),
        };
        let end = if content.starts_with(ARMOR) { "asc" } else { "gpg" };
        let stem = self.line().map_or_else(|_| self.name.clone(), |line| line.stem());
        Ok(Some((Path::new(APT_KEYS).join(format!("{stem}.{end}")), content)))
    }
}

impl FileResource for Managed {
    type Drift = RepositoryDrift;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<RepositoryDrift>, Fault> {
        let key = self.key(cx)?;
        let mut changes = Vec::new();
        if let Some((path, content)) = &key {
            let wanted = |_: Option<&[u8]>| Ok(Some(content.clone().into()));
            changes.extend(FileWish { makedirs: true, ..FileWish::new(path, &wanted) }.find(cx)?);
        }
        let signed_by =
            key.map(|(path, _)| path).or_else(|| self.signedby.as_ref().map(|path| path.0.clone()));
        let file = match &self.file {
            Some(file) => file.0.clone(),
            None => own_file(&self.name, self.line(), Some(cx.host))?,
        };
        let line = self.line().map(|line| line.signed_by(signed_by.as_deref()));
        let with = |old: &str| match &line {
            Ok(line) => edited(&file, old, line, self.is_off()),
            Err(_) => rpm_section(old, &self.name, &self.entries()),
        };
        let wanted = |old: Option<&[u8]>| {
            let old = text_of(&file, old)?;
            let new = match with(&old) {
                new if new != old && self.clean_file => with(""),
                new => new,
            };
            Ok((new != old).then(|| new.into_bytes().into()))
        };
        changes.extend(FileWish { makedirs: true, edits: true, ..FileWish::new(&file, &wanted) }.find(cx)?);
        Ok((!changes.is_empty()).then_some(RepositoryDrift(changes)))
    }

    fn claims(&self) -> Claims {
        let identity = self.line().map_or_else(|_| self.name.clone(), |line| line.stem());
        let item = ManagedItem::Named("repository", identity);
        let needs =
            self.key_url.iter().map(Path::new).chain(self.signedby.iter().map(|path| path.0.as_path()));
        let mut claims = Claims::of(Claim::new(item, "managed").with("disabled", Some(self.is_off())));
        let file = edited_file(&self.name, self.line(), self.file.as_ref());
        if self.clean_file {
            claims.owned.push(Claims::path(&file, "a file of one repository").with("line", Some(&self.name)));
        }
        claims.needs(needs).edits(&file)
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        let mut refuse = |parameter, message: &str, hint: &str| {
            let hint = Some(hint.to_string()).filter(|hint| !hint.is_empty());
            invalid.push(Invalid { hint, ..Invalid::new(parameter, message) });
        };
        if self.ppa.is_some() || self.name.starts_with("ppa:") {
            let hint = "write its line, deb https://ppa.launchpadcontent.net/OWNER/NAME/ubuntu SUITE main, and `key_url`";
            refuse("name", "a PPA is not looked up", hint);
        }
        if self.keyid.is_some() {
            refuse(
                "keyid",
                "keys are not fetched from key servers",
                "put the key beside the states and name it in `key_url`",
            );
        }
        if let Some(wrong) =
            self.key_url.as_deref().and_then(|url| invalid_source("key_url", url, Remote::Allowed))
        {
            refuse("key_url", &wrong.message, wrong.hint.as_deref().unwrap_or_default());
        }
        if self.key_url.as_ref().is_some_and(|url| url.starts_with("http://")) {
            refuse(
                "key_url",
                "whoever is on the way could put a key of their own in its place",
                "write `https://…`, or fetch it with `file.managed` and its `source_hash`, and name that file in `signedby`",
            );
        }
        if self.aptkey == Some(true) {
            refuse(
                "aptkey",
                "keys of `apt-key` sign every repository",
                "leave it out: the key signs this one alone",
            );
        }
        if self.disabled && !self.enabled {
            refuse("enabled", "`disabled: true` says so already", "");
        }
        match self.line() {
            Ok(_) if self.baseurl.is_some() => refuse("baseurl", "the line of apt has its own address", ""),
            Ok(_) => {}
            Err(message) if self.name.starts_with("deb") && self.name.contains(' ') => {
                refuse("name", &message, "")
            }
            Err(_) if !listing::is_plain(&self.name) => {
                refuse(
                    "name",
                    "it is neither a line of sources.list nor the id of a repository",
                    "write deb ADDRESS SUITE COMPONENTS",
                );
            }
            Err(_) if self.baseurl.is_none() && self.mirrorlist.is_none() => {
                refuse("baseurl", "a repository without an address", "give `baseurl` or `mirrorlist`");
            }
            Err(_) => {}
        }
        invalid
    }
}

impl Managed {
    fn entries(&self) -> Vec<(&'static str, String)> {
        let number = |on: bool| if on { "1" } else { "0" }.to_string();
        let mut entries = vec![("name", self.human_name.clone().unwrap_or_else(|| self.name.clone()))];
        entries.extend(self.baseurl.clone().map(|url| ("baseurl", url)));
        entries.extend(self.mirrorlist.clone().map(|url| ("mirrorlist", url)));
        entries.push(("enabled", number(!self.is_off())));
        entries.push(("gpgcheck", number(self.gpgcheck)));
        entries.extend(self.gpgkey.clone().map(|url| ("gpgkey", url)));
        entries.extend(self.repo_gpgcheck.map(|on| ("repo_gpgcheck", number(on))));
        entries.extend(self.priority.map(|rank| ("priority", rank.to_string())));
        entries.extend(self.exclude.as_ref().map(|names| ("exclude", names.join(" "))));
        entries.extend(self.sslverify.map(|on| ("sslverify", number(on))));
        entries.extend(self.skip_if_unavailable.map(|on| ("skip_if_unavailable", number(on))));
        entries.extend(self.metadata_expire.clone().map(|time| ("metadata_expire", time)));
        entries
    }
}

impl FileResource for Absent {
    type Drift = RepositoryDrift;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<RepositoryDrift>, Fault> {
        let file = match &self.file {
            Some(file) => file.0.clone(),
            None => own_file(&self.name, OneLine::parse(&self.name), Some(cx.host))?,
        };
        let wanted = |old: Option<&[u8]>| {
            let old = text_of(&file, old)?;
            let new = removed(&file, &old, &self.name);
            Ok((new != old).then(|| new.into_bytes().into()))
        };
        let wish = FileWish { edits: true, create: false, ..FileWish::new(&file, &wanted) };
        Ok(wish.find(cx)?.map(|change| RepositoryDrift(vec![change])))
    }

    fn claims(&self) -> Claims {
        Claims::of(Claim::new(ManagedItem::Named("repository", listing::identity(&self.name)), "absent"))
            .edits(&edited_file(&self.name, OneLine::parse(&self.name), self.file.as_ref()))
    }

    fn validate(&self) -> Vec<Invalid> {
        if OneLine::parse(&self.name).is_ok() || listing::is_plain(&self.name) {
            return Vec::new();
        }
        vec![Invalid::new("name", "it is neither a line of sources.list nor the id of a repository")]
    }
}

fn text_of(file: &Path, old: Option<&[u8]>) -> Result<String, Fault> {
    String::from_utf8(old.unwrap_or_default().to_vec())
        .map_err(|_| Fault::new(FaultKind::Unsupported, format!("{} is not UTF-8 text", file.display())))
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |kind, params, promise, things: &'static str| {
        Case::new(kind, params, promise, move |host| furnish(host, things))
    };
    let apt = "d /etc 0755\nd /etc/apt 0755\nd /etc/apt/sources.list.d 0755";
    let there = "d /etc 0755\nd /etc/apt 0755\nd /etc/apt/sources.list.d 0755\nf /etc/apt/sources.list.d/deb.example.com-debian-stable.list 0644 deb https://deb.example.com/debian stable main";
    let line = "deb https://deb.example.com/debian stable main";
    let yum = "d /etc 0755\nd /etc/yum.repos.d 0755";
    vec![
        case("pkgrepo.managed", json!({ "name": line }), Promise::Converges, apt),
        case(
            "pkgrepo.managed",
            json!({ "name": line, "key_text": "-----BEGIN PGP x" }),
            Promise::Converges,
            apt,
        ),
        case(
            "pkgrepo.managed",
            json!({ "name": line, "file": "/etc/apt/x.sources" }),
            Promise::Converges,
            apt,
        ),
        case("pkgrepo.managed", json!({ "name": line, "disabled": true }), Promise::Converges, there),
        case("pkgrepo.managed", json!({ "name": line, "refresh": true, "aptkey": false }), Promise::Clean, there),
        case(
            "pkgrepo.managed",
            json!({ "name": line, "dist": "testing", "comps": "main, contrib", "architectures": ["amd64"], "clean_file": true,
                    "file": "/etc/apt/sources.list.d/deb.example.com-debian-stable.list" }),
            Promise::Converges,
            there,
        )
        .leaving(
            "/etc/apt/sources.list.d/deb.example.com-debian-stable.list",
            "deb [arch=amd64] https://deb.example.com/debian testing main contrib\n",
        ),
        case(
            "pkgrepo.managed",
            json!({ "name": line, "key_url": "salt://no-such.asc" }),
            Promise::Fails,
            apt,
        ),
        case(
            "pkgrepo.managed",
            json!({ "name": "extra", "baseurl": "https://r.example.com/", "priority": 10, "exclude": ["kernel*"], "enabled": false }),
            Promise::Converges,
            yum,
        ),
        case("pkgrepo.absent", json!({ "name": line }), Promise::Converges, there),
        case("pkgrepo.absent", json!({ "name": line }), Promise::Clean, apt),
        case("pkgrepo.absent", json!({ "name": "extra" }), Promise::Clean, yum),
    ]
}

#[cfg(test)]
mod tests {
    use crate::laws::bind_json;
    use serde_json::json;
    use std::path::Path;
    use zester_rule::rule;

    const LINE: &str = "deb https://deb.example.com/debian stable main";

    #[test]
    fn a_key_that_anybody_on_the_way_could_replace_is_refused() {
        let bound = |url: &str| bind_json("pkgrepo.managed", &json!({ "name": LINE, "key_url": url }));
        let told = bound("http://deb.example.com/key.asc").err().unwrap().remove(0);
        assert!(told.message.contains("could put a key of their own"), "{}", told.message);
        assert!(told.hint.unwrap().contains("https://"));
        for url in ["https://deb.example.com/key.asc", "salt://key.asc", "/root/key.asc"] {
            assert!(bound(url).is_ok(), "{url}");
        }
    }

    #[test]
    #[rule("S-57")]
    fn s57_repositories_of_one_file_are_written_one_after_the_other() {
        for kind in ["pkgrepo.managed", "pkgrepo.absent"] {
            let edits = |params| bind_json(kind, &params).ok().unwrap().claims().edits;
            let shared = "/etc/apt/sources.list";
            assert_eq!(edits(json!({ "name": LINE, "file": shared })), [Path::new(shared)]);
            let own = "/etc/apt/sources.list.d/deb.example.com-debian-stable.list";
            assert_eq!(edits(json!({ "name": LINE })), [Path::new(own)]);
        }
    }
}
