//! The user of the system account, who tells the server of accounts.

use super::directory::{Directory, new_key, now, read_secret};
use crate::answer::Failure;
use crate::commands::auth::keep_credentials;
use std::path::PathBuf;
use zester_identity::authority::{self, Fleet};
use zester_identity::{Credentials, KeyKind};

/// Makes its successor. The server lets the one before in no more once that has told it so. Keeps the list of keys too.
pub fn replace(directory: &Directory, fleet: &mut Fleet) -> Result<PathBuf, Failure> {
    let (path, at) = (directory.path("creds/sys.creds"), now());
    let before = Credentials::parse(&read_secret(&path)?);
    let before = before.map_err(|bad| Failure::usage(format!("{}: {bad}", path.display())))?;
    let system = directory.secret("system")?;
    let made = authority::system_user(new_key(KeyKind::User)?, &system, at);
    let (_, signed) = directory.roster(fleet)?;
    if let Some(before) = before {
        fleet.replace_system_user(before.pair.public(), at);
    }
    // First: once its credentials are written over, nobody knows whom to keep out.
    directory.keep_fleet(fleet)?;
    keep_credentials(directory, fleet, made, &signed)
}
