//! A working copy of a git repository: what is checked out, and what its origin offers.

use crate::context::{Applying, Checking};
use std::path::Path;
use std::time::Duration;
use zester_host::process::query::git_ssh;
use zester_host::{Fault, FaultKind, FileKind, HostRead, Launch, Question};

/// Largest of the small files that git keeps.
const GIT_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How long a command of git may take: a clone of a large repository.
const GIT_TIMEOUT: Duration = Duration::from_secs(3600);

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkout {
    pub(crate) commit: Option<String>,
    /// None where no branch is.
    pub(crate) branch: Option<String>,
}

/// A commit by its whole name.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn text(host: &dyn HostRead, path: &Path) -> Result<Option<String>, Fault> {
    match host.stat_followed(path)?.map(|meta| meta.kind) {
        Some(FileKind::File) => {
            Ok(Some(String::from_utf8_lossy(&host.read(path, GIT_FILE_BYTES_MAX)?).into_owned()))
        }
        _ => Ok(None),
    }
}

/// What stands in a directory: a repository, nothing, or something else, which is a fault.
pub(crate) fn checkout(host: &dyn HostRead, directory: &Path) -> Result<Option<Checkout>, Fault> {
    match host.stat_followed(directory)?.map(|meta| meta.kind) {
        None => return Ok(None),
        Some(FileKind::Directory) => {}
        Some(_) => {
            let message = format!("{} is not a directory", directory.display());
            return Err(Fault::new(FaultKind::InTheWay, message));
        }
    }
    let git = directory.join(".git");
    let Some(head) = text(host, &git.join("HEAD"))? else {
        if host.list(directory)?.is_empty() {
            return Ok(None);
        }
        let message = format!("{} is not empty and no repository", directory.display());
        let hint = "name another directory, or remove it in a `file.absent` state first";
        return Err(Fault::new(FaultKind::InTheWay, message).hint(hint));
    };
    let head = head.trim();
    let Some(reference) = head.strip_prefix("ref: ") else {
        return Ok(Some(Checkout { commit: Some(head.to_string()), branch: None }));
    };
    let branch = reference.strip_prefix("refs/heads/").map(str::to_string);
    let commit = match text(host, &git.join(reference))? {
        Some(commit) => Some(commit.trim().to_string()),
        None => {
            let packed = text(host, &git.join("packed-refs"))?.unwrap_or_default();
            let found =
                packed.lines().filter_map(|line| line.split_once(' ')).find(|(_, name)| *name == reference);
            found.map(|(commit, _)| commit.to_string())
        }
    };
    Ok(Some(Checkout { commit, branch }))
}

/// What a remote repository offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer(Vec<(String, String)>);

/// What a revision is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) commit: String,
    /// The branch that it is, where it is one.
    pub(crate) branch: Option<String>,
    /// It can be cloned by its name: a branch or a tag.
    pub(crate) named: bool,
}

impl Offer {
    fn parse(listed: &str) -> Offer {
        let pairs = listed.lines().filter_map(|line| line.split_once('\t'));
        Offer(pairs.map(|(commit, name)| (name.trim().to_string(), commit.trim().to_string())).collect())
    }

    fn get(&self, name: &str) -> Option<&String> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, commit)| commit)
    }

    /// The branch that `HEAD` is: `main` and `master` first where several are at its commit.
    fn head_branch(&self) -> Option<String> {
        let head = self.get("HEAD")?;
        let branches: Vec<&str> = self
            .0
            .iter()
            .filter(|(_, commit)| commit == head)
            .filter_map(|(name, _)| name.strip_prefix("refs/heads/"))
            .collect();
        let usual = ["main", "master"].into_iter().find(|usual| branches.contains(usual));
        usual.or(branches.first().copied()).map(str::to_string)
    }

    /// A branch, a tag or a whole commit name.
    pub(crate) fn resolve(&self, rev: &str) -> Option<Offered> {
        if rev == "HEAD" {
            let commit = self.get("HEAD")?.clone();
            return Some(Offered { commit, branch: self.head_branch(), named: false });
        }
        if let Some(commit) = self.get(&format!("refs/heads/{rev}")) {
            return Some(Offered { commit: commit.clone(), branch: Some(rev.to_string()), named: true });
        }
        // Of an annotated tag, the commit that it is on.
        let tag =
            self.get(&format!("refs/tags/{rev}^{{}}")).or_else(|| self.get(&format!("refs/tags/{rev}")));
        if let Some(commit) = tag {
            return Some(Offered { commit: commit.clone(), branch: None, named: true });
        }
        is_commit(rev).then(|| Offered { commit: rev.to_ascii_lowercase(), branch: None, named: false })
    }
}

/// Asks a repository what it offers.
pub(crate) async fn offer(cx: &Checking<'_>, url: &str, identity: Option<&str>) -> Result<Offer, Fault> {
    let exit = cx.query.ask(Question::GitRemote { url, identity }, cx.cancel).await?;
    match exit.code {
        Some(0) => Ok(Offer::parse(&exit.stdout.text)),
        _ => Err(exit.failure(&format!("git ls-remote {url}"))),
    }
}

/// A runner of git in one working copy.
pub(crate) struct Git<'a, 'c> {
    pub(crate) cx: &'a Applying<'c>,
    pub(crate) user: Option<&'a str>,
    pub(crate) identity: Option<&'a str>,
}

impl Git<'_, '_> {
    /// Runs git; that it does not succeed is a fault, which may have touched something.
    pub(crate) async fn run(&self, directory: Option<&Path>, words: &[&str]) -> Result<(), Fault> {
        if self.cx.cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        let mut line: Vec<String> = vec!["git".into()];
        if let Some(directory) = directory {
            line.extend(["-C".to_string(), directory.display().to_string()]);
        }
        line.extend(words.iter().map(ToString::to_string));
        let command = line.join(" ");
        let mut launch = Launch::argv(line);
        launch.user = self.user.map(str::to_string);
        launch.timeout = Some(GIT_TIMEOUT);
        launch.environment = vec![
            ("LC_ALL".into(), "C".into()),
            ("GIT_TERMINAL_PROMPT".into(), "0".into()),
            ("GIT_SSH_COMMAND".into(), git_ssh(self.identity)),
        ];
        let exit = self.cx.processes.run(&launch, self.cx.live.clone(), self.cx.cancel).await?;
        match exit.code {
            _ if exit.canceled => Err(Fault::canceled().touched()),
            _ if exit.timed_out => {
                Err(Fault::new(FaultKind::TimedOut, format!("`{command}` did not end in time")).touched())
            }
            Some(0) => Ok(()),
            _ => Err(exit.failure(&format!("`{command}`")).touched()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::furnish;
    use std::sync::Arc;
    use zester_host::overlay::Overlay;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    #[test]
    fn a_working_copy_is_read_without_git() {
        let read = |world: String| {
            let host = Arc::new(Overlay::empty());
            furnish(&host, &world);
            checkout(&*host, Path::new("/w"))
        };
        let at = |commit: &str, branch: Option<&str>| {
            Some(Checkout { commit: Some(commit.into()), branch: branch.map(str::to_string) })
        };
        assert_eq!(read(String::new()).unwrap(), None);
        assert_eq!(read("d /w 0755".into()).unwrap(), None);
        let on_branch = format!(
            "d /w 0755\nd /w/.git 0755\nf /w/.git/HEAD 0644 ref: refs/heads/main\nd /w/.git/refs 0755\nd /w/.git/refs/heads 0755\nf /w/.git/refs/heads/main 0644 {ONE}"
        );
        assert_eq!(read(on_branch).unwrap(), at(ONE, Some("main")));
        let packed = format!(
            "d /w 0755\nd /w/.git 0755\nf /w/.git/HEAD 0644 ref: refs/heads/main\nf /w/.git/packed-refs 0644 {TWO} refs/heads/main"
        );
        assert_eq!(read(packed).unwrap(), at(TWO, Some("main")));
        let detached = format!("d /w 0755\nd /w/.git 0755\nf /w/.git/HEAD 0644 {ONE}");
        assert_eq!(read(detached).unwrap(), at(ONE, None));
        let other = read("d /w 0755\nf /w/x 0644 x".into()).unwrap_err();
        assert!(other.message.contains("is not empty and no repository"), "{other}");
    }

    #[test]
    fn a_revision_is_a_branch_a_tag_or_a_commit() {
        // Recorded from `git ls-remote` of a repository with one annotated tag.
        let offer = Offer::parse(&format!(
            "{ONE}\tHEAD\n{ONE}\trefs/heads/main\n{TWO}\trefs/heads/next\n{TWO}\trefs/tags/v1\n{ONE}\trefs/tags/v1^{{}}\n"
        ));
        let found = |rev: &str| offer.resolve(rev).map(|offered| (offered.commit, offered.branch));
        assert_eq!(found("HEAD"), Some((ONE.into(), Some("main".into()))));
        assert_eq!(found("next"), Some((TWO.into(), Some("next".into()))));
        assert_eq!(found("v1"), Some((ONE.into(), None)));
        assert_eq!(found(TWO), Some((TWO.into(), None)));
        assert_eq!(found("nope"), None);
        assert_eq!(Offer::default().resolve("HEAD"), None);
    }
}
