//! Kinds of state that Salt files carry and that do not exist here yet, with what does the same today.
//!
//! Each row is true of the kinds that there are: whoever adds a kind takes its row out. One that is left is not read.

use std::sync::LazyLock;
use zester_model::catalog::Kind;

/// Kind, or module with a dot behind it for all of its functions, and advice. A kind comes before its module.
pub(crate) const KINDS: &[(&str, &str)] = &[
    ("file.hardlink", "use a `cmd.run` with `ln` and `creates`"),
    ("firewalld.", "use a `cmd.run` with `firewall-cmd`, and `unless` to say when there is nothing to do"),
    ("git.config_set", "use a `cmd.run` with `git config` and `unless`"),
    ("nftables.", "use a `file.managed` of `/etc/nftables.conf`, and a `service.running` that watches it"),
    ("file.tidied", "use a `cmd.run` with `find … -delete` and `onlyif: find … | grep -q .`"),
    ("pip.installed", "use a `cmd.run` with `pip install NAME` and `unless: pip show NAME`"),
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
