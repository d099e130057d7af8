//! The private nats-server of a fleet: its own port of this machine, its own store, a token that nobody can guess.

use super::child::Child;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use zester_identity::authority::STORE_MAX;
use zester_link::{Dice, OsDice};

/// The variable that names another binary.
const CHOICE: &str = "ZESTER_NATS_SERVER";
/// How long the server may take to say its port.
const READY_WAIT: Duration = Duration::from_secs(30);
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// Of this machine only, whichever is free.
pub const ANY_PORT: &str = "127.0.0.1:-1";

pub fn find() -> Result<PathBuf, String> {
    if let Some(chosen) = std::env::var_os(CHOICE).map(PathBuf::from) {
        let missing = format!("{CHOICE} names {}, which is not a file", chosen.display());
        return chosen.is_file().then_some(chosen).ok_or(missing);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs servers where the path of a plain user does not look.
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    places.map(|place| place.join("nats-server")).find(|file| file.is_file()).ok_or_else(|| {
        format!(
            "nats-server is not installed; try `apt install nats-server`, or take it from https://nats.io/download and put it on the PATH (or name it in {CHOICE})"
        )
    })
}

/// Who gets in.
pub enum Entry {
    /// Who knows the token.
    Token,
    /// Who has credentials: the text of a configuration for that.
    Credentials(String),
}

/// Starts it and waits for its port. The address holds the token, if there is one.
pub async fn start(
    binary: &Path,
    nats_server: &Path,
    place: &Path,
    entry: Entry,
) -> Result<(Child, String), String> {
    let config = place.join("nats-server.conf");
    let (text, secret) = match entry {
        Entry::Credentials(text) => (text, String::new()),
        Entry::Token => {
            let token = token();
            (with_token(place, &token), format!("{token}@"))
        }
    };
    write_config(&config, &text)?;
    let words = ["-c".into(), config.into()];
    let log = place.join("nats-server.log");
    let mut child = Child::start("nats-server", binary, nats_server, &words, &[], &log, true)?;
    let end = Instant::now() + READY_WAIT;
    loop {
        if let Some(port) = port(place, child.id()) {
            return Ok((child, format!("nats://{secret}127.0.0.1:{port}")));
        }
        if let Some(how) = child.ended() {
            return Err(child.exit_message(&how));
        }
        if Instant::now() >= end {
            return Err(format!("nats-server does not answer; its log: {}", log.display()));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

fn token() -> String {
    OsDice.roll().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn with_token(place: &Path, token: &str) -> String {
    let quoted = |path: PathBuf| format!("{:?}", path.display().to_string());
    format!(
        "listen: \"{ANY_PORT}\"\n{}jetstream {{ store_dir: {}, max_file_store: {STORE_MAX} }}\nauthorization {{ token: \"{token}\" }}\n",
        says_its_port(place),
        quoted(place.join("nats-store")),
    )
}

/// The line by which a server tells which port it chose.
pub fn says_its_port(place: &Path) -> String {
    format!("ports_file_dir: {:?}\n", place.display().to_string())
}

/// Readable by its owner only: the token stands in it.
fn write_config(config: &Path, text: &str) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("cannot write {}: {error}", config.display());
    let _none = std::fs::remove_file(config);
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(config);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(fail)
}

/// The port that the server chose. The file is called after its binary and process, so only the end is known.
fn port(place: &Path, id: u32) -> Option<u16> {
    let ending = format!("_{id}.ports");
    let mut entries = std::fs::read_dir(place).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = entries.find(|path| path.to_string_lossy().ends_with(&ending))?;
    let ports: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
    ports["nats"][0].as_str()?.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::STORE_MAX;

    #[test]
    fn a_server_is_given_room_for_all_stores_of_a_fleet() {
        let wanted: u64 = zester_bus::storage::table().iter().map(|store| store.max_bytes).sum();
        let given: u64 = STORE_MAX.trim_end_matches('G').parse().unwrap();
        assert!(wanted < given << 30, "the stores may hold {wanted} bytes, the server {STORE_MAX}");
    }
}
