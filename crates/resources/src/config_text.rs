//! The text of a configuration file as one aspect of a state that has others too: a setting of the kernel and the file that
//! sets it at the next start.
//!
//! It is the whole text, so that a revert brings the file back letter for letter, or takes away one that was made. States about
//! one file come one after the other, because they claim to edit it.

use crate::context::Explanation;
use crate::diff;
use crate::state::Write;
use crate::tree;
use std::path::Path;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind, HostRead, HostWrite, NewFile, Owner};
use zester_model::limits::FILE_BYTES_MAX;

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// What a file holds; none where there is none.
pub(crate) type ConfigText = Option<String>;

pub(crate) fn read(host: &dyn HostRead, path: &Path) -> Result<ConfigText, Fault> {
    let real = tree::behind_links(host, &tree::resolve_again(host, path)?)?;
    if host.stat(&real)?.is_none() {
        return Ok(None);
    }
    String::from_utf8(host.read(&real, FILE_BYTES_MAX)?)
        .map(Some)
        .map_err(|_| Fault::new(FaultKind::Unsupported, format!("{} is not UTF-8 text", path.display())))
}

/// Writes it in one step, with the mode and owner of the file that is there. What somebody wrote since it was read is not
/// lost: it is a fault.
pub(crate) fn write<S>(
    path: &Path,
    from: &ConfigText,
    to: &ConfigText,
    cx: &Write<'_, S>,
) -> Result<(), Fault> {
    if from == to {
        return Ok(());
    }
    if read(cx.host, path)? != *from {
        return Err(Fault::changed_meanwhile(path));
    }
    put(cx.host, path, to)
}

/// Lets later checks of a dry run see it.
pub(crate) fn predict(path: &Path, to: &ConfigText, overlay: &Overlay) -> Result<(), Fault> {
    if read(overlay, path)? == *to { Ok(()) } else { put(overlay, path, to) }
}

fn put(host: &dyn HostWrite, path: &Path, to: &ConfigText) -> Result<(), Fault> {
    let real = tree::behind_links(host, &tree::resolve_again(host, path)?)?;
    let present = host.stat(&real)?;
    match (to, present) {
        (None, None) => Ok(()),
        (None, Some(_)) => host.remove_file(&real),
        (Some(text), present) => {
            if let Some(parent) = real.parent().filter(|_| present.is_none()) {
                make_directories(host, parent)?;
            }
            let (mode, owner) = present
                .map_or((FILE_MODE, host.me()), |meta| (meta.mode, Owner { uid: meta.uid, gid: meta.gid }));
            host.put_file(&real, &NewFile { content: text.as_bytes(), mode, owner })
        }
    }
}

/// A directory and those above it.
pub(crate) fn make_directories(host: &dyn HostWrite, path: &Path) -> Result<(), Fault> {
    if host.stat_followed(path)?.is_some() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directories(host, parent)?;
    }
    host.make_directory(path, DIRECTORY_MODE, host.me())
}

/// The change as a diff.
pub(crate) fn explain(path: &Path, from: &ConfigText, to: &ConfigText, told: &mut Explanation) {
    if from != to {
        let new = to.as_deref().unwrap_or_default();
        told.diff.push_str(&diff::of_content(path, from.as_deref().map(str::as_bytes), new.as_bytes()));
        told.details.insert("config".into(), path.display().to_string().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Applying;
    use crate::laws::{furnish, put_text};
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;
    use zester_rule::rule;

    #[test]
    #[rule("S-30")]
    fn s30_what_somebody_wrote_since_the_file_was_read_is_not_written_over() {
        let host = Arc::new(Overlay::empty());
        let processes = furnish(&host, "d /etc 0755");
        let cancel = CancellationToken::new();
        let applying = Applying::new(&*host, &*processes, &cancel);
        let cx: Write<'_, ()> = Write::new(&applying);
        let (path, old, new) = (Path::new("/etc/fstab"), Some("a\n".to_string()), Some("b\n".to_string()));
        put_text(&host, "/etc/fstab", "a\n");
        write(path, &old, &new, &cx).unwrap();
        assert_eq!(read(&*host, path).unwrap(), new);

        put_text(&host, "/etc/fstab", "theirs\n");
        for (from, to) in [(&old, &new), (&None, &new), (&old, &None)] {
            let fault = write(path, from, to, &cx).unwrap_err();
            assert_eq!(fault.kind, FaultKind::ChangedSince, "{fault}");
        }
        assert_eq!(read(&*host, path).unwrap().as_deref(), Some("theirs\n"));
    }
}
