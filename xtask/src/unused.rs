//! Dependencies that nothing names cost compile time, audits and trust. What only tests name is a dev-dependency.

use crate::source::Source;
use crate::{tree, walls};
use serde_json::Value as Json;
use std::path::Path;

/// (package, dependency, why it stands unnamed)
const EXCUSED: &[(&str, &str, &str)] = &[];

/// `metadata` is what `cargo metadata` says of the workspace.
pub fn check(metadata: &Json, problems: &mut Vec<String>) {
    let files = tree::rust_files();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let member =
            metadata["workspace_members"].as_array().into_iter().flatten().any(|id| *id == package["id"]);
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let Some(home) = Path::new(manifest).parent().filter(|_| member) else { continue };
        let home = home.strip_prefix(tree::root()).unwrap_or(home).display().to_string();
        let texts: Vec<(&str, String)> = files
            .iter()
            .filter_map(|file| Some((file.strip_prefix(&home)?.strip_prefix('/')?, tree::read(file))))
            .collect();
        let name = package["name"].as_str().unwrap_or_default();
        for (dependency, needed) in dependencies(metadata, package) {
            let excused = EXCUSED.iter().any(|(of, what, _)| *of == name && *what == dependency);
            let named = texts.iter().any(|(file, text)| is_named(&dependency, needed, file, text));
            if !named && !excused {
                problems.push(format!("{home}/Cargo.toml: nothing names {dependency}{}", needed.place()));
            }
        }
    }
    nobodys(problems);
}

/// What a dependency is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needed {
    Shipping,
    Testing,
    Building,
}

impl Needed {
    fn place(self) -> &'static str {
        match self {
            Needed::Shipping => " outside of tests",
            Needed::Testing => " in tests",
            Needed::Building => " in build.rs",
        }
    }
}

/// The crates of a package by the names that code knows them by.
fn dependencies(metadata: &Json, package: &Json) -> Vec<(String, Needed)> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let mut found = Vec::new();
    for dependency in
        nodes.filter(|node| node["id"] == package["id"]).flat_map(|node| node["deps"].as_array()).flatten()
    {
        let Some(name) = dependency["name"].as_str() else { continue };
        for kind in dependency["dep_kinds"].as_array().into_iter().flatten() {
            let needed = match kind["kind"].as_str() {
                None => Needed::Shipping,
                Some("build") => Needed::Building,
                Some(_) => Needed::Testing,
            };
            found.push((name.to_string(), needed));
        }
    }
    found
}

fn is_named(dependency: &str, needed: Needed, file: &str, text: &str) -> bool {
    if !text.contains(dependency) {
        return false;
    }
    match needed {
        Needed::Building => file == "build.rs",
        // Documentation tests count, so comments do.
        Needed::Testing => text.lines().any(|line| walls::says(line, dependency)),
        Needed::Shipping => {
            // `#[serde(with = "serde_bytes")]` names a crate in a string.
            let in_quotes = format!("\"{dependency}\"");
            let attribute = |line: &str| line.trim_start().starts_with("#[") && line.contains(&in_quotes);
            let named = |line: &str| walls::says(line, dependency);
            file.starts_with("src/")
                && (Source::of(text).lines.iter().any(|(_, line)| named(line)) || text.lines().any(attribute))
        }
    }
}

/// What the workspace offers and no package takes.
fn nobodys(problems: &mut Vec<String>) {
    let Ok(workspace) = tree::read("Cargo.toml").parse::<toml::Table>() else { return };
    let manifests: Vec<toml::Table> = tree::files()
        .iter()
        .filter(|file| file.ends_with("/Cargo.toml"))
        .filter_map(|file| tree::read(file).parse().ok())
        .collect();
    let offered = workspace["workspace"]["dependencies"].as_table().into_iter().flatten();
    for (name, _) in offered.filter(|(name, _)| !manifests.iter().any(|manifest| takes(manifest, name))) {
        problems.push(format!("Cargo.toml: no package takes {name} of the workspace"));
    }
}

fn takes(manifest: &toml::Table, name: &str) -> bool {
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    sections.iter().any(|section| manifest.get(*section).is_some_and(|section| section.get(name).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_name_does_not_ship() {
        let text = "#[cfg(test)]\nmod tests {\n    use nix::x;\n}\n";
        assert!(!is_named("nix", Needed::Shipping, "src/lib.rs", text));
        assert!(is_named("nix", Needed::Testing, "src/lib.rs", text));
        assert!(!is_named("nix", Needed::Shipping, "tests/x.rs", "use nix::x;"));
        assert!(is_named("nix", Needed::Shipping, "src/lib.rs", "fn f() { nix::x(); }"));
        assert!(is_named("nix", Needed::Shipping, "src/lib.rs", "#[serde(with = \"nix\")]"));
        assert!(!is_named("nix", Needed::Shipping, "src/lib.rs", "// nix\nfn phoenix() {}"));
    }

    #[test]
    fn a_package_takes_from_any_section() {
        let manifest: toml::Table = "[dev-dependencies]\nnix.workspace = true\n".parse().unwrap();
        assert!(takes(&manifest, "nix") && !takes(&manifest, "libc"));
    }
}
