//! Where a running `zester up` leaves its address, so that another terminal need not be told.

use crate::config::user_state_dir;
use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server of this machine may take to accept.
const ALIVE_WAIT: Duration = Duration::from_millis(500);

/// The user's runtime directory, else the state directory: private to the user, both of them.
pub fn path() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    Some(runtime.map(|runtime| runtime.join("zester")).or_else(user_state_dir)?.join("up.url"))
}

/// The address, where one was left and its server still answers.
pub fn alive() -> Option<String> {
    let url = std::fs::read_to_string(path()?).ok()?.trim().to_string();
    let (_, host) = url.rsplit_once('@')?;
    let address = host.to_socket_addrs().ok()?.next()?;
    TcpStream::connect_timeout(&address, ALIVE_WAIT).ok()?;
    Some(url)
}

/// An address that is there while this value lives.
pub struct Left {
    path: PathBuf,
    url: String,
}

pub fn leave(url: &str) -> std::io::Result<Left> {
    let path = path().ok_or_else(|| std::io::Error::other("neither XDG_RUNTIME_DIR nor HOME is set"))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // It holds the token: made anew, so that it never has another owner's mode.
    let fresh = path.with_extension("url.new");
    let _none = std::fs::remove_file(&fresh);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{url}")?;
    std::fs::rename(&fresh, &path)?;
    Ok(Left { path, url: url.to_string() })
}

impl Drop for Left {
    fn drop(&mut self) {
        // A later `up` may have left its own.
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == self.url) {
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}
