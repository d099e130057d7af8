//! A control group to end a process tree in, where the machine has one for us.
//!
//! Made only when a tree is to be killed: a group for every command would cost more than starting `/bin/true`
//! does (mkdir, a write in the child instead of the fast spawn path, rmdir), and nearly all commands end by
//! themselves. Once its known members are moved in, whatever they fork is born inside, and `cgroup.kill` ends
//! all of it at once.

use std::path::{Path, PathBuf};

const PREFIX: &str = "zester-";

pub(super) struct KillCgroup {
    directory: PathBuf,
}

impl KillCgroup {
    /// `None` where control groups of version 2 are missing or not ours to write.
    pub(super) fn new(name: &str) -> Option<KillCgroup> {
        let home = home()?;
        sweep(&home);
        let directory = home.join(format!("{PREFIX}{name}"));
        std::fs::create_dir(&directory).ok()?;
        let cgroup = KillCgroup { directory };
        // Kernels before 5.14 have no such file; signals alone must do there.
        cgroup.directory.join("cgroup.kill").exists().then_some(cgroup)
    }

    /// Moves a process in; it may be gone by now.
    pub(super) fn take(&self, pid: u32) {
        let _ = std::fs::write(self.directory.join("cgroup.procs"), pid.to_string());
    }

    /// Who is inside, found by no other means.
    pub(super) fn members(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    pub(super) fn kill(&self) {
        let _ = std::fs::write(self.directory.join("cgroup.kill"), "1");
    }

    /// Removes the group; a process on its very last steps still counts as inside.
    pub(super) fn remove(&self) -> bool {
        std::fs::remove_dir(&self.directory).is_ok() || !self.directory.exists()
    }
}

impl Drop for KillCgroup {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next kill.
        self.remove();
    }
}

/// Removes the groups that runs left which were killed themselves.
fn sweep(home: &Path) {
    for entry in std::fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Refused where somebody is still inside.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// Our own group's directory: the mount of version 2 and the `0::` line.
fn home() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let fields: Vec<&str> = before.split(' ').collect();
        after.starts_with("cgroup2 ").then(|| Some((*fields.get(3)?, *fields.get(4)?)))?
    })?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // In a container the mount may show only a part of the tree: its root is cut off.
    let (root, point) = mount;
    let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or(own);
    Some(PathBuf::from(point).join(below.trim_start_matches('/')))
}
