//! What of a tree that was written for Salt works as it is, and what needs a hand (`zester migrate`).
//!
//! Every state file is compiled with what it includes and judged within the files that include it; pillar files are read as
//! settings; Python of the tree is named. What is found stands with the file that it is found in, once, and refers to the
//! table of differences (S-56).

mod apart;
pub mod compare;
mod layout;

pub use layout::Layout;

use crate::error::Error;
use crate::inputs::{CompileRequest, Inputs};
use crate::local_host::LocalHost;
use crate::whole_tree::{self, Unit};
use compare::SaltCall;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::Path;
use tokio_util::sync::CancellationToken;
use zester_compile::Compiled;
use zester_compile::differences::{self, Effect};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::source::Sources;

/// What a file is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    States,
    Settings,
    Reactor,
    Orchestrate,
    /// What state files import or include.
    Template,
    Python,
    /// Of a master.
    Configuration,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::States => "states",
            Role::Settings => "settings",
            Role::Reactor => "reactor",
            Role::Orchestrate => "orchestrate",
            Role::Template => "template",
            Role::Python => "python",
            Role::Configuration => "configuration",
        }
    }
}

/// A reason in words: what the row of the table is about, or what sort of problem it is.
pub fn reason_words(reason: &str) -> &str {
    if let Some(row) = differences::find(reason) {
        return row.about;
    }
    match reason {
        "compared" => "not as the real Salt compiled it",
        "dag" => "a name that stands twice, or requisites that make a circle",
        "elsewhere" => "a template that only its own machine can answer",
        "reference" => "a file that is named and cannot be read",
        "settings" => "settings that cannot be read",
        "state" => "a value that its kind does not take",
        "target" => "a target that cannot be read",
        "template" => "a template that cannot be rendered",
        "yaml" => "text that is no YAML",
        other => other,
    }
}

/// What becomes of a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileStatus {
    Ready,
    Differs,
    NeedsHand,
}

impl FileStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            FileStatus::Ready => "ready",
            FileStatus::Differs => "ready with a difference",
            FileStatus::NeedsHand => "needs a hand",
        }
    }
}

/// One thing that is different, or wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The row of the table, or what sort of problem it is.
    pub reason: String,
    /// `web/init.sls:3:5`
    pub place: String,
    pub message: String,
    pub salt: String,
    pub zester: String,
    pub instead: String,
    pub refused: bool,
}

/// One file of the tree.
#[derive(Clone, Debug)]
pub struct FileReport {
    pub path: String,
    pub role: Role,
    pub findings: Vec<Finding>,
    /// How many states it gives, with what it includes.
    pub states: usize,
}

impl FileReport {
    /// Of a file below the states in which nothing was found yet.
    fn of(path: &str) -> FileReport {
        let role = apart::role_of(path, &[]);
        FileReport { path: path.to_string(), role, findings: Vec::new(), states: 0 }
    }

    pub fn verdict(&self) -> FileStatus {
        match (self.findings.iter().any(|finding| finding.refused), self.findings.is_empty()) {
            (true, _) => FileStatus::NeedsHand,
            (false, false) => FileStatus::Differs,
            (false, true) => FileStatus::Ready,
        }
    }
}

/// The whole tree.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub files: Vec<FileReport>,
}

impl Survey {
    pub fn count(&self, verdict: FileStatus) -> usize {
        self.files.iter().filter(|file| file.verdict() == verdict).count()
    }

    /// How many files each reason concerns, most first.
    pub fn reasons(&self) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for file in &self.files {
            let mut reasons: Vec<&str> =
                file.findings.iter().map(|finding| finding.reason.as_str()).collect();
            reasons.sort_unstable();
            reasons.dedup();
            reasons.into_iter().for_each(|reason| *counts.entry(reason).or_default() += 1);
        }
        let mut counts: Vec<(String, usize)> =
            counts.into_iter().map(|(reason, count)| (reason.to_string(), count)).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }

    /// The report for machines.
    pub fn document(&self) -> Json {
        let finding = |finding: &Finding| {
            json!({
                "reason": finding.reason, "place": finding.place, "message": finding.message, "salt": finding.salt,
                "zester": finding.zester, "instead": finding.instead, "refused": finding.refused,
            })
        };
        let file = |file: &FileReport| {
            json!({
                "path": file.path, "role": file.role.as_str(), "verdict": file.verdict().as_str(),
                "states": file.states, "findings": file.findings.iter().map(finding).collect::<Vec<_>>(),
            })
        };
        let reasons: serde_json::Map<String, Json> =
            self.reasons().into_iter().map(|(reason, count)| (reason, json!(count))).collect();
        json!({
            "ready": self.count(FileStatus::Ready),
            "ready_with_a_difference": self.count(FileStatus::Differs),
            "needs_a_hand": self.count(FileStatus::NeedsHand),
            "reasons": reasons,
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
        })
    }
}

/// Looks at every file of a tree. Blocks: templates may look at this machine.
pub fn survey(
    request: &CompileRequest,
    layout: &Layout,
    salt_call: Option<&Path>,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<Survey, Error> {
    let mut survey = Survey::default();
    let mut request = CompileRequest { states: Some(layout.states.clone()), ..request.clone() };
    if request.settings.path.is_none() {
        request.settings.path.clone_from(&layout.settings);
    }
    let inputs = match Inputs::gather(&request, local_host, cancel) {
        Ok(inputs) => inputs,
        Err(Error::Diagnostics { diagnostics, sources }) => {
            // The settings cannot be read: told once, and the states are looked at without them.
            survey.files.extend(broken_settings(&diagnostics, &sources));
            request.settings.unread = true;
            Inputs::gather(&request, local_host, cancel)?
        }
        Err(error) => return Err(error),
    };
    let mut units = Vec::new();
    let mut files: BTreeMap<String, FileReport> = BTreeMap::new();
    for path in layout.state_files()? {
        if cancel.is_cancelled() {
            return Err(Error::Canceled);
        }
        let role = apart::role_of(&path, &layout.reactions);
        if role != Role::States {
            apart::look(&layout.states, &path, role, &inputs.tree, &mut files)?;
            continue;
        }
        units.extend(whole_tree::compile(&path, &inputs, local_host, cancel));
    }
    whole_tree::judge(&mut units, &[]);
    for unit in &units {
        let own = files.entry(unit.path.clone()).or_insert_with(|| FileReport::of(&unit.path));
        own.states = own.states.max(unit.compiled.program.states.len());
        if let Some(program) = salt_call.filter(|_| unit.path != "top.sls") {
            let (states, settings) = (layout.states.as_path(), request.settings.path.as_deref());
            let reference = unit.path.trim_end_matches(".sls").trim_end_matches("/init").replace('/', ".");
            let low = SaltCall { program, states, settings }.low(&reference, local_host, cancel)?;
            own.findings.extend(compare::compare(&reference, &low, &unit.compiled));
        }
        file_by_file(unit, &inputs.tree_name, &mut files);
    }
    for path in layout.python_files()? {
        apart::look(&layout.states, &path, Role::Python, &inputs.tree, &mut files)?;
    }
    if let Some(master) = &layout.master {
        let (root, name) = (master.parent().unwrap_or(Path::new("")), master.file_name().unwrap_or_default());
        apart::look(root, &name.to_string_lossy(), Role::Configuration, &inputs.tree, &mut files)?;
    }
    survey.files.extend(files.into_values());
    Ok(survey)
}

fn broken_settings(diagnostics: &[Diagnostic], sources: &Sources) -> Vec<FileReport> {
    let mut files: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for diagnostic in diagnostics {
        let path = diagnostic.span.map_or("settings", |span| sources.path(span.file)).to_string();
        files.entry(path).or_default().push(of_diagnostic(diagnostic, sources));
    }
    let report = |(path, findings)| FileReport { path, role: Role::Settings, findings, states: 0 };
    files.into_iter().map(report).collect()
}

/// Puts what a compile found to the files that it is found in. A file that several include is told once.
fn file_by_file(unit: &Unit, tree_name: &str, files: &mut BTreeMap<String, FileReport>) {
    let Compiled { sources, advice, differing, .. } = &unit.compiled;
    for diagnostic in unit.diagnostics.iter().chain(advice).chain(differing) {
        let Some(finding) = finding(diagnostic, sources) else { continue };
        let path = diagnostic.span.map_or(unit.path.as_str(), |span| sources.path(span.file));
        let path = path.strip_prefix(tree_name).map_or(path, |below| below.trim_start_matches('/'));
        let report = files.entry(path.to_string()).or_insert_with(|| FileReport::of(path));
        if !report.findings.contains(&finding) {
            report.findings.push(finding);
        }
    }
}

/// What a diagnostic tells somebody who migrates: advice about what works as it is tells nothing.
fn finding(diagnostic: &Diagnostic, sources: &Sources) -> Option<Finding> {
    let row = diagnostic.code.and_then(differences::find);
    let quiet = diagnostic.kind == Kind::Lint && row.is_none_or(|row| row.effect == Effect::None);
    (!quiet).then(|| of_diagnostic(diagnostic, sources))
}

fn of_diagnostic(diagnostic: &Diagnostic, sources: &Sources) -> Finding {
    let row = diagnostic.code.and_then(differences::find);
    let sort = serde_json::to_value(diagnostic.kind).ok();
    let sort = sort.and_then(|sort| sort.as_str().map(str::to_string)).unwrap_or_default();
    let hint = diagnostic.hint.clone();
    Finding {
        reason: diagnostic.code.map_or(sort, str::to_string),
        place: diagnostic.span.map_or_else(String::new, |span| sources.place(span)),
        message: diagnostic.message.clone(),
        salt: row.map_or("", |row| row.salt).into(),
        zester: row.map_or("refuses the file", |row| row.zester).into(),
        instead: hint.or_else(|| row.map(|row| row.instead.to_string())).unwrap_or_default(),
        refused: diagnostic.kind != Kind::Lint,
    }
}
