//! Which `nats-server` runs.

use std::ffi::OsStr;
use std::path::PathBuf;

/// The variable that names another binary.
const CHOICE: &str = "ZESTER_NATS_SERVER";

/// The server to run. A machine without one fails the test: passing what did not run would be a lie.
pub fn find() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs servers where the path of a plain user does not look.
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    choose(std::env::var_os(CHOICE).as_deref(), places).unwrap_or_else(|why| panic!("{why}"))
}

fn choose(chosen: Option<&OsStr>, places: impl Iterator<Item = PathBuf>) -> Result<PathBuf, String> {
    if let Some(chosen) = chosen.map(PathBuf::from) {
        let missing = || format!("{CHOICE} names {}, which is not a file", chosen.display());
        return chosen.is_file().then(|| chosen.clone()).ok_or_else(missing);
    }
    places
        .map(|place| place.join("nats-server"))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("nats-server is not installed: run scripts/setup, or set {CHOICE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_says_what_to_do() {
        let nowhere = tempfile::tempdir().unwrap();
        let missing = choose(None, [nowhere.path().to_path_buf()].into_iter()).unwrap_err();
        assert_eq!(missing, "nats-server is not installed: run scripts/setup, or set ZESTER_NATS_SERVER");
        let named = choose(Some(OsStr::new("/no/such/server")), std::iter::empty()).unwrap_err();
        assert!(named.contains("/no/such/server"), "{named}");
    }
}
