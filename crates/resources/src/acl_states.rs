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
use zester_host::{Fault, FaultKind, HostRead};

/// Sorts of entries, as they are written and as `getfacl` tells them.
const SORTS: [(&str, &str); 4] = [("u", "user"), ("g", "group"), ("m", "mask"), ("o", "other")];

/// `setfacl` skips a link that is put in the place of the file while it starts.
const PHYSICAL: &str = "--physical";

/// The entries of a list that are asked about, with their rights; none where there is no such entry.
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
        Ok(AccessList(
            key.entries.iter().map(|entry| (entry.clone(), rights_of(&exit.stdout.text, entry))).collect(),
        ))
    }

    async fn enforce(step: &Step<'_, AccessList>, cx: &Write<'_, AccessList>) -> Result<(), Fault> {
        for (entry, rights) in &step.to.0 {
            if step.from.0.get(entry) == Some(rights) {
                continue;
            }
            // Another user may have put a link there since.
            let path = real_path(cx.host, &step.key.path)?;
            match rights {
                Some(rights) => {
                    cx.run(&["setfacl", PHYSICAL, "-m", &format!("{entry}:{rights}"), "--", &path]).await?
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

/// The rights of an entry in what `getfacl` tells.
fn rights_of(told: &str, entry: &str) -> Option<String> {
    let head = format!("{entry}:");
    told.lines().find_map(|line| line.strip_prefix(&head)).map(|rights| rights.chars().take(3).collect())
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

            async fn desired(&self, now: &AccessList, _: &Checking<'_>) -> Result<Want<AccessList>, Fault> {
                let $perms = self.perms.as_str();
                let rights: Option<String> = $rights;
                Ok(Want::Be(AccessList(now.0.keys().map(|entry| (entry.clone(), rights.clone())).collect())))
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

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use std::sync::Arc;
    use zester_host::process::fake::{Scripted, exit};
    const LIST: &str = "/books/acl";
    // `getfacl` and `setfacl` over a file that holds what the one tells.
    let case = |kind, params, promise| {
        Case::new(kind, params, promise, |host| {
            furnish(host, "d /books 0755\nf /f 0644 text\nl /own /f\nl /strange /tmp/root\nd /home 0755\nl /home/way /tmp");
            put_text(host, "/tmp/root", "text of root");
            put_text(host, LIST, "group::r--\nother::r--\nuser::rw-\nuser:web:r--\n");
            let host = Arc::downgrade(host);
            Arc::new(Scripted::new().with(move |launch| {
                let host = host.upgrade()?;
                let zester_host::Program::Argv(words) = &launch.program else { return None };
                let text = String::from_utf8(host.read(Path::new(LIST), 9999).unwrap()).unwrap();
                if words[0] == "getfacl" {
                    return Some(Ok(exit(0, &text, "")));
                }
                let entry = if words[2] == "-m" { words[3].rsplit_once(':')?.0 } else { &words[3] };
                let mut lines: Vec<String> = text
                    .lines()
                    .filter(|line| !line.starts_with(&format!("{entry}:")))
                    .map(str::to_string)
                    .collect();
                if words[2] == "-m" {
                    lines.push(words[3].clone());
                }
                lines.sort();
                put_text(&host, LIST, &(lines.join("\n") + "\n"));
                Some(Ok(exit(0, "", "")))
            }))
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
            json!({ "name": "/f", "acl_type": "d:g", "acl_name": "web", "perms": "5" }),
            Promise::Converges,
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
        assert_eq!(rights_of(TOLD, "user:daemon").as_deref(), Some("r--"));
        assert_eq!(rights_of(TOLD, "default:user:web").as_deref(), Some("rwx"));
        assert_eq!(rights_of(TOLD, "mask:").as_deref(), Some("r--"));
        assert_eq!(rights_of(TOLD, "user:web"), None);
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
