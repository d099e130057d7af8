//! Files of a Salt tree that are no states: reactions, orchestration, Python, the master's configuration. Each is looked at as
//! what it is, and none is compiled as states.

use super::{FileReport, Finding, Role, of_diagnostic};
use crate::error::Error;
use std::collections::BTreeMap;
use std::path::Path;
use zester_compile::Tree;
use zester_compile::differences;
use zester_compile::reaction::ReactionFile;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::Node;
use zester_model::source::{Sources, Span};

/// What a master's configuration says that has its own place here, and the row that says which.
const MASTER_KEYS: [(&str, &str); 7] = [
    ("ext_pillar", "master_ext_pillar"),
    ("file_roots", "master_roots"),
    ("gitfs_remotes", "master_gitfs"),
    ("nodegroups", "master_nodegroups"),
    ("pillar_roots", "master_roots"),
    ("reactor", "master_reactor"),
    ("schedule", "master_schedule"),
];

/// The report of one file, by what it is; none for a state file.
pub fn report(role: Role, path: &str, text: &str, tree: &dyn Tree) -> Result<Option<FileReport>, Error> {
    let mut sources = Sources::default();
    let file = sources.add(path, text);
    let start = Span::start_of(file);
    let mut findings = Vec::new();
    match role {
        Role::Reactor => {
            if let Err((sources, diagnostics)) = ReactionFile::parse(path, text, tree) {
                findings.extend(diagnostics.iter().map(|diagnostic| of_diagnostic(diagnostic, &sources)));
            }
            findings.push(of_row("reactor", "an answer to events of the master", &sources, start));
        }
        Role::Orchestrate => {
            findings.push(of_row(
                "orchestrate",
                "steps that a master takes on many machines",
                &sources,
                start,
            ));
        }
        Role::Python => {
            let grains = path.starts_with("_grains/");
            let row = if grains { "custom_grains" } else { "custom_module" };
            findings.push(of_row(row, "Python that the minion would load", &sources, start));
        }
        Role::Configuration => match zester_compile::parse_yaml(file, text) {
            Ok(node) => findings.extend(of_master(&node, &sources)),
            Err(diagnostics) => {
                findings.extend(diagnostics.iter().map(|diagnostic| of_diagnostic(diagnostic, &sources)));
            }
        },
        Role::States | Role::Settings | Role::Template => return Ok(None),
    }
    Ok(Some(FileReport { path: path.to_string(), role, findings, states: 0 }))
}

fn of_master(node: &Node, sources: &Sources) -> Vec<Finding> {
    let keys = node.as_map().into_iter().flatten();
    let row = |(key, _): &(Node, Node)| {
        let name = key.as_text()?;
        let (_, row) = MASTER_KEYS.iter().find(|(known, _)| *known == name)?;
        Some(of_row(row, &format!("`{name}` of the master"), sources, key.span))
    };
    keys.filter_map(row).collect()
}

fn of_row(row: &'static str, message: &str, sources: &Sources, at: Span) -> Finding {
    let kind = match differences::find(row).map(|row| row.effect) {
        Some(differences::Effect::Refused) => Kind::State,
        _ => Kind::Lint,
    };
    of_diagnostic(&Diagnostic::new(kind, message).at(at).code(row), sources)
}

/// What a file below the states is for, by where it lies and what the master's configuration says of it.
pub fn role_of(path: &str, reactions: &[String]) -> Role {
    let mut parts = path.split('/');
    let file = path.rsplit('/').next().unwrap_or(path);
    let first = parts.next().filter(|_| path.contains('/')).unwrap_or_default();
    match first {
        _ if path.ends_with(".py") => Role::Python,
        _ if !path.ends_with(".sls") && !path.ends_with(".zy") => Role::Template,
        _ if reactions.iter().any(|named| named == path) => Role::Reactor,
        "reactor" | "reactors" | "_reactor" => Role::Reactor,
        "orch" | "orchestrate" | "orchestration" | "_orch" => Role::Orchestrate,
        _ if file == "orch.sls" || file == "orchestrate.sls" => Role::Orchestrate,
        _ => Role::States,
    }
}

/// The reaction files that a master's configuration names, below the states.
pub fn named_reactions(configuration: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    for rule in configuration.get("reactor").and_then(|it| it.as_array()).into_iter().flatten() {
        for files in rule.as_object().into_iter().flat_map(|map| map.values()) {
            let files = files.as_array().map_or_else(|| vec![files.clone()], Clone::clone);
            found.extend(files.iter().filter_map(|file| file.as_str()).map(|file| {
                let below = file.strip_prefix("salt://").unwrap_or(file);
                below.trim_start_matches("/srv/salt/").trim_start_matches('/').to_string()
            }));
        }
    }
    found
}

/// Puts the report of a file below `root` to the others.
pub fn look(
    root: &Path,
    path: &str,
    role: Role,
    tree: &dyn Tree,
    files: &mut BTreeMap<String, FileReport>,
) -> Result<(), Error> {
    let at = root.join(path);
    let text = std::fs::read_to_string(&at).map_err(|error| Error::io("read", &at, error))?;
    if let Some(report) = report(role, path, &text, tree)? {
        files.insert(path.to_string(), report);
    }
    Ok(())
}
