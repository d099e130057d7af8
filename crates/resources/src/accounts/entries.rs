//! The lines of the books.

use crate::state::Read;
use zester_host::Fault;

pub(super) const PASSWD: &str = "/etc/passwd";
pub(super) const SHADOW: &str = "/etc/shadow";
pub(super) const GROUP: &str = "/etc/group";

/// A line of `/etc/passwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PasswdEntry {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) gecos: String,
    pub(super) home: String,
    pub(super) shell: String,
}

/// A line of `/etc/shadow`. Days are counted from 1970; -1 stands for an empty field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShadowEntry {
    pub(super) password: String,
    /// Last change, minimum, maximum, warning, inactivity, expiry.
    pub(super) days: [i64; 6],
}

/// A line of `/etc/group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupEntry {
    pub(super) name: String,
    pub(super) gid: u32,
    pub(super) members: Vec<String>,
}

/// The fields of the line of somebody. Lines that are no entries (`+` of NIS, comments) are not anybody's.
fn fields<'a>(book: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let fields = |line: &'a str| line.split(':').collect::<Vec<_>>();
    book.lines().map(fields).find(|fields| fields.first() == Some(&name) && fields.len() > 1)
}

pub(super) fn passwd(cx: &Read<'_>, name: &str) -> Result<Option<PasswdEntry>, Fault> {
    let Some(book) = cx.text(PASSWD)? else { return Ok(None) };
    Ok(fields(&book, name).and_then(|fields| match fields.as_slice() {
        [_, _, uid, gid, gecos, home, shell] => Some(PasswdEntry {
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            gecos: (*gecos).to_string(),
            home: (*home).to_string(),
            shell: (*shell).to_string(),
        }),
        _ => None,
    }))
}

/// None where there is no such line, or no such book.
pub(super) fn shadow(cx: &Read<'_>, name: &str) -> Result<Option<ShadowEntry>, Fault> {
    let Some(book) = cx.text(SHADOW)? else { return Ok(None) };
    Ok(fields(&book, name).map(|fields| {
        let day = |place: usize| fields.get(place).and_then(|field| field.parse().ok()).unwrap_or(-1);
        let password = fields.get(1).copied().unwrap_or_default().to_string();
        ShadowEntry { password, days: [day(2), day(3), day(4), day(5), day(6), day(7)] }
    }))
}

pub(super) fn groups(cx: &Read<'_>) -> Result<Vec<GroupEntry>, Fault> {
    let book = cx.text(GROUP)?.unwrap_or_default();
    let entry = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, members] = fields.as_slice() else { return None };
        let members = members.split(',').map(str::trim).filter(|name| !name.is_empty());
        Some(GroupEntry {
            name: (*name).to_string(),
            gid: gid.parse().ok()?,
            members: members.map(str::to_string).collect(),
        })
    };
    Ok(book.lines().filter_map(entry).collect())
}

/// The number that a new account would get, as `useradd` and `groupadd` count: after the highest one there is, and for the
/// system below the lowest.
pub(super) fn next_number(taken: impl Iterator<Item = u32>, system: bool) -> u32 {
    let taken: Vec<u32> = taken.collect();
    if system {
        return (100..1000).rev().find(|number| !taken.contains(number)).unwrap_or(999);
    }
    taken.iter().copied().filter(|number| (1000..60000).contains(number)).max().map_or(1000, |most| most + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_number_is_the_one_that_the_programs_would_choose() {
        assert_eq!(next_number([0, 33, 65534].into_iter(), false), 1000);
        assert_eq!(next_number([0, 1000, 1004, 65534].into_iter(), false), 1005);
        assert_eq!(next_number([0, 999, 998].into_iter(), true), 997);
    }
}
