//! `git.latest`, `git.cloned` and `git.detached`: working copies of repositories.

use crate::action::Action;
use crate::claims::Claims;
use crate::context::{Applying, Checking, Explanation};
use crate::git::{self, Checkout, Git, Offered};
use crate::params::{Absolute, Invalid, params};
use std::path::Path;
use zester_host::{Fault, FaultKind};
use zester_model::outcome::Details;

/// A working copy at the newest commit of a revision.
#[params(kind = "git.latest", primary = "name", manual = "git_latest.md")]
pub struct Latest {
    /// The repository: an address or a path.
    name: String,
    /// The directory of the working copy.
    target: Absolute,
    /// What is checked out: a branch, a tag or a whole commit name. Default: what the repository has as `HEAD`.
    #[param(default = "HEAD".to_string())]
    rev: String,
    /// The local branch that is checked out. Unset: the one of `rev`, or none.
    branch: Option<String>,
    /// What the repository is called there.
    #[param(default = "origin".to_string())]
    remote: String,
    /// Fetches so many commits of history only.
    depth: Option<u32>,
    /// Throws away local commits and changes that are in the way.
    #[param(default)]
    force_reset: bool,
    /// Throws away local changes when another branch is checked out.
    #[param(default)]
    force_checkout: bool,
    /// Lets what is fetched replace what a branch of the repository was before.
    #[param(default)]
    force_fetch: bool,
    /// Fetches submodules too.
    #[param(default)]
    submodules: bool,
    /// The user that git runs as.
    user: Option<String>,
    /// A private key for SSH.
    identity: Option<Absolute>,
}

/// A working copy that is there.
#[params(kind = "git.cloned", primary = "name", manual = "git_cloned.md")]
pub struct Cloned {
    /// The repository: an address or a path.
    name: String,
    /// The directory of the working copy.
    target: Absolute,
    /// The branch that a new one has. Unset: what the repository has as `HEAD`.
    branch: Option<String>,
    /// The user that git runs as.
    user: Option<String>,
    /// A private key for SSH.
    identity: Option<Absolute>,
}

/// A working copy at one commit, on no branch.
#[params(kind = "git.detached", primary = "name", manual = "git_detached.md")]
pub struct Detached {
    /// The repository: an address or a path.
    name: String,
    /// The directory of the working copy.
    target: Absolute,
    /// The commit: its whole name, a tag or a branch.
    rev: String,
    /// What the repository is called there.
    #[param(default = "origin".to_string())]
    remote: String,
    /// Throws away local changes that are in the way, and commits that are on no branch.
    #[param(default)]
    force_checkout: bool,
    /// Fetches submodules too.
    #[param(default)]
    submodules: bool,
    /// The user that git runs as.
    user: Option<String>,
    /// A private key for SSH.
    identity: Option<Absolute>,
}

/// From what to what.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    from: Option<Checkout>,
    to: Offered,
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

impl Move {
    fn describe(&self, target: &Path, done: bool) -> Explanation {
        let to = short(&self.to.commit);
        let place = target.display();
        let diff = match (&self.from, done) {
            (None, true) => format!("cloned {place} at {to}\n"),
            (None, false) => format!("would clone {place} at {to}\n"),
            (Some(from), _) => {
                let from = from.commit.as_deref().map_or("nothing", short);
                format!("{place}: {from} → {to}\n")
            }
        };
        let mut details = Details::new();
        details.insert("old".into(), self.from.as_ref().and_then(|from| from.commit.clone()).into());
        details.insert("new".into(), self.to.commit.clone().into());
        Explanation { diff, details }
    }
}

/// What can be wrong with an address.
fn invalid(name: &str) -> Vec<Invalid> {
    if name.starts_with('-') {
        return vec![Invalid::new("name", "it begins like an option")];
    }
    let host = name.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    match host {
        Some(host) if host.split_once('@').is_some_and(|(user, _)| user.contains(':')) => {
            let hint = "let git find it: a credential helper, `~/.netrc` of the user, or a key (`identity`)";
            let message = "a password in an address is shown everywhere";
            vec![Invalid { hint: Some(hint.into()), ..Invalid::new("name", message) }]
        }
        _ => Vec::new(),
    }
}

fn needs(
    name: &str,
    target: &Absolute,
    user: Option<&str>,
    identity: Option<&Absolute>,
    is: &'static str,
) -> Claims {
    Claims::of(Claims::path(target, is).with("source", Some(name)))
        .fills()
        .accounts(user, None)
        .needs(identity.map(|path| &**path).into_iter().chain([Path::new(name)]))
}

async fn offered(
    cx: &Checking<'_>,
    name: &str,
    rev: &str,
    identity: Option<&Absolute>,
) -> Result<Offered, Fault> {
    let identity = identity.map(|path| path.display().to_string());
    let offer = git::offer(cx, name, identity.as_deref()).await?;
    offer.resolve(rev).ok_or_else(|| {
        let message = format!("{name} has no branch or tag `{rev}`");
        Fault::new(FaultKind::Unsupported, message).hint("a commit is named in whole, by its 40 digits")
    })
}

/// Commits of a working copy that its repository has not.
struct OwnCommits<'a, 'g, 'c> {
    git: &'a Git<'g, 'c>,
    target: &'a Path,
    name: &'a str,
    /// The parameter that throws them away.
    force: &'a str,
}

impl OwnCommits<'_, '_, '_> {
    /// Asks git whether commits are to be had elsewhere too; those of the working copy alone are not given up.
    async fn keep(&self, question: &[&str]) -> Result<(), Fault> {
        self.git.run(Some(self.target), question).await.map_err(|fault| match fault.kind {
            FaultKind::CommandFailed => {
                let message =
                    format!("{} has commits of its own that {} has not", self.target.display(), self.name);
                Fault { message, ..fault }.hint(format!("`{}: true` throws them away", self.force))
            }
            _ => fault,
        })
    }

    /// Nothing names them once something else is checked out.
    async fn keep_those_of_no_branch(&self, from: &Checkout) -> Result<(), Fault> {
        match (&from.branch, &from.commit) {
            (None, Some(commit)) => self.keep(&["name-rev", "--no-undefined", "--name-only", commit]).await,
            _ => Ok(()),
        }
    }
}

impl Latest {
    fn wanted_branch<'a>(&'a self, to: &'a Offered) -> Option<&'a str> {
        self.branch.as_deref().or(to.branch.as_deref())
    }

    /// What a checkout would give up without a word: a branch that is moved while another is checked out, and commits that
    /// were made on none.
    async fn keep_what_is_elsewhere(
        &self,
        from: &Checkout,
        to: &Offered,
        git: &Git<'_, '_>,
    ) -> Result<(), Fault> {
        let own = OwnCommits { git, target: &self.target, name: &self.name, force: "force_reset" };
        own.keep_those_of_no_branch(from).await?;
        let Some(branch) = self.wanted_branch(to).filter(|branch| from.branch.as_deref() != Some(*branch))
        else {
            return Ok(());
        };
        let local = format!("refs/heads/{branch}");
        match git.run(Some(&self.target), &["show-ref", "--verify", "--quiet", &local]).await {
            Ok(()) => own.keep(&["merge-base", "--is-ancestor", &local, &to.commit]).await,
            Err(fault) if fault.kind == FaultKind::CommandFailed => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

impl Action for Latest {
    type Plan = Move;

    async fn plan(&self, cx: &Checking<'_>) -> Result<Option<Move>, Fault> {
        let from = git::checkout(cx.host, &self.target)?;
        let to = offered(cx, &self.name, &self.rev, self.identity.as_ref()).await?;
        let there = from.as_ref().is_some_and(|from| {
            let branch = self.wanted_branch(&to);
            from.commit.as_ref() == Some(&to.commit) && (branch.is_none() || from.branch.as_deref() == branch)
        });
        Ok((!there).then_some(Move { from, to }))
    }

    fn describe(&self, plan: &Move, done: bool) -> Explanation {
        plan.describe(&self.target, done)
    }

    async fn act(&self, plan: &Move, cx: &Applying<'_>) -> Result<Explanation, Fault> {
        let identity = self.identity.as_ref().map(|path| path.display().to_string());
        let git = Git { cx, user: self.user.as_deref(), identity: identity.as_deref() };
        let (target, to) = (&*self.target, &plan.to);
        let text = target.display().to_string();
        let depth = self.depth.map(|depth| format!("--depth={depth}"));
        let depth: Vec<&str> = depth.as_deref().into_iter().collect();
        if plan.from.is_none() {
            let mut words = vec!["clone", "--origin", self.remote.as_str()];
            words.extend(&depth);
            if to.named {
                words.extend(["--branch", self.rev.as_str()]);
            }
            words.extend(["--", self.name.as_str(), text.as_str()]);
            git.run(None, &words).await?;
        } else {
            let refspec = format!("+refs/heads/*:refs/remotes/{}/*", self.remote);
            let mut words = vec!["fetch", "--tags"];
            words.extend(&depth);
            if self.force_fetch {
                words.push("--force");
            }
            words.extend(["--", self.name.as_str(), refspec.as_str()]);
            git.run(Some(target), &words).await?;
        }
        let force: &[&str] = if self.force_checkout { &["--force"] } else { &[] };
        if let Some(from) = &plan.from
            && !self.force_reset
        {
            self.keep_what_is_elsewhere(from, to, &git).await?;
        }
        match self.wanted_branch(to) {
            Some(branch) => {
                let on_branch = plan.from.as_ref().is_some_and(|from| from.branch.as_deref() == Some(branch));
                if on_branch && !self.force_reset {
                    // Merging what is behind would be a success that changes nothing.
                    let own = OwnCommits { git: &git, target, name: &self.name, force: "force_reset" };
                    own.keep(&["merge-base", "--is-ancestor", "HEAD", &to.commit]).await?;
                    git.run(Some(target), &["merge", "--ff-only", &to.commit]).await?;
                } else if on_branch {
                    git.run(Some(target), &["reset", "--hard", &to.commit]).await?;
                } else {
                    let words = [&["checkout"], force, &["-B", branch, &to.commit]].concat();
                    git.run(Some(target), &words).await?;
                }
            }
            None => {
                let words = [&["checkout"], force, &["--detach", &to.commit]].concat();
                git.run(Some(target), &words).await?;
            }
        }
        if self.submodules {
            git.run(Some(target), &["submodule", "update", "--init", "--recursive"]).await?;
        }
        Ok(plan.describe(&self.target, true))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = invalid(&self.name);
        let given =
            [("rev", Some(&self.rev)), ("branch", self.branch.as_ref()), ("remote", Some(&self.remote))];
        let option = given
            .into_iter()
            .find(|(_, value)| value.is_some_and(|value| value.starts_with('-') || value.is_empty()));
        invalid.extend(
            option.map(|(parameter, _)| Invalid::new(parameter, "it is empty, or begins like an option")),
        );
        invalid
    }

    fn claims(&self) -> Claims {
        needs(&self.name, &self.target, self.user.as_deref(), self.identity.as_ref(), "a repository")
    }
}

impl Action for Cloned {
    type Plan = Move;

    async fn plan(&self, cx: &Checking<'_>) -> Result<Option<Move>, Fault> {
        if git::checkout(cx.host, &self.target)?.is_some() {
            return Ok(None);
        }
        let rev = self.branch.as_deref().unwrap_or("HEAD");
        let to = offered(cx, &self.name, rev, self.identity.as_ref()).await?;
        Ok(Some(Move { from: None, to }))
    }

    fn describe(&self, plan: &Move, done: bool) -> Explanation {
        plan.describe(&self.target, done)
    }

    async fn act(&self, plan: &Move, cx: &Applying<'_>) -> Result<Explanation, Fault> {
        let identity = self.identity.as_ref().map(|path| path.display().to_string());
        let git = Git { cx, user: self.user.as_deref(), identity: identity.as_deref() };
        let text = self.target.display().to_string();
        let mut words = vec!["clone"];
        words.extend(self.branch.as_deref().into_iter().flat_map(|branch| ["--branch", branch]));
        words.extend(["--", self.name.as_str(), text.as_str()]);
        git.run(None, &words).await?;
        Ok(plan.describe(&self.target, true))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = invalid(&self.name);
        if self.branch.as_ref().is_some_and(|branch| branch.starts_with('-')) {
            invalid.push(Invalid::new("branch", "it begins like an option"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        needs(&self.name, &self.target, self.user.as_deref(), self.identity.as_ref(), "a repository")
    }
}

impl Action for Detached {
    type Plan = Move;

    async fn plan(&self, cx: &Checking<'_>) -> Result<Option<Move>, Fault> {
        let from = git::checkout(cx.host, &self.target)?;
        // A whole commit name says by itself what is wanted.
        let to = match git::is_commit(&self.rev) {
            true => Offered { commit: self.rev.to_ascii_lowercase(), branch: None, named: false },
            false => offered(cx, &self.name, &self.rev, self.identity.as_ref()).await?,
        };
        let there = from
            .as_ref()
            .is_some_and(|from| from.branch.is_none() && from.commit.as_ref() == Some(&to.commit));
        Ok((!there).then_some(Move { from, to }))
    }

    fn describe(&self, plan: &Move, done: bool) -> Explanation {
        plan.describe(&self.target, done)
    }

    async fn act(&self, plan: &Move, cx: &Applying<'_>) -> Result<Explanation, Fault> {
        let identity = self.identity.as_ref().map(|path| path.display().to_string());
        let git = Git { cx, user: self.user.as_deref(), identity: identity.as_deref() };
        let text = self.target.display().to_string();
        let refspec = format!("+refs/heads/*:refs/remotes/{}/*", self.remote);
        match plan.from {
            None => {
                let words = ["clone", "--no-checkout", "--origin", &self.remote, "--", &self.name, &text];
                git.run(None, &words).await?;
            }
            Some(_) => {
                git.run(Some(&self.target), &["fetch", "--tags", "--", &self.name, &refspec]).await?;
            }
        }
        if let Some(from) = plan.from.as_ref().filter(|_| !self.force_checkout) {
            let (target, name) = (&*self.target, self.name.as_str());
            let own = OwnCommits { git: &git, target, name, force: "force_checkout" };
            own.keep_those_of_no_branch(from).await?;
        }
        let force: &[&str] = if self.force_checkout { &["--force"] } else { &[] };
        let words = [&["checkout"], force, &["--detach", &plan.to.commit]].concat();
        git.run(Some(&self.target), &words).await?;
        if self.submodules {
            git.run(Some(&self.target), &["submodule", "update", "--init", "--recursive"]).await?;
        }
        Ok(plan.describe(&self.target, true))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = invalid(&self.name);
        if self.rev.starts_with('-') || self.rev.is_empty() {
            invalid.push(Invalid::new("rev", "it is empty, or begins like an option"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        needs(&self.name, &self.target, self.user.as_deref(), self.identity.as_ref(), "a repository")
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::cases;
