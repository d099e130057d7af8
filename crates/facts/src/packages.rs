//! Which package manager is used here.

use crate::{Facts, text};
use std::path::Path;

pub fn collect(facts: &mut Facts) {
    let installed = |program: &str| {
        ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].iter().any(|dir| Path::new(dir).join(program).exists())
    };
    let found = understand(text(facts, "os_family"), installed);
    facts.insert("pkg_manager".into(), found.into());
}

/// Program, name, family that it is native to. The better of two for one family stands first.
const MANAGERS: [(&str, &str, &str); 9] = [
    ("apt-get", "apt", "Debian"),
    ("dnf", "dnf", "RedHat"),
    ("yum", "yum", "RedHat"),
    ("zypper", "zypper", "Suse"),
    ("pacman", "pacman", "Arch"),
    ("apk", "apk", "Alpine"),
    ("xbps-install", "xbps", "Void"),
    ("emerge", "portage", "Gentoo"),
    ("nix-env", "nix", "NixOS"),
];

/// The family's own first: `apt` may well be installed on Fedora. Empty where there is none.
fn understand(family: &str, installed: impl Fn(&str) -> bool) -> &'static str {
    let native = MANAGERS.iter().filter(|(.., of)| *of == family);
    let foreign = MANAGERS.iter().filter(|(.., of)| *of != family);
    native.chain(foreign).find(|(program, ..)| installed(program)).map_or("", |(_, name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_the_native_package_manager_wins_over_an_installed_one() {
        let has = |programs: &'static [&str]| move |program: &str| programs.contains(&program);
        assert_eq!(understand("RedHat", has(&["apt-get", "yum", "dnf"])), "dnf");
        assert_eq!(understand("RedHat", has(&["yum"])), "yum");
        assert_eq!(understand("Frob", has(&["apk"])), "apk");
        assert_eq!(understand("Debian", has(&[])), "");
    }
}
