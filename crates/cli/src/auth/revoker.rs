//! A successor for the key that masters revoke with (I-15). What a server trusts stands in its configuration and is read when it starts,
//! so it takes two restarts: one after which both keys count, and one after which the key before is out.

use super::directory::{Directory, failure, new_key, now};
use crate::answer::Failure;
use std::path::PathBuf;
use zester_identity::KeyKind;

const CONFIG: &str = "nats-server.conf";
/// What the line begins with that names the operator.
const LINE: &str = "operator: ";

/// What was done, and what is next.
pub struct Rotated {
    pub file: PathBuf,
    pub text: String,
}

/// Begins a rotation, or ends the one that is under way.
pub fn rotate(directory: &Directory, stolen: bool) -> Result<Rotated, Failure> {
    let mut fleet = directory.fleet()?;
    let (operator, issuer) = (directory.secret("operator")?, directory.secret("issuer")?);
    let ends = !stolen && fleet.end_former_revoker();
    if !ends {
        let pair = new_key(KeyKind::Operator)?;
        fleet.rotate_revoker(pair.public(), stolen);
        // First: a list that names a key which nobody has would be of no use.
        directory.keep_secret("revoker", &pair)?;
        directory.keep_for_masters(&fleet, &issuer, Some(&pair))?;
    }
    directory.keep_fleet(&fleet)?;
    let jwt = fleet.operator_jwt(&operator, now()).map_err(failure)?;
    let told = match tell_server(directory, &jwt)? {
        Some(path) => format!("put {} on every server and restart them, one after the other", path.display()),
        None => format!(
            "put this line in the configuration of every server and restart them, one after the other:\n{LINE}{jwt}"
        ),
    };
    let file = directory.path("keys/revoker.nk");
    let text = match (ends, stolen) {
        (true, _) => format!(
            "the key before {} is given up\nwhat it signed is signed anew by `zester auth push`: do that first; then {told}\n",
            file.display()
        ),
        (false, true) => format!(
            "{} is new; the key before counts no more once the servers know it\nfirst `zester auth push`, then {told}; then give revoker/ to the masters that revoke, and restart those\n",
            file.display()
        ),
        (false, false) => format!(
            "{} is new, and the key before counts as well\n{told}; then give revoker/ to the masters that revoke, restart those, and give the key before up with `zester auth rotate revoker`\n",
            file.display()
        ),
    };
    Ok(Rotated { file, text })
}

/// Writes what is trusted into the configuration that `zester auth init` wrote. None: it is not here, or no longer of that shape.
fn tell_server(directory: &Directory, jwt: &str) -> Result<Option<PathBuf>, Failure> {
    let path = directory.path(CONFIG);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(zester_converge::Error::io("read", &path, error).into()),
    };
    let named = text.lines().filter(|line| line.starts_with(LINE)).count();
    if named != 1 {
        return Ok(None);
    }
    let line = |line: &str| match line.starts_with(LINE) {
        true => format!("{LINE}{jwt}\n"),
        false => format!("{line}\n"),
    };
    let text: String = text.lines().map(line).collect();
    directory.write(CONFIG, text.as_bytes()).map(Some)
}
