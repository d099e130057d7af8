//! `mount.fstab_present`, `mount.fstab_absent`: an entry of the table, and nothing else.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::mounts::{FSTAB, FstabEntry, split_options, with_entry, without_entry};
use crate::params::{Absolute, Invalid, params};
use std::path::Path;
use zester_host::Fault;

fn table(config: Option<&Absolute>) -> &Path {
    config.map_or(Path::new(FSTAB), |config| config)
}

fn item(place: &str) -> ManagedItem {
    ManagedItem::Named("fstab entry", place.to_string())
}

/// An entry of the table of what is mounted at the start.
#[params(kind = "mount.fstab_present", primary = "name", manual = "mount_fstab_present.md")]
pub struct Present {
    /// What is mounted: a device, `UUID=…`, `server:/path`.
    name: String,
    /// Where it is mounted.
    fs_file: String,
    /// The file system.
    fs_vfstype: String,
    /// How it is mounted. Default: `defaults`.
    #[param(list, default)]
    fs_mntops: Vec<String>,
    /// Whether `dump` saves it.
    #[param(default)]
    fs_freq: u32,
    /// When it is checked at the start; 0 for never.
    #[param(default)]
    fs_passno: u32,
    /// The table. Default: `/etc/fstab`.
    config: Option<Absolute>,
    /// Only `false`: nothing is mounted by this kind.
    #[param(default)]
    mount: bool,
}

impl FileEdit for Present {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(table(self.config.as_ref()))
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let options: Vec<String> = self.fs_mntops.iter().flat_map(|option| split_options(option)).collect();
        let entry = FstabEntry {
            device: self.name.clone(),
            place: self.fs_file.clone(),
            fstype: self.fs_vfstype.clone(),
            options: if options.is_empty() { "defaults".into() } else { options.join(",") },
            dump: self.fs_freq,
            pass_num: self.fs_passno,
        };
        let text = with_entry(&old.map(str::to_string), &entry);
        Ok(text.map_or(Edited::Same, Edited::To))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        if self.mount {
            invalid.push(Invalid {
                hint: Some("`mount.mounted` writes the entry and mounts it".into()),
                ..Invalid::new("mount", "this kind only writes the table")
            });
        }
        for (parameter, word) in
            [("name", &self.name), ("fs_file", &self.fs_file), ("fs_vfstype", &self.fs_vfstype)]
        {
            if word.is_empty() || word.contains('\n') {
                invalid.push(Invalid::new(parameter, format!("`{word}` cannot stand in the table")));
            }
        }
        invalid
    }

    fn needs(&self) -> Claims {
        Claims::of(Claim::new(item(&self.fs_file), "present").with("device", Some(&self.name)))
    }
}

/// An entry that is not in the table.
#[params(kind = "mount.fstab_absent", primary = "name", manual = "mount_fstab_absent.md")]
pub struct Absent {
    /// What was mounted.
    name: String,
    /// Where it was mounted.
    fs_file: String,
    /// The table. Default: `/etc/fstab`.
    config: Option<Absolute>,
}

impl FileEdit for Absent {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(table(self.config.as_ref()))
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let is_it = |entry: &FstabEntry| entry.device == self.name && entry.place == self.fs_file;
        let text = without_entry(&old.map(str::to_string), is_it);
        Ok(text.map_or(Edited::Same, Edited::To))
    }

    fn needs(&self) -> Claims {
        Claims::of(Claim::new(item(&self.fs_file), "absent"))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish, put_text};
    use serde_json::json;
    const TABLE: &str = "# table\n/dev/sda1 / ext4 defaults 0 1\n/dev/sdb1 /srv ext4 noatime 0 2\n";
    let case = |kind, params, promise, fstab: &'static str| {
        Case::new(kind, params, promise, move |host| {
            let processes = furnish(host, "d /etc 0755");
            if !fstab.is_empty() {
                put_text(host, FSTAB, fstab);
            }
            processes
        })
    };
    let srv = json!({ "name": "/dev/sdb1", "fs_file": "/srv", "fs_vfstype": "ext4", "fs_mntops": "noatime", "fs_passno": 2 });
    vec![
        case("mount.fstab_present", srv.clone(), Promise::Clean, TABLE),
        case("mount.fstab_present", srv, Promise::Converges, ""),
        case(
            "mount.fstab_present",
            json!({ "name": "/dev/sdc1", "fs_file": "/srv", "fs_vfstype": "xfs" }),
            Promise::Converges,
            TABLE,
        ),
        case(
            "mount.fstab_absent",
            json!({ "name": "/dev/sdb1", "fs_file": "/srv" }),
            Promise::Converges,
            TABLE,
        ),
        case("mount.fstab_absent", json!({ "name": "/dev/sdc1", "fs_file": "/srv" }), Promise::Clean, TABLE),
    ]
}
