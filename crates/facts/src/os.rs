//! The distribution, from `os-release`, under Salt's names for distributions and families.

use crate::{Facts, read, text};
use serde_json::{Value, json};

pub fn collect(facts: &mut Facts) {
    let mut release = read::system_text("/etc/os-release");
    if release.is_empty() {
        release = read::system_text("/usr/lib/os-release");
    }
    let cpuarch = text(facts, "cpuarch").to_string();
    let kernel = text(facts, "kernel").to_string();
    facts.extend(understand(&release, &cpuarch, &kernel));
}

/// Distributions whose name in Salt does not follow from their own: `ID`, `os`, `os_family`.
const KNOWN: [(&str, &str, &str); 33] = [
    ("debian", "Debian", "Debian"),
    ("ubuntu", "Ubuntu", "Debian"),
    ("raspbian", "Raspbian", "Debian"),
    ("linuxmint", "Mint", "Debian"),
    ("pop", "Pop", "Debian"),
    ("kali", "Kali", "Debian"),
    ("devuan", "Devuan", "Debian"),
    ("elementary", "elementary OS", "Debian"),
    ("rhel", "RedHat", "RedHat"),
    ("centos", "CentOS", "RedHat"),
    ("rocky", "Rocky", "RedHat"),
    ("almalinux", "AlmaLinux", "RedHat"),
    ("fedora", "Fedora", "RedHat"),
    ("ol", "OEL", "RedHat"),
    ("amzn", "Amazon", "RedHat"),
    ("scientific", "ScientificLinux", "RedHat"),
    ("virtuozzo", "VirtuozzoLinux", "RedHat"),
    ("cloudlinux", "CloudLinux", "RedHat"),
    ("mariner", "Mariner", "RedHat"),
    ("azurelinux", "AzureLinux", "RedHat"),
    ("photon", "VMware Photon OS", "RedHat"),
    ("sles", "SUSE", "Suse"),
    ("sled", "SUSE", "Suse"),
    ("sle-micro", "SUSE", "Suse"),
    ("opensuse-leap", "SUSE", "Suse"),
    ("opensuse-tumbleweed", "SUSE", "Suse"),
    ("arch", "Arch", "Arch"),
    ("archarm", "Arch ARM", "Arch"),
    ("manjaro", "Manjaro", "Arch"),
    ("alpine", "Alpine", "Alpine"),
    ("gentoo", "Gentoo", "Gentoo"),
    ("void", "Void", "Void"),
    ("nixos", "NixOS", "NixOS"),
];

/// Families by what a distribution says it is like.
const LIKE: [(&str, &str); 9] = [
    ("debian", "Debian"),
    ("ubuntu", "Debian"),
    ("rhel", "RedHat"),
    ("fedora", "RedHat"),
    ("centos", "RedHat"),
    ("suse", "Suse"),
    ("opensuse", "Suse"),
    ("arch", "Arch"),
    ("alpine", "Alpine"),
];

fn understand(release: &str, cpuarch: &str, kernel: &str) -> Facts {
    let field = |name: &str| field(release, name);
    let id = field("ID").to_lowercase();
    let own_name = match field("NAME") {
        name if name.is_empty() => kernel.to_string(),
        name => name,
    };
    let known = KNOWN.iter().find(|(known, ..)| *known == id);
    let like = field("ID_LIKE").to_lowercase();
    let like = like.split_whitespace().find_map(|word| LIKE.iter().find(|(known, _)| *known == word));
    let os = match known {
        Some(("centos", ..)) if own_name.contains("Stream") => "CentOS Stream".to_string(),
        Some((_, os, _)) => (*os).to_string(),
        None => own_name.replace(" GNU/Linux", "").replace(" Linux", ""),
    };
    let family = known.map(|(.., family)| *family).or(like.map(|(_, family)| *family)).unwrap_or(&os);
    let version = [field("VERSION_ID"), field("BUILD_ID")].into_iter().find(|text| !text.is_empty());
    let version = version.unwrap_or_default();
    let mut facts = Facts::new();
    let mut put = |name: &str, value: Value| facts.insert(name.to_string(), value);
    put("os", os.as_str().into());
    put("os_family", family.into());
    put("osfullname", own_name.as_str().into());
    put("osrelease", version.as_str().into());
    put("osrelease_info", release_info(&version).into());
    if let Some(major) = release_info(&version).first() {
        put("osmajorrelease", major.clone());
    }
    put("oscodename", codename(release).into());
    put("osfinger", finger(&os, &own_name, &version).into());
    put("osarch", package_arch(family, cpuarch).into());
    put("lsb_distrib_id", own_name.into());
    put("lsb_distrib_release", version.into());
    put("lsb_distrib_codename", codename(release).into());
    put("lsb_distrib_description", field("PRETTY_NAME").into());
    facts
}

/// `KEY=value`, `KEY="value"` or `KEY='value'`; shell escapes inside are undone.
fn field(release: &str, name: &str) -> String {
    let mut lines = release.lines().filter_map(|line| line.trim().split_once('='));
    let value = lines.find(|(key, _)| *key == name).map_or("", |(_, value)| value.trim());
    let quoted = |quote| value.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    let mut plain = String::new();
    let mut characters = quoted('"').or_else(|| quoted('\'')).unwrap_or(value).chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain
}

/// `"22.04"` as `[22, 4]`; what is no number stays a text, as in Salt.
fn release_info(version: &str) -> Vec<Value> {
    let parts = version.split('.').filter(|part| !part.is_empty());
    let parsed: Vec<Value> = parts.map(|part| part.parse::<u64>().map_or(json!(part), Value::from)).collect();
    match parsed.first() {
        Some(Value::Number(_)) => parsed,
        _ => Vec::new(),
    }
}

/// The code name as such, or what the version has in parentheses: `9.3 (Blue Onyx)`.
fn codename(release: &str) -> String {
    for name in ["VERSION_CODENAME", "UBUNTU_CODENAME"] {
        let value = field(release, name);
        if !value.is_empty() {
            return value;
        }
    }
    let version = field(release, "VERSION");
    let inside = version.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    inside.map(|(name, _)| name.to_string()).unwrap_or_default()
}

/// `Debian-12`, and `Ubuntu-22.04` where releases of one year differ.
fn finger(os: &str, full_name: &str, version: &str) -> String {
    let name = if matches!(os, "Debian" | "Raspbian") { os } else { full_name };
    let part = match os {
        "Ubuntu" => version,
        _ => version.split('.').next().unwrap_or_default(),
    };
    format!("{name}-{part}").trim_end_matches('-').to_string()
}

/// What package names of the family call the architecture.
fn package_arch(family: &str, cpuarch: &str) -> String {
    let debian = match cpuarch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "i386" | "i486" | "i586" | "i686" => "i386",
        "armv7l" | "armv8l" => "armhf",
        "armv6l" => "armel",
        "ppc64le" => "ppc64el",
        other => other,
    };
    if family == "Debian" { debian } else { cpuarch }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    const DEBIAN: &str = include_str!("../samples/os-release.debian12");
    const UBUNTU: &str = include_str!("../samples/os-release.ubuntu2204");
    const ROCKY: &str = include_str!("../samples/os-release.rocky9");
    const STREAM: &str = include_str!("../samples/os-release.centos-stream9");
    const ALPINE: &str = include_str!("../samples/os-release.alpine318");
    const ARCH: &str = include_str!("../samples/os-release.arch");
    const LEAP: &str = include_str!("../samples/os-release.leap155");
    const AMAZON: &str = include_str!("../samples/os-release.amazon2023");

    #[test]
    #[rule("D-7")]
    fn d7_distributions_are_named_as_in_salt() {
        // os, os_family, osrelease, osmajorrelease, oscodename, osfinger, osarch
        let rows = [
            (DEBIAN, ["Debian", "Debian", "12", "12", "bookworm", "Debian-12", "amd64"]),
            (UBUNTU, ["Ubuntu", "Debian", "22.04", "22", "jammy", "Ubuntu-22.04", "amd64"]),
            (ROCKY, ["Rocky", "RedHat", "9.3", "9", "Blue Onyx", "Rocky Linux-9", "x86_64"]),
            (STREAM, ["CentOS Stream", "RedHat", "9", "9", "", "CentOS Stream-9", "x86_64"]),
            (ALPINE, ["Alpine", "Alpine", "3.18.4", "3", "", "Alpine Linux-3", "x86_64"]),
            (ARCH, ["Arch", "Arch", "rolling", "", "", "Arch Linux-rolling", "x86_64"]),
            (LEAP, ["SUSE", "Suse", "15.5", "15", "", "openSUSE Leap-15", "x86_64"]),
            (AMAZON, ["Amazon", "RedHat", "2023", "2023", "", "Amazon Linux-2023", "x86_64"]),
        ];
        let names = ["os", "os_family", "osrelease", "osmajorrelease", "oscodename", "osfinger", "osarch"];
        for (release, expected) in rows {
            let facts = understand(release, "x86_64", "Linux");
            let found = names.map(|name| match facts.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => String::new(),
            });
            assert_eq!(found, expected);
        }
        assert_eq!(understand(UBUNTU, "x86_64", "Linux")["osrelease_info"], json!([22, 4]));
    }

    #[test]
    #[rule("D-7")]
    fn d7_an_unknown_distribution_is_of_the_family_it_is_like() {
        let facts = understand("NAME=\"Frob Linux\"\nID=frob\nID_LIKE=\"zorg debian\"\n", "x86_64", "Linux");
        assert_eq!((&facts["os"], &facts["os_family"]), (&json!("Frob"), &json!("Debian")));
        let facts = understand("", "x86_64", "Linux");
        assert_eq!(
            (&facts["os"], &facts["os_family"], &facts["osrelease"]),
            (&json!("Linux"), &json!("Linux"), &json!(""))
        );
    }

    #[test]
    #[rule("D-7")]
    fn d7_quotes_and_escapes_of_os_release_are_undone() {
        let release = "A='x y'\nB=\"a \\\"b\\\" \\$c\"\n# C=no\n  D=plain\n";
        let found = ["A", "B", "C", "D"].map(|name| field(release, name));
        assert_eq!(found, ["x y", "a \"b\" $c", "", "plain"]);
    }
}
