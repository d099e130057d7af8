//! Which repositories apt is told of, and whether it ever asked each of them what it has.

use super::manager::read_text;
use std::path::Path;
use zester_host::{Fault, FileKind, HostRead};

/// Where apt keeps what it knows of packages; without any it knows nothing, as in a fresh container.
pub(super) const LISTS: &str = "/var/lib/apt/lists";
/// The file of repositories, and the directory of more such files.
const SOURCES: &str = "/etc/apt/sources.list";
const PARTS: &str = "/etc/apt/sources.list.d";
/// What apt writes otherwise in the name of a file.
const QUOTED: &str = "\\|{}[]<>\"^~_=!@#$%&*";
/// Media that are no addresses: nobody can ask them at any time.
const AWAY: [&str; 2] = ["cdrom:", "mirror"];

/// Whether there is a repository of packages whose lists are not there.
pub(super) fn lacks_one(host: &dyn HostRead) -> Result<bool, Fault> {
    let mut wanted = read_text(host, SOURCES)?.map(|text| of_lines(&text)).unwrap_or_default();
    if is_directory(host, PARTS)? {
        for name in host.list(Path::new(PARTS))? {
            let path = format!("{PARTS}/{}", name.to_string_lossy());
            let read: fn(&str) -> Vec<String> = match path.rsplit('.').next() {
                Some("list") => of_lines,
                Some("sources") => of_paragraphs,
                _ => continue,
            };
            wanted.extend(read_text(host, &path)?.map(|text| read(&text)).unwrap_or_default());
        }
    }
    if wanted.is_empty() {
        return Ok(false);
    }
    let there: Vec<String> = match is_directory(host, LISTS)? {
        true => host.list(Path::new(LISTS))?.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
        false => Vec::new(),
    };
    // Where there is none at all no package is known, and what is not known is fetched anyway.
    let knows = there.iter().any(|name| name.contains("_Packages"));
    Ok(knows && wanted.iter().any(|start| !there.iter().any(|name| name.starts_with(start.as_str()))))
}

fn is_directory(host: &dyn HostRead, path: &str) -> Result<bool, Fault> {
    Ok(host.stat_followed(Path::new(path))?.is_some_and(|meta| meta.kind == FileKind::Directory))
}

/// How the names of the lists begin, of each `deb` line.
fn of_lines(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let rest = line.split('#').next()?.trim().strip_prefix("deb")?;
        let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace();
        start_of(words.next()?, words.next()?)
    };
    text.lines().filter_map(line).collect()
}

/// The same of paragraphs.
fn of_paragraphs(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let plain: String =
        text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    for paragraph in plain.split("\n\n") {
        let words = |name: &str| field(paragraph, name);
        let off = words("Enabled").first().is_some_and(|word| word.eq_ignore_ascii_case("no"));
        if off || !words("Types").iter().any(|word| word == "deb") {
            continue;
        }
        for address in words("URIs") {
            found.extend(words("Suites").iter().filter_map(|suite| start_of(&address, suite)));
        }
    }
    found
}

/// The words of a field, which may go on over lines that begin with a blank.
fn field(paragraph: &str, name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut within = false;
    for line in paragraph.lines() {
        let value = match line.split_once(':') {
            _ if line.starts_with([' ', '\t']) => Some(line).filter(|_| within),
            Some((key, value)) => {
                within = key.trim().eq_ignore_ascii_case(name);
                Some(value).filter(|_| within)
            }
            None => None,
        };
        words.extend(value.into_iter().flat_map(str::split_whitespace).map(str::to_string));
    }
    words
}

/// How apt calls the lists of a suite: the address without its sort and without who asks, `_` for `/`.
fn start_of(address: &str, suite: &str) -> Option<String> {
    if AWAY.iter().any(|away| address.starts_with(away)) || suite.contains('$') {
        return None;
    }
    let (_, rest) = address.split_once(':')?;
    let rest = match rest.strip_prefix("//") {
        Some(host) => {
            let (host, path) = host.split_once('/').unwrap_or((host, ""));
            format!("{}/{path}", host.rsplit('@').next().unwrap_or(host))
        }
        None => rest.to_string(),
    };
    let rest = rest.trim_end_matches('/');
    let whole = match suite.strip_suffix('/') {
        // A repository without suites: its packages lie at a path.
        Some("") => format!("{rest}/"),
        Some(path) => format!("{rest}/{path}/"),
        None => format!("{rest}/dists/{suite}/"),
    };
    let mut start = String::new();
    for byte in whole.bytes() {
        match byte {
            b'/' => start.push('_'),
            byte if byte.is_ascii_graphic() && !QUOTED.contains(char::from(byte)) => {
                start.push(char::from(byte))
            }
            byte => start.push_str(&format!("%{byte:02x}")),
        }
    }
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_without_lists_is_seen_among_others_that_have_some() {
        use crate::laws::{furnish, put_text};
        let host = std::sync::Arc::new(zester_host::overlay::Overlay::empty());
        let _none = furnish(
            &host,
            "d /etc 0755\nd /etc/apt 0755\nd /etc/apt/sources.list.d 0755\nd /var 0755\nd /var/lib 0755\nd /var/lib/apt 0755\nd /var/lib/apt/lists 0755",
        );
        assert!(!lacks_one(&*host).unwrap(), "none is named");
        put_text(&host, "/etc/apt/sources.list", "deb http://a/debian stable main\n");
        assert!(!lacks_one(&*host).unwrap(), "nothing was ever fetched");
        put_text(&host, "/var/lib/apt/lists/a_debian_dists_stable_main_binary-amd64_Packages", "");
        assert!(!lacks_one(&*host).unwrap());
        put_text(&host, "/etc/apt/sources.list.d/b.list.bak", "deb http://b x main\n");
        assert!(!lacks_one(&*host).unwrap(), "apt reads no such file");
        put_text(
            &host,
            "/etc/apt/sources.list.d/b.sources",
            "Types: deb\nURIs: http://b\nSuites: x\nComponents: main\n",
        );
        assert!(lacks_one(&*host).unwrap());
        put_text(&host, "/var/lib/apt/lists/b_dists_x_InRelease", "");
        assert!(!lacks_one(&*host).unwrap());
    }

    /// As apt 2.6 of Debian 12 names them.
    #[test]
    fn lists_are_named_after_the_address_and_the_suite() {
        for (address, suite, start) in [
            (
                "http://deb.debian.org/debian",
                "bookworm-updates",
                "deb.debian.org_debian_dists_bookworm-updates_",
            ),
            (
                "https://deb.nodesource.com/node_20.x",
                "nodistro",
                "deb.nodesource.com_node%5f20.x_dists_nodistro_",
            ),
            ("https://me:secret@example.com:8443/x/", "a/b", "example.com:8443_x_dists_a_b_"),
            ("file:/srv/pool", "./", "_srv_pool_._"),
            ("file:///srv/pool/", "/", "_srv_pool_"),
        ] {
            assert_eq!(start_of(address, suite).as_deref(), Some(start), "{address} {suite}");
        }
        assert_eq!(start_of("cdrom:[Debian]/", "bookworm"), None);
    }

    #[test]
    fn repositories_are_read_from_lines_and_paragraphs() {
        let lines = "# deb http://off/ x main\ndeb [arch=amd64 signed-by=/k] http://a/ x main # why\ndeb-src http://b y main\ndeb\thttp://c z main\n";
        assert_eq!(of_lines(lines), ["a_dists_x_", "c_dists_z_"]);
        let paragraphs = "Types: deb deb-src\n# comment\nURIs: http://a http://b\nSuites: x\n y\nComponents: main\n\n\
            Enabled: no\nTypes: deb\nURIs: http://c\nSuites: x\n\nTypes: deb-src\nURIs: http://d\nSuites: x\n";
        assert_eq!(of_paragraphs(paragraphs), ["a_dists_x_", "a_dists_y_", "b_dists_x_", "b_dists_y_"]);
    }
}
