//! A small systemd for tests. How each service is lies in two files on the machine in memory, whether it runs and whether it
//! starts with the machine, so that snapshots see it. The service `broken` never comes up.

use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::{Exit, HostRead, HostWrite, NewFile, Owner};

/// Where it keeps what it knows; a dry run notes services by name instead.
pub(crate) const DIRECTORY: &str = "/run/systemd";

fn write(host: &Overlay, service: &str, active: &str, file: &str) {
    for (name, word) in [(format!("{service}.active"), active), (format!("{service}.file"), file)] {
        let file = NewFile { content: word.as_bytes(), mode: 0o644, owner: Owner { uid: 0, gid: 0 } };
        host.put_file(&Path::new(DIRECTORY).join("system").join(name), &file).unwrap();
    }
}

fn read(host: &Overlay, service: &str) -> Option<(String, String)> {
    let word = |what: &str| {
        let path = Path::new(DIRECTORY).join("system").join(format!("{service}.{what}"));
        host.stat(&path).unwrap()?;
        Some(String::from_utf8(host.read(&path, 1024).unwrap()).unwrap())
    };
    Some((word("active")?, word("file")?))
}

fn answer(host: &Overlay, line: &str) -> Option<Exit> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let service = words.last()?;
    let known = read(host, service);
    if words[1] == "show" {
        let (active, file) = known.clone().unwrap_or(("inactive".into(), String::new()));
        let sub = match active.as_str() {
            "active" => "running",
            "failed" => "failed",
            _ => "dead",
        };
        let load = match file.as_str() {
            "masked" => "masked",
            _ if known.is_some() => "loaded",
            _ => "not-found",
        };
        let text = format!("LoadState={load}\nActiveState={active}\nSubState={sub}\nUnitFileState={file}\n");
        return Some(exit(0, &text, ""));
    }
    let Some((active, file)) = known else {
        return Some(exit(5, "", &format!("Unit {service}.service could not be found.")));
    };
    let (active, file) = match words[words.len() - 2] {
        "start" | "restart" if *service == "broken" => ("failed", file.as_str()),
        "start" | "restart" => ("active", file.as_str()),
        "stop" => ("inactive", file.as_str()),
        "enable" => (active.as_str(), "enabled"),
        "disable" => (active.as_str(), "disabled"),
        "mask" => (active.as_str(), "masked"),
        "unmask" => (active.as_str(), "disabled"),
        "reload" => (active.as_str(), file.as_str()),
        _ => return None,
    };
    write(host, service, active, file);
    Some(exit(0, "", ""))
}

/// A machine with these services: `web active enabled db inactive disabled`.
pub(crate) fn fake_init(host: &Arc<Overlay>, services: &str) -> Arc<Scripted> {
    let owner = Owner { uid: 0, gid: 0 };
    for directory in ["/run", DIRECTORY, "/run/systemd/system"] {
        host.make_directory(Path::new(directory), 0o755, owner).unwrap();
    }
    let words: Vec<&str> = services.split_whitespace().collect();
    words.chunks(3).for_each(|one| write(host, one[0], one[1], one[2]));
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| {
        let host = host.upgrade()?;
        answer(&host, &command_line(launch)).map(Ok)
    }))
}
