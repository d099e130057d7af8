//! `zester up --secure`: the same keys, accounts and signatures as in production, on one machine.

use super::server::{ANY_PORT, says_its_port};
use crate::answer::Failure;
use crate::auth::directory::Directory;
use crate::commands::auth::{self, Init, Where};
use std::path::Path;
use zester_bus::nats::{Credentials as BusCredentials, Options};
use zester_identity::Credentials;
use zester_identity::authority::{PEEL_LIFE, ServerPlaces};

pub const ADMIN: &str = "admin";
const MASTER: &str = "master";
const KEYS_DIR: &str = "auth";

/// The keys of this fleet: those that a directory has already, or new ones, and credentials for so many peels.
pub fn keys(place: &Path, peels: u16) -> Result<Directory, Failure> {
    let dir = place.join(KEYS_DIR);
    let directory = match Directory::open(&dir) {
        Ok(directory) => directory,
        Err(_) => auth::make(&Init {
            place: Where { dir },
            hosts: vec!["127.0.0.1".into()],
            port: 0,
            masters: vec![MASTER.into()],
            admins: vec![ADMIN.into()],
            store: None,
        })?,
    };
    for number in 1..=peels {
        let name = format!("peel-{number}");
        if !directory.path(&format!("creds/{name}.creds")).is_file() {
            auth::issue_peel(&directory, &name, None, PEEL_LIFE)?;
        }
    }
    Ok(directory)
}

pub fn server_config(keys: &Directory, place: &Path) -> Result<String, Failure> {
    let store = place.join("nats-store");
    let (store, resolver) = (store.display().to_string(), store.join("accounts").display().to_string());
    let more = says_its_port(place);
    let places =
        ServerPlaces { listen: ANY_PORT, store: &store, resolver: &resolver, tls: None, more: &more };
    auth::server_config(keys, &places)
}

/// Connects as the admin of the fleet.
pub fn admin(keys: &Directory, options: &mut Options) -> Result<Credentials, Failure> {
    let path = keys.path(&format!("creds/{ADMIN}.creds"));
    let text = std::fs::read_to_string(&path)
        .map_err(|error| zester_converge::Error::io("read the credentials", &path, error))?;
    let damaged = || Failure::usage(format!("{}: these are no credentials of a fleet", path.display()));
    let identity =
        Credentials::parse(&text).map_err(|bad| Failure::usage(bad.to_string()))?.ok_or_else(damaged)?;
    options.inbox_prefix = zester_identity::grants::inbox_prefix(&identity.name);
    options.credentials = BusCredentials::Text(text);
    Ok(identity)
}
