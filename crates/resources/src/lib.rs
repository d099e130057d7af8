//! What a state can manage: one file a kind.
//!
//! Everything a kind is stands in its own file: parameters with their docs and defaults, the manual page with
//! an example, and the behaviour behind [`resource::Resource`]. A line in the list below registers it; the
//! compiler's catalog, the JSON Schema, the laws and the documentation follow from there.

mod accounts;
mod action;
mod archive;
mod bound;
pub mod catalog;
pub mod claims;
pub mod context;
pub mod file_edit;
pub mod laws;
mod resource;
pub mod schema;
pub mod state;

mod authorized_keys;
mod bind;
mod checksum;
mod config_text;
mod created_dirs;
mod crontab;
mod diff;
mod edit_text;
mod file_change;
mod file_resource;
mod git;
mod ini;
mod kept_paths;
mod module_function;
mod mounts;
mod netfilter;
mod nft;
mod ownership;
pub mod params;
mod path_change;
mod path_state;
mod path_text;
mod pkg;
mod scratch_path;
mod service;
pub mod shell_words;
mod source;
mod takeback;
mod text;
mod tree;
mod tree_change;

pub use bound::{Bound, Drift};
pub use catalog::catalog;
pub use checksum::digest_of;
pub use context::{
    Applying, BlobStore, Change, Checking, Explanation, Forced, GuardSetting, Reverting, SourceEntry,
    SourceSort, StateFileSource,
};
pub use module_function::{FunctionCalls, function_state};
pub use pkg::asked as packages;
pub use pkg::{PackageMember, apply_together, check_together, is_about_packages, revert_together};
pub use schema::{schema, schema_once};
pub use text::lines_found;

use bound::{KindEntry, Registered};
use zester_host::{BoxFuture, Fault, FaultKind};
use zester_model::diagnostic::{self, Diagnostic};
use zester_model::program::Param;
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;

/// One line a file: the module, then the kinds it defines.
macro_rules! kinds {
    ($($file:ident: $($kind:ident),+;)+) => {
        $(mod $file;)+

        /// Every kind, in the order of the documentation.
        pub(crate) static ENTRIES: &[fn() -> KindEntry] = &[$($(entry_of::<_, $file::$kind>),+),+];

        /// The files that define kinds, with the cases that the laws are tried on.
        #[cfg(test)]
        const FILES: &[(&str, fn() -> Vec<laws::Case>)] = &[$((stringify!($file), $file::cases)),+];

        /// One test a file: its kinds obey the laws.
        #[cfg(test)]
        mod lawful {
            $(mod $file {
                #[test]
                fn laws_hold() {
                    crate::$file::cases().iter().for_each(crate::laws::hold);
                }

                #[test]
                #[zester_rule::rule("S-30")]
                fn s30_check_and_apply_agree_from_random_states() {
                    crate::laws::hold_from_random_states(&crate::$file::cases());
                }
            })+
        }
    };
}

fn entry_of<Shape, K: Registered<Shape>>() -> KindEntry {
    K::entry()
}

kinds! {
    exec: ExecRun, CmdRun, CmdWait, CmdScript;
    file_managed: Managed;
    file_append: Append, Prepend;
    file_line: Line;
    file_replace: Replace;
    file_blockreplace: Block;
    file_comment: Comment, Uncomment;
    file_keyvalue: KeyValue;
    file_recurse: Recurse;
    file_copy: Copy;
    file_rename: Rename;
    file_exists: Exists, Missing;
    file_serialize: Serialize;
    archive_extracted: Extracted;
    git_latest: Latest, Cloned, Detached;
    git_config: Set, Unset;
    ini_options: OptionsPresent, OptionsAbsent, SectionsPresent, SectionsAbsent;
    file_directory: Directory;
    file_symlink: Symlink;
    file_hardlink: Hardlink;
    file_touch: Touched;
    file_absent: Absent;
    pkg_installed: Installed, Latest;
    pkg_removed: Removed, Purged;
    pkg_held: Held, Unheld;
    pkg_uptodate: UpToDate;
    pkg_downloaded: Downloaded;
    pkgrepo: Managed, Absent;
    debconf: Set, SetFile;
    pip_packages: Installed, Removed;
    alternatives: Install, Remove, Set, Auto;
    service_running: Running;
    service_dead: Dead;
    service_enabled: Enabled, Disabled;
    service_masked: Masked, Unmasked;
    user_present: Present;
    user_absent: Absent;
    group_present: Present, Absent;
    cron_present: Present, Absent;
    cron_env: Present, Absent;
    cron_file: File;
    host_entries: Present, Absent, Only;
    ssh_auth: Present, Absent, Manage;
    sysctl_present: Present;
    mount_mounted: IsMounted, Unmounted;
    mount_swap: Swap;
    mount_fstab: Present, Absent;
    timezone_system: System;
    locale_states: Present, System;
    hostname_system: System;
    kmod_states: Present, Absent;
    iptables_rules: Append, Insert, Delete;
    iptables_chains: Present, Absent, Policy, Flush;
    nftables_rules: Append, Insert, Delete;
    nftables_chains: Present, Absent, Policy, Flush, TablePresent, TableAbsent;
    firewalld: Present, Bind, Service;
    acl_states: Present, Absent, ListPresent, ListAbsent;
    ssh_known_hosts: Present, Absent;
    event_send: Sent, Wait;
    module_run: ModuleRun, ModuleWait;
    test_states: Nop, SucceedWithoutChanges, Ping, SucceedWithChanges, FailWithoutChanges, FailWithChanges, NoneWithoutChanges, Configurable, Sleep;
    test_notification: Notification;
    test_check_pillar: CheckPillar;
}

fn entry(kind: &str) -> Option<&'static KindEntry> {
    bound::entries().iter().find(|entry| entry.kind == kind)
}

/// Gives the parameters of one state their types. All that is wrong with them comes back at once.
pub fn bind(kind: &str, params: &[Param], at: Span) -> Result<Box<dyn Bound>, Vec<Diagnostic>> {
    let Some(entry) = entry(kind) else {
        let hint = did_you_mean(kind, bound::entries().iter().map(|entry| entry.kind));
        let diagnostic = Diagnostic::new(diagnostic::Kind::State, format!("unknown module `{kind}`"));
        return Err(vec![diagnostic.at(at).maybe_hint(hint)]);
    };
    (entry.bind)(params, at)
}

/// Undoes what a journal record says, which is all that is needed for it.
pub fn revert<'a>(
    kind: &'a str,
    undo: &'a serde_json::Value,
    cx: &'a Reverting<'a>,
) -> BoxFuture<'a, Result<Change, Fault>> {
    match entry(kind) {
        Some(entry) => (entry.revert)(undo, cx),
        None => {
            let message = format!("the record is of `{kind}`, which this version does not know");
            Box::pin(std::future::ready(Err(Fault::new(FaultKind::Unsupported, message))))
        }
    }
}

#[cfg(test)]
mod tests;
