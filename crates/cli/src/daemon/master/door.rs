//! What a master opens its door with, read from the directory that `zester auth init` wrote.

use crate::answer::Failure;
use crate::app::App;
use crate::auth::directory::{ACCOUNT_FILE, ISSUER_FILE, random, read_key, read_secret, write_secret};
use crate::connection::Connect;
use crate::daemon::listen_address;
use std::path::Path;
use std::time::Duration;
use zester_door::{Certificates, Door};
use zester_identity::limits::{CERTIFICATE_LIFE_MAX, ENROLLED_LIFE, ENROLLED_LIFE_MIN};
use zester_identity::{KeyKind, KeyPair, PublicKey};
use zester_master::DoorSetup;

/// Where this master says that its door is.
const ADDRESS_FILE: &str = "door.address";

/// What the words of a master say about its door.
pub struct Wanted<'a> {
    pub listen: Option<&'a str>,
    pub door: Option<&'a Path>,
    /// What peels are told of the bus, where that is not what this master uses.
    pub advertise: Option<&'a str>,
    pub life: Option<Duration>,
}

fn read(path: &Path) -> Result<String, Failure> {
    Ok(std::fs::read_to_string(path).map_err(|error| zester_converge::Error::io("read", path, error))?)
}

/// The public key in a file.
pub fn account(path: &Path) -> Result<PublicKey, Failure> {
    PublicKey::of_kind(read(path)?.trim(), KeyKind::Account)
        .map_err(|bad| Failure::usage(format!("{}: {bad}", path.display())))
}

/// Binds the door. None: nobody asked for one.
pub async fn bind(
    wanted: &Wanted<'_>,
    connect: &Connect,
    app: &App,
    data_dir: &Path,
) -> Result<Option<DoorSetup>, Failure> {
    let Some(listen) = wanted.listen else { return Ok(None) };
    let Some(dir) = wanted.door else {
        return Err(Failure::usage(
            "--listen needs --door DIR: the directory `door` that `zester auth init` wrote, with the key of the issuer",
        ));
    };
    let Some(identity) = connect.identity(app)? else {
        return Err(Failure::usage("--listen needs --creds: who has no key can let nobody into a fleet"));
    };
    let address = listen_address("--listen", listen).map_err(Failure::usage)?;
    let life = wanted.life.unwrap_or(ENROLLED_LIFE);
    if life < ENROLLED_LIFE_MIN || life > CERTIFICATE_LIFE_MAX {
        let (least, most) = (ENROLLED_LIFE_MIN.as_secs(), CERTIFICATE_LIFE_MAX.as_secs() / 86_400);
        return Err(Failure::usage(format!("--peel-life: at least {least} seconds, at most {most} days")));
    }
    let issuer: KeyPair = read_key(&dir.join(ISSUER_FILE))?;
    if issuer.kind() != KeyKind::Account {
        return Err(Failure::usage(format!(
            "{}: this is no key of an issuer",
            dir.join(ISSUER_FILE).display()
        )));
    }
    let (certificate, ca) = (read(&dir.join("door.pem"))?, read(&dir.join("ca.pem"))?);
    let key = read_secret(&dir.join("door.key"))?;
    let certificates = Certificates { certificate: &certificate, key: &key, ca: &ca };
    let door = Door::bind(address, &certificates).await.map_err(Failure::usage)?;
    let told = connect.servers_of_daemon(app).shown();
    let setup = DoorSetup {
        issuer,
        account: account(&dir.join(ACCOUNT_FILE))?,
        roster: identity.roster,
        nats: wanted.advertise.map_or(told, String::from),
        ca: match connect.ca_file(app) {
            Some(path) => read(&path)?,
            None => String::new(),
        },
        life,
        secret: random()?,
        door,
    };
    zester_converge::data_dir::DataDir::open(data_dir)?;
    write_secret(&data_dir.join(ADDRESS_FILE), format!("{}\n", setup.door.address()).as_bytes())?;
    Ok(Some(setup))
}

/// Where the door of a master is that keeps its things there; none while it is not open.
pub fn address_in(data_dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(data_dir.join(ADDRESS_FILE)).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

/// What an earlier start said of its door is true no more.
pub fn forget_address(data_dir: &Path) {
    let _none = std::fs::remove_file(data_dir.join(ADDRESS_FILE));
}
