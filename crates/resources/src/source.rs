//! Where content comes from: the states directory, a file of this machine, or a server.

use crate::context::Checking;
use crate::params::{Invalid, outside_states};
use std::path::Path;
use zester_host::{Fault, FaultKind};
use zester_model::limits::FILE_BYTES_MAX;
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
pub(crate) fn invalid(source: &str, remote: Remote) -> Option<Invalid> {
    if let Some(message) = outside_states(source) {
        return Some(Invalid::new("source", message));
    }
    let known = ["salt://", "zester://", "file://"].iter().any(|scheme| source.starts_with(scheme));
    let refused = |hint: &str| {
        let message = format!("`{source}` cannot be a source");
        Some(Invalid { hint: Some(hint.to_string()), ..Invalid::new("source", message) })
    };
    match remote {
        Remote::Allowed if is_remote(source) => None,
        Remote::Refused if is_remote(source) => {
            refused("fetch it with `file.managed`, which checks its `source_hash`, and name that file here")
        }
        _ if source.contains("://") && !known => refused(
            "it can be `salt://…`, a path below the states directory or an absolute path of this machine",
        ),
        _ => None,
    }
}

/// The content of a source of this machine or of the states directory.
pub(crate) fn read(cx: &Checking<'_>, source: &str) -> Result<Vec<u8>, Fault> {
    let path = local_name(source);
    if path.starts_with('/') {
        return cx.host.read(Path::new(path), FILE_BYTES_MAX);
    }
    // What is missing on this machine may come; what is missing among the states does not.
    cx.files.read(source).map_err(|fault| match fault.kind {
        FaultKind::NotFound => Fault { kind: FaultKind::Unsupported, ..fault },
        _ => fault,
    })
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
