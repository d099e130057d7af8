//! A small `crontab` for tests. What each user has lies in the spool on the machine in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::{Exit, HostRead, HostWrite, Launch, NewFile, Owner, User};

pub(crate) const SPOOL: &str = "/var/spool/cron/crontabs";

fn answer(host: &Overlay, launch: &Launch) -> Option<Exit> {
    let line = command_line(launch);
    let words: Vec<&str> = line.split(' ').collect();
    let user = words[words.iter().position(|word| *word == "-u")? + 1];
    let path = Path::new(SPOOL).join(user);
    if words.contains(&"-l") {
        return Some(match host.stat(&path).unwrap() {
            Some(_) => exit(0, &String::from_utf8(host.read(&path, 1 << 20).unwrap()).unwrap(), ""),
            None => exit(1, "", &format!("no crontab for {user}\n")),
        });
    }
    if words.contains(&"-r") {
        host.remove_file(&path).unwrap();
    } else {
        write(host, &path, &launch.stdin.clone()?);
    }
    Some(exit(0, "", ""))
}

fn write(host: &Overlay, path: &Path, content: &[u8]) {
    host.put_file(path, &NewFile { content, mode: 0o600, owner: Owner { uid: 0, gid: 0 } }).unwrap();
}

/// A machine where root has this crontab; none where it is empty.
pub(crate) fn fake_crontab(host: &Arc<Overlay>, text: &str) -> Arc<Scripted> {
    for directory in ["/var", "/var/spool", "/var/spool/cron", SPOOL] {
        host.make_directory(Path::new(directory), 0o755, Owner { uid: 0, gid: 0 }).unwrap();
    }
    host.predict_user(User { name: "root".into(), uid: 0, gid: 0, home: PathBuf::from("/root") });
    if !text.is_empty() {
        write(host, &Path::new(SPOOL).join("root"), text.as_bytes());
    }
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| answer(&*host.upgrade()?, launch).map(Ok)))
}
