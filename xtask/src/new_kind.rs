//! `cargo xtask new-kind ntp.managed` writes what a kind of state consists of: its file with a working skeleton and the cases
//! of the laws, its manual page, and its line in the list of kinds.

use crate::tree;
use std::path::Path;
use std::process::ExitCode;

const KIND: &str = include_str!("../skeleton/kind.rs.txt");
const MANUAL: &str = include_str!("../skeleton/manual.md.txt");
const SOURCES: &str = "crates/resources/src";
const MANUALS: &str = "crates/resources/manual";
/// Where the list of kinds stands, and what it begins with.
const REGISTRY: &str = "crates/resources/src/lib.rs";
const LIST: &str = "kinds! {\n";

/// What is to be written: paths below the workspace, and their content.
type Written = Vec<(String, String)>;

pub fn run(kind: Option<String>) -> ExitCode {
    let root = tree::root();
    let written = match written(kind.as_deref().unwrap_or_default(), &tree::read(REGISTRY)) {
        Ok(written) => written,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    for (path, _) in written.iter().filter(|(path, _)| path != REGISTRY) {
        if root.join(path).exists() {
            eprintln!("{path} exists already");
            return ExitCode::FAILURE;
        }
    }
    for (path, text) in &written {
        if let Err(why) = std::fs::write(root.join(Path::new(path)), text) {
            eprintln!("cannot write {path}: {why}");
            return ExitCode::FAILURE;
        }
        println!("wrote {path}");
    }
    println!("it compiles and obeys the laws as it stands: cargo nextest run -p zester-resources lawful");
    ExitCode::SUCCESS
}

fn written(kind: &str, registry: &str) -> Result<Written, String> {
    let plain = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
    };
    let parts = kind.split_once('.').filter(|(module, function)| plain(module) && plain(function));
    let Some((module, function)) = parts else {
        return Err("usage: cargo xtask new-kind MODULE.FUNCTION, like `ntp.managed`".to_string());
    };
    let file = format!("{module}_{function}");
    if registry.contains(&format!("    {file}: ")) {
        return Err(format!("{kind} is registered already"));
    }
    let kind_type = camel(&file);
    let Some((before, after)) = registry.split_once(LIST) else {
        return Err(format!("{REGISTRY} has no list of kinds"));
    };
    let registry = format!("{before}{LIST}    {file}: {kind_type};\n{after}");
    let fill = |text: &str| {
        text.replace("{kind}", kind)
            .replace("{file}", &file)
            .replace("{Type}", &kind_type)
            .replace("{words}", &file.replace('_', " "))
    };
    Ok(vec![
        (format!("{SOURCES}/{file}.rs"), fill(KIND)),
        (format!("{MANUALS}/{file}.md"), fill(MANUAL)),
        (REGISTRY.to_string(), registry),
    ])
}

/// `ntp_managed` as the name of a type.
fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "kinds! {\n    exec: ExecRun;\n}\n";

    /// The walk-through of CONTRIBUTING.md: one command writes the three places that it names.
    #[test]
    fn one_command_writes_all_that_the_walk_through_names() {
        let guide = tree::read("CONTRIBUTING.md");
        assert!(guide.contains("cargo xtask new-kind ntp.managed"), "the walk-through names the command");
        let written = written("ntp.managed", LISTED).unwrap();
        for (path, _) in &written {
            let named = path.replace("ntp_managed", "NAME");
            assert!(guide.contains(&format!("`{named}`")), "the walk-through names {named}");
        }
        let [(_, source), (_, manual), (_, registry)] = written.as_slice() else { panic!("{written:?}") };
        assert_eq!(registry, "kinds! {\n    ntp_managed: NtpManaged;\n    exec: ExecRun;\n}\n");
        assert!(manual.lines().next().unwrap().ends_with('.') && manual.contains("\n  ntp.managed:\n"));
        assert!(
            source.contains(
                "#[params(kind = \"ntp.managed\", primary = \"name\", manual = \"ntp_managed.md\")]"
            )
        );
        assert!(source.contains("pub struct NtpManaged {") && source.contains("pub(crate) fn cases()"));
        assert!(!source.contains("{Type}") && !source.contains("{kind}"));
    }

    /// What the skeleton uses is there, by the names that it uses: it is not compiled here.
    #[test]
    fn the_skeleton_uses_what_there_is() {
        for (file, names) in [
            ("state.rs", ["pub trait State", "pub struct Step", "pub fn put_text"]),
            ("resource.rs", ["trait Resource", "enum Want", "async fn find"]),
            ("laws.rs", ["pub fn furnish", "pub fn with_books", "pub enum Promise"]),
        ] {
            let text = tree::read(&format!("{SOURCES}/{file}"));
            names.iter().for_each(|name| assert!(text.contains(name), "{file} has no `{name}`"));
        }
    }

    #[test]
    fn what_is_no_kind_or_is_there_already_is_refused() {
        for kind in ["", "ntp", "Ntp.managed", "ntp.", "../x.y", "a.b.c"] {
            assert!(written(kind, LISTED).unwrap_err().starts_with("usage: "), "{kind}");
        }
        let there = "kinds! {\n    ntp_managed: NtpManaged;\n}\n";
        assert_eq!(written("ntp.managed", there).unwrap_err(), "ntp.managed is registered already");
    }
}
