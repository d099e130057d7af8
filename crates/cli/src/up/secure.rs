//! `zester up --secure`: the same keys, accounts and signatures as in production, on one machine.

use super::server::{ANY_PORT, says_its_port};
use crate::answer::Failure;
use crate::app::App;
use crate::auth::directory::Directory;
use crate::auth::operators;
use crate::commands::auth::{self, Init, Where};
use crate::daemon::master::door;
use crate::fleet::watching::client_failure;
use std::path::Path;
use std::time::Duration;
use zester_bus::nats::{Credentials as BusCredentials, Options};
use zester_client::{Client, TokenWish};
use zester_identity::Credentials;
use zester_identity::authority::ServerPlaces;

pub const ADMIN: &str = "admin";
const MASTER: &str = "master";
const KEYS_DIR: &str = "auth";
/// A peel uses its token at once.
const TOKEN_LIFE: Duration = Duration::from_secs(600);

/// The keys of this fleet: those that a directory has already, or new ones.
pub fn keys(place: &Path) -> Result<Directory, Failure> {
    let dir = place.join(KEYS_DIR);
    match Directory::open(&dir) {
        Ok(directory) => Ok(directory),
        Err(_) => auth::make(&Init {
            place: Where { dir },
            hosts: vec!["127.0.0.1".into()],
            doors: Vec::new(),
            port: 0,
            masters: vec![MASTER.into()],
            admins: vec![ADMIN.into()],
            store: None,
        }),
    }
}

/// Where peels get in, once the master has opened its door.
pub struct Entrance {
    url: String,
    pin: String,
}

impl Entrance {
    /// None while the door is closed.
    pub fn find(keys: &Directory, master: &Path) -> Result<Option<Entrance>, Failure> {
        let Some(address) = door::address_in(master) else { return Ok(None) };
        Ok(Some(Entrance { url: format!("https://{address}"), pin: auth::pin(keys)?.to_string() }))
    }

    /// What a peel of this name is told, and nobody else sees: everybody can read the words of a process, only its owner the
    /// environment.
    pub async fn told(&self, client: &Client, name: &str) -> Result<[(&'static str, String); 3], Failure> {
        let (names, label) = (name.to_string(), "up".to_string());
        let wish = TokenWish { names, address: None, life: TOKEN_LIFE, label, hold: false };
        let made = client.make_join_token(wish, ADMIN).await.map_err(client_failure)?;
        Ok([
            ("ZESTER_MASTER", self.url.clone()),
            ("ZESTER_PIN", self.pin.clone()),
            ("ZESTER_JOIN_TOKEN", made.word),
        ])
    }
}

/// The words of the master that open its door.
pub fn door_words(keys: &Directory) -> Result<Vec<String>, Failure> {
    let (door, revoker) = (keys.absolute("door")?, keys.absolute("revoker")?);
    Ok(["--listen", "0", "--door", &door, "--revoker", &revoker].map(String::from).to_vec())
}

/// Keys of an earlier release are brought up to date, and what is to be done by hand is told: the server knows it from the start.
pub fn server_config(keys: &Directory, place: &Path, app: &App) -> Result<String, Failure> {
    operators::tell(&operators::settle(keys)?, app);
    let store = place.join("nats-store");
    let (store, resolver) = (store.display().to_string(), store.join("accounts").display().to_string());
    let more = says_its_port(place);
    let places =
        ServerPlaces { listen: ANY_PORT, store: &store, resolver: &resolver, tls: None, more: &more };
    let config = auth::server_config(keys, &places)?;
    operators::told(keys)?;
    Ok(config)
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
