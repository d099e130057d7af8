//! Who a file is to belong to, out of the names that a state gives.

use std::path::Path;
use zester_host::{Act, Fault, FaultKind, HostRead, Owner};

fn number(name: &str) -> Option<u32> {
    name.parse().ok()
}

/// The owner that a state wants: what it names, else what is there already, else us.
pub(crate) fn wanted(
    host: &dyn HostRead,
    user: Option<&str>,
    group: Option<&str>,
    present: Option<Owner>,
) -> Result<Owner, Fault> {
    let mut owner = present.unwrap_or_else(|| host.me());
    if let Some(name) = user {
        owner.uid = match host.user(name)? {
            Some(user) => user.uid,
            None => number(name).ok_or_else(|| unknown("user", name))?,
        };
    }
    if let Some(name) = group {
        owner.gid = match host.group(name)? {
            Some(group) => group.gid,
            None => number(name).ok_or_else(|| unknown("group", name))?,
        };
    }
    Ok(owner)
}

/// A fault where it is known beforehand that nothing that is to belong to them can be put here.
pub(crate) fn may_put(host: &dyn HostRead, path: &Path, owner: Owner) -> Result<(), Fault> {
    host.may(path, Act::Put)?;
    host.may(path, Act::New(owner))
}

fn unknown(what: &str, name: &str) -> Fault {
    Fault::new(FaultKind::NotFound, format!("{what} `{name}` does not exist"))
        .hint(format!("create it in a state that this one requires, or give the number of the {what}"))
}
