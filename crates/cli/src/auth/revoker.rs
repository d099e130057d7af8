//! A successor for the key that masters revoke with (I-15). What a server trusts stands in its configuration and is read when it starts,
//! so it takes two restarts: one after which both keys count, and one after which the key before is out.

use super::directory::{Directory, REVOKER, SIGNER_FILE, failure, new_key, now};
use super::{system, trusted};
use crate::answer::Failure;
use std::collections::BTreeSet;
use std::path::PathBuf;
use zester_identity::authority::Fleet;
use zester_identity::{KeyKind, KeyPair};

const CONFIG: &str = "nats-server.conf";
/// What the line begins with that names the operator.
const LINE: &str = "operator: ";

/// What is to become of the key before.
#[derive(Copy, Clone)]
pub enum Stage {
    /// It counts beside its successor.
    Begin,
    /// It is given up.
    End,
    /// A thief has it.
    Stolen,
}

/// What was done, and what is next.
pub struct Rotated {
    pub file: PathBuf,
    pub text: String,
}

/// Each of them can be repeated where it ended half-way: it does what is left of it, and never what comes after it.
pub fn rotate(directory: &Directory, stage: Stage) -> Result<Rotated, Failure> {
    let operator = directory.secret("operator")?;
    let text = match stage {
        Stage::Begin => begin(directory, &operator)?,
        Stage::End => end(directory, &operator)?,
        Stage::Stolen => replace_stolen(directory, &operator)?,
    };
    Ok(Rotated { file: key_file(directory), text })
}

fn key_file(directory: &Directory) -> PathBuf {
    directory.path("keys/revoker.nk")
}

fn begin(directory: &Directory, operator: &KeyPair) -> Result<String, Failure> {
    let (mut fleet, issuer) = (directory.fleet()?, directory.secret("issuer")?);
    if fleet.former_revoker.is_none() {
        let pair = new_key(KeyKind::Operator)?;
        fleet.rotate_revoker(pair.public(), false);
        // First: a list that names a key which nobody has would be of no use.
        directory.keep_secret("revoker", &pair)?;
        directory.keep_for_masters(&fleet, &issuer, Some(&pair))?;
        directory.keep_fleet(&fleet)?;
    }
    let (told, key) = (tell_server(directory, &fleet, operator)?, key_file(directory));
    Ok(match fleet.former_revoker {
        Some(_) => format!(
            "{} is new, and the key before counts as well\n{told}; then give revoker/ to the masters that revoke, restart those, and give the key before up with `zester auth rotate revoker --end`\n",
            key.display()
        ),
        None => format!(
            "{} is new, and the first of this fleet\n{told}; then give revoker/ to the masters that shall revoke, and restart those\n",
            key.display()
        ),
    })
}

fn end(directory: &Directory, operator: &KeyPair) -> Result<String, Failure> {
    let mut fleet = directory.fleet()?;
    let is_told = named(directory)?.is_none_or(|keys| fleet.revoker.iter().all(|key| keys.contains(key)));
    if !fleet.end_former_revoker() {
        return Err(Failure::usage(
            "no key of masters that revoke is to be given up; `zester auth rotate revoker` gives them a new one",
        ));
    }
    if !is_told {
        return Err(Failure::usage(format!(
            "{} does not name the new key yet: repeat `zester auth rotate revoker`, and do what it says, before the key before is given up",
            directory.path(CONFIG).display()
        )));
    }
    // The list is last: until then the key before is known, and this can be repeated.
    let told = tell_server(directory, &fleet, operator)?;
    directory.keep_fleet(&fleet)?;
    Ok(format!(
        "the key before {} is given up\nwhat it signed is signed anew by `zester auth push`: do that first; then {told}\n",
        key_file(directory).display()
    ))
}

fn replace_stolen(directory: &Directory, operator: &KeyPair) -> Result<String, Failure> {
    let (mut fleet, issuer) = (directory.fleet()?, directory.secret("issuer")?);
    let pair = new_key(KeyKind::Operator)?;
    fleet.rotate_revoker(pair.public(), true);
    // The credentials of the system user lay beside it.
    let user = system::replace(directory, &mut fleet)?;
    directory.keep_secret("revoker", &pair)?;
    directory.keep_for_masters(&fleet, &issuer, Some(&pair))?;
    let told = tell_server(directory, &fleet, operator)?;
    Ok(format!(
        "{} is new; the key before counts no more once the servers know it\n{} is new too: the one before lay beside the key\nin this order: `zester auth push`, and the thief's system user is out; {told}; `zester auth push` again, over what was signed with the key before until then; give revoker/ to the masters that revoke, and restart those\n",
        key_file(directory).display(),
        user.display()
    ))
}

/// Writes what is trusted into the configuration that `zester auth init` wrote, and says what is to be done with it. Where that is not
/// here, or no longer of that shape, somebody else has to write it.
fn tell_server(directory: &Directory, fleet: &Fleet, operator: &KeyPair) -> Result<String, Failure> {
    let jwt = fleet.operator_jwt(operator, now()).map_err(failure)?;
    let Some(text) = config(directory)? else {
        return Ok(format!(
            "put this line in the configuration of every server and restart them, one after the other:\n{LINE}{jwt}\n"
        ));
    };
    let line = |line: &str| match line.starts_with(LINE) {
        true => format!("{LINE}{jwt}\n"),
        false => format!("{line}\n"),
    };
    let text: String = text.lines().map(line).collect();
    let path = directory.write(CONFIG, text.as_bytes())?;
    Ok(format!("put {} on every server and restart them, one after the other", path.display()))
}

/// The configuration, where it is here and names one operator.
fn config(directory: &Directory) -> Result<Option<String>, Failure> {
    let path = directory.path(CONFIG);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(zester_converge::Error::io("read", &path, error).into()),
    };
    let count = text.lines().filter(|line| line.starts_with(LINE)).count();
    Ok((count == 1).then_some(text))
}

/// The keys whose accounts a server with the configuration that is here believes.
fn named(directory: &Directory) -> Result<Option<BTreeSet<String>>, Failure> {
    let Some(text) = config(directory)? else { return Ok(None) };
    let jwt = text.lines().find_map(|line| line.strip_prefix(LINE)).unwrap_or_default();
    let keys = trusted::keys_of(jwt.trim());
    keys.map(Some)
        .map_err(|bad| Failure::usage(format!("{}: the operator: {bad}", directory.path(CONFIG).display())))
}

/// What `zester auth lint` says of a rotation that is not over.
pub fn problems(directory: &Directory, fleet: &Fleet) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    if fleet.former_revoker.is_some() {
        problems.push(
            "the key that masters revoke with has a successor, and counts as well: once the servers were restarted and these masters have the \
             new revoker/, give it up with `zester auth rotate revoker --end`"
                .to_string(),
        );
    }
    let half_way = "repeat the `zester auth rotate revoker` that ended half-way, with the same words";
    for file in ["keys/revoker.nk".to_string(), format!("{REVOKER}/{SIGNER_FILE}")] {
        let is_here = directory.path(&file).is_file();
        if is_here && Some(directory.key(&file)?.public().as_str()) != fleet.revoker.as_deref() {
            problems.push(format!("{file} is another key than fleet.json names: {half_way}"));
        }
    }
    let ours = [Some(&fleet.operator), fleet.revoker.as_ref(), fleet.former_revoker.as_ref()];
    let ours: BTreeSet<String> = ours.into_iter().flatten().cloned().collect();
    if named(directory)?.is_some_and(|keys| keys != ours) {
        problems.push(format!("{CONFIG} names other keys than fleet.json to sign accounts: {half_way}"));
    }
    Ok(problems)
}
