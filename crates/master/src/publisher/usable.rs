//! What of a tree its readers could use: whether it may take the place of another goes by that, not by how many files it has
//! (D-2). A mount point that lost its disk often holds a file all the same.

use crate::limits::CHANGES_NAMED;
use zester_publish::{Tree, TreePath};
use zester_wire::Published;

/// What says who gets which settings, or which event meets which rule.
const TOPS: [&str; 2] = ["top.zy", "top.sls"];
const STATES: [&str; 2] = [".zy", ".sls"];
const SETTINGS: [&str; 5] = [".zy", ".sls", ".yaml", ".yml", ".json"];
const RULES: [&str; 1] = [".zy"];
/// Where it stands what lies over settings, a file each peel.
const EXTERNAL: &str = "_ext/";

pub fn lies_over(path: &TreePath) -> bool {
    path.as_str().starts_with(EXTERNAL)
}

fn is_usable(published: Published, path: &TreePath) -> bool {
    let ends_with = |ends: &[&str]| ends.iter().any(|end| path.as_str().ends_with(end));
    // A hidden file is an editor's, or keeps a directory.
    let is_hidden = path.as_str().split('/').any(|name| name.starts_with('.'));
    match published {
        Published::States => ends_with(&STATES),
        Published::Settings => ends_with(&SETTINGS) && !is_hidden && !lies_over(path),
        Published::Reactor => ends_with(&RULES) && !is_hidden,
    }
}

pub fn holds_anything(published: Published, tree: &Tree) -> bool {
    tree.files.keys().any(|path| is_usable(published, path))
}

/// Why a tree that no top file assigns is not published. Of settings every peel would get every file (D-6); rules do not load
/// without one. States are asked for by name too.
pub fn unassigned(published: Published, tree: &Tree) -> Option<String> {
    let has = |tops: &[&str]| tree.files.keys().any(|path| tops.contains(&path.as_str()));
    match published {
        Published::States => None,
        Published::Reactor => (!tree.is_empty() && !has(&TOPS[..1])).then(|| {
            "top.zy is missing, and rules do not load without it; an empty directory says that there are none".into()
        }),
        Published::Settings => {
            // Those of directories below are given to nobody then.
            let is_given = |path: &&TreePath| !path.as_str().contains('/') && is_usable(published, path);
            let given: Vec<&str> = tree.files.keys().filter(is_given).map(TreePath::as_str).collect();
            (!given.is_empty() && !has(&TOPS)).then(|| {
                let some = given.iter().take(CHANGES_NAMED).copied().collect::<Vec<_>>().join(", ");
                format!(
                    "top.zy is missing, so every peel would get every file ({some}); say there who gets what, as in `'*': [{}]`",
                    given.first().and_then(|first| first.split('.').next()).unwrap_or_default()
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_publish::TreeFile;
    use zester_rule::rule;
    use zester_wire::ContentHash;

    fn tree(paths: &[&str]) -> Tree {
        let file = || TreeFile { hash: ContentHash::of(b"x"), size: 1, mode: 0o644, parts: Vec::new() };
        let files = paths.iter().map(|path| (TreePath::parse(path).unwrap(), file())).collect();
        Tree { files }
    }

    #[test]
    #[rule("D-2")]
    fn d2_what_no_reader_uses_is_nothing() {
        for (of, paths, holds) in [
            (Published::States, &["a/b.sls"][..], true),
            (Published::States, &["README", ".keep"], false),
            (Published::Settings, &["web.yaml"], true),
            (Published::Settings, &[".keep", "README", ".#web.zy", "_ext/web-1.zy"], false),
            (Published::Reactor, &["deploy/rest.zy"], true),
            (Published::Reactor, &[".keep", "notes.txt", ".old/a.zy"], false),
        ] {
            assert_eq!(holds_anything(of, &tree(paths)), holds, "{of:?} {paths:?}");
        }
    }

    #[test]
    #[rule("D-6", "R-13")]
    fn d6_settings_and_rules_without_a_top_file_are_told() {
        let told = |of, paths| unassigned(of, &tree(paths));
        let why = told(Published::Settings, &["db.zy", "web.yaml", "more/x.zy", ".keep"]).unwrap();
        assert!(why.contains("every file (db.zy, web.yaml)") && why.ends_with("`'*': [db]`"), "{why}");
        for paths in
            [&["top.zy", "db.zy"][..], &["top.sls", "db.sls"], &["_ext/web-1.zy"], &["more/x.zy"], &[]]
        {
            assert_eq!(told(Published::Settings, paths), None, "{paths:?}");
        }
        assert!(told(Published::Reactor, &[".keep"]).unwrap().starts_with("top.zy is missing"));
        assert!(told(Published::Reactor, &["top.sls", "a.zy"]).is_some());
        assert_eq!((told(Published::Reactor, &["top.zy"]), told(Published::Reactor, &[])), (None, None));
        assert_eq!(told(Published::States, &["web.zy"]), None);
    }
}
