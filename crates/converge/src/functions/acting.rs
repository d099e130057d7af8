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

impl Acting {
    /// What its bare words are called.
    pub fn bare_names(&self) -> impl Iterator<Item = &'static str> {
        self.bare.iter().copied()
    }

    /// What its kind calls a word.
    pub fn own_name<'a>(&self, word: &'a str) -> &'a str {
        self.renamed.iter().find(|(own, _)| *own == word).map_or(word, |(_, other)| *other)
    }

    /// What is said besides.
    pub fn said(&self) -> &'static [(&'static str, &'static str)] {
        self.said
    }
}

/// Every function that acts.
pub static ACTING: &[Acting] = &[
    acting(
        "cp.get_file",
        "file.managed",
        &["source", "path"],
        &[],
        "cp.get_file SOURCE PATH: puts a file of the states directory in place",
    ),
    acting(
        "cp.get_template",
        "file.managed",
        &["source", "path"],
        &[("template", "jinja")],
        "cp.get_template SOURCE PATH: the same for a template",
    ),
    acting(
        "cp.get_url",
        "file.managed",
        &["source", "path"],
        &[("skip_verify", "true")],
        "cp.get_url URL PATH: puts in place what a server gives; source_hash=… says what it is to be",
    ),
    acting(
        "file.chgrp",
        "file.managed",
        &["path", "group"],
        &[("must_exist", "true"), ("replace", "false")],
        "file.chgrp PATH GROUP: gives a file another group",
    ),
    acting(
        "file.chown",
        "file.managed",
        &["path", "user", "group"],
        &[("must_exist", "true"), ("replace", "false")],
        "file.chown PATH USER [GROUP]: gives a file another owner",
    ),
    acting(
        "file.link",
        "file.hardlink",
        &["target", "path"],
        &[],
        "file.link FILE PATH: gives a file a second name",
    ),
    acting(
        "file.move",
        "file.rename",
        &["source", "path"],
        &[],
        "file.move FROM TO: moves a file or a directory",
    ),
    acting(
        "file.set_mode",
        "file.managed",
        &["path", "mode"],
        &[("must_exist", "true"), ("replace", "false")],
        "file.set_mode PATH MODE: gives a file other permissions",
    ),
    acting(
        "file.write",
        "file.managed",
        &["path", "contents"],
        &[],
        "file.write PATH TEXT: has a file hold a text and nothing else",
    ),
    acting(
        "hosts.add_host",
        "host.present",
        &["ip", "name"],
        &[],
        "hosts.add_host ADDRESS NAME: lets /etc/hosts give a name an address",
    ),
    acting(
        "hosts.rm_host",
        "host.absent",
        &["ip", "name"],
        &[],
        "hosts.rm_host ADDRESS NAME: takes a name from an address in /etc/hosts",
    ),
    acting("kmod.load", "kmod.present", &["name"], &[], "kmod.load NAME: loads a module of the kernel"),
    acting("kmod.remove", "kmod.absent", &["name"], &[], "kmod.remove NAME: unloads a module of the kernel"),
    acting(
        "locale.set_locale",
        "locale.system",
        &["name"],
        &[],
        "locale.set_locale LOCALE: sets the language of the system",
    ),
    acting(
        "mount.mount",
        "mount.mounted",
        &["name", "device", "fstype"],
        &[("persist", "false")],
        "mount.mount PATH DEVICE [TYPE]: mounts a device until the next start",
    ),
    acting(
        "mount.umount",
        "mount.unmounted",
        &["name"],
        &[],
        "mount.umount PATH: unmounts what is mounted there",
    ),
    acting(
        "network.mod_hostname",
        "hostname.system",
        &["name"],
        &[],
        "network.mod_hostname NAME: gives this machine a name",
    ),
    acting(
        "pip.install",
        "pip.installed",
        &["name"],
        &[],
        "pip.install NAME: installs a python package; takes what pip.installed takes",
    ),
    acting("pip.uninstall", "pip.removed", &["name"], &[], "pip.uninstall NAME: removes a python package"),
    acting("pkg.hold", "pkg.held", &["name"], &[], "pkg.hold NAME: keeps a package in its version"),
    acting(
        "pkg.purge",
        "pkg.purged",
        &["name"],
        &[],
        "pkg.purge NAME: removes a package with its configuration",
    ),
    acting(
        "pkg.unhold",
        "pkg.unheld",
        &["name"],
        &[],
        "pkg.unhold NAME: keeps a package in its version no longer",
    ),
    acting(
        "pkg.upgrade",
        "pkg.uptodate",
        &[],
        &[],
        "pkg.upgrade: brings all packages to their newest versions",
    ),
    acting(
        "service.mask",
        "service.masked",
        &["name"],
        &[],
        "service.mask NAME: keeps a service from being started by anybody",
    ),
    acting(
        "service.unmask",
        "service.unmasked",
        &["name"],
        &[],
        "service.unmask NAME: lets a service be started again",
    ),
    acting(
        "ssh.rm_auth_key",
        "ssh_auth.absent",
        &["user", "name"],
        &[],
        "ssh.rm_auth_key USER KEY: lets nobody in any more as a user by a key",
    ),
    acting(
        "ssh.set_auth_key",
        "ssh_auth.present",
        &["user", "name"],
        &[],
        "ssh.set_auth_key USER KEY: lets somebody in as a user by a key",
    ),
    acting(
        "sysctl.persist",
        "sysctl.present",
        &["name", "value"],
        &[],
        "sysctl.persist NAME VALUE: sets the kernel, now and at the next start",
    ),
    acting(
        "timezone.set_zone",
        "timezone.system",
        &["name"],
        &[],
        "timezone.set_zone ZONE: sets the time zone of this machine",
    ),
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

/// Kinds that people also call with several bare words, in the order in which Salt's functions of the same name take them.
const BARE_WORDS: &[(&str, &[&str])] = &[
    ("file.append", &["path", "text"]),
    ("file.comment", &["path", "regex"]),
    ("file.copy", &["source", "path"]),
    ("file.prepend", &["path", "text"]),
    ("file.rename", &["source", "path"]),
    ("file.replace", &["path", "pattern", "repl"]),
    ("file.symlink", &["target", "path"]),
    ("file.touch", &["path", "atime", "mtime"]),
    ("file.uncomment", &["path", "regex"]),
];

/// Of a kind that is called with more than its one bare word.
fn with_named_words(kind: &str, words: RawArguments) -> Result<RawArguments, String> {
    let bare = BARE_WORDS.iter().find(|(name, _)| *name == kind).filter(|_| words.positional.len() > 1);
    let Some((_, names)) = bare else { return Ok(words) };
    named(kind, names, &[], words)
}

/// The kind that a function is, with its words as the kind takes them. Any other call stays as it is.
pub fn translated(function: &str, words: RawArguments) -> Result<(String, RawArguments), String> {
    let Some(acting) = ACTING.iter().find(|acting| acting.name == function) else {
        return with_named_words(function, words).map(|words| (function.to_string(), words));
    };
    let mut words = named(function, acting.bare, acting.renamed, words)?;
    for (name, value) in acting.said {
        if !words.named.iter().any(|(own, _)| own == name) {
            words.named.push((name.to_string(), RawValue::Letters(value.to_string())));
        }
    }
    Ok((acting.kind.to_string(), words))
}

/// Words by their names: bare ones in their order, and others as the kind calls them.
fn named(
    function: &str,
    bare: &[&str],
    renamed: &[(&str, &str)],
    words: RawArguments,
) -> Result<RawArguments, String> {
    if let Some(extra) = words.positional.get(bare.len()) {
        return Err(match bare.join(", ") {
            none if none.is_empty() => {
                format!("{function}: it takes no bare word; `{}` is one", extra.shown())
            }
            names => format!("{function}: `{}` is one word too many; it takes {names}", extra.shown()),
        });
    }
    let mut named: Vec<(String, RawValue)> =
        bare.iter().map(ToString::to_string).zip(words.positional).collect();
    for (name, value) in words.named {
        let own = renamed.iter().find(|(own, _)| *own == name).map_or(name.as_str(), |(_, other)| *other);
        if named.iter().any(|(given, _)| given == own) {
            return Err(format!("{function}: `{own}` is given twice"));
        }
        named.push((own.to_string(), value));
    }
    Ok(RawArguments { positional: Vec::new(), named })
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
            (
                "file.set_mode",
                &["/f", "0600"],
                "file.managed path=/f mode=0600 must_exist=true replace=false",
            ),
            ("file.symlink", &["/target", "/link"], "file.symlink target=/target path=/link"),
            ("file.symlink", &["/link", "target=/t"], "file.symlink target=/t"),
            ("file.replace", &["/f", "a", "b", "count=1"], "file.replace path=/f pattern=a repl=b count=1"),
            ("pkg.upgrade", &["refresh=true"], "pkg.uptodate refresh=true"),
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

    #[test]
    fn kinds_with_several_bare_words_have_these_parameters() {
        for (name, words) in BARE_WORDS {
            let kind = zester_resources::catalog().get(name).unwrap_or_else(|| panic!("{name}"));
            assert!(words.iter().all(|word| kind.parameter(word).is_some()), "{name}");
        }
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
