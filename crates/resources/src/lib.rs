//! What a state can manage: one file a kind.
//!
//! Everything a kind is stands in its own file: parameters with their docs and defaults, the manual page with
//! an example, and the behaviour behind [`resource::Resource`]. A line in the list below registers it; the
//! compiler's catalog, the JSON Schema, the laws and the documentation follow from there.

pub mod bound;
pub mod catalog;
pub mod claims;
pub mod laws;
pub mod resource;
pub mod schema;

mod bind;
mod diff;
mod made;
mod ownership;
mod params;
mod path_text;
mod pkg;
mod standing;
mod tree;
pub mod words;

pub use bound::{Bound, Drift};
pub use catalog::catalog;
pub use resource::{
    Applying, Change, Checking, Explanation, Forced, GuardSetting, Invalid, Resource, Reverting, StateFiles,
    Vault,
};
pub use schema::{schema, schema_once};

use bound::Entry;
use zester_host::{BoxFuture, Fault, FaultKind};
use zester_model::diagnostic::{self, Diagnostic};
use zester_model::program::Param;
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;

/// One line a file: the module, then the kinds it defines.
macro_rules! resources {
    ($($file:ident: $($entry:expr),+;)+) => {
        $(pub mod $file;)+

        /// Every kind, in the order of the documentation.
        pub(crate) static ENTRIES: &[fn() -> Entry] = &[$($($entry),+),+];

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
            })+
        }
    };
}

resources! {
    exec: Entry::of::<exec::ExecRun>, Entry::of::<exec::CmdRun>, Entry::of::<exec::CmdWait>, Entry::of::<exec::CmdScript>;
    file_managed: Entry::of::<file_managed::Managed>;
    file_directory: Entry::of::<file_directory::Directory>;
    file_symlink: Entry::of::<file_symlink::Symlink>;
    file_touch: Entry::of::<file_touch::Touched>;
    file_absent: Entry::of::<file_absent::Absent>;
    pkg_installed: Entry::of::<pkg_installed::Installed>;
    pkg_removed: Entry::of::<pkg_removed::Removed>;
    module_run: module_run::entry;
    test_states: Entry::of::<test_states::Nop>, Entry::of::<test_states::SucceedWithoutChanges>,
        Entry::of::<test_states::Ping>, Entry::of::<test_states::SucceedWithChanges>,
        Entry::of::<test_states::FailWithoutChanges>, Entry::of::<test_states::FailWithChanges>,
        Entry::of::<test_states::Configurable>, Entry::of::<test_states::Sleep>;
}

fn entry(kind: &str) -> Option<&'static Entry> {
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
