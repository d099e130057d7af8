//! Where content comes from: the states directory, a file of this machine, or a server.

use crate::checksum::Checksum;
use crate::context::Checking;
use crate::params::{Invalid, outside_states};
use std::path::Path;
use zester_host::{Download, Fault, FaultKind};
use zester_model::limits::{CHECKSUMS_BYTES_MAX, FILE_BYTES_MAX};
use zester_model::outcome::Details;

/// Whether a kind takes what lies on a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    Allowed,
    Refused,
}

/// A source that lies on a server.
pub(crate) fn is_remote(source: &str) -> bool {
    source.starts_with("http://") || source.starts_with("https://")
}

/// A path of this machine without what may stand before it.
pub(crate) fn local_name(source: &str) -> &str {
    source.strip_prefix("file://").unwrap_or(source)
}

/// What is wrong with a source, without looking at anything.
pub(crate) fn invalid(parameter: &'static str, source: &str, remote: Remote) -> Option<Invalid> {
    if let Some(message) = outside_states(source) {
        return Some(Invalid::new(parameter, message));
    }
    let refused = |hint: &str| {
        let message = format!("`{source}` cannot be a source");
        Some(Invalid { hint: Some(hint.to_string()), ..Invalid::new(parameter, message) })
    };
    let known = ["salt://", "zester://", "file://"].iter().any(|scheme| source.starts_with(scheme));
    match remote {
        Remote::Allowed if is_remote(source) => {
            let host = source.split('/').nth(2).unwrap_or_default();
            match host {
                "" => refused("it names no server"),
                host if host.contains('@') => refused(
                    "a password in an address is shown everywhere: fetch it with `cmd.run`, which takes secrets in `env`",
                ),
                _ => None,
            }
        }
        Remote::Refused if is_remote(source) => {
            refused("fetch it with `file.managed`, which checks its `source_hash`, and name that file here")
        }
        Remote::Allowed if source.contains("://") && !known => {
            refused("it can be `https://…`, `http://…`, `salt://…` or an absolute path of this machine")
        }
        Remote::Refused if source.contains("://") && !known => refused(
            "it can be `salt://…`, a path below the states directory or an absolute path of this machine",
        ),
        _ => None,
    }
}

/// The content of a source.
pub(crate) fn read(cx: &Checking<'_>, source: &str) -> Result<Vec<u8>, Fault> {
    open(cx, source, FILE_BYTES_MAX).map_err(|fault| missing(source, fault))
}

/// The first of the sources that exists, and which it was.
pub(crate) fn first<'s>(
    cx: &Checking<'_>,
    sources: &'s [String],
) -> Result<Option<(&'s str, Vec<u8>)>, Fault> {
    let mut nowhere: Option<Fault> = None;
    for source in sources {
        match open(cx, source, FILE_BYTES_MAX) {
            Ok(content) => return Ok(Some((source, content))),
            Err(fault) if fault.kind == FaultKind::NotFound => nowhere = Some(missing(source, fault)),
            Err(fault) => return Err(fault),
        }
    }
    nowhere.map_or(Ok(None), Err)
}

fn open(cx: &Checking<'_>, source: &str, bytes_max: u64) -> Result<Vec<u8>, Fault> {
    let path = local_name(source);
    if path.starts_with('/') {
        return cx.host.read(Path::new(path), bytes_max);
    }
    match is_remote(source) {
        true => cx.host.download(&Download { url: source, bytes_max, cancel: cx.cancel }),
        false => cx.files.read(source),
    }
}

/// What is missing on this machine may come; what is missing among the states or on a server does not.
fn missing(source: &str, fault: Fault) -> Fault {
    match fault.kind {
        FaultKind::NotFound if !local_name(source).starts_with('/') => {
            Fault { kind: FaultKind::Unsupported, ..fault }
        }
        _ => fault,
    }
}

/// What a state says about the digest of its source.
pub(crate) struct SourceHash<'a> {
    pub(crate) hash: Option<&'a str>,
    /// What the source is called in a file of sums.
    pub(crate) name: Option<&'a str>,
    pub(crate) skip_verify: bool,
}

impl SourceHash<'_> {
    /// What is wrong with it, given the sources.
    pub(crate) fn invalid(&self, sources: &[String]) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        match (self.hash, sources.iter().find(|source| is_remote(source))) {
            (None, Some(remote)) if !self.skip_verify => {
                let message = format!("nothing says what `{remote}` is to be");
                let hint = "give its `source_hash`, like `sha256=…`, or the address of a file of sums; `skip_verify: true` trusts whatever comes";
                invalid.push(Invalid { hint: Some(hint.into()), ..Invalid::new("source", message) });
            }
            (Some(hash), _) => match Checksum::parse(hash) {
                Some(Err(message)) => invalid.push(Invalid::new("source_hash", message)),
                Some(Ok(_)) => {}
                None if !hash.contains('/') => {
                    let message = format!("`{hash}` is neither a digest nor a file of sums");
                    let hint = "write `sha256=…`, or an address or path of a file that holds it";
                    invalid.push(Invalid { hint: Some(hint.into()), ..Invalid::new("source_hash", message) });
                }
                None => invalid.extend(self::invalid("source_hash", hash, Remote::Allowed)),
            },
            _ => {}
        }
        if self.hash.is_none() && self.name.is_some() {
            invalid.push(Invalid::new(
                "source_hash_name",
                "it is looked for in `source_hash`, which is missing",
            ));
        }
        invalid
    }

    /// Nobody knows whether what comes is what was meant.
    pub(crate) fn unverified(&self, sources: &[String]) -> bool {
        self.hash.is_none() && sources.iter().any(|source| is_remote(source))
    }

    /// The digest that this source is to have.
    pub(crate) fn wanted(&self, cx: &Checking<'_>, source: &str) -> Result<Option<Checksum>, Fault> {
        let Some(hash) = self.hash else { return Ok(None) };
        match Checksum::parse(hash) {
            Some(parsed) => parsed.map(Some).map_err(|message| Fault::new(FaultKind::Unsupported, message)),
            None => {
                let sums = open(cx, hash, CHECKSUMS_BYTES_MAX).map_err(|fault| missing(hash, fault))?;
                let name = self.name.unwrap_or_else(|| below_host(source));
                let found = Checksum::of_file(&String::from_utf8_lossy(&sums), name);
                found.map(Some).ok_or_else(|| {
                    let message = format!("{hash} holds no sum of `{name}`");
                    Fault::new(FaultKind::Unsupported, message)
                        .hint("`source_hash_name` says what it is called there")
                })
            }
        }
    }

    /// A fault where the content is not what it is to be.
    pub(crate) fn verify(
        &self,
        wanted: Option<&Checksum>,
        source: &str,
        content: &[u8],
    ) -> Result<(), Fault> {
        match wanted {
            Some(wanted) if !wanted.fits(content) => {
                let message = format!("{source} has {}, not {wanted}", wanted.found(content));
                Err(Fault::new(FaultKind::Unsupported, message)
                    .hint("it was changed, damaged or replaced: nothing of it was used"))
            }
            _ => Ok(()),
        }
    }
}

/// A source without its server or scheme, as a file of sums may call it.
fn below_host(source: &str) -> &str {
    match source.split_once("://") {
        Some((_, rest)) if is_remote(source) => rest.split_once('/').map_or(rest, |(_, path)| path),
        Some((_, rest)) => rest,
        None => source,
    }
}

/// A template with facts, settings and these variables.
pub(crate) fn rendered(
    cx: &Checking<'_>,
    name: &str,
    content: Vec<u8>,
    defaults: &Details,
    context: &Details,
) -> Result<String, Fault> {
    let text = String::from_utf8(content)
        .map_err(|_| Fault::new(FaultKind::Unsupported, format!("the template {name} is not UTF-8")))?;
    let mut variables = defaults.clone();
    variables.extend(context.clone());
    cx.files.render(name, &text, &variables)
}
