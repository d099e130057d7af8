//! Files of a tree, each compiled with what it includes, and every problem judged where its file is used.
//!
//! A file that others include may name states that only they have. Compiled by itself that is a problem; it is none of the
//! tree's, as long as every state that it names is there wherever it is really loaded.

use crate::inputs::Inputs;
use crate::local_host::LocalHost;
use crate::plan::Plan;
use std::collections::BTreeSet;
use tokio_util::sync::CancellationToken;
use zester_compile::{Ask, Compiled};
use zester_model::diagnostic::Diagnostic;
use zester_model::source::Sources;

/// Problems that a file can have by itself and not within one that includes it.
const FOR_LACK_OF_OTHERS: [&str; 2] = ["exclude_unknown", "unknown_state"];

/// One compile: a file with what it includes, or what the top file gives.
pub struct Unit {
    /// The file that was asked for, by its path below the tree.
    pub path: String,
    /// All problems, those of types and of the graph included; where there is none, what is seldom meant.
    pub diagnostics: Vec<Diagnostic>,
    pub compiled: Compiled,
}

/// Compiles a file; a top file once for each of its environments. Blocks.
pub fn compile(path: &str, inputs: &Inputs, local_host: &LocalHost, cancel: &CancellationToken) -> Vec<Unit> {
    let unit = |environment: &str, ask: &Ask| {
        let compiled = inputs.with(local_host, cancel, |lent| {
            zester_compile::compile(&zester_compile::Inputs { environment, ..*lent }, ask)
        });
        let diagnostics = Plan::diagnostics(compiled.clone());
        Unit { path: path.to_string(), diagnostics, compiled }
    };
    if !["top.zy", "top.sls"].contains(&path) {
        return vec![unit(&inputs.environment, &Ask::References(vec![path.to_string()]))];
    }
    let environments = inputs.with(local_host, cancel, |lent| zester_compile::environments(lent, None));
    // What is wrong with it is found by compiling it.
    let names = environments.map_or_else(
        |_| vec![inputs.environment.clone()],
        |all| all.into_iter().map(|environment| environment.name).collect(),
    );
    names.iter().map(|name| unit(name, &Ask::Highstate)).collect()
}

/// Whether a problem may be one only because its file was looked at by itself.
pub fn is_for_lack_of_others(diagnostic: &Diagnostic) -> bool {
    diagnostic.code.is_some_and(|code| FOR_LACK_OF_OTHERS.contains(&code))
}

/// Takes out what is no problem of the tree, or is told of a file that includes this one: a compile that loads all the same
/// files and more knows better. `within` are compiles that are not told themselves.
pub fn judge(units: &mut [Unit], within: &[Unit]) {
    let told: Vec<Seen> = units.iter().map(Seen::of).collect();
    let untold: Vec<Seen> = within.iter().map(Seen::of).collect();
    for (unit, own) in units.iter_mut().zip(&told) {
        let includes =
            |other: &&Seen| other.files.len() > own.files.len() && other.files.is_superset(&own.files);
        let sources = &unit.compiled.sources;
        unit.diagnostics.retain(|diagnostic| {
            let problem = named(diagnostic, sources);
            let solved = || untold.iter().filter(includes).any(|other| !other.problems.contains(&problem));
            !is_for_lack_of_others(diagnostic) || !(told.iter().any(|other| includes(&other)) || solved())
        });
    }
}

/// What a compile loaded, and what it lacked.
struct Seen {
    files: BTreeSet<String>,
    problems: BTreeSet<(String, String)>,
}

impl Seen {
    fn of(unit: &Unit) -> Seen {
        let sources = &unit.compiled.sources;
        Seen {
            files: sources.iter().map(|file| file.path.clone()).collect(),
            problems: unit
                .diagnostics
                .iter()
                .filter(|it| is_for_lack_of_others(it))
                .map(|it| named(it, sources))
                .collect(),
        }
    }
}

fn named(diagnostic: &Diagnostic, sources: &Sources) -> (String, String) {
    (diagnostic.span.map_or_else(String::new, |span| sources.place(span)), diagnostic.message.clone())
}
