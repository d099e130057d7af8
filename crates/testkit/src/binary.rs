//! Which `nats-server` runs.

use std::path::PathBuf;

/// The variable that names another binary.
const CHOICE: &str = "ZESTER_NATS_SERVER";

/// The server to run, or why there is none.
pub fn find() -> Result<PathBuf, String> {
    if let Some(chosen) = std::env::var_os(CHOICE) {
        let chosen = PathBuf::from(chosen);
        if !chosen.is_file() {
            panic!("{CHOICE} names {}, which is not a file", chosen.display());
        }
        return Ok(chosen);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs servers where the path of a plain user does not look.
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    places
        .map(|place| place.join("nats-server"))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("nats-server is not installed: run scripts/setup, or set {CHOICE}"))
}

/// The server to run; without one, says why the test is skipped.
pub fn or_skip() -> Option<PathBuf> {
    find().map_err(|why| eprintln!("skipped: {why}")).ok()
}
