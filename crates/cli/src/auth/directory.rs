//! Where the keys of a fleet lie: each secret in a file of its own, so that each can be taken elsewhere.

use crate::answer::Failure;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zester_identity::authority::{self, Fleet};
use zester_identity::{KeyKind, KeyPair, PublicKey, roster};
use zester_link::{Clock, SystemClock};
use zester_wire::{Roster, UnixMillis};

const FLEET: &str = "fleet.json";
const ROSTER: &str = "roster";
/// Whatever others could read is a key that others could have.
const SECRET_MODE: u32 = 0o600;

/// The files of secrets, and what each is for.
pub const SECRETS: [(&str, KeyKind, &str); 7] = [
    ("operator", KeyKind::Operator, "signs accounts: needed to revoke, and to change what roles may do"),
    ("core", KeyKind::Account, "the anchor: signs masters, admins and the roster"),
    ("peels", KeyKind::Account, "the account of the peels: signs nothing by itself"),
    ("operators", KeyKind::Account, "the account of operators with roles: signs nothing by itself"),
    ("system", KeyKind::Account, "signs who may tell the server of accounts"),
    ("issuer", KeyKind::Account, "signs peels, and only peels"),
    ("revoker", KeyKind::Operator, "signs accounts for masters that revoke by themselves"),
];

/// Every directory of it.
const DIRECTORIES: [&str; 6] = ["", "keys", "creds", "tls", DOOR, REVOKER];
/// What a master needs to let peels in: copied to it whole.
pub const DOOR: &str = "door";
/// What a master needs to have the server keep somebody out.
pub const REVOKER: &str = "revoker";
/// Files of both.
pub const ISSUER_FILE: &str = "issuer.nk";
pub const ACCOUNT_FILE: &str = "account";
pub const SIGNER_FILE: &str = "signer.nk";
pub const SYSTEM_FILE: &str = "sys.creds";

pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// One that `zester auth init` made.
    pub fn open(root: &Path) -> Result<Directory, Failure> {
        match std::fs::metadata(root.join(FLEET)) {
            Ok(found) if found.is_file() => Ok(Directory { root: root.to_path_buf() }),
            Ok(_) => Err(no_directory(root, &ErrorKind::NotFound.into())),
            Err(error) => Err(no_directory(root, &error)),
        }
    }

    /// An empty one, for its owner only.
    pub fn create(root: &Path) -> Result<Directory, Failure> {
        if root.exists() && std::fs::read_dir(root).map_or(true, |mut entries| entries.next().is_some()) {
            return Err(Failure::usage(format!(
                "{} is there already and not empty; keys are never overwritten: take another --dir",
                root.display()
            )));
        }
        let directory = Directory { root: root.to_path_buf() };
        for path in DIRECTORIES {
            let path = directory.path(path);
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| zester_converge::Error::io("make the directory", &path, error))?;
        }
        Ok(directory)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    /// The absolute path, as other programs need it.
    pub fn absolute(&self, name: &str) -> Result<String, Failure> {
        let path = self.path(name);
        let path =
            std::path::absolute(&path).map_err(|error| zester_converge::Error::io("find", &path, error))?;
        Ok(path.display().to_string())
    }

    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        write_secret(&path, content)?;
        Ok(path)
    }

    /// Two files that are of use only together: both are written before the first takes its place.
    pub fn write_both(&self, first: (&str, &[u8]), second: (&str, &[u8])) -> Result<(), Failure> {
        let (one, other) = (self.path(first.0), self.path(second.0));
        write_fresh(&one, first.1)?;
        write_fresh(&other, second.1)?;
        put_in_place(&one)?;
        put_in_place(&other)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let path = self.path(name);
        Ok(std::fs::read(&path).map_err(|error| zester_converge::Error::io("read", &path, error))?)
    }

    pub fn fleet(&self) -> Result<Fleet, Failure> {
        serde_json::from_slice(&self.read(FLEET)?)
            .map_err(|error| Failure::usage(format!("{}: {error}", self.path(FLEET).display())))
    }

    pub fn keep_fleet(&self, fleet: &Fleet) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(fleet)
            .map_err(|error| Failure::usage(format!("the list of keys cannot be written: {error}")))?;
        self.write(FLEET, text.as_bytes()).map(|_| ())
    }

    pub fn anchor(&self, fleet: &Fleet) -> Result<PublicKey, Failure> {
        PublicKey::of_kind(&fleet.core, KeyKind::Account).map_err(|bad| Failure::usage(bad.to_string()))
    }

    /// The newest roster, and its bytes as they were signed.
    pub fn roster(&self, fleet: &Fleet) -> Result<(Roster, Vec<u8>), Failure> {
        let bytes = self.read(ROSTER)?;
        let roster = roster::read(&bytes, &self.anchor(fleet)?);
        Ok((roster.map_err(|bad| Failure::usage(format!("{}: {bad}", self.path(ROSTER).display())))?, bytes))
    }

    /// Signs a roster and keeps it.
    pub fn keep_roster(&self, roster: &Roster) -> Result<Vec<u8>, Failure> {
        let bytes = authority::signed(roster, &self.secret("core")?).map_err(failure)?;
        self.write(ROSTER, &bytes)?;
        Ok(bytes)
    }

    pub fn keep_secret(&self, name: &str, pair: &KeyPair) -> Result<(), Failure> {
        self.write_seed(&format!("keys/{name}.nk"), pair)
    }

    fn write_seed(&self, file: &str, pair: &KeyPair) -> Result<(), Failure> {
        let seed = pair.seed().map_err(|bad| Failure::usage(bad.to_string()))?;
        self.write(file, format!("{seed}\n").as_bytes()).map(|_| ())
    }

    /// Writes what masters are given beside their credentials: the directory for a door, and with a revoker that for revoking.
    pub fn keep_for_masters(
        &self,
        fleet: &Fleet,
        issuer: &KeyPair,
        revoker: Option<&KeyPair>,
    ) -> Result<(), Failure> {
        // Those of earlier releases have no such place.
        for path in [DOOR, REVOKER] {
            let path = self.path(path);
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| zester_converge::Error::io("make the directory", &path, error))?;
        }
        let account = format!("{}\n", fleet.peels);
        self.write_seed(&format!("{DOOR}/{ISSUER_FILE}"), issuer)?;
        self.write(&format!("{DOOR}/{ACCOUNT_FILE}"), account.as_bytes())?;
        if let Some(revoker) = revoker {
            self.write_seed(&format!("{REVOKER}/{SIGNER_FILE}"), revoker)?;
            self.write(&format!("{REVOKER}/{ACCOUNT_FILE}"), account.as_bytes())?;
            let system = self.read("creds/sys.creds")?;
            self.write(&format!("{REVOKER}/{SYSTEM_FILE}"), &system)?;
        }
        Ok(())
    }

    pub fn has_secret(&self, name: &str) -> bool {
        self.path(&format!("keys/{name}.nk")).is_file()
    }

    /// A secret that may have been taken elsewhere: then it says what it is needed for.
    pub fn secret(&self, name: &str) -> Result<KeyPair, Failure> {
        let file = format!("keys/{name}.nk");
        let purpose = SECRETS.iter().find(|(other, ..)| *other == name).map_or("", |(_, _, purpose)| purpose);
        // One that may not be looked at is told as that, by whoever reads it.
        if self.path(&file).try_exists().is_ok_and(|is_here| !is_here) {
            return Err(Failure::usage(format!(
                "{} is not here ({purpose}); put it back for this command",
                self.path(&file).display()
            )));
        }
        self.key(&file)
    }

    /// The key in a file of it.
    pub fn key(&self, file: &str) -> Result<KeyPair, Failure> {
        seed(&self.path(file), &String::from_utf8(self.read(file)?).unwrap_or_default())
    }

    /// What others than their owner could read.
    pub fn readable_by_others(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for below in DIRECTORIES {
            let entries = std::fs::read_dir(self.path(below)).into_iter().flatten().flatten();
            let open = |entry: &std::fs::DirEntry| {
                entry.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o077 != 0)
            };
            found.extend(entries.filter(open).map(|entry| entry.path()));
        }
        found.sort();
        found
    }
}

/// Why there are no keys: only where nothing is there they are to be made.
fn no_directory(root: &Path, error: &std::io::Error) -> Failure {
    let shown = root.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Failure::usage(format!(
            "{shown} holds no keys of a fleet; make them with `zester auth init`, or name another with --dir"
        )),
        ErrorKind::PermissionDenied => Failure::usage(format!(
            "{shown} cannot be read: permission denied; only its owner and root may, or name another with --dir"
        )),
        _ => Failure::usage(format!("{shown} cannot be read: {error}")),
    }
}

/// The text of a file that nobody but its owner may read.
pub fn read_secret(path: &Path) -> Result<String, Failure> {
    let failed = |error| zester_converge::Error::io("read", path, error);
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Failure::usage(format!("{} can be read by others: chmod 600 it", path.display())));
    }
    Ok(std::fs::read_to_string(path).map_err(failed)?)
}

/// A key of a file that nobody but its owner may read.
pub fn read_key(path: &Path) -> Result<KeyPair, Failure> {
    seed(path, &read_secret(path)?)
}

/// Whole or not at all, and readable by its owner only.
pub fn write_secret(path: &Path, content: &[u8]) -> Result<(), Failure> {
    write_fresh(path, content)?;
    put_in_place(path)
}

/// Where the next content of a file is written. By its whole name: a key and its certificate differ in the end of it alone.
fn fresh_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

fn write_fresh(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let fresh = fresh_path(path);
    let written = || {
        let _left_over = std::fs::remove_file(&fresh);
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(SECRET_MODE).open(&fresh)?;
        file.write_all(content)?;
        file.sync_all()
    };
    Ok(written().map_err(|error| zester_converge::Error::io("write", path, error))?)
}

fn put_in_place(path: &Path) -> Result<(), Failure> {
    let renamed = std::fs::rename(fresh_path(path), path);
    Ok(renamed.map_err(|error| zester_converge::Error::io("put in place", path, error))?)
}

/// The key of this machine, which is made if there is none.
pub fn own_key(path: &Path) -> Result<KeyPair, Failure> {
    let read = match std::fs::read_to_string(path) {
        Ok(text) => return seed(path, &text),
        Err(error) => error,
    };
    if read.kind() != std::io::ErrorKind::NotFound {
        return Err(zester_converge::Error::io("read the key", path, read).into());
    }
    let pair = new_key(KeyKind::User)?;
    let text = pair.seed().map_err(|bad| Failure::usage(bad.to_string()))?;
    write_secret(path, format!("{text}\n").as_bytes())?;
    Ok(pair)
}

/// The key that lies beside credentials without a seed, under the same name.
pub fn key_beside(creds: &Path) -> Result<KeyPair, Failure> {
    let path = creds.with_extension("nk");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::usage(format!(
            "{} holds no seed, and there is no key beside it: {}: {error}",
            creds.display(),
            path.display()
        ))
    })?;
    seed(&path, &text)
}

fn seed(path: &Path, text: &str) -> Result<KeyPair, Failure> {
    KeyPair::from_seed(text.trim()).map_err(|bad| Failure::usage(format!("{}: {bad}", path.display())))
}

pub fn failure(error: authority::Error) -> Failure {
    Failure::usage(error.to_string())
}

pub fn now() -> UnixMillis {
    SystemClock.wall()
}

/// A new key from the dice of the operating system. Without them there is none: a key that can be guessed is worse than an error.
pub fn new_key(kind: KeyKind) -> Result<KeyPair, Failure> {
    KeyPair::new(kind, random()?).map_err(|bad| Failure::usage(bad.to_string()))
}

pub fn random() -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::usage(format!("there is no randomness: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[test]
    fn a_directory_that_may_not_be_read_is_not_one_without_keys() {
        let told = |kind: ErrorKind| no_directory(Path::new("/k"), &Error::from(kind)).error.to_string();
        assert!(told(ErrorKind::NotFound).contains("holds no keys of a fleet"));
        let denied = told(ErrorKind::PermissionDenied);
        assert!(denied.contains("permission denied") && !denied.contains("auth init"), "{denied}");
    }

    #[test]
    fn a_secret_that_is_elsewhere_is_said_to_be_what_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let directory = Directory { root: temp.path().to_path_buf() };
        for (name, _, purpose) in SECRETS {
            let told = directory.secret(name).err().unwrap().error.to_string();
            assert!(told.contains(&format!("{name}.nk is not here ({purpose})")), "{told}");
        }
    }
}
