//! A small apt for tests: it knows `hello` 2.10 and 2.9, which needs `libhello` 1, `sl` 5, `libhello` also for i386, and
//! `pack-…` 1, as many as are asked for. Its book lies on the machine in memory, in dpkg's own form, so that snapshots see
//! packages too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::{Exit, HostRead, HostWrite, NewFile, Owner};

/// Version and selection (`install`, `hold`), by the names of apt: `libhello`, `libhello:i386`.
type Book = BTreeMap<String, (String, String)>;

const DPKG_STATUS: &str = "/var/lib/dpkg/status";
/// What was fetched, a name a line.
const ARCHIVES: &str = "/var/lib/dpkg/archives";
const OWN: &str = "amd64";

/// The name of a package and its architecture.
fn parts(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, OWN))
}

/// The name of apt for a name that may have our own architecture.
fn key(name: &str) -> &str {
    name.strip_suffix(":amd64").unwrap_or(name)
}

fn put(host: &Overlay, path: &str, text: &str) {
    let owner = Owner { uid: 0, gid: 0 };
    host.put_file(path.as_ref(), &NewFile { content: text.as_bytes(), mode: 0o644, owner }).unwrap();
}

fn text(host: &Overlay, path: &str) -> String {
    String::from_utf8(host.read(path.as_ref(), 1 << 20).unwrap()).unwrap()
}

fn write(host: &Overlay, book: &Book) {
    let paragraph = |(name, (version, selection)): (&String, &(String, String))| {
        let (name, architecture) = parts(name);
        let status = format!("Status: {selection} ok installed");
        format!("Package: {name}\n{status}\nArchitecture: {architecture}\nVersion: {version}\n\n")
    };
    put(host, DPKG_STATUS, &book.iter().map(paragraph).collect::<String>());
}

fn read(host: &Overlay) -> Book {
    let text = text(host, DPKG_STATUS);
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    let field = |paragraph: &str, name: &str| {
        paragraph.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_string()
    };
    let name = |one: &str| format!("{}:{}", field(one, "Package: "), field(one, "Architecture: "));
    let selection = |one: &str| field(one, "Status: ").split(' ').next().unwrap().to_string();
    paragraphs.map(|one| (key(&name(one)).to_string(), (field(one, "Version: "), selection(one)))).collect()
}

fn install(book: &mut Book, name: &str, version: &str) {
    let selection = book.get(name).map_or("install".to_string(), |(_, selection)| selection.clone());
    book.insert(name.into(), (version.into(), selection));
}

/// The newest version of what it knows.
fn newest(name: &str) -> Option<&'static str> {
    match key(name) {
        "hello" => Some("2.10"),
        "libhello" | "libhello:i386" => Some("1"),
        "sl" => Some("5"),
        pack if pack.starts_with("pack-") => Some("1"),
        _ => None,
    }
}

/// What a request makes of the book, or apt's complaints.
fn changed(mut book: Book, verb: &str, words: &[&str]) -> Result<Book, String> {
    let mut complaints = Vec::new();
    if verb.ends_with("upgrade") {
        assert!(words.is_empty(), "an upgrade takes no names: {words:?}");
        let names: Vec<String> = book.keys().cloned().collect();
        for name in names {
            if let Some(version) = newest(&name) {
                install(&mut book, &name, version);
            }
        }
        return Ok(book);
    }
    for word in words {
        let (word, verb) = match word.strip_suffix('-') {
            Some(word) => (word, "remove"),
            None => (*word, verb),
        };
        let (name, version) = word.split_once('=').map_or((word, None), |(name, one)| (name, Some(one)));
        let name = key(name);
        match (verb, name, version) {
            ("install", "hello", version @ (None | Some("2.10" | "2.9"))) => {
                install(&mut book, "hello", version.unwrap_or("2.10"));
                install(&mut book, "libhello", "1");
            }
            ("install", "hello", Some(version)) => {
                complaints.push(format!("E: Version '{version}' for 'hello' was not found"));
            }
            ("install", name, _) => match newest(name) {
                Some(version) => install(&mut book, name, version),
                None => complaints.push(format!("E: Unable to locate package {name}")),
            },
            (_, "libhello", _) => {
                book.remove("hello");
                book.remove("libhello");
            }
            (_, name, _) => drop(book.remove(name)),
        }
    }
    if complaints.is_empty() { Ok(book) } else { Err(complaints.join("\n")) }
}

/// What is needed comes first, as apt has it.
fn plan(before: &Book, after: &Book) -> String {
    let mut text = String::new();
    let (needed, others): (Vec<_>, Vec<_>) = after.iter().partition(|(name, _)| name.starts_with("lib"));
    for (name, (version, _)) in needed.into_iter().chain(others) {
        match before.get(name) {
            Some((old, _)) if old == version => {}
            Some((old, _)) => text.push_str(&format!("Inst {name} [{old}] ({version} Fake [all])\n")),
            None => text.push_str(&format!("Inst {name} ({version} Fake [all])\n")),
        }
    }
    for (name, (version, _)) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        text.push_str(&format!("Remv {name} [{version}]\n"));
    }
    text
}

fn mark(host: &Overlay, words: &[&str]) -> Exit {
    let mut book = read(host);
    let selection = if words[1] == "hold" { "hold" } else { "install" };
    for name in &words[2..] {
        match book.get_mut(key(name)) {
            Some((_, marked)) => *marked = selection.into(),
            None => return exit(100, "", &format!("E: Unable to locate package {name}\n")),
        }
    }
    write(host, &book);
    exit(0, "", "")
}

fn fetch(host: &Overlay, words: &[&str], asks: bool) -> Exit {
    let mut fetched = text(host, ARCHIVES);
    let mut uris = String::new();
    for name in words {
        let Some(version) = newest(name) else {
            return exit(100, "", &format!("E: Unable to locate package {name}\n"));
        };
        if !fetched.lines().any(|line| line == *name) {
            fetched.push_str(&format!("{name}\n"));
            uris.push_str(&format!("'file:/{name}' {name}_{version}_amd64.deb 1 MD5Sum:0\n"));
        }
    }
    if !asks {
        put(host, ARCHIVES, &fetched);
    }
    exit(0, &uris, "")
}

fn answer(host: &Overlay, line: &str) -> Option<Exit> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let book = read(host);
    match words[0] {
        "dpkg-query" => {
            let line = |(name, (version, selection)): (&String, &(String, String))| {
                let (name, architecture) = parts(name);
                format!("{}i \t{name}\t{architecture}\t{version}\n", &selection[..1])
            };
            return Some(exit(0, &book.iter().map(line).collect::<String>(), ""));
        }
        "dpkg" if line.contains("--configure -a") => {
            host.remove_file("/var/lib/dpkg/updates/0001".as_ref()).unwrap();
            return Some(exit(0, "", ""));
        }
        "apt-mark" => return Some(mark(host, &words)),
        "apt-cache" => {
            let known = words[2..].iter().filter_map(|name| Some((name, newest(name)?)));
            let lines = known.flat_map(|(name, version)| {
                let older = if *name == "hello" { vec!["2.9"] } else { Vec::new() };
                [version]
                    .into_iter()
                    .chain(older)
                    .map(move |version| format!(" {name} | {version} | file:/r ./ Packages\n"))
            });
            return Some(exit(0, &lines.collect::<String>(), ""));
        }
        _ => {}
    }
    let verbs = ["install", "remove", "purge", "update", "upgrade", "dist-upgrade"];
    let at = words.iter().position(|word| verbs.contains(word))?;
    if words.contains(&"--download-only") {
        return Some(fetch(host, &words[at + 1..], words.contains(&"--print-uris")));
    }
    let mut asked: Vec<&str> = words[at + 1..].to_vec();
    if words.contains(&"--only-upgrade") {
        asked.retain(|name| book.contains_key(key(name)));
    }
    let after = match changed(book.clone(), words[at], &asked) {
        Ok(after) => after,
        Err(complaint) => return Some(exit(100, "", &complaint)),
    };
    if !words.contains(&"--simulate") {
        write(host, &after);
    }
    Some(exit(0, &plan(&book, &after), ""))
}

/// A machine with these packages: `hello 2.10 libhello 1`, and marks: `!hello held`.
pub(crate) fn fake_apt(host: &Arc<Overlay>, packages: &str) -> Arc<Scripted> {
    let owner = Owner { uid: 0, gid: 0 };
    for directory in ["/var", "/var/lib", "/var/lib/dpkg", "/var/lib/dpkg/updates"] {
        host.make_directory(Path::new(directory), 0o755, owner).unwrap();
    }
    put(host, ARCHIVES, "");
    let words: Vec<&str> = packages.split_whitespace().collect();
    let mut book = Book::new();
    install(&mut book, "dpkg", "1.21");
    for pair in words.chunks(2) {
        match pair[0].strip_prefix('!') {
            Some(name) => book.get_mut(name).unwrap().1 = "hold".into(),
            None => install(&mut book, pair[0], pair[1]),
        }
    }
    write(host, &book);
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| {
        let host = host.upgrade()?;
        answer(&host, &command_line(launch)).map(Ok)
    }))
}
