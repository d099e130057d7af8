//! A small apt for tests: it knows `hello` 2.10 and 2.9, which needs `libhello` 1, and `sl` 5; `libhello` also for
//! i386. Its book lies on the machine in memory, in dpkg's own form, so that snapshots see packages too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::{Exit, HostRead, HostWrite, NewFile, Owner, Processes};

/// By the names of apt: `libhello`, `libhello:i386`.
type Book = BTreeMap<String, String>;

const DPKG_STATUS: &str = "/var/lib/dpkg/status";
const OWN: &str = "amd64";

/// The name of a package and its architecture.
fn parts(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, OWN))
}

/// The name of apt for a name that may have our own architecture.
fn key(name: &str) -> &str {
    name.strip_suffix(":amd64").unwrap_or(name)
}

fn write(host: &Overlay, installed_packages: &Book) {
    let paragraph = |(name, version): (&String, &String)| {
        let (name, architecture) = parts(name);
        let status = "Status: install ok installed";
        format!("Package: {name}\n{status}\nArchitecture: {architecture}\nVersion: {version}\n\n")
    };
    let text: String = installed_packages.iter().map(paragraph).collect();
    let owner = Owner { uid: 0, gid: 0 };
    host.put_file(DPKG_STATUS.as_ref(), &NewFile { content: text.as_bytes(), mode: 0o644, owner }).unwrap();
}

fn read(host: &Overlay) -> Book {
    let text = String::from_utf8(host.read(DPKG_STATUS.as_ref(), 1 << 20).unwrap()).unwrap();
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    let field = |paragraph: &str, name: &str| {
        paragraph.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_string()
    };
    let name = |one: &str| format!("{}:{}", field(one, "Package: "), field(one, "Architecture: "));
    paragraphs.map(|one| (key(&name(one)).to_string(), field(one, "Version: "))).collect()
}

/// What a request makes of the book, or apt's complaint.
fn changed(mut installed_packages: Book, verb: &str, words: &[&str]) -> Result<Book, String> {
    for word in words {
        let (name, version) =
            word.split_once('=').map_or((*word, None), |(name, version)| (name, Some(version)));
        match (verb, key(name), version) {
            ("install", "hello", version @ (None | Some("2.10" | "2.9"))) => {
                installed_packages.insert("hello".into(), version.unwrap_or("2.10").into());
                installed_packages.insert("libhello".into(), "1".into());
            }
            ("install", name @ ("libhello" | "libhello:i386"), _) => {
                drop(installed_packages.insert(name.into(), "1".into()));
            }
            ("install", "sl", _) => drop(installed_packages.insert("sl".into(), "5".into())),
            ("remove", "libhello", _) => {
                installed_packages.remove("hello");
                installed_packages.remove("libhello");
            }
            ("remove", name, _) => drop(installed_packages.remove(name)),
            (_, name, _) => return Err(format!("E: Unable to locate package {name}")),
        }
    }
    Ok(installed_packages)
}

fn plan(before: &Book, after: &Book) -> String {
    let mut text = String::new();
    for (name, version) in after {
        match before.get(name) {
            Some(old) if old == version => {}
            Some(old) => text.push_str(&format!("Inst {name} [{old}] ({version} Fake [all])\n")),
            None => text.push_str(&format!("Inst {name} ({version} Fake [all])\n")),
        }
    }
    for (name, version) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        text.push_str(&format!("Remv {name} [{version}]\n"));
    }
    text
}

fn answer(host: &Overlay, line: &str) -> Option<Exit> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let installed_packages = read(host);
    if words[0] == "dpkg-query" {
        let asked = &words[3..];
        let meant = |asked: &str, name: &str| asked == parts(name).0 || key(asked) == name;
        let line = |(name, version): (&String, &String)| {
            let (name, architecture) = parts(name);
            format!("ii \t{name}\t{architecture}\t{version}\n")
        };
        let found =
            installed_packages.iter().filter(|(name, _)| asked.iter().any(|asked| meant(asked, name)));
        let found: String = found.map(line).collect();
        let unknown = asked.iter().any(|asked| !installed_packages.keys().any(|name| meant(asked, name)));
        return Some(exit(i32::from(unknown), &found, ""));
    }
    if words[0] == "dpkg" && line.contains("--configure -a") {
        host.remove_file("/var/lib/dpkg/updates/0001".as_ref()).unwrap();
        return Some(exit(0, "", ""));
    }
    let at = words.iter().position(|word| ["install", "remove", "update"].contains(word))?;
    let after = match changed(installed_packages.clone(), words[at], &words[at + 1..]) {
        Ok(after) => after,
        Err(complaint) => return Some(exit(100, "", &complaint)),
    };
    if !words.contains(&"--simulate") {
        write(host, &after);
    }
    Some(exit(0, &plan(&installed_packages, &after), ""))
}

/// A machine with these packages: `hello 2.10 libhello 1`.
pub(crate) fn fake_apt(host: &Arc<Overlay>, packages: &str) -> Arc<dyn Processes> {
    let owner = Owner { uid: 0, gid: 0 };
    for directory in ["/var", "/var/lib", "/var/lib/dpkg", "/var/lib/dpkg/updates"] {
        host.make_directory(Path::new(directory), 0o755, owner).unwrap();
    }
    let words: Vec<&str> = packages.split_whitespace().collect();
    let mut installed_packages: Book =
        words.chunks(2).map(|pair| (pair[0].to_string(), pair[1].to_string())).collect();
    installed_packages.insert("dpkg".into(), "1.21".into());
    write(host, &installed_packages);
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| {
        let host = host.upgrade()?;
        answer(&host, &command_line(launch)).map(Ok)
    }))
}
