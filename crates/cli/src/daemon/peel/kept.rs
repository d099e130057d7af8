//! What a peel keeps of its enrollment, in `creds/` of its data directory: its key, its credentials, the CA and the address of
//! the bus. Every file is its owner's alone.

use crate::answer::Failure;
use crate::auth::directory::{now, own_key, read_key, write_secret};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zester_door::Pin;
use zester_identity::{Credentials, KeyPair, PublicKey, Trust, credentials};
use zester_wire::{EnrollGrant, PeelId, UnixMillis};

const PLACE: &str = "creds";
const KEY: &str = "peel.nk";
/// The key that is to take its place, until the door has taken it.
const NEXT_KEY: &str = "next.nk";
/// Beside the key, under the same name: as every reader of credentials looks for it.
const CREDENTIALS: &str = "peel.creds";
const CA: &str = "ca.pem";
const ABOUT: &str = "enrolled.json";

/// What is written down beside the credentials.
#[derive(Serialize, Deserialize)]
struct About {
    peel: String,
    /// Of the fleet that it is enrolled in: with another pin it asks anew.
    pin: String,
    nats: String,
    has_ca: bool,
    given: u64,
    until: u64,
}

pub struct Kept {
    pub credentials: Credentials,
    pub creds_file: PathBuf,
    pub ca_file: Option<PathBuf>,
    pub nats: String,
    pub given: UnixMillis,
    pub until: UnixMillis,
}

impl Kept {
    /// The key of this machine, which is made if there is none.
    pub fn own_key(data_dir: &Path) -> Result<KeyPair, Failure> {
        let place = data_dir.join(PLACE);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&place);
        made.map_err(|error| zester_converge::Error::io("make the directory", &place, error))?;
        own_key(&place.join(KEY))
    }

    /// The key that somebody wants in the place of that one.
    pub fn next_key(data_dir: &Path) -> Result<Option<KeyPair>, Failure> {
        let path = data_dir.join(PLACE).join(NEXT_KEY);
        match path.try_exists() {
            Ok(true) => read_key(&path).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(zester_converge::Error::io("look for", &path, error).into()),
        }
    }

    /// Makes it, for a peel that has a key; one that is there already is shown. It counts once the peel has shown it at the door.
    pub fn make_next_key(data_dir: &Path) -> Result<KeyPair, Failure> {
        let place = data_dir.join(PLACE);
        if !place.join(ABOUT).is_file() {
            let why = format!(
                "{} holds no credentials of a peel that enrolled; one whose credentials were issued by hand gets others with `zester auth issue`",
                place.display()
            );
            return Err(Failure::usage(why));
        }
        let path = place.join(NEXT_KEY);
        let pair = own_key(&path)?;
        // Whoever runs the command may be another user than the peel, which has to read it. Not through a link: the place is the peel's.
        if let Ok(owner) = std::fs::symlink_metadata(place.join(KEY))
            && let Err(error) = lchown(&path, Some(owner.uid()), Some(owner.gid()))
        {
            tracing::warn!("{} is not the peel's own: {error}", path.display());
        }
        Ok(pair)
    }

    /// The next key is the key from now on. Before what was given for it is written: whoever has a key and no credentials asks for some.
    fn take_next_key(data_dir: &Path) -> Result<(), Failure> {
        let (from, to) = (data_dir.join(PLACE).join(NEXT_KEY), data_dir.join(PLACE).join(KEY));
        Ok(std::fs::rename(&from, &to)
            .map_err(|error| zester_converge::Error::io("put in place", &to, error))?)
    }

    /// Keeps what the door gave to the next key.
    pub fn keep_next(
        data_dir: &Path,
        pair: &KeyPair,
        id: &PeelId,
        pin: Pin,
        grant: &EnrollGrant,
        anchor: &PublicKey,
    ) -> Result<Kept, Failure> {
        let credentials = own(&grant.credentials, pair, id)
            .map_err(|why| Failure::usage(format!("what the door gave is of no use: {why}")))?;
        if credentials.anchor != *anchor {
            return Err(Failure::usage("the door gave credentials of another fleet".to_string()));
        }
        Kept::take_next_key(data_dir)?;
        Kept::keep(data_dir, pair, id, pin, grant)
    }

    /// What an earlier enrollment left. None where there is none, or where it is of another name or fleet.
    pub fn open(data_dir: &Path, pair: &KeyPair, id: &PeelId, pin: Pin) -> Result<Option<Kept>, Failure> {
        let place = data_dir.join(PLACE);
        let path = place.join(ABOUT);
        let about = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(zester_converge::Error::io("read", &path, error).into()),
        };
        let Ok(about) = serde_json::from_slice::<About>(&about) else {
            tracing::warn!("{} cannot be read; asking to be let in anew", path.display());
            return Ok(None);
        };
        if about.peel != id.as_str() || about.pin != pin.to_string() {
            return Ok(None);
        }
        let creds_file = place.join(CREDENTIALS);
        let text = std::fs::read_to_string(&creds_file)
            .map_err(|error| zester_converge::Error::io("read", &creds_file, error))?;
        match own(&text, pair, id) {
            Ok(credentials) => Ok(Some(Kept {
                credentials,
                creds_file,
                ca_file: about.has_ca.then(|| place.join(CA)),
                nats: about.nats,
                given: UnixMillis(about.given),
                until: UnixMillis(about.until),
            })),
            Err(why) => {
                tracing::warn!("{} is of no use: {why}; asking to be let in anew", creds_file.display());
                Ok(None)
            }
        }
    }

    /// Keeps what the door gave, once it is certain that it is for us. What tells that it is there is written last.
    pub fn keep(
        data_dir: &Path,
        pair: &KeyPair,
        id: &PeelId,
        pin: Pin,
        grant: &EnrollGrant,
    ) -> Result<Kept, Failure> {
        let credentials = own(&grant.credentials, pair, id)
            .map_err(|why| Failure::usage(format!("what the door gave is of no use: {why}")))?;
        // The anchor was pinned when it enrolled (I-8): whoever owns a door must not be able to hand it to another fleet.
        if let Some(before) = Kept::open(data_dir, pair, id, pin)?
            && before.credentials.anchor != credentials.anchor
        {
            let place = data_dir.join(PLACE);
            return Err(Failure::usage(format!(
                "the door gave credentials of another fleet; remove {} where this machine is to join it",
                place.display()
            )));
        }
        let place = data_dir.join(PLACE);
        let creds_file = place.join(CREDENTIALS);
        write_secret(&creds_file, grant.credentials.as_bytes())?;
        let has_ca = !grant.ca.is_empty();
        if has_ca {
            write_secret(&place.join(CA), grant.ca.as_bytes())?;
        }
        let given = now();
        // By our own clock, whatever that of the master says.
        let until = if grant.life.is_zero() { grant.until } else { given.plus(grant.life) };
        let (peel, pin, nats) = (id.to_string(), pin.to_string(), grant.nats.clone());
        let about = About { peel, pin, nats, has_ca, given: given.0, until: until.0 };
        let about = serde_json::to_vec_pretty(&about)
            .map_err(|error| Failure::usage(format!("the enrollment cannot be written down: {error}")))?;
        write_secret(&place.join(ABOUT), &about)?;
        let ca_file = has_ca.then(|| place.join(CA));
        Ok(Kept { credentials, creds_file, ca_file, nats: grant.nats.clone(), given, until })
    }

    /// After two thirds of their life.
    pub fn due_in(&self) -> Duration {
        let life = self.until.since(self.given);
        self.given.plus(life.mul_f64(2.0 / 3.0)).since(now())
    }

    pub fn is_due(&self) -> bool {
        self.due_in().is_zero()
    }

    pub fn ends_in(&self) -> Duration {
        self.until.since(now())
    }

    pub fn has_ended(&self) -> bool {
        self.ends_in().is_zero()
    }
}

/// The credentials of a text, if they are of this key and this name, and their roster is of their anchor.
fn own(text: &str, pair: &KeyPair, id: &PeelId) -> Result<Credentials, String> {
    if credentials::has_seed(text) {
        return Err("it holds a key that this machine did not make".into());
    }
    let seed = pair.seed().map_err(|bad| bad.to_string())?;
    let parsed = Credentials::parse(&credentials::with_seed(text, &seed)).map_err(|bad| bad.to_string())?;
    let credentials = parsed.ok_or("the anchor of the fleet is missing")?;
    if credentials.name != id.as_str() {
        return Err(format!("it is for {}, and this is {id}", credentials.name));
    }
    Trust::new(credentials.anchor.clone(), &credentials.roster).map_err(|bad| bad.to_string())?;
    Ok(credentials)
}
