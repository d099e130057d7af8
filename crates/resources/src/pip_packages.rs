//! `pip.installed`, `pip.removed`: python packages, of the system or of a virtual environment.

mod environment;
mod requirement;

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Absolute, Environment as Variables, Invalid, params};
use crate::resource::{Resource, Want};
use crate::source::{self, Remote, local_name};
use crate::state::Read;
use environment::{Environment, Install, NEWEST, Packages};
use requirement::Requirement;
use std::collections::BTreeMap;
use std::path::Path;
use zester_host::{Fault, FaultKind};

/// The `pip` of the system.
const PIP: &str = "pip3";

/// Python packages that are installed.
#[params(kind = "pip.installed", primary = "name", manual = "pip_installed.md")]
pub struct Installed {
    /// The package, and which versions will do: `django>=4,<5`. Not looked at where `pkgs` or `requirements` is given.
    name: String,
    /// Several packages, each like `name`.
    #[param(list, instead_of_primary)]
    pkgs: Option<Vec<String>>,
    /// A file of requirements: a path, or a file of the states directory.
    #[param(instead_of_primary)]
    requirements: Option<String>,
    /// The virtual environment, or its `pip`. Unset: the `pip3` of the system.
    #[param(alias = "pip_bin")]
    bin_env: Option<Absolute>,
    /// Who runs pip.
    user: Option<String>,
    /// Where it runs.
    cwd: Option<Absolute>,
    /// What its environment holds besides.
    env_vars: Option<Variables>,
    /// Brings what is there to the newest version that will do.
    #[param(default)]
    upgrade: bool,
    /// Installs again what is there.
    #[param(default)]
    force_reinstall: bool,
    /// Installs over what is there, without removing it first.
    #[param(default)]
    ignore_installed: bool,
    /// Without the packages that it needs.
    #[param(default)]
    no_deps: bool,
    /// Also versions that are not released yet.
    #[param(default)]
    pre_releases: bool,
    /// A directory or a repository that is installed where it lies, as `pip install --editable` takes it.
    editable: Option<String>,
    /// The index of packages.
    index_url: Option<String>,
    /// Further indexes.
    #[param(list, default)]
    extra_index_url: Vec<String>,
    /// Asks no index, only `find_links`.
    #[param(default)]
    no_index: bool,
    /// Directories or pages with packages.
    #[param(list, default)]
    find_links: Vec<String>,
    /// The proxy to the index.
    proxy: Option<String>,
    /// Seconds until the index is given up.
    timeout: Option<u32>,
    /// A file with the certificates of the index.
    cert: Option<Absolute>,
    /// Servers that are believed without a certificate.
    #[param(list, default)]
    trusted_host: Vec<String>,
    /// Keeps nothing of what it fetched.
    #[param(default)]
    no_cache_dir: bool,
    /// Any other words, as `pip install` takes them.
    #[param(list, default)]
    extra_args: Vec<String>,
}

/// Python packages that are not installed.
#[params(kind = "pip.removed", primary = "name", manual = "pip_removed.md")]
pub struct Removed {
    /// The package. Not looked at where `pkgs` is given.
    name: String,
    /// Several packages.
    #[param(list, instead_of_primary)]
    pkgs: Option<Vec<String>>,
    /// The virtual environment, or its `pip`. Unset: the `pip3` of the system.
    #[param(alias = "pip_bin")]
    bin_env: Option<Absolute>,
    /// Who runs pip.
    user: Option<String>,
}

/// Of an environment, or the very program.
fn pip_of(bin_env: Option<&Absolute>) -> String {
    let Some(path) = bin_env else { return PIP.to_string() };
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pip"));
    let program = if named { path.0.clone() } else { path.join("bin/pip") };
    program.display().to_string()
}

/// Packages of one environment come one after the other.
fn claims_of<'a>(
    bin_env: Option<&Absolute>,
    user: Option<&str>,
    packages: impl Iterator<Item = (&'a str, Option<String>)>,
    is: &'static str,
) -> Claims {
    let pip = pip_of(bin_env);
    let claim = |(name, versions)| {
        let item = ManagedItem::Named("python package", format!("{name} of {pip}"));
        Claim::new(item, is).with("versions", versions)
    };
    let place = bin_env.map_or(Path::new("/usr/lib/python3"), |path| path);
    Claims { owned: packages.map(claim).collect(), ..Claims::default() }
        .edits(place)
        .fills()
        .accounts(user, None)
}

fn invalid_names(parameter: &'static str, texts: &[String]) -> Vec<Invalid> {
    texts
        .iter()
        .filter_map(|text| Requirement::parse(text).err())
        .map(|why| Invalid::new(parameter, why))
        .collect()
}

impl Installed {
    /// What is asked for here; a file of requirements is read later.
    fn asked(&self) -> Vec<String> {
        match &self.pkgs {
            Some(pkgs) => pkgs.clone(),
            None if self.requirements.is_some() || self.editable.is_some() => Vec::new(),
            None => vec![self.name.clone()],
        }
    }

    fn wanted(&self, cx: &Checking<'_>) -> Result<Vec<Requirement>, Fault> {
        let wrong = |why: String| Fault::new(FaultKind::Unsupported, why);
        let asked = self.asked();
        let mut wanted = asked
            .iter()
            .map(|text| Requirement::parse(text).map_err(wrong))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(source) = &self.requirements {
            let bytes = source::read(cx, source)?;
            let text = String::from_utf8(bytes).map_err(|_| wrong(format!("{source} is not UTF-8 text")))?;
            wanted.extend(Requirement::in_file(&text).map_err(|why| wrong(format!("{source}: {why}")))?);
        }
        if let Some(editable) = &self.editable {
            wanted.push(Requirement::parse(editable).map_err(wrong)?);
        }
        Ok(wanted)
    }

    fn index(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut option = |name: &str, value: &str| words.extend([name.to_string(), value.to_string()]);
        self.index_url.iter().for_each(|url| option("--index-url", url));
        self.extra_index_url.iter().for_each(|url| option("--extra-index-url", url));
        self.find_links.iter().for_each(|url| option("--find-links", url));
        self.proxy.iter().for_each(|proxy| option("--proxy", proxy));
        self.timeout.iter().for_each(|seconds| option("--timeout", &seconds.to_string()));
        self.cert.iter().for_each(|path| option("--cert", &path.display().to_string()));
        self.trusted_host.iter().for_each(|host| option("--trusted-host", host));
        words.extend(self.no_index.then(|| "--no-index".to_string()));
        words
    }
}

impl Resource for Installed {
    type State = Packages;
    /// What else comes along only pip knows.
    const UNPREDICTABLE: bool = true;

    fn key(&self) -> Environment {
        Environment { pip: pip_of(self.bin_env.as_ref()), user: self.user.clone(), index: self.index() }
    }

    async fn desired(&self, now: &Packages, cx: &Checking<'_>) -> Result<Want<Packages>, Fault> {
        let wanted = self.wanted(cx)?;
        let outdated = match self.upgrade {
            true => self.key().outdated(&Read::of_check(cx)).await?,
            false => BTreeMap::new(),
        };
        let mut to = now.clone();
        for requirement in &wanted {
            let present = now.0.get(&requirement.name).and_then(Option::as_deref);
            let newer = outdated.get(&requirement.name).filter(|newer| requirement.allows(newer));
            let fits = present.is_some_and(|version| version == NEWEST || requirement.allows(version));
            if !fits || newer.is_some_and(|newer| present != Some(newer.as_str()) && present != Some(NEWEST))
            {
                to.0.insert(
                    requirement.name.clone(),
                    Some(newer.cloned().unwrap_or_else(|| NEWEST.to_string())),
                );
            }
        }
        Ok(if self.force_reinstall { Want::Act(to) } else { Want::Be(to) })
    }

    fn how_found(&self, cx: &Checking<'_>) -> Result<Install, Fault> {
        let mut words = Vec::new();
        for (said, word) in [
            (self.upgrade, "--upgrade"),
            (self.force_reinstall, "--force-reinstall"),
            (self.ignore_installed, "--ignore-installed"),
            (self.no_deps, "--no-deps"),
            (self.pre_releases, "--pre"),
            (self.no_cache_dir, "--no-cache-dir"),
        ] {
            words.extend(said.then(|| word.to_string()));
        }
        words.extend(self.extra_args.iter().flat_map(|word| word.split_whitespace()).map(str::to_string));
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for requirement in self.wanted(cx)? {
            let words = wanted.entry(requirement.name).or_default();
            words.extend(
                (self.editable.as_ref() == Some(&requirement.text)).then(|| "--editable".to_string()),
            );
            words.push(requirement.text);
        }
        let environment = self.env_vars.as_ref().map(|all| all.0.clone()).unwrap_or_default();
        Ok(Install { wanted, words, cwd: self.cwd.as_ref().map(|path| path.0.clone()), environment })
    }

    fn validate(&self) -> Vec<Invalid> {
        let parameter = if self.pkgs.is_some() { "pkgs" } else { "name" };
        let mut invalid = invalid_names(parameter, &self.asked());
        invalid.extend(
            self.editable
                .iter()
                .filter_map(|text| Requirement::parse(text).err())
                .map(|why| Invalid::new("editable", why)),
        );
        let source = self.requirements.as_ref();
        invalid.extend(source.and_then(|source| source::invalid("requirements", source, Remote::Refused)));
        let odd = self.index().into_iter().skip(1).step_by(2).find(|value| value.is_empty());
        invalid.extend(odd.map(|_| Invalid::new("index_url", "an option of the index is empty")));
        invalid
    }

    fn claims(&self) -> Claims {
        let asked = self.asked();
        let read: Vec<Requirement> = asked.iter().filter_map(|text| Requirement::parse(text).ok()).collect();
        let packages =
            read.iter().map(|one| (one.name.as_str(), Some(one.versions.as_ref().map(ToString::to_string))));
        let packages = packages.map(|(name, versions)| (name, versions.flatten()));
        let file = self.requirements.as_ref().map(|source| Path::new(local_name(source)));
        claims_of(self.bin_env.as_ref(), self.user.as_deref(), packages, "installed")
            .needs(file)
            .works_in(self.cwd.as_deref())
    }
}

impl Removed {
    fn names(&self) -> Vec<String> {
        self.pkgs.clone().unwrap_or_else(|| vec![self.name.clone()])
    }
}

impl Resource for Removed {
    type State = Packages;

    fn key(&self) -> Environment {
        Environment { pip: pip_of(self.bin_env.as_ref()), user: self.user.clone(), index: Vec::new() }
    }

    async fn desired(&self, now: &Packages, _: &Checking<'_>) -> Result<Want<Packages>, Fault> {
        let mut to = now.clone();
        for requirement in self.names().iter().filter_map(|name| Requirement::parse(name).ok()) {
            let there = to.0.get(&requirement.name).and_then(Option::as_deref);
            if there.is_some_and(|version| requirement.allows(version)) {
                to.0.remove(&requirement.name);
            }
        }
        Ok(Want::Be(to))
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid_names(if self.pkgs.is_some() { "pkgs" } else { "name" }, &self.names())
    }

    fn claims(&self) -> Claims {
        let names = self.names();
        let read: Vec<Requirement> = names.iter().filter_map(|text| Requirement::parse(text).ok()).collect();
        let packages = read.iter().map(|one| (one.name.as_str(), None));
        claims_of(self.bin_env.as_ref(), self.user.as_deref(), packages, "removed")
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::cases;
