//! Which `zester up` of this user runs here: one without a name, whose address other terminals find, and any number with.

use crate::config::user_state_dir;
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server of this machine may take to accept.
const ALIVE_WAIT: Duration = Duration::from_millis(500);

/// The user's runtime directory, else the state directory: private to the user, both of them.
fn directory() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    runtime.map(|runtime| runtime.join("zester")).or_else(user_state_dir)
}

fn address_in(directory: &Path) -> PathBuf {
    directory.join("up.url")
}

/// Where the address of the one without a name stands.
pub fn address_file() -> Option<PathBuf> {
    directory().map(|directory| address_in(&directory))
}

/// The address, where one was left and its server still answers.
pub fn alive() -> Option<String> {
    let url = std::fs::read_to_string(address_in(&directory()?)).ok()?.trim().to_string();
    let (_, host) = url.rsplit_once('@')?;
    let address = host.to_socket_addrs().ok()?.next()?;
    TcpStream::connect_timeout(&address, ALIVE_WAIT).ok()?;
    Some(url)
}

/// Why a name could not be taken.
#[derive(Debug)]
pub enum Refused {
    /// Another `zester up` has it: its process, and its address once it is up.
    Runs {
        pid: String,
        url: Option<String>,
    },
    Io(std::io::Error),
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Refused {
        Refused::Io(error)
    }
}

/// The right to be the `zester up` of this name. The kernel takes it back when the process ends, however it ends.
pub struct Claim {
    directory: PathBuf,
    is_named: bool,
    _lock: File,
    published: Option<String>,
}

impl Claim {
    /// No name: the one that other terminals find by themselves.
    pub fn take(name: Option<&str>) -> Result<Claim, Refused> {
        let none = || std::io::Error::other("neither XDG_RUNTIME_DIR nor HOME is set");
        Claim::take_in(directory().ok_or_else(none)?, name)
    }

    fn take_in(directory: PathBuf, name: Option<&str>) -> Result<Claim, Refused> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let lock = match name {
            Some(name) => format!("up-{name}.lock"),
            None => "up.lock".to_string(),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = options.open(directory.join(lock))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                lock.read_to_string(&mut pid)?;
                let url = std::fs::read_to_string(address_in(&directory)).ok().filter(|_| name.is_none());
                let url = url.map(|url| url.trim().to_string());
                return Err(Refused::Runs { pid: pid.trim().to_string(), url });
            }
            Err(error) => return Err(Refused::Io(error.into())),
        }
        if name.is_none() {
            // Of one that was killed: whoever comes while this one starts must not be sent there.
            let _none = std::fs::remove_file(address_in(&directory));
        }
        lock.set_len(0)?;
        writeln!(lock, "{}", std::process::id())?;
        Ok(Claim { directory, is_named: name.is_some(), _lock: lock, published: None })
    }

    /// Leaves the address for other terminals, unless this one has a name. True: it was left.
    pub fn publish(&mut self, url: &str) -> std::io::Result<bool> {
        if self.is_named {
            return Ok(false);
        }
        let path = address_in(&self.directory);
        // It holds the token: made anew, so that it never has another owner's mode.
        let fresh = path.with_extension("url.new");
        let _none = std::fs::remove_file(&fresh);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        writeln!(file, "{url}")?;
        std::fs::rename(&fresh, &path)?;
        self.published = Some(url.to_string());
        Ok(true)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The lock is still held, so it can only be ours.
        if self.published.is_some() {
            let _gone = std::fs::remove_file(address_in(&self.directory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_name_and_says_who_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let take = |name| Claim::take_in(temp.path().join("zester"), name);
        let mut first = take(None).unwrap();
        assert!(matches!(take(None), Err(Refused::Runs { url: None, .. })), "it is not up yet");
        assert!(first.publish("nats://t@127.0.0.1:1").unwrap());
        let Err(Refused::Runs { pid, url }) = take(None) else { panic!("two of them") };
        assert_eq!(pid, std::process::id().to_string());
        assert_eq!(url.as_deref(), Some("nats://t@127.0.0.1:1"));

        // Those with a name come and go beside it.
        let mut named = take(Some("b")).unwrap();
        assert!(matches!(take(Some("b")), Err(Refused::Runs { .. })));
        assert!(!named.publish("nats://t@127.0.0.1:2").unwrap());
        drop(named);
        let address = temp.path().join("zester/up.url");
        assert_eq!(std::fs::read_to_string(&address).unwrap(), "nats://t@127.0.0.1:1\n");
        drop(first);
        assert!(!address.exists() && take(None).is_ok());

        // One that was killed left its address.
        std::fs::write(&address, "nats://t@127.0.0.1:3\n").unwrap();
        let _next = take(None).unwrap();
        assert!(matches!(take(None), Err(Refused::Runs { url: None, .. })), "the dead one's address");
    }
}
