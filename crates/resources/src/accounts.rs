//! Users and groups of this machine: its own books, and the programs that change them.
//!
//! `/etc/passwd`, `/etc/shadow` and `/etc/group` are read as the files they are; somebody whom only the name service knows
//! (LDAP) is somebody else's to change. Changes go through `useradd` and its kin, which lock the books and know the rest
//! (`/etc/gshadow`, `/etc/subuid`). A password goes through the input of `chpasswd`, never over a command line.

mod entries;
#[cfg(test)]
pub(crate) mod fake_books;
mod group_state;
mod members;
mod password;
mod user_state;

pub(crate) use group_state::{GroupAccount, GroupState, HowMade};
pub(crate) use members::Members;
pub(crate) use password::Password;
pub(crate) use user_state::{How, UserAccount, UserState};

use crate::claims::ManagedItem;
use crate::params::Invalid;
use zester_host::{Fault, FaultKind, Group, HostRead};

/// The longest name of a user or group that the books take.
const NAME_BYTES_MAX: usize = 32;

/// Who changes the books of this machine now. The programs would wait for each other too, a second at a time.
static CHANGES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A group, by name or number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GroupId {
    Number(u32),
    Name(String),
}

crate::params::from_text!(GroupId, "name or number of a group", |text| match text.parse() {
    Ok(number) => Ok(GroupId::Number(number)),
    Err(_) => match odd_name(text) {
        None => Ok(GroupId::Name(text.to_string())),
        Some(why) => Err(why),
    },
});

impl GroupId {
    pub(crate) fn number(&self, host: &dyn HostRead) -> Result<u32, Fault> {
        match self {
            GroupId::Number(number) => Ok(*number),
            GroupId::Name(name) => Ok(group(host, name)?.gid),
        }
    }
}

/// A group that must be there.
pub(crate) fn group(host: &dyn HostRead, name: &str) -> Result<Group, Fault> {
    host.group(name)?.ok_or_else(|| {
        let message = format!("there is no group `{name}`");
        Fault::new(FaultKind::NotFound, message).hint("a `group.present` state makes it")
    })
}

/// The fault where a user must be there and is not.
pub(crate) fn nobody(name: &str) -> Fault {
    let message = format!("there is no user `{name}`");
    Fault::new(FaultKind::NotFound, message).hint("a `user.present` state makes it")
}

/// Somebody else made the account since it was looked for: it is theirs, and nothing was done.
fn made_meanwhile(item: &ManagedItem) -> Fault {
    Fault::new(FaultKind::ChangedSince, format!("{item} was made by somebody else meanwhile"))
        .hint("run it again")
}

/// The same, told by the program that was to make it.
fn is_taken(fault: &Fault) -> bool {
    fault.message.contains("already exists")
}

/// What keeps a text from being a name: it goes onto a command line, and into a line of a book.
pub(crate) fn odd_name(name: &str) -> Option<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let body = name.strip_suffix('$').unwrap_or(name);
    let fits = name.len() <= NAME_BYTES_MAX
        && body.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && body.chars().all(plain)
        && !body.bytes().all(|byte| byte.is_ascii_digit());
    (!fits).then(|| format!("`{name}` cannot name an account"))
}

/// The names of a parameter that are none.
pub(crate) fn odd_names<'a>(
    parameter: &'static str,
    names: impl IntoIterator<Item = &'a String>,
) -> Vec<Invalid> {
    names.into_iter().filter_map(|name| odd_name(name)).map(|why| Invalid::new(parameter, why)).collect()
}

/// A text that can stand in one field of a book.
pub(crate) fn odd_field(parameter: &'static str, text: Option<&str>) -> Option<Invalid> {
    let odd = text.is_some_and(|text| text.contains([':', '\n', '\0']));
    odd.then(|| Invalid::new(parameter, "neither a colon nor a line break can stand there"))
}
