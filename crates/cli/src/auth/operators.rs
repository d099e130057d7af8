//! The account of operators with roles (I-14). Fleets of earlier releases had these operators among the masters, in CORE, where the
//! reply subject of a read reaches every store: whatever tells the server of accounts takes them out of there.

use super::directory::{Directory, failure, new_key, now};
use crate::answer::Failure;
use crate::app::App;
use crate::commands::auth::keep_credentials;
use std::path::PathBuf;
use std::time::Duration;
use zester_identity::authority::Fleet;
use zester_identity::limits::REKEY_OVERLAP;
use zester_identity::{Credentials, KeyKind, accounts, authority, jwt};
use zester_wire::{Member, MemberRole, Roster};

/// An operator, and where its new credentials are.
pub type Moved = (String, PathBuf);

/// What their keys in CORE signed counts for so long yet: until it has come.
const OVERLAP: Duration = REKEY_OVERLAP;

/// Makes the account where there is none, and moves every operator with roles there. Done again it changes nothing, and names who was
/// moved until [`told`]; stopped half-way it begins anew, because the list of keys is written last.
pub fn settle(directory: &Directory) -> Result<Vec<Moved>, Failure> {
    let mut fleet = directory.fleet()?;
    if !fleet.has_operators_in_core() {
        let path = |name: &String| directory.path(&format!("creds/{name}.creds"));
        return Ok(fleet.moved.iter().map(|name| (name.clone(), path(name))).collect());
    }
    let (mut roster, _) = directory.roster(&fleet)?;
    let names = authority::operators_in(&roster);
    // The first thing that may be missing, and the last: nothing was written yet.
    let core = if names.is_empty() { None } else { Some(directory.secret("core")?) };
    let account = new_key(KeyKind::Account)?;
    directory.keep_secret("operators", &account)?;
    fleet.open_account_of_operators(account.public());
    let at = now();
    let mut made = Vec::new();
    for name in &names {
        let Some(core) = &core else { break };
        let pair = new_key(KeyKind::User)?;
        made.push(fleet.move_operator(name, pair, core, &mut roster, (at, OVERLAP)).map_err(failure)?);
    }
    let mut moved = Vec::new();
    if !made.is_empty() {
        let signed = directory.keep_roster(&authority::renewed(&roster, at))?;
        for one in made {
            moved.push((one.name.clone(), keep_credentials(directory, &fleet, one, &signed)?));
        }
    }
    directory.keep_fleet(&fleet)?;
    Ok(moved)
}

/// Takes note that the fleet knows, and that whoever moved them was told of them.
pub fn told(directory: &Directory) -> Result<(), Failure> {
    let mut fleet = directory.fleet()?;
    match std::mem::take(&mut fleet.moved).is_empty() {
        true => Ok(()),
        false => directory.keep_fleet(&fleet),
    }
}

/// Tells of those who were moved: what they have is let in no more.
pub fn tell(moved: &[Moved], app: &App) {
    for (name, path) in moved {
        app.output.notice(&format!(
            "operators with roles have an account of their own now: give {name} the new {}; what {name} has is let in no more",
            path.display()
        ));
    }
}

/// What `zester auth lint` says of a fleet that has no such account yet, or does not know of it.
pub fn problems(fleet: &Fleet, roster: &Roster) -> Vec<String> {
    let unknown = |name: &String| {
        format!(
            "{name} was moved to an account of its own, and the fleet was not told: `zester auth push`, and give {name} the new creds/{name}.creds"
        )
    };
    let in_core = fleet.has_operators_in_core().then(|| in_core(roster));
    in_core.into_iter().chain(fleet.moved.iter().map(unknown)).collect()
}

fn in_core(roster: &Roster) -> String {
    let names: Vec<String> = authority::operators_in(roster).into_iter().collect();
    let who = match names.is_empty() {
        true => "operators with roles would have".to_string(),
        false => format!("{} with roles have", names.join(", ")),
    };
    format!(
        "{who} no account of their own, and could have the server empty its stores: `zester auth push` makes it"
    )
}

/// Whether credentials are of an operator whom an earlier release put among the masters.
pub fn is_in_core(who: &Credentials) -> bool {
    let is_named =
        |member: &Member| member.role == MemberRole::Operator && member.key == who.pair.public().as_str();
    let is_operator = zester_identity::roster::read(&who.roster, &who.anchor)
        .is_ok_and(|roster| roster.members.iter().any(is_named));
    is_operator && !has_own_account(who)
}

/// Whether credentials are of an operator in the account of operators: its rights come from there, and it has no certificate, as a
/// peel has whose rights come from another account.
pub fn has_own_account(who: &Credentials) -> bool {
    who.certificate.is_empty() && jwt::verify(&who.jwt).is_ok_and(|user| accounts::is_scoped(&user.claims))
}

/// What such an operator is told whom the server lets in no more.
pub fn refused(name: &str, shown: &str) -> String {
    format!(
        "the bus at {shown} lets {name} in no more: operators with roles have an account of their own since `zester auth push` of a newer \
         release; whoever ran it has new credentials for {name} in creds/{name}.creds"
    )
}
