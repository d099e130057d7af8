//! Compiling a whole tree to find every problem in it.

pub mod peels;
pub mod rules;

use crate::error::Error;
use crate::inputs::{CompileRequest, Inputs};
use crate::local_host::LocalHost;
use crate::secrets;
use crate::whole_tree::{self, Unit};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;
use zester_compile::Ask;
use zester_model::diagnostic::Diagnostic;
use zester_model::limits;
use zester_model::source::Sources;

pub struct LintReport {
    pub diagnostics: Vec<Diagnostic>,
    pub sources: Sources,
    /// How many files were compiled.
    pub checked: usize,
}

/// Compiles each file of the states dir, or each of `files` and of the directories among them, with what it includes, and
/// judges it within the files of the tree that include it.
pub fn tree(
    request: &CompileRequest,
    files: &[&Path],
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<LintReport, Error> {
    let mut named = Vec::new();
    let mut whole_tree = files.is_empty();
    for path in files {
        if request.states.as_deref().is_some_and(|states| is_same(states, path)) {
            whole_tree = true;
        } else if path.is_dir() {
            let below = all_files(path)?;
            if below.is_empty() {
                return Err(no_files(path));
            }
            named.extend(below.iter().map(|file| path.join(file).display().to_string()));
        } else {
            named.push(path.display().to_string());
        }
    }
    let inputs =
        Inputs::gather(&CompileRequest { references: named, ..request.clone() }, local_host, cancel)?;
    let mut asks = match &inputs.ask {
        Ask::References(named) => named.clone(),
        Ask::Highstate => Vec::new(),
    };
    if whole_tree {
        asks.extend(all_files(inputs.tree.root())?);
    }
    asks.sort();
    asks.dedup();
    if asks.is_empty() {
        return Err(no_files(inputs.tree.root()));
    }
    let mut found = LintReport::of(asks.len());
    found.adopt(inputs.settings_advice.clone(), &inputs.settings_sources);
    let compile = |path: &String| whole_tree::compile(path, &inputs, local_host, cancel);
    let mut units: Vec<Unit> = asks.iter().flat_map(compile).collect();
    let mut within = Vec::new();
    let lacks = |unit: &Unit| unit.diagnostics.iter().any(whole_tree::is_for_lack_of_others);
    if !whole_tree && units.iter().any(lacks) {
        let others = all_files(inputs.tree.root())?.into_iter().filter(|path| !asks.contains(path));
        within.extend(others.flat_map(|path| compile(&path)));
    }
    whole_tree::judge(&mut units, &within);
    for Unit { mut diagnostics, compiled, .. } in units {
        diagnostics.extend(zester_compile::lint(&compiled));
        found.adopt(diagnostics, &compiled.sources);
    }
    found
        .diagnostics
        .sort_by_key(|diagnostic| diagnostic.span.map(|span| (span.file, span.line, span.column)));
    found.diagnostics.truncate(limits::DIAGNOSTICS_MAX);
    for diagnostic in &mut found.diagnostics {
        secrets::hide_in_diagnostic(diagnostic, &inputs.secrets);
    }
    Ok(found)
}

impl LintReport {
    /// Nothing found in so many files.
    pub fn of(checked: usize) -> LintReport {
        LintReport { diagnostics: Vec::new(), sources: Sources::default(), checked }
    }

    /// Takes over all of another report.
    pub fn and(mut self, other: LintReport) -> LintReport {
        self.checked += other.checked;
        self.adopt(other.diagnostics, &other.sources);
        self
    }

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

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn no_files(directory: &Path) -> Error {
    let directory = directory.display();
    Error::other(format!("there is no state file below {directory}: nothing ends in .zy or .sls"))
}

/// Those below a directory. A hidden one is an editor's (`.#web.zy`).
fn all_files(root: &Path) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut rest: Vec<PathBuf> = vec![root.to_path_buf()];
    while let Some(directory) = rest.pop() {
        let fail = |error| Error::io("list", &directory, error);
        for entry in std::fs::read_dir(&directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::Access;
    use std::fs;
    use std::sync::Arc;
    use zester_rule::rule;

    /// How many files were compiled and what was found, of these paths below a directory with these files.
    fn linted(
        files: &[(&str, &str)],
        states: Option<&str>,
        paths: &[&str],
    ) -> Result<(usize, usize), String> {
        let temp = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: runtime.handle().clone(),
            events: None,
        };
        let request = CompileRequest {
            references: Vec::new(),
            states: states.map(|states| temp.path().join(states)),
            settings: Default::default(),
            facts: None,
            id: Some("here".into()),
            ordered: false,
            environment: None,
            only: None,
            access: Access::ReadOnly,
            renderers: Default::default(),
            data_dir: None,
        };
        let paths: Vec<PathBuf> = paths.iter().map(|path| temp.path().join(path)).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let found = tree(&request, &paths, &local_host, &CancellationToken::new());
        found.map(|found| (found.checked, found.diagnostics.len())).map_err(|error| error.to_string())
    }

    const GOOD: &str = "a:\n  test.nop: []\n";
    const BAD: &str = "b:\n  test.nopp: []\n";

    #[test]
    #[rule("C-12")]
    fn c12_lint_passes_over_no_path() {
        let files =
            [("s/good.zy", GOOD), ("s/sub/bad.zy", BAD), ("s/sub/deep/good.zy", GOOD), ("o/x.zy", BAD)];
        let linted = |paths: &[&str]| linted(&files, Some("s"), paths);
        assert_eq!(linted(&[]), Ok((3, 1)));
        assert_eq!(linted(&["s"]), Ok((3, 1)));
        assert_eq!(linted(&["s/good.zy"]), Ok((1, 0)));
        assert_eq!(linted(&["s/good.zy", "s/sub"]), Ok((3, 1)));
        assert_eq!(linted(&["s/sub/deep"]), Ok((1, 0)));
        assert!(linted(&["o"]).unwrap_err().contains("is outside the states directory"));
        assert!(linted(&["s", "o"]).unwrap_err().contains("is outside the states directory"));
    }

    #[test]
    #[rule("C-12")]
    fn c12_a_file_is_judged_within_the_files_that_include_it() {
        let part = "b:\n  test.nop:\n    - require: [a]\n";
        let whole = "include: [part]\na:\n  test.nop: []\n";
        let files = [("s/part.zy", part), ("s/whole.zy", whole)];
        assert_eq!(linted(&files, Some("s"), &[]), Ok((2, 0)));
        assert_eq!(linted(&files, Some("s"), &["s/part.zy"]), Ok((1, 0)), "also where it is asked for alone");
        let by_top = [("s/part.zy", part), ("s/a.zy", GOOD), ("s/top.zy", "base:\n  '*': [a, part]\n")];
        assert_eq!(linted(&by_top, Some("s"), &[]), Ok((3, 0)), "the top file gives both");
        let nobody = [("s/part.zy", part), ("s/whole.zy", "include: [part]\nc:\n  test.nop: []\n")];
        assert_eq!(linted(&nobody, Some("s"), &[]), Ok((2, 1)), "nobody has it: told once");
    }

    #[test]
    fn a_directory_without_state_files_is_an_error_beside_others_too() {
        let files = [("s/good.zy", GOOD), ("s/sub/notes.txt", "")];
        let told = linted(&files, Some("s"), &["s/good.zy", "s/sub"]).unwrap_err();
        assert!(told.contains("there is no state file below"), "{told}");
    }

    #[test]
    #[rule("S-8")]
    fn s8_both_names_of_a_top_file_are_known_and_hidden_files_are_none() {
        let top = "base:\n  '*': [web]\n";
        for name in ["s/top.zy", "s/top.sls"] {
            let files = [(name, top), ("s/web.zy", GOOD), ("s/.#web.zy", BAD), ("s/.git/x.zy", BAD)];
            assert_eq!(linted(&files, Some("s"), &[]), Ok((2, 0)), "{name}");
        }
        // Every environment is compiled.
        let files = [("s/top.zy", "dev:\n  '*': [web]\nprod:\n  '*': [gone]\n"), ("s/web.zy", GOOD)];
        assert_eq!(linted(&files, Some("s"), &[]), Ok((2, 1)));
    }
}
