//! Which file a command's first word means.

use crate::fault::{Fault, FaultKind};
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// Where programs are looked for when nobody says.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// PATH as the child will see it: the launch's own, else one in its environment, else ours.
pub(super) fn search_path(path: Option<&str>, environment: &[(String, String)]) -> String {
    let added = environment.iter().rev().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_str());
    match path.or(added) {
        Some(path) => path.to_string(),
        None => std::env::var("PATH").unwrap_or_else(|_| PATH_DEFAULT.to_string()),
    }
}

enum Candidate {
    Runs,
    MissTracker,
    NotExecutable,
}

fn judge(file: &Path) -> Candidate {
    match std::fs::metadata(file) {
        Ok(meta) if meta.is_dir() => Candidate::NotExecutable,
        Ok(_) if rustix::fs::access(file, Access::EXEC_OK).is_ok() => Candidate::Runs,
        Ok(_) => Candidate::NotExecutable,
        Err(_) => Candidate::MissTracker,
    }
}

/// The file behind a word: taken as it is where it holds a slash (relative to `cwd`), else looked up in
/// `path`.
pub(super) fn find(word: &str, path: &str, cwd: Option<&Path>) -> Result<PathBuf, Fault> {
    if word.contains('/') {
        let file = cwd.map_or_else(|| PathBuf::from(word), |cwd| cwd.join(word));
        return match judge(&file) {
            Candidate::Runs => Ok(file),
            Candidate::MissTracker => {
                Err(Fault::new(FaultKind::NotFound, format!("program `{word}` not found")))
            }
            Candidate::NotExecutable => Err(not_executable(&file)),
        };
    }
    let mut refused = None;
    for directory in path.split(':') {
        // An empty entry means the working directory; as in every shell.
        let directory = if directory.is_empty() { Path::new(".") } else { Path::new(directory) };
        let base = cwd.map_or_else(|| directory.to_path_buf(), |cwd| cwd.join(directory));
        let file = base.join(word);
        match judge(&file) {
            Candidate::Runs => return Ok(file),
            Candidate::NotExecutable if !file.is_dir() => refused = refused.or(Some(file)),
            Candidate::NotExecutable | Candidate::MissTracker => {}
        }
    }
    match refused {
        Some(file) => Err(not_executable(&file)),
        None => Err(Fault::new(FaultKind::NotFound, format!("program `{word}` not found in PATH {path}"))),
    }
}

fn not_executable(file: &Path) -> Fault {
    let message = format!("program `{}` is not executable", file.display());
    if file.is_dir() {
        return Fault::new(FaultKind::Denied, message).hint("it is a directory");
    }
    Fault::new(FaultKind::Denied, message).hint(format!("`chmod +x {}` makes it so", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("X-5")]
    fn x5_a_program_that_is_not_found_names_the_path_searched() {
        let fault = find("no-such-program", "/usr/bin:/bin", None).unwrap_err();
        assert_eq!(fault.message, "program `no-such-program` not found in PATH /usr/bin:/bin");
        assert_eq!(fault.kind, FaultKind::NotFound);
    }

    #[test]
    #[rule("X-5")]
    fn x5_a_file_that_is_not_executable_is_told_from_a_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tool"), "").unwrap();
        let fault = find("tool", dir.path().to_str().unwrap(), None).unwrap_err();
        assert!(fault.message.ends_with("/tool` is not executable"), "{fault}");
        assert_eq!(fault.kind, FaultKind::Denied);
        let fault = find("./tool", "", Some(dir.path())).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Denied);
        let fault = find("./other", "", Some(dir.path())).unwrap_err();
        assert_eq!(fault.message, "program `./other` not found");
    }

    #[test]
    #[rule("X-5")]
    fn x5_the_first_entry_of_the_path_wins() {
        assert_eq!(find("sh", "/nowhere:/bin:/usr/bin", None).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("/bin/sh", "", None).unwrap(), Path::new("/bin/sh"));
    }
}
