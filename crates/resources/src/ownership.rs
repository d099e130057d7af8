//! Who a file is to belong to, out of the names that a state gives.

use crate::params::Invalid;
use std::path::Path;
use zester_host::{Act, Fault, FaultKind, HostRead, Owner};

fn number(name: &str) -> Option<u32> {
    name.parse().ok()
}

/// The number that means "leave it as it is" to the kernel, and so nobody.
const NOBODY: u32 = u32::MAX;

/// What is wrong with the names, without looking at the machine.
pub(crate) fn invalid(user: Option<&str>, group: Option<&str>) -> Vec<Invalid> {
    let given = [("user", user), ("group", group)];
    let bad = given.into_iter().filter(|(_, name)| name.and_then(number) == Some(NOBODY));
    let invalid = |(parameter, _)| {
        let message = format!("{NOBODY} is the number of no {parameter}");
        Invalid { parameter, message, hint: Some("leave it out to keep the one that is there".into()) }
    };
    bad.map(invalid).collect()
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

/// The numbers of those that a state names; nothing for whom it does not.
pub(crate) fn named(
    host: &dyn HostRead,
    user: Option<&str>,
    group: Option<&str>,
) -> Result<(Option<u32>, Option<u32>), Fault> {
    let owner = wanted(host, user, group, None)?;
    Ok((user.map(|_| owner.uid), group.map(|_| owner.gid)))
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

#[cfg(test)]
mod tests {
    use crate::laws::bind_json;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("S-3")]
    fn s3_the_number_that_means_nobody_is_refused_where_it_stands() {
        for kind in ["file.managed", "file.directory", "file.symlink"] {
            for parameter in ["user", "group"] {
                for nobody in [json!(4_294_967_295_u32), json!("4294967295"), json!("+4294967295")] {
                    let mut params = json!({ "path": "/f", "target": "t" });
                    if kind != "file.symlink" {
                        params = json!({ "path": "/f" });
                    }
                    params[parameter] = nobody;
                    let diagnostics = bind_json(kind, &params).err().expect(kind);
                    let words = format!("4294967295 is the number of no {parameter}");
                    assert!(diagnostics[0].message.contains(&words), "{diagnostics:?}");
                    params[parameter] = json!("4294967294");
                    assert!(bind_json(kind, &params).is_ok());
                }
            }
        }
    }
}
