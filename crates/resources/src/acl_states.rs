//! `acl.present`, `acl.absent`, `acl.list_present`, `acl.list_absent`: access lists of files and directories.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::{Checking, Explanation};
use crate::params::{Absolute, Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::{Read, State, Step, Write};
use crate::tree;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zester_host::process::read_tools::GETFACL;
use zester_host::{Fault, FaultKind, FileKind, HostRead};

/// Sorts of entries, as they are written and as `getfacl` tells them.
const SORTS: [(&str, &str); 4] = [("u", "user"), ("g", "group"), ("m", "mask"), ("o", "other")];

/// `setfacl` skips a link that is put in the place of the file while it starts.
const PHYSICAL: &str = "--physical";

/// How an entry begins that new files in a directory get.
const DEFAULT: &str = "default:";
/// What bounds the rights of everybody who is named. `setfacl` makes one by itself, and leaves it behind.
const MASK: &str = "mask:";

/// The whole list: entries without their rights (`user:web`, `default:mask:`), and their rights; none where there is no such
/// entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccessList(BTreeMap<String, Option<String>>);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Key {
    path: PathBuf,
    /// `user:web`, `default:group:staff`
    entries: Vec<String>,
}

impl State for AccessList {
    type Key = Key;
    type How = ();

    fn item(key: &Key) -> ManagedItem {
        ManagedItem::Named("access list of", format!("{} ({})", key.path.display(), key.entries.join(", ")))
    }

    async fn current(key: &Key, cx: &Read<'_>) -> Result<AccessList, Fault> {
        let path = real_path(cx.host, &key.path)?;
        let exit = cx.ask(GETFACL, &[&path]).await?;
        // What an earlier state of a dry run would make has no list yet (S-30).
        let made_later = exit.stderr.text.contains("No such file or directory");
        if exit.code != Some(0) && !made_later {
            return Err(exit.failure(&format!("`getfacl {path}`")));
        }
        let mut list = entries_of(&exit.stdout.text);
        for entry in &key.entries {
            list.entry(entry.clone()).or_default();
        }
        Ok(AccessList(list))
    }

    async fn enforce(step: &Step<'_, AccessList>, cx: &Write<'_, AccessList>) -> Result<(), Fault> {
        // The mask after all whom it bounds: `setfacl` counts it anew with each of them, and keeps it while one is there.
        let is_mask = |entry: &String| entry.ends_with(MASK);
        let mut entries: Vec<(&String, &Option<String>)> = step.to.0.iter().collect();
        entries.sort_by_key(|(entry, _)| is_mask(entry));
        let keeps_defaults =
            step.to.0.iter().any(|(entry, rights)| entry.starts_with(DEFAULT) && rights.is_some());
        for (entry, rights) in entries {
            if step.from.0.get(entry).unwrap_or(&None) == rights {
                continue;
            }
            // Another user may have put a link there since.
            let path = real_path(cx.host, &step.key.path)?;
            let change = rights.as_ref().map(|rights| format!("{entry}:{rights}"));
            match &change {
                Some(change) => cx.run(&["setfacl", PHYSICAL, "-m", change, "--", &path]).await?,
                // Those for owner, group and others go with the last of the rest.
                None if entry.starts_with(DEFAULT) && !keeps_defaults => {
                    cx.run(&["setfacl", PHYSICAL, "-k", "--", &path]).await?
                }
                None => cx.run(&["setfacl", PHYSICAL, "-x", entry, "--", &path]).await?,
            };
        }
        Ok(())
    }

    fn describe(step: &Step<'_, AccessList>, _: bool) -> Explanation {
        let mut told = Explanation::default();
        for (entry, new) in &step.to.0 {
            let old = step.from.0.get(entry).cloned().flatten();
            if old != *new {
                let word = |rights: &Option<String>| rights.clone().unwrap_or_else(|| "none".to_string());
                let path = step.key.path.display();
                told.diff.push_str(&format!("{path}: {entry}: {} → {}\n", word(&old), word(new)));
                told.details.insert(entry.clone(), json!({ "old": old, "new": new }));
            }
        }
        told
    }
}

/// The thing itself, behind all links that may be followed: whoever owns a directory must not lead root to another's file.
fn real_path(host: &dyn HostRead, path: &Path) -> Result<String, Fault> {
    let real = tree::behind_links(host, &tree::resolve_again(host, path)?)?;
    match host.stat(&real)? {
        Some(_) => Ok(real.display().to_string()),
        None => Err(Fault::new(FaultKind::NotFound, format!("there is nothing at {}", path.display()))),
    }
}

/// What `getfacl` tells, entry by entry.
fn entries_of(told: &str) -> BTreeMap<String, Option<String>> {
    let entry = |line: &str| {
        let (entry, rights) = line.rsplit_once(':').filter(|_| !line.starts_with('#'))?;
        Some((entry.to_string(), Some(rights.chars().take(3).collect())))
    };
    told.lines().filter_map(entry).collect()
}

/// `rwx`, `rw`, `r-x` and `7` as three letters.
fn plain_rights(perms: &str) -> Option<String> {
    let bits = match perms.parse::<u8>() {
        Ok(bits) if bits < 8 => bits,
        Ok(_) => return None,
        Err(_) => perms.chars().try_fold(0, |bits, letter| match letter {
            'r' => Some(bits | 4),
            'w' => Some(bits | 2),
            'x' => Some(bits | 1),
            '-' => Some(bits),
            _ => None,
        })?,
    };
    let letter = |bit: u8, letter: char| if bits & bit != 0 { letter } else { '-' };
    Some([letter(4, 'r'), letter(2, 'w'), letter(1, 'x')].iter().collect())
}

/// `user`, `d:u` and `default:user` as `getfacl` tells them.
fn plain_sort(acl_type: &str) -> Option<String> {
    let (head, sort) = match acl_type.split_once(':') {
        Some(("d" | "default", sort)) => ("default:", sort),
        Some(_) => return None,
        None => ("", acl_type),
    };
    let (_, sort) = SORTS.iter().find(|(short, long)| sort == *short || sort == *long)?;
    Some(format!("{head}{sort}"))
}

fn invalid(acl_type: &str, perms: Option<&str>, recurse: bool, names: &[String]) -> Vec<Invalid> {
    let mut invalid = Vec::new();
    if plain_sort(acl_type).is_none() {
        let message = format!(
            "`{acl_type}` is no sort of entry; write `user`, `group`, `mask`, `other` or `default:user`"
        );
        invalid.push(Invalid::new("acl_type", message));
    }
    if perms.is_some_and(|perms| plain_rights(perms).is_none()) {
        invalid.push(Invalid::new("perms", "rights are written like `rwx`, `r-x` or `5`"));
    }
    if recurse {
        let mut refused = Invalid::new("recurse", "only the path itself is managed");
        refused.hint = Some("`default:` entries of a directory are what new files in it get".into());
        invalid.push(refused);
    }
    if names.iter().any(|name| name.contains([':', ',', '\n'])) {
        invalid.push(Invalid::new("acl_name", "neither a colon nor a comma can stand in a name"));
    }
    invalid
}

fn key(path: &Absolute, acl_type: &str, names: &[String]) -> Key {
    let sort = plain_sort(acl_type).unwrap_or_default();
    Key { path: path.0.clone(), entries: names.iter().map(|name| format!("{sort}:{name}")).collect() }
}

fn desired(
    key: &Key,
    now: &AccessList,
    rights: Option<&str>,
    host: &dyn HostRead,
) -> Result<AccessList, Fault> {
    let mut list = now.0.clone();
    for entry in &key.entries {
        if rights.is_some() && entry.starts_with(DEFAULT) {
            let kind = host.stat(Path::new(&real_path(host, &key.path)?))?.map(|meta| meta.kind);
            if kind.is_some_and(|kind| kind != FileKind::Directory) {
                let message = format!("{} is no directory: nothing new comes into it", key.path.display());
                return Err(Fault::new(FaultKind::Unsupported, message).hint("leave out `default:`"));
            }
        }
        let rights = rights.map(str::to_string);
        if list.insert(entry.clone(), rights.clone()) != Some(rights) {
            add_what_comes_along(&mut list, entry);
        }
    }
    Ok(AccessList(list))
}

/// What `setfacl` does by itself when it changes an entry: the mask lets through what anybody has whom it bounds, and the
/// first default brings those for owner, group and others.
fn add_what_comes_along(list: &mut BTreeMap<String, Option<String>>, entry: &str) {
    let head = if entry.starts_with(DEFAULT) { DEFAULT } else { "" };
    let mask = format!("{head}{MASK}");
    if entry == mask {
        return;
    }
    if !head.is_empty() && list.get(entry).is_some_and(Option::is_some) {
        for base in ["user:", "group:", "other:"] {
            let own = list.get(base).cloned().flatten();
            list.entry(format!("{DEFAULT}{base}")).or_insert(own);
        }
    }
    let of_sort =
        |entry: &str, sort: &str| entry.strip_prefix(head).is_some_and(|rest| rest.starts_with(sort));
    let is_bounded =
        |entry: &str| of_sort(entry, "group:") || of_sort(entry, "user:") && entry != format!("{head}user:");
    let is_there = |entry: &str| list.get(entry).is_some_and(Option::is_some);
    let named = list.keys().filter(|entry| is_bounded(entry) && !entry.ends_with(':'));
    if named.into_iter().any(|entry| is_there(entry)) || is_there(&mask) {
        let bounded = list.iter().filter(|(entry, _)| is_bounded(entry));
        let all: String = bounded.filter_map(|(_, rights)| rights.clone()).collect();
        list.insert(mask, plain_rights(&all));
    }
}

fn claims_of(key: &Key, acl_type: &str, names: &[String], is: &'static str, perms: Option<String>) -> Claims {
    let item = |entry: &String| ManagedItem::Named("access of", format!("{entry} to {}", key.path.display()));
    let owned =
        key.entries.iter().map(|entry| Claim::new(item(entry), is).with("perms", perms.clone())).collect();
    let claims = Claims { owned, ..Claims::default() }.needs([key.path.as_path()]);
    let is_group = plain_sort(acl_type).is_some_and(|sort| sort.ends_with("group"));
    names.iter().filter(|name| !name.is_empty() && is == "present").fold(
        claims,
        |claims, name| match is_group {
            true => claims.accounts(None, Some(name)),
            false => claims.accounts(Some(name), None),
        },
    )
}

/// All four kinds are a wish about some entries.
macro_rules! acl {
    ($type:ident, $kind:literal, $manual:literal, $doc:literal, $names:ident: $names_type:ty, $names_doc:literal, $is:literal, |$own:ident| $listed:expr, |$perms:ident| $rights:expr) => {
        #[doc = $doc]
        #[params(kind = $kind, primary = "name", manual = $manual)]
        pub struct $type {
            /// The file or directory.
            name: Absolute,
            /// The sort of entry: `user`, `group`, `mask`, `other`, or `default:user` for what new files get.
            acl_type: String,
            #[doc = $names_doc]
            #[param(list, default)]
            $names: $names_type,
            /// The rights: `rwx`, `r-x`, `5`.
            #[param(default)]
            perms: String,
            /// Refused: only the path itself is managed.
            #[param(default)]
            recurse: bool,
        }

        impl $type {
            fn names(&self) -> Vec<String> {
                let $own = self;
                $listed
            }
        }

        impl Resource for $type {
            type State = AccessList;

            fn key(&self) -> Key {
                key(&self.name, &self.acl_type, &self.names())
            }

            async fn desired(&self, now: &AccessList, cx: &Checking<'_>) -> Result<Want<AccessList>, Fault> {
                let $perms = self.perms.as_str();
                let rights: Option<String> = $rights;
                desired(&self.key(), now, rights.as_deref(), cx.host).map(Want::Be)
            }

            fn validate(&self) -> Vec<Invalid> {
                let perms = ($is == "present").then_some(self.perms.as_str());
                invalid(&self.acl_type, perms, self.recurse, &self.names())
            }

            fn claims(&self) -> Claims {
                let $perms = self.perms.as_str();
                claims_of(&self.key(), &self.acl_type, &self.names(), $is, $rights)
            }
        }
    };
}

acl!(
    Present,
    "acl.present",
    "acl_present.md",
    "Rights of somebody to a path.",
    acl_name: Vec<String>,
    "Whose rights; none for `mask` and `other`.",
    "present",
    |own| if own.acl_name.is_empty() { vec![String::new()] } else { own.acl_name.clone() },
    |perms| plain_rights(perms)
);
acl!(
    Absent,
    "acl.absent",
    "acl_absent.md",
    "Rights that somebody does not have to a path.",
    acl_name: Vec<String>,
    "Whose rights.",
    "absent",
    |own| if own.acl_name.is_empty() { vec![String::new()] } else { own.acl_name.clone() },
    |_perms| None
);
acl!(
    ListPresent,
    "acl.list_present",
    "acl_list_present.md",
    "Rights of several to a path.",
    acl_names: Vec<String>,
    "Whose rights.",
    "present",
    |own| own.acl_names.clone(),
    |perms| plain_rights(perms)
);
acl!(
    ListAbsent,
    "acl.list_absent",
    "acl_list_absent.md",
    "Rights that several do not have to a path.",
    acl_names: Vec<String>,
    "Whose rights.",
    "absent",
    |own| own.acl_names.clone(),
    |_perms| None
);

/// `getfacl` and `setfacl` over books that hold what the one tells. As the real ones: a mask comes with the first who is named
/// and stays, only directories have defaults, and the first of them brings those for owner, group and others.
#[cfg(test)]
fn fake_facl(
    host: &std::sync::Arc<zester_host::overlay::Overlay>,
    launch: &zester_host::Launch,
) -> Option<zester_host::Exit> {
    use crate::laws::put_text;
    use zester_host::process::fake::exit;
    let zester_host::Program::Argv(words) = &launch.program else { return None };
    let path = words.last()?;
    let book = format!("/books{path}");
    let mut list = entries_of(&String::from_utf8(host.read(Path::new(&book), 9999).ok()?).ok()?);
    let told = |list: &BTreeMap<String, Option<String>>| -> String {
        list.iter()
            .map(|(entry, rights)| format!("{entry}:{}\n", rights.as_deref().unwrap_or("---")))
            .collect()
    };
    if words[0] == "getfacl" {
        return Some(exit(0, &told(&list), ""));
    }
    let (order, change) = (words[2].as_str(), words[3].as_str());
    let entry = if order == "-m" { change.rsplit_once(':')?.0 } else { change };
    if entry.starts_with(DEFAULT) && path != "/d" {
        return Some(exit(1, "", &format!("setfacl: {path}: Only directories can have default ACLs\n")));
    }
    match order {
        "-k" => list.retain(|entry, _| !entry.starts_with(DEFAULT)),
        "-m" => drop(
            list.insert(entry.to_string(), change.rsplit_once(':').map(|(_, rights)| rights.to_string())),
        ),
        _ => drop(list.remove(entry)),
    }
    let head = if entry.starts_with(DEFAULT) { DEFAULT } else { "" };
    if order == "-m" && !head.is_empty() {
        for base in ["user:", "group:", "other:"] {
            let own = list.get(base).cloned().flatten();
            list.entry(format!("{DEFAULT}{base}")).or_insert(own);
        }
    }
    let mask = format!("{head}{MASK}");
    let is_named = |entry: &str| {
        let entry = entry.strip_prefix(head).unwrap_or(entry);
        entry
            .split_once(':')
            .is_some_and(|(sort, name)| ["user", "group"].contains(&sort) && !name.is_empty())
    };
    if entry != mask
        && order != "-k"
        && (list.contains_key(&mask) || list.keys().any(|entry| is_named(entry)))
    {
        let bounded = list.iter().filter(|(entry, _)| {
            entry.starts_with(head) && (is_named(entry) || **entry == format!("{head}group:"))
        });
        let all: String = bounded.filter_map(|(_, rights)| rights.clone()).collect();
        list.insert(mask, plain_rights(&all));
    }
    put_text(host, &book, &told(&list));
    Some(exit(0, "", ""))
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use std::sync::Arc;
    use zester_host::process::fake::Scripted;
    let case = |kind, params, promise| {
        Case::new(kind, params, promise, |host| {
            furnish(host, "d /books 0755\nf /f 0644 text\nd /d 0755\nl /own /f\nl /strange /tmp/root\nd /home 0755\nl /home/way /tmp");
            put_text(host, "/tmp/root", "text of root");
            put_text(host, "/books/f", "group::r--\nmask::r--\nother::r--\nuser::rw-\nuser:web:r--\n");
            put_text(host, "/books/d", "group::r-x\nother::r-x\nuser::rwx\n");
            let host = Arc::downgrade(host);
            Arc::new(Scripted::new().with(move |launch| fake_facl(&host.upgrade()?, launch).map(Ok)))
        })
        .with_books(&["/books"])
    };
    vec![
        case(
            "acl.present",
            json!({ "name": "/f", "acl_type": "user", "acl_name": "web", "perms": "r" }),
            Promise::Clean,
        ),
        case(
            "acl.present",
            json!({ "name": "/f", "acl_type": "u", "acl_name": "web", "perms": "rwx" }),
            Promise::Converges,
        ),
        case(
            "acl.present",
            json!({ "name": "/d", "acl_type": "d:g", "acl_name": "web", "perms": "5" }),
            Promise::Converges,
        ),
        case(
            "acl.present",
            json!({ "name": "/d", "acl_type": "user", "acl_name": "web", "perms": "5" }),
            Promise::Converges,
        ),
        case(
            "acl.present",
            json!({ "name": "/f", "acl_type": "d:g", "acl_name": "web", "perms": "5" }),
            Promise::Fails,
        ),
        case(
            "acl.present",
            json!({ "name": "/none", "acl_type": "user", "acl_name": "web", "perms": "r" }),
            Promise::Fails,
        ),
        case(
            "acl.present",
            json!({ "name": "/own", "acl_type": "user", "acl_name": "web", "perms": "rwx" }),
            Promise::Converges,
        ),
        // Links of another user that lead to what is not theirs.
        case(
            "acl.present",
            json!({ "name": "/strange", "acl_type": "user", "acl_name": "web", "perms": "rwx" }),
            Promise::Fails,
        ),
        case(
            "acl.absent",
            json!({ "name": "/home/way/root", "acl_type": "user", "acl_name": "web" }),
            Promise::Fails,
        ),
        case(
            "acl.absent",
            json!({ "name": "/f", "acl_type": "user", "acl_name": "web" }),
            Promise::Converges,
        ),
        case("acl.absent", json!({ "name": "/f", "acl_type": "user", "acl_name": "other" }), Promise::Clean),
        case(
            "acl.list_present",
            json!({ "name": "/f", "acl_type": "user", "acl_names": ["web", "db"], "perms": "rw-" }),
            Promise::Converges,
        ),
        case(
            "acl.list_absent",
            json!({ "name": "/f", "acl_type": "user", "acl_names": ["web", "db"] }),
            Promise::Converges,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `getfacl --absolute-names --omit-header --no-effective` of Debian 12 printed.
    const TOLD: &str =
        "user::rw-\nuser:daemon:r--\ngroup::r--\nmask::r--\nother::r--\ndefault:user:web:rwx\n\n";

    #[test]
    fn entries_are_read_from_what_getfacl_prints() {
        let entries = entries_of(TOLD);
        let rights_of = |entry: &str| entries.get(entry).cloned().flatten();
        assert_eq!(rights_of("user:daemon").as_deref(), Some("r--"));
        assert_eq!(rights_of("default:user:web").as_deref(), Some("rwx"));
        assert_eq!(rights_of("mask:").as_deref(), Some("r--"));
        assert_eq!(rights_of("user:web"), None);
    }

    #[test]
    fn rights_and_sorts_are_the_same_however_they_are_written() {
        for (written, plain) in [("rwx", "rwx"), ("xr", "r-x"), ("6", "rw-"), ("r--", "r--"), ("", "---")] {
            assert_eq!(plain_rights(written).as_deref(), Some(plain));
        }
        assert_eq!(plain_rights("8"), None);
        assert_eq!(plain_sort("d:u").as_deref(), Some("default:user"));
        assert_eq!(plain_sort("everybody"), None);
    }

    #[tokio::test]
    async fn a_link_that_another_user_put_there_since_the_check_is_not_followed() {
        use crate::context::Applying;
        use crate::laws::{furnish, put_text};
        use std::sync::Arc;
        use tokio_util::sync::CancellationToken;
        let host = Arc::new(zester_host::overlay::Overlay::empty());
        let processes = furnish(&host, "l /f /tmp/root");
        put_text(&host, "/tmp/root", "text of root");
        let cancel = CancellationToken::new();
        let cx = Applying::new(&*host, &*processes, &cancel);
        let key = Key { path: "/f".into(), entries: vec!["user:web".into()] };
        let list = |rights: Option<&str>| {
            AccessList(BTreeMap::from([("user:web".to_string(), rights.map(str::to_string))]))
        };
        let (from, to) = (list(None), list(Some("rwx")));
        let step = Step { key: &key, from: &from, to: &to, how: &(), acts: false };
        let fault = AccessList::enforce(&step, &Write::new(&cx)).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::InTheWay, "{fault}");
    }
}
