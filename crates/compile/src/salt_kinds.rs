//! Kinds of state that Salt files carry and that do not exist here yet, with what does the same today.
//!
//! Each row is true of the kinds that there are: whoever adds a kind takes its row out. One that is left is not read.

use std::sync::LazyLock;
use zester_model::catalog::Kind;

/// Kind, or module with a dot behind it for all of its functions, and advice. A kind comes before its module.
pub(crate) const KINDS: [(&str, &str); 42] = [
    ("service.masked", "use a `file.symlink` from `/etc/systemd/system/NAME.service` to `/dev/null`"),
    ("service.", "use a `cmd.run` with `systemctl`, and `unless` or `refresh_only: true` to say when"),
    ("user.present", "use a `cmd.run` with `useradd NAME` and `unless: getent passwd NAME`"),
    ("user.absent", "use a `cmd.run` with `userdel NAME` and `onlyif: getent passwd NAME`"),
    ("group.present", "use a `cmd.run` with `groupadd NAME` and `unless: getent group NAME`"),
    ("group.absent", "use a `cmd.run` with `groupdel NAME` and `onlyif: getent group NAME`"),
    ("cron.present", "use a `file.managed` of a file in `/etc/cron.d`"),
    ("cron.absent", "use a `file.absent` of its file in `/etc/cron.d`"),
    ("cron.file", "use a `file.managed` of a file in `/etc/cron.d`"),
    ("cron.", "use a `file.managed` of a file in `/etc/cron.d`"),
    (
        "git.latest",
        "use a `cmd.run` with `git clone URL DIR` and `creates: DIR/.git`, and one with `git -C DIR pull`",
    ),
    ("git.cloned", "use a `cmd.run` with `git clone URL DIR` and `creates: DIR/.git`"),
    ("git.", "use a `cmd.run` with `git`, and `creates` or `unless` to say when there is nothing to do"),
    (
        "pkgrepo.managed",
        "use a `file.managed` of a file in `/etc/apt/sources.list.d`, and `refresh: true` in the `pkg.installed` that needs it",
    ),
    ("pkgrepo.absent", "use a `file.absent` of its file in `/etc/apt/sources.list.d`"),
    ("pkg.latest", "use `pkg.installed` with the `version` that is wanted"),
    ("pkg.purged", "use `pkg.removed`, and `file.absent` for what it leaves"),
    ("pkg.uptodate", "use a `cmd.run` with `apt-get -y dist-upgrade`"),
    ("pkg.held", "use a `cmd.run` with `apt-mark hold NAME` and `unless: apt-mark showhold | grep -qx NAME`"),
    ("file.recurse", "use a `file.managed` for each file: a `for` loop in the template can write them"),
    (
        "file.append",
        "manage the whole file with `file.managed`, or use a `cmd.run` with `echo LINE >> FILE` and `unless: grep -qxF LINE FILE`",
    ),
    ("file.prepend", "manage the whole file with `file.managed`"),
    (
        "file.line",
        "manage the whole file with `file.managed`, or use a `cmd.run` with `sed -i` and `unless: grep -q …`",
    ),
    (
        "file.replace",
        "manage the whole file with `file.managed`, or use a `cmd.run` with `sed -i` and `unless: grep -q …`",
    ),
    (
        "file.comment",
        "manage the whole file with `file.managed`, or use a `cmd.run` with `sed -i` and `unless: grep -q …`",
    ),
    (
        "file.uncomment",
        "manage the whole file with `file.managed`, or use a `cmd.run` with `sed -i` and `unless: grep -q …`",
    ),
    (
        "file.blockreplace",
        "manage the whole file with `file.managed`, or put the block into a file that it includes",
    ),
    (
        "file.keyvalue",
        "manage the whole file with `file.managed`, or use a `cmd.run` with `sed -i` and `unless: grep -q …`",
    ),
    ("file.copy", "use `file.managed` with the path of the other file as `source`"),
    ("file.rename", "use a `cmd.run` with `mv OLD NEW` and `creates: NEW`"),
    ("file.serialize", "use `file.managed` with `content: {{ data | json }}`"),
    ("file.tidied", "use a `cmd.run` with `find … -delete` and `onlyif: find … | grep -q .`"),
    (
        "mount.mounted",
        "use a `cmd.run` with `mount DIR` and `unless: mountpoint -q DIR`, and a line for it in `/etc/fstab`",
    ),
    ("mount.unmounted", "use a `cmd.run` with `umount DIR` and `onlyif: mountpoint -q DIR`"),
    (
        "sysctl.present",
        "use a `file.managed` of a file in `/etc/sysctl.d`, and a `cmd.run` with `sysctl --system` and `onchanges` on it",
    ),
    (
        "archive.extracted",
        "use a `cmd.run` with `tar -xf ARCHIVE -C DIR` and `creates: PATH`, the path of something in it",
    ),
    (
        "hostname.",
        "use a `cmd.run` with `hostnamectl hostname NAME` and `unless: test \"$(hostname)\" = NAME`",
    ),
    ("timezone.system", "use a `file.symlink` from `/etc/localtime` to a file in `/usr/share/zoneinfo`"),
    ("locale.present", "use a `cmd.run` with `locale-gen NAME` and `unless: locale -a | grep -qix NAME`"),
    ("pip.installed", "use a `cmd.run` with `pip install NAME` and `unless: pip show NAME`"),
    ("ssh_auth.present", "use a `file.managed` of `~/.ssh/authorized_keys`"),
    ("host.present", "manage `/etc/hosts` with `file.managed`"),
];

/// Stands for a kind that nobody knows: it takes whatever is written, so that requisites and names still hold.
pub(crate) static FOREIGN: LazyLock<Kind> = LazyLock::new(|| Kind {
    name: "",
    summary: String::new(),
    doc: String::new(),
    primary: "name",
    primary_required: false,
    instead_of_primary: &[],
    parameters: Vec::new(),
    open: true,
});

/// What to do instead of a kind that Salt has.
pub(crate) fn advice(kind: &str) -> Option<&'static str> {
    let fits = |row: &str| row == kind || row.ends_with('.') && kind.starts_with(row);
    KINDS.iter().find(|(row, _)| fits(row)).map(|(_, advice)| *advice)
}
