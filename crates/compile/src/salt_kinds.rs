//! Kinds of state that Salt files carry and that do not exist here yet, with what does the same today.
//!
//! Each row is true of the kinds that there are: whoever adds a kind takes its row out. One that is left is not read.

use std::sync::LazyLock;
use zester_model::catalog::Kind;

/// Kind, or module with a dot behind it for all of its functions, and advice. A kind comes before its module.
pub(crate) const KINDS: &[(&str, &str)] = &[
    ("docker_container.", "use a `cmd.run` with `docker run`, and `unless: docker container inspect NAME`"),
    ("docker_image.", "use a `cmd.run` with `docker pull`, and `unless: docker image inspect NAME`"),
    ("mysql_database.", "use a `cmd.run` with `mysql -e`, and `unless` that asks for the database"),
    ("mysql_grants.", "use a `cmd.run` with `mysql -e`, and `unless` that asks for the grants"),
    ("mysql_user.", "use a `cmd.run` with `mysql -e`, and `unless` that asks for the user"),
    ("postgres_database.", "use a `cmd.run` with `createdb`, and `unless` that asks for the database"),
    ("postgres_user.", "use a `cmd.run` with `createuser`, and `unless` that asks for the user"),
    ("selinux.", "use a `cmd.run` with `semanage` or `setsebool`, and `unless` to say when it is so"),
    ("file.tidied", "use a `cmd.run` with `find … -delete` and `onlyif: find … | grep -q .`"),
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
