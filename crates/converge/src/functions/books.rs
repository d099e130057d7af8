//! The books of a machine: who has an account, what is mounted, what the kernel is set to.

use super::asked::read;
use super::{Arguments, CallContext, Function, maybe, read_only, text, told, value};
use crate::settings;
use serde_json::{Map, Value as Json, json};

pub(super) const TABLE: &[Function] = &[
    told(
        "config.get",
        &[text("key"), value("default")],
        "config.get KEY [DEFAULT]: one setting, or the fact of that name; `a:b` goes deeper",
        |place, args| {
            let key = args.text(0, "key")?;
            let found = settings::walk(place.settings, &key).or_else(|| settings::walk(place.facts, &key));
            Ok(found.cloned().or_else(|| args.get(1, "default").cloned()).unwrap_or(json!("")))
        },
    ),
    told(
        "environ.has_value",
        &[text("key"), maybe("value")],
        "environ.has_value NAME [VALUE]: whether a variable of the environment is set, to a value",
        |_, args| {
            let set = std::env::var(args.text(0, "key")?).ok();
            let wanted = args.optional(1, "value")?;
            Ok(json!(set.is_some_and(|set| wanted.is_none_or(|wanted| wanted == set))))
        },
    ),
    told(
        "facts.has_value",
        &[text("key")],
        "facts.has_value KEY: whether a fact is there and not empty",
        |place, args| {
            let key = args.text(0, "key")?;
            Ok(json!(settings::walk(place.facts, &key).is_some_and(|found| match found {
                Json::Null => false,
                Json::Bool(truth) => *truth,
                Json::String(text) => !text.is_empty(),
                Json::Array(items) => !items.is_empty(),
                Json::Object(map) => !map.is_empty(),
                Json::Number(_) => true,
            })))
        },
    ),
    told("facts.item", &[text("key")], "facts.item KEY: one fact under its name", |place, args| {
        let key = args.text(0, "key")?;
        let found = settings::walk(place.facts, &key).cloned().unwrap_or(json!(""));
        Ok(Json::Object(Map::from_iter([(key, found)])))
    }),
    read_only("group.getent", &[], "group.getent: all groups of this machine", |place, _| {
        let all = entries(place, "/etc/group")?;
        let group = |fields: &Vec<String>| {
            let members: Vec<&str> = at(fields, 3).split(',').filter(|one| !one.is_empty()).collect();
            json!({ "name": at(fields, 0), "gid": number(fields, 2), "passwd": at(fields, 1), "members": members })
        };
        Ok(json!(all.iter().map(group).collect::<Vec<_>>()))
    }),
    read_only(
        "hosts.get_ip",
        &[text("host")],
        "hosts.get_ip NAME: the address that /etc/hosts gives a name, or an empty text",
        |place, args| {
            let name = args.text(0, "host")?;
            let text = read(place, "/etc/hosts")?.unwrap_or_default();
            let found =
                text.lines().map(|line| line.split('#').next().unwrap_or_default()).find_map(|line| {
                    let mut words = line.split_whitespace();
                    let address = words.next()?;
                    words.any(|word| word == name).then(|| address.to_string())
                });
            Ok(json!(found.unwrap_or_default()))
        },
    ),
    read_only("kmod.lsmod", &[], "kmod.lsmod: the modules of the kernel that are loaded", |place, _| {
        let text = read(place, "/proc/modules")?.unwrap_or_default();
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let users: Vec<&str> =
                words.get(3)?.split(',').filter(|user| !user.is_empty() && *user != "-").collect();
            Some(
                json!({ "module": words.first()?, "size": words.get(1)?.parse::<u64>().ok()?, "depcount": words.get(2)?.parse::<u64>().ok()?, "deps": users }),
            )
        };
        Ok(json!(text.lines().filter_map(line).collect::<Vec<_>>()))
    }),
    read_only("mount.active", &[], "mount.active: what is mounted, and how", |place, _| {
        Ok(table(&read(place, "/proc/self/mounts")?.unwrap_or_default(), 1))
    }),
    read_only(
        "mount.fstab",
        &[maybe("config")],
        "mount.fstab [FILE]: what /etc/fstab mounts",
        |place, args| {
            let file = args.optional(0, "config")?.unwrap_or_else(|| "/etc/fstab".to_string());
            Ok(table(&read(place, &file)?.unwrap_or_default(), 1))
        },
    ),
    read_only(
        "mount.is_mounted",
        &[text("name")],
        "mount.is_mounted PATH: whether something is mounted there",
        |place, args| {
            let mounted = table(&read(place, "/proc/self/mounts")?.unwrap_or_default(), 1);
            Ok(json!(mounted.get(args.text(0, "name")?).is_some()))
        },
    ),
    read_only(
        "sysctl.get",
        &[text("name")],
        "sysctl.get NAME: a setting of the kernel, or an empty text",
        |place, args| {
            let name = args.text(0, "name")?;
            let below = if name.contains('/') { name.clone() } else { name.replace('.', "/") };
            if below.split('/').any(|part| part == ".." || part.is_empty()) {
                return Err(format!("`{name}` cannot name a setting"));
            }
            Ok(json!(read(place, &format!("/proc/sys/{below}"))?.unwrap_or_default().trim()))
        },
    ),
    read_only("timezone.get_zone", &[], "timezone.get_zone: the time zone of this machine", |place, _| {
        if let Some(text) = read(place, "/etc/timezone")? {
            return Ok(json!(text.trim()));
        }
        let target = place.host.read_link("/etc/localtime".as_ref()).map_err(|fault| fault.to_string())?;
        let target = target.display().to_string();
        Ok(json!(target.split_once("zoneinfo/").map_or("", |(_, zone)| zone)))
    }),
    read_only("user.getent", &[], "user.getent: all accounts of this machine", |place, _| {
        let all = entries(place, "/etc/passwd")?;
        let user = |fields: &Vec<String>| {
            json!({ "name": at(fields, 0), "uid": number(fields, 2), "gid": number(fields, 3), "fullname": at(fields, 4).split(',').next(),
                    "home": at(fields, 5), "shell": at(fields, 6) })
        };
        Ok(json!(all.iter().map(user).collect::<Vec<_>>()))
    }),
    read_only(
        "user.list_groups",
        &[text("name")],
        "user.list_groups NAME: the groups that somebody is in",
        |place, args| {
            let name = args.text(0, "name")?;
            let user = entries(place, "/etc/passwd")?.into_iter().find(|fields| at(fields, 0) == name);
            let Some(user) = user else { return Err(format!("there is no user `{name}`")) };
            let mut groups: Vec<String> = Vec::new();
            for fields in entries(place, "/etc/group")? {
                if at(&fields, 2) == at(&user, 3) || at(&fields, 3).split(',').any(|member| member == name) {
                    groups.push(at(&fields, 0).to_string());
                }
            }
            groups.sort_unstable();
            Ok(json!(groups))
        },
    ),
    read_only("user.list_users", &[], "user.list_users: the names of all accounts", |place, _| {
        let mut names: Vec<String> =
            entries(place, "/etc/passwd")?.iter().map(|fields| at(fields, 0).to_string()).collect();
        names.sort_unstable();
        Ok(json!(names))
    }),
];

/// The lines of a file like `/etc/passwd`, by their fields.
fn entries(place: &CallContext<'_>, file: &str) -> Result<Vec<Vec<String>>, String> {
    let text = read(place, file)?.unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(['#', '+', '-']));
    Ok(lines.map(|line| line.split(':').map(str::to_string).collect()).collect())
}

fn at(fields: &[String], index: usize) -> &str {
    fields.get(index).map_or("", String::as_str)
}

fn number(fields: &[String], index: usize) -> Option<u64> {
    at(fields, index).parse().ok()
}

/// A table of mounts, by the path that stands at a place of each line.
fn table(text: &str, path: usize) -> Json {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (device, fstype, options) = (words.first()?, words.get(2)?, words.get(3)?);
        let entry =
            json!({ "device": device, "fstype": fstype, "opts": options.split(',').collect::<Vec<_>>() });
        Some((words.get(path)?.replace("\\040", " "), entry))
    };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    Json::Object(lines.filter_map(line).collect())
}

impl Arguments {
    /// A text that need not be given.
    pub(super) fn optional(&self, position: usize, name: &str) -> Result<Option<String>, String> {
        match self.get(position, name) {
            None | Some(Json::Null) => Ok(None),
            Some(_) => self.text(position, name).map(Some),
        }
    }

    /// True or false, also as people write it.
    pub(super) fn flag(&self, position: usize, name: &str, default: bool) -> Result<bool, String> {
        match self.get(position, name) {
            None | Some(Json::Null) => Ok(default),
            Some(Json::Bool(truth)) => Ok(*truth),
            Some(other) => match other.as_str().map(str::to_ascii_lowercase).as_deref() {
                Some("true" | "yes" | "on") => Ok(true),
                Some("false" | "no" | "off") => Ok(false),
                _ => Err(format!("`{name}` must be true or false")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::try_function::TestHost;
    use serde_json::json;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_books_are_read_in_the_words_of_salt() {
        let mut machine = TestHost::with(&[
            ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nweb:x:33:33:Web,1:/srv:/bin/false\n"),
            ("/etc/group", "root:x:0:\nweb:x:33:\nadm:x:4:web,root\n"),
            ("/etc/hosts", "127.0.0.1 localhost # a b\n10.0.0.2 db db.example.com\n"),
            ("/proc/self/mounts", "tmpfs /a\\040b tmpfs rw,nosuid 0 0\n"),
            ("/etc/fstab", "# table\n/dev/sda1 / ext4 defaults 0 1\n"),
            ("/proc/sys/net/ipv4/ip_forward", "1\n"),
            ("/etc/timezone", "Europe/Berlin\n"),
            ("/proc/modules", "dm_mod 100 2 a,b, Live 0x0\nx 5 0 - Live 0x0\n"),
        ]);
        machine.settings = json!({ "a": { "b": 1 } });
        machine.facts = json!({ "os": "Debian", "a": 7, "none": "" });
        for (function, words, wanted) in [
            ("user.list_users", &[][..], json!(["root", "web"])),
            ("user.list_groups", &["web"], json!(["adm", "web"])),
            (
                "group.getent",
                &[],
                json!([
                    { "name": "root", "gid": 0, "passwd": "x", "members": [] }, { "name": "web", "gid": 33, "passwd": "x", "members": [] },
                    { "name": "adm", "gid": 4, "passwd": "x", "members": ["web", "root"] },
                ]),
            ),
            ("hosts.get_ip", &["db.example.com"], json!("10.0.0.2")),
            ("hosts.get_ip", &["b"], json!("")),
            (
                "mount.active",
                &[],
                json!({ "/a b": { "device": "tmpfs", "fstype": "tmpfs", "opts": ["rw", "nosuid"] } }),
            ),
            ("mount.is_mounted", &["/a b"], json!(true)),
            (
                "mount.fstab",
                &[],
                json!({ "/": { "device": "/dev/sda1", "fstype": "ext4", "opts": ["defaults"] } }),
            ),
            ("sysctl.get", &["net.ipv4.ip_forward"], json!("1")),
            ("timezone.get_zone", &[], json!("Europe/Berlin")),
            ("config.get", &["a:b"], json!(1)),
            ("config.get", &["os"], json!("Debian")),
            ("config.get", &["x", "y"], json!("y")),
            ("grains.item", &["os"], json!({ "os": "Debian" })),
            ("grains.has_value", &["none"], json!(false)),
        ] {
            assert_eq!(machine.call(function, words), Ok(wanted), "{function} {words:?}");
        }
        assert_eq!(machine.call("user.getent", &[]).unwrap()[1]["fullname"], json!("Web"));
        assert_eq!(machine.call("kmod.lsmod", &[]).unwrap()[0]["deps"], json!(["a", "b"]));
        assert_eq!(
            machine.call("sysctl.get", &["../../etc/passwd"]),
            Err("`../../etc/passwd` cannot name a setting".into())
        );
        assert_eq!(machine.call("user.list_groups", &["no"]), Err("there is no user `no`".into()));
    }
}
