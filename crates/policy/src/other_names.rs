//! Functions that are others under another name. Masters judge roles and know no kinds, so the names stand here; a test of the peel holds
//! them against what a call really comes to.

/// Functions that act, and the kind of state that each is.
const KINDS: &[(&str, &str)] = &[
    ("cp.get_file", "file.managed"),
    ("cp.get_template", "file.managed"),
    ("cp.get_url", "file.managed"),
    ("file.chgrp", "file.managed"),
    ("file.chown", "file.managed"),
    ("file.link", "file.hardlink"),
    ("file.makedirs", "file.directory"),
    ("file.mkdir", "file.directory"),
    ("file.move", "file.rename"),
    ("file.remove", "file.absent"),
    ("file.set_mode", "file.managed"),
    ("file.write", "file.managed"),
    ("group.add", "group.present"),
    ("group.adduser", "group.present"),
    ("group.chgid", "group.present"),
    ("group.delete", "group.absent"),
    ("group.deluser", "group.present"),
    ("group.members", "group.present"),
    ("hosts.add_host", "host.present"),
    ("hosts.rm_host", "host.absent"),
    ("kmod.load", "kmod.present"),
    ("kmod.remove", "kmod.absent"),
    ("locale.set_locale", "locale.system"),
    ("mount.mount", "mount.mounted"),
    ("mount.umount", "mount.unmounted"),
    ("network.mod_hostname", "hostname.system"),
    ("pip.install", "pip.installed"),
    ("pip.uninstall", "pip.removed"),
    ("pkg.hold", "pkg.held"),
    ("pkg.install", "pkg.installed"),
    ("pkg.purge", "pkg.purged"),
    ("pkg.remove", "pkg.removed"),
    ("pkg.unhold", "pkg.unheld"),
    ("pkg.upgrade", "pkg.uptodate"),
    ("service.mask", "service.masked"),
    ("service.unmask", "service.unmasked"),
    ("ssh.rm_auth_key", "ssh_auth.absent"),
    ("ssh.set_auth_key", "ssh_auth.present"),
    ("sysctl.persist", "sysctl.present"),
    ("timezone.set_zone", "timezone.system"),
    ("user.add", "user.present"),
    ("user.chfullname", "user.present"),
    ("user.chgid", "user.present"),
    ("user.chgroups", "user.present"),
    ("user.chhome", "user.present"),
    ("user.chshell", "user.present"),
    ("user.chuid", "user.present"),
    ("user.delete", "user.absent"),
];
/// Functions that do the same.
const SAME: &[&[&str]] = &[&["state.apply", "state.sls"]];
/// Modules whose functions do the same.
const SAME_MODULES: &[(&str, &str)] = &[("facts", "grains"), ("settings", "pillar")];

/// The kind of state that a function is another name of.
pub fn kind_of(function: &str) -> Option<&'static str> {
    KINDS.iter().find(|(name, _)| *name == function).map(|(_, kind)| *kind)
}

/// What else a function is.
pub(crate) fn other_names(function: &str) -> Vec<String> {
    let mut others: Vec<String> = kind_of(function).into_iter().map(str::to_string).collect();
    let group = SAME.iter().find(|group| group.contains(&function)).copied().unwrap_or_default();
    others.extend(group.iter().filter(|name| **name != function).map(ToString::to_string));
    if let Some((module, name)) = function.split_once('.') {
        for (one, other) in SAME_MODULES {
            match module {
                _ if module == *one => others.push(format!("{other}.{name}")),
                _ if module == *other => others.push(format!("{one}.{name}")),
                _ => {}
            }
        }
    }
    others
}
