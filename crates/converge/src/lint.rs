//! Compiling a whole tree to find every problem in it.

use crate::error::Error;
use crate::inputs::{CompileRequest, Inputs};
use crate::local_host::LocalHost;
use crate::plan::Plan;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;
use zester_compile::{Ask, Compiled};
use zester_model::diagnostic::Diagnostic;
use zester_model::limits;
use zester_model::source::Sources;

pub struct LintReport {
    pub diagnostics: Vec<Diagnostic>,
    pub sources: Sources,
    /// How many files were compiled.
    pub checked: usize,
}

/// Compiles each file of the states dir (or each of `files`) on its own, with what it includes.
pub fn tree(
    request: &CompileRequest,
    files: &[&Path],
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<LintReport, Error> {
    let named = files.iter().filter(|path| !path.is_dir()).map(|path| path.display().to_string()).collect();
    let inputs =
        Inputs::gather(&CompileRequest { references: named, ..request.clone() }, local_host, cancel)?;
    let asks = match &inputs.ask {
        Ask::References(named) => named.clone(),
        Ask::Highstate => all_files(inputs.tree.root())?,
    };
    if asks.is_empty() {
        let root = inputs.tree.root().display();
        return Err(Error::other(format!(
            "there is no state file below {root}: nothing ends in .zy or .sls"
        )));
    }
    let mut found = LintReport { diagnostics: Vec::new(), sources: Sources::default(), checked: asks.len() };
    for reference in asks {
        let ask = if reference == "top.zy" { Ask::Highstate } else { Ask::References(vec![reference]) };
        let compiled = inputs.with(local_host, cancel, |lent| zester_compile::compile(lent, &ask));
        let advice = zester_compile::lint(&compiled);
        let again = Compiled {
            diagnostics: compiled.diagnostics,
            sources: compiled.sources.clone(),
            program: compiled.program,
        };
        let mut diagnostics = Plan::diagnostics(again);
        diagnostics.extend(advice);
        found.adopt(diagnostics, &compiled.sources);
    }
    found
        .diagnostics
        .sort_by_key(|diagnostic| diagnostic.span.map(|span| (span.file, span.line, span.column)));
    found.diagnostics.truncate(limits::DIAGNOSTICS_MAX);
    Ok(found)
}

impl LintReport {
    /// Takes over the problems of one compile; a file that several include is reported once.
    fn adopt(&mut self, diagnostics: Vec<Diagnostic>, from: &Sources) {
        for mut diagnostic in diagnostics {
            let spans =
                diagnostic.span.iter_mut().chain(diagnostic.labels.iter_mut().map(|label| &mut label.span));
            for span in spans {
                if let Some(file) = from.get(span.file) {
                    span.file = self.sources.add(&file.path, file.text.clone());
                }
            }
            if !self.diagnostics.contains(&diagnostic) {
                self.diagnostics.push(diagnostic);
            }
        }
    }
}

fn all_files(root: &Path) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut rest: Vec<PathBuf> = vec![root.to_path_buf()];
    while let Some(directory) = rest.pop() {
        let fail = |error| Error::io("list", &directory, error);
        for entry in std::fs::read_dir(&directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let path = entry.path();
            if entry.file_type().map_err(fail)?.is_dir() {
                rest.push(path);
            } else if path.extension().is_some_and(|end| end == "zy" || end == "sls") {
                let below = path.strip_prefix(root).unwrap_or(&path);
                found.push(below.to_string_lossy().into_owned());
            }
        }
        if found.len() > limits::FILES_MAX {
            return Err(Error::other(format!(
                "{} holds more than {} state files",
                root.display(),
                limits::FILES_MAX
            )));
        }
    }
    found.sort();
    Ok(found)
}
