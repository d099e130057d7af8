//! Functions that act: each is a kind of state under the name by which people call it.
//!
//! `user.add deploy shell=/bin/bash` is a run of `user.present` with a journal like any other, so it can be tried with
//! `--test`, and taken back with `revert`.

use crate::raw_arguments::{RawArguments, RawValue};

/// One function that acts.
pub struct Acting {
    pub name: &'static str,
    /// The kind that it is.
    pub kind: &'static str,
    /// What its bare words are, in their order.
    bare: &'static [&'static str],
    /// Words that the kind calls otherwise.
    renamed: &'static [(&'static str, &'static str)],
    /// What is said besides.
    said: &'static [(&'static str, &'static str)],
    pub doc: &'static str,
}

const fn acting(
    name: &'static str,
    kind: &'static str,
    bare: &'static [&'static str],
    said: &'static [(&'static str, &'static str)],
    doc: &'static str,
) -> Acting {
    Acting { name, kind, bare, renamed: &[], said, doc }
}

const fn renaming(acting: Acting, renamed: &'static [(&'static str, &'static str)]) -> Acting {
    Acting { renamed, ..acting }
}

/// Every function that acts.
pub static ACTING: &[Acting] = &[
    acting("file.mkdir", "file.directory", &["path"], &[], "file.mkdir PATH: makes a directory"),
    acting(
        "file.makedirs",
        "file.directory",
        &["path"],
        &[("makedirs", "true")],
        "file.makedirs PATH: makes a directory and those above it",
    ),
    acting("file.remove", "file.absent", &["path"], &[], "file.remove PATH: removes a file or a directory"),
    acting(
        "group.add",
        "group.present",
        &["name", "gid"],
        &[],
        "group.add NAME [GID]: makes a group; takes what group.present takes",
    ),
    acting(
        "group.adduser",
        "group.present",
        &["name", "addusers"],
        &[("must_exist", "true")],
        "group.adduser NAME USER: puts somebody into a group",
    ),
    acting(
        "group.chgid",
        "group.present",
        &["name", "gid"],
        &[("must_exist", "true")],
        "group.chgid NAME GID: gives a group a number",
    ),
    acting("group.delete", "group.absent", &["name"], &[], "group.delete NAME: removes a group"),
    acting(
        "group.deluser",
        "group.present",
        &["name", "delusers"],
        &[("must_exist", "true")],
        "group.deluser NAME USER: takes somebody out of a group",
    ),
    acting(
        "group.members",
        "group.present",
        &["name", "members"],
        &[("must_exist", "true")],
        "group.members NAME USERS: says who is in a group, and nobody else",
    ),
    acting("pkg.install", "pkg.installed", &["name"], &[], "pkg.install NAME: installs a package"),
    acting("pkg.remove", "pkg.removed", &["name"], &[], "pkg.remove NAME: removes a package"),
    renaming(
        acting(
            "user.add",
            "user.present",
            &["name", "uid", "gid", "groups", "home", "shell"],
            &[],
            "user.add NAME [UID] [GID] [GROUPS] [HOME] [SHELL]: makes a user; takes what user.present takes",
        ),
        &[("create_home", "createhome")],
    ),
    acting(
        "user.chfullname",
        "user.present",
        &["name", "fullname"],
        &[("must_exist", "true"), ("createhome", "false")],
        "user.chfullname NAME TEXT: gives a user a name in full",
    ),
    acting(
        "user.chgid",
        "user.present",
        &["name", "gid"],
        &[("must_exist", "true"), ("createhome", "false"), ("allow_gid_change", "true")],
        "user.chgid NAME GROUP: gives a user another primary group",
    ),
    acting(
        "user.chgroups",
        "user.present",
        &["name", "groups"],
        &[("must_exist", "true"), ("createhome", "false")],
        "user.chgroups NAME GROUPS: says which groups a user is in, and no others",
    ),
    renaming(
        acting(
            "user.chhome",
            "user.present",
            &["name", "home", "move_home"],
            &[("must_exist", "true"), ("createhome", "false")],
            "user.chhome NAME HOME: gives a user another home; persist=true moves what is in the old one",
        ),
        &[("persist", "move_home")],
    ),
    acting(
        "user.chshell",
        "user.present",
        &["name", "shell"],
        &[("must_exist", "true"), ("createhome", "false")],
        "user.chshell NAME SHELL: gives a user another shell",
    ),
    acting(
        "user.chuid",
        "user.present",
        &["name", "uid"],
        &[("must_exist", "true"), ("createhome", "false"), ("allow_uid_change", "true")],
        "user.chuid NAME UID: gives a user another number",
    ),
    renaming(
        acting(
            "user.delete",
            "user.absent",
            &["name", "purge"],
            &[],
            "user.delete NAME: removes a user; remove=true also its home",
        ),
        &[("remove", "purge")],
    ),
];

/// The kind that a function is, with its words as the kind takes them. Any other call stays as it is.
pub fn translated(function: &str, words: RawArguments) -> Result<(String, RawArguments), String> {
    let Some(acting) = ACTING.iter().find(|acting| acting.name == function) else {
        return Ok((function.to_string(), words));
    };
    if let Some(extra) = words.positional.get(acting.bare.len()) {
        let names = acting.bare.join(", ");
        return Err(format!("{function}: `{}` is one word too many; it takes {names}", extra.shown()));
    }
    let mut named: Vec<(String, RawValue)> =
        acting.bare.iter().map(ToString::to_string).zip(words.positional).collect();
    for (name, value) in words.named {
        let renamed =
            acting.renamed.iter().find(|(own, _)| *own == name).map_or(name.as_str(), |(_, other)| *other);
        if named.iter().any(|(own, _)| own == renamed) {
            return Err(format!("{function}: `{renamed}` is given twice"));
        }
        named.push((renamed.to_string(), value));
    }
    for (name, value) in acting.said {
        if !named.iter().any(|(own, _)| own == name) {
            named.push((name.to_string(), RawValue::Letters(value.to_string())));
        }
    }
    Ok((acting.kind.to_string(), RawArguments { positional: Vec::new(), named }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(function: &str, words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let (kind, words) = translated(function, RawArguments::parse(&words))?;
        let named = words.named.iter().map(|(name, value)| format!("{name}={}", value.shown()));
        Ok([kind].into_iter().chain(named).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_function_that_acts_is_a_kind_under_another_name() {
        for (function, words, wanted) in [
            (
                "user.add",
                &["deploy", "1500", "shell=/bin/sh"][..],
                "user.present name=deploy uid=1500 shell=/bin/sh",
            ),
            ("user.delete", &["deploy", "remove=true"], "user.absent name=deploy purge=true"),
            (
                "user.chshell",
                &["deploy", "/bin/sh"],
                "user.present name=deploy shell=/bin/sh must_exist=true createhome=false",
            ),
            (
                "group.adduser",
                &["staff", "deploy"],
                "group.present name=staff addusers=deploy must_exist=true",
            ),
            ("file.makedirs", &["/srv/a/b"], "file.directory path=/srv/a/b makedirs=true"),
            ("test.ping", &[], "test.ping"),
        ] {
            assert_eq!(line(function, words).as_deref(), Ok(wanted));
        }
        assert_eq!(
            line("user.chshell", &["a", "b", "c"]).unwrap_err(),
            "user.chshell: `c` is one word too many; it takes name, shell"
        );
        assert_eq!(
            line("user.chshell", &["a", "name=b"]).unwrap_err(),
            "user.chshell: `name` is given twice"
        );
    }

    /// Who asks to change somebody does not ask to make somebody of that name.
    #[test]
    fn what_changes_an_account_makes_none() {
        for acting in ACTING.iter().filter(|acting| matches!(acting.kind, "user.present" | "group.present")) {
            let makes = acting.name.ends_with(".add");
            assert_eq!(acting.said.contains(&("must_exist", "true")), !makes, "{}", acting.name);
        }
    }

    #[test]
    fn every_function_that_acts_names_parameters_that_its_kind_has() {
        for acting in ACTING {
            let kind =
                zester_resources::catalog().get(acting.kind).unwrap_or_else(|| panic!("{}", acting.kind));
            let words = acting.bare.iter().chain(acting.said.iter().map(|(name, _)| name));
            for word in words.chain(acting.renamed.iter().map(|(_, other)| other)) {
                assert!(kind.parameter(word).is_some(), "{} has no `{word}`", acting.kind);
            }
            assert!(acting.doc.starts_with(acting.name), "{}", acting.name);
            assert!(
                zester_resources::catalog().get(acting.name).is_none(),
                "{} is a kind itself",
                acting.name
            );
        }
    }
}
