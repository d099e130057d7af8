//! What a run was asked for and of which tree, as the journal keeps it: `web of /srv/states`.
//!
//! Several trees may share a data directory and call their states alike. What a run of one did is not for another to undo. A
//! tree that was renamed is still the same, and so are the revisions of a published one, each in a directory of its own.

use crate::journal::Undo;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use zester_resources::Bound;
use zester_resources::claims::ManagedItem;

const OF: &str = " of ";
/// A published tree stands in `<live>.trees/<hash>`, and `<live>` leads to the one that counts.
const TREES: &str = ".trees";
const HASH_DIGITS: usize = 64;

pub fn words(asked: &str, root: &Path) -> String {
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_path_buf());
    format!("{asked}{OF}{}", tree(&root).display())
}

/// The directory that stands for a tree whatever its revision.
fn tree(root: &Path) -> PathBuf {
    let is_hash = |name: &str| name.len() == HASH_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let live = || {
        let trees =
            root.parent().filter(|_| root.file_name().and_then(|name| name.to_str()).is_some_and(is_hash))?;
        Some(trees.with_file_name(trees.file_name()?.to_str()?.strip_suffix(TREES)?))
    };
    live().unwrap_or_else(|| root.to_path_buf())
}

/// The tree of a scope. What was asked for holds no absolute path.
pub fn tree_of(scope: &str) -> Option<PathBuf> {
    let at = scope.find(" of /")?;
    scope.get(at + OF.len()..).map(|root| tree(Path::new(root)))
}

/// Whether these are scopes of two trees, by whatever names they are reached.
fn differ(one: &str, other: &str) -> bool {
    let (Some(one), Some(other)) = (tree_of(one), tree_of(other)) else { return false };
    let real = |path: &Path| path.canonicalize().ok();
    one != other && (real(&one).is_none() || real(&one) != real(&other))
}

/// Whether a run of that scope was of a tree that is still there and not ours. One that is gone may be ours under its old name.
pub fn is_of_another_tree(scope: &str, own: &str) -> bool {
    differ(scope, own) && tree_of(scope).is_some_and(|tree| tree.is_dir())
}

/// Whether a record is of what this state manages. That of a run of the same tree is, whatever the state manages by now; that of
/// any other only if it names the same thing.
pub fn is_own(undo: &Undo, bound: &dyn Bound, own: &str) -> bool {
    let Some(scope) = undo.scope.as_deref().filter(|scope| differ(scope, own)) else { return true };
    let Things { names, all_plain } = things(bound);
    // What a record does not name in one word cannot be looked for in it.
    let is_unknown = names.is_empty() || !all_plain;
    !names.is_disjoint(&texts(&undo.value)) || is_unknown && !is_of_another_tree(scope, own)
}

/// What a state decides about or edits.
struct Things {
    names: BTreeSet<String>,
    /// None of them has a name that is composed of several: `user.name (/srv/app)`.
    all_plain: bool,
}

fn things(bound: &dyn Bound) -> Things {
    let claims = bound.claims();
    let (mut names, mut paths, mut all_plain) = (BTreeSet::new(), claims.edits, true);
    for claim in claims.owned {
        match claim.item {
            ManagedItem::Path(path) => paths.push(path),
            ManagedItem::Named(_, name) if name.contains(char::is_whitespace) => all_plain = false,
            ManagedItem::Package(name)
            | ManagedItem::Service(name)
            | ManagedItem::User(name)
            | ManagedItem::Group(name)
            | ManagedItem::Named(_, name) => drop(names.insert(name)),
        }
    }
    for path in paths {
        // A record names what stood behind the links.
        names.extend(path.canonicalize().ok().map(|real| real.display().to_string()));
        names.insert(path.display().to_string());
    }
    Things { names, all_plain }
}

/// Every text in a record, and every name of a field.
fn texts(record: &serde_json::Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = vec![record];
    while let Some(value) = rest.pop() {
        match value {
            serde_json::Value::String(text) => drop(found.insert(text.clone())),
            serde_json::Value::Array(items) => rest.extend(items),
            serde_json::Value::Object(map) => {
                found.extend(map.keys().cloned());
                rest.extend(map.values());
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-39")]
    fn s39_a_renamed_tree_and_the_revisions_of_a_published_one_are_the_same_tree() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        for name in ["a", "b", "states.trees/parts"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        let of = |name: &str| words("web", &at(name));
        assert!(is_of_another_tree(&of("a"), &of("b")));
        assert!(is_of_another_tree(&format!("x in dev of {}", at("a").display()), &of("b")));
        for (scope, own) in [("a", "a"), ("a", "link"), ("link", "a"), ("gone", "b")] {
            assert!(!is_of_another_tree(&of(scope), &of(own)), "{scope} {own}");
        }
        assert!(!is_of_another_tree("", &of("a")) && !is_of_another_tree(&of("a"), ""));
        let revision = |digit: &str| format!("states.trees/{}", digit.repeat(HASH_DIGITS));
        assert_eq!(of(&revision("1")), of("states"));
        // As earlier releases wrote it.
        let old = format!("web of {}", at(&revision("2")).display());
        std::fs::create_dir_all(at(&revision("2"))).unwrap();
        assert!(!is_of_another_tree(&old, &of(&revision("1"))));
    }
}
