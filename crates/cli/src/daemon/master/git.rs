//! Trees from git: the system's `git` fetches, shallow, into the data directory; only whole trees leave it.
//!
//! ```text
//! <place>/repos/<hash of the url>.git   what was fetched, bare
//! <place>/tree-XXXXXX/                  the layers, one over the other
//! <place>/current                       a link to the newest of those
//! ```

use crate::config::GitLayer;
use crate::connection::without_secrets;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_converge::local_host::LocalHost;
use zester_host::Launch;
use zester_master::{Checkout, TreeOrigin};
use zester_publish::{Directory, TreePath};
use zester_wire::ContentHash;

/// How often repositories are looked at.
pub const POLL: Duration = Duration::from_secs(60);
/// How long one call of git may take.
const GIT_LIMIT: Duration = Duration::from_secs(120);
/// A tree that was fetched so lately is not fetched again, unless somebody asks for what is there now.
const FRESH: Duration = Duration::from_secs(2);
/// Where the layers are kept that held files when they were built last.
const FILLED: &str = "filled";
/// What to do where a layer is empty all at once, and that is meant.
const LET_IT_BE_EMPTY: &str = "`zester publish --allow-empty` publishes without it";
/// Letters of git's complaint that are told.
const COMPLAINT_MAX: usize = 300;

pub struct GitLayers {
    layers: Vec<GitLayer>,
    /// A directory of this machine that lies over all of them.
    over: Option<PathBuf>,
    place: PathBuf,
    every: Duration,
    local_host: LocalHost,
    last: Mutex<Option<Fetched>>,
    /// The next look fetches, however lately the last one did.
    anew: AtomicBool,
    /// The next look takes layers as they are, empty or not.
    allow_empty: AtomicBool,
}

#[derive(Clone)]
struct Fetched {
    at: Instant,
    checkout: Checkout,
}

impl GitLayers {
    pub fn new(
        layers: &[GitLayer],
        over: Option<PathBuf>,
        place: PathBuf,
        every: Duration,
        local_host: LocalHost,
    ) -> Result<GitLayers, String> {
        for layer in layers {
            check(layer)?;
        }
        // What links lead to, and what git is told, counts from elsewhere.
        let place = std::path::absolute(&place)
            .map_err(|error| format!("cannot tell where {} is: {error}", place.display()))?;
        let (layers, last) = (layers.to_vec(), Mutex::default());
        let (anew, allow_empty) = Default::default();
        Ok(GitLayers { layers, over, place, every, local_host, last, anew, allow_empty })
    }

    /// A path that leads to the newest tree.
    pub fn current(place: &Path) -> PathBuf {
        place.join("current")
    }

    async fn bring(&self) -> Result<Checkout, String> {
        let mut last = self.last.lock().await;
        let anew = self.anew.swap(false, Ordering::SeqCst);
        let allow_empty = self.allow_empty.swap(false, Ordering::SeqCst);
        if let Some(fetched) = last.as_ref().filter(|fetched| !anew && fetched.at.elapsed() < FRESH) {
            return Ok(fetched.checkout.clone());
        }
        // A tree without it would take its files from the peels (D-2).
        if let Some(gone) = self.over.as_ref().filter(|over| !allow_empty && !over.is_dir()) {
            return Err(format!(
                "{} is not there; what was published before stays: {LET_IT_BE_EMPTY}",
                gone.display()
            ));
        }
        let mut commits = Vec::new();
        for layer in &self.layers {
            commits.push(self.fetch(layer).await?);
        }
        let commit = commits.join(" ");
        let same =
            |fetched: &&Fetched| fetched.checkout.commit == commit && fetched.checkout.directory.is_dir();
        let checkout = match last.as_ref().filter(same).filter(|_| self.over.is_none()) {
            Some(fetched) => fetched.checkout.clone(),
            None => Checkout { directory: self.build(&commits, allow_empty).await?, commit },
        };
        *last = Some(Fetched { at: Instant::now(), checkout: checkout.clone() });
        Ok(checkout)
    }

    fn repo(&self, layer: &GitLayer) -> PathBuf {
        let hash = ContentHash::of(layer.url.as_bytes());
        self.place.join("repos").join(format!("{}.git", hash.as_str().get(..16).unwrap_or_default()))
    }

    /// The commit that counts now. Whoever was killed in the middle of a fetch leaves locks and halves behind: where the server
    /// answers and the repository here cannot take it, a new one takes its place. It only saves what need not be sent again.
    async fn fetch(&self, layer: &GitLayer) -> Result<String, String> {
        let repo = self.repo(layer);
        let why = match self.fetch_into(layer, &repo).await {
            Ok(commit) => return Ok(commit),
            Err(why) => why,
        };
        if self.git(layer, &["ls-remote", "--quiet", "--", &layer.url, "HEAD"], &[]).await.is_err() {
            return Err(why);
        }
        let anew = repo.with_extension("anew");
        let _not_there = std::fs::remove_dir_all(&anew);
        let fetched = self.fetch_into(layer, &anew).await;
        let Ok(commit) = fetched else {
            let _goes_with_the_next = std::fs::remove_dir_all(&anew);
            return Err(why);
        };
        let replaced = std::fs::remove_dir_all(&repo).and_then(|()| std::fs::rename(&anew, &repo));
        replaced.map_err(|error| format!("{why}; and {} cannot be replaced: {error}", repo.display()))?;
        tracing::warn!("{} was made anew: {why}", repo.display());
        Ok(commit)
    }

    async fn fetch_into(&self, layer: &GitLayer, repo: &Path) -> Result<String, String> {
        let told = repo.display().to_string();
        if !repo.join("HEAD").exists() {
            std::fs::create_dir_all(repo).map_err(|error| format!("cannot make {told}: {error}"))?;
            self.git(layer, &["init", "--quiet", "--bare", &told], &[]).await?;
        }
        let reference = layer.reference.as_deref().unwrap_or("HEAD");
        let fetch = [
            "-C",
            &told,
            "fetch",
            "--quiet",
            "--no-tags",
            "--force",
            "--depth=1",
            "--",
            &layer.url,
            reference,
        ];
        self.git(layer, &fetch, &[]).await?;
        let commit =
            self.git(layer, &["-C", &told, "rev-parse", "--verify", "FETCH_HEAD^{commit}"], &[]).await?;
        Ok(commit.trim().to_string())
    }

    /// All layers in a directory of their own.
    async fn build(&self, commits: &[String], allow_empty: bool) -> Result<PathBuf, String> {
        let failed = |error: std::io::Error| format!("cannot write to {}: {error}", self.place.display());
        let scratch = tempfile::Builder::new().prefix("scratch-").tempdir_in(&self.place).map_err(failed)?;
        let mut roots = Vec::new();
        for (number, (layer, commit)) in self.layers.iter().zip(commits).enumerate() {
            let (repo, tree) = (self.repo(layer), scratch.path().join(format!("layer-{number}")));
            std::fs::create_dir(&tree).map_err(failed)?;
            let git_dir = format!("--git-dir={}", repo.display());
            let work_tree = format!("--work-tree={}", tree.display());
            let index = scratch.path().join(format!("index-{number}")).display().to_string();
            let words = [&git_dir, &work_tree, "checkout", "--quiet", "--force", commit, "--", "."];
            self.git(layer, &words, &[("GIT_INDEX_FILE", &index)]).await?;
            roots.push(below(&tree, layer)?);
        }
        roots.extend(self.over.clone().filter(|over| !allow_empty || over.is_dir()));
        let layers: Vec<(String, PathBuf)> = self.names().zip(roots).collect();
        let made = tempfile::Builder::new().prefix("tree-").tempdir_in(&self.place).map_err(failed)?;
        let target = made.path().to_path_buf();
        let place = self.place.clone();
        let lay = move || {
            let filled = filled(&place, &layers, allow_empty)?;
            layers.iter().try_for_each(|(_, root)| lay_over(&target, root)).map(|()| filled)
        };
        let filled = tokio::task::spawn_blocking(lay).await.map_err(|error| error.to_string())??;
        let made = made.keep();
        self.point_to(&made).map_err(failed)?;
        std::fs::write(self.place.join(FILLED), filled.join("\n")).map_err(failed)?;
        Ok(made)
    }

    /// What people know the layers by.
    fn names(&self) -> impl Iterator<Item = String> + '_ {
        let of_git = self.layers.iter().map(|layer| {
            let subdir = layer.subdir.as_ref().map_or(String::new(), |subdir| format!(" {subdir}"));
            format!("{}{subdir}", without_secrets(&layer.url))
        });
        of_git.chain(self.over.iter().map(|over| over.display().to_string()))
    }

    /// The newest tree is found under one name; those before it go.
    fn point_to(&self, tree: &Path) -> std::io::Result<()> {
        let next = self.place.join("next");
        let _not_there = std::fs::remove_file(&next);
        symlink(tree, &next)?;
        std::fs::rename(&next, GitLayers::current(&self.place))?;
        for entry in std::fs::read_dir(&self.place)?.flatten() {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b"tree-") && Some(name.as_os_str()) != tree.file_name() {
                let _goes_with_the_next = std::fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    async fn git(
        &self,
        layer: &GitLayer,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<String, String> {
        // Nobody sits here to be asked, and what a repository brings is not run.
        let quiet =
            ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "gc.autoDetach=false"];
        let fixed = [("GIT_TERMINAL_PROMPT", "0"), ("GIT_ASKPASS", "true"), ("LC_ALL", "C")];
        let ssh = std::env::var_os("GIT_SSH_COMMAND")
            .is_none()
            .then_some(("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"));
        let environment = fixed.iter().chain(environment).copied().chain(ssh);
        let launch = Launch {
            cwd: Some(self.place.clone()),
            environment: environment.map(|(key, value)| (key.into(), value.into())).collect(),
            timeout: Some(GIT_LIMIT),
            leaves_nothing: true,
            ..Launch::argv(["git"].iter().chain(&quiet).chain(words).copied())
        };
        let shown = without_secrets(&layer.url);
        std::fs::create_dir_all(&self.place)
            .map_err(|error| format!("cannot make {}: {error}", self.place.display()))?;
        let exit = self.local_host.processes.run(&launch, None, &CancellationToken::new()).await;
        let exit = exit.map_err(|fault| format!("git cannot be started: {}", fault.message))?;
        if exit.timed_out {
            return Err(format!("git took longer than {} s for {shown}", GIT_LIMIT.as_secs()));
        }
        if exit.code != Some(0) {
            let said = exit.stderr.text.replace(&layer.url, &shown);
            let said: String = said.trim().replace('\n', "; ").chars().take(COMPLAINT_MAX).collect();
            return Err(format!("git failed for {shown}: {said}"));
        }
        Ok(exit.stdout.text)
    }
}

impl TreeOrigin for GitLayers {
    fn checkout(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<Checkout, String>> + Send + '_>> {
        Box::pin(self.bring())
    }

    fn look_anew(&self, allow_empty: bool) {
        self.allow_empty.store(allow_empty, Ordering::SeqCst);
        self.anew.store(true, Ordering::SeqCst);
    }

    fn words(&self) -> String {
        self.names().collect::<Vec<_>>().join(", ")
    }

    fn watched(&self) -> Option<&Path> {
        self.over.as_deref()
    }

    fn every(&self) -> Duration {
        self.every
    }
}

/// Words that git would take for flags, and directories that lead elsewhere, are refused before anything is fetched.
fn check(layer: &GitLayer) -> Result<(), String> {
    let reference = layer.reference.as_deref().unwrap_or("HEAD");
    if layer.url.is_empty() || layer.url.starts_with('-') {
        return Err(format!("`{}` is no address of a repository", layer.url));
    }
    if reference.is_empty() || reference.starts_with('-') {
        return Err(format!("`{reference}` is no branch, tag or commit"));
    }
    match layer.subdir.as_deref().map(|subdir| (subdir, TreePath::parse(subdir))) {
        Some((subdir, Err(bad))) => Err(format!("the subdir `{subdir}` cannot be used: {bad}")),
        _ => Ok(()),
    }
}

fn below(tree: &Path, layer: &GitLayer) -> Result<PathBuf, String> {
    let Some(subdir) = &layer.subdir else { return Ok(tree.to_path_buf()) };
    let root = tree.canonicalize().map_err(|error| error.to_string())?;
    let real = tree.join(subdir).canonicalize();
    let shown = without_secrets(&layer.url);
    match real {
        Ok(real) if real.starts_with(&root) && real.is_dir() => Ok(real),
        _ => Err(format!("{shown} has no directory `{subdir}`")),
    }
}

/// The layers that hold files, by name. One that did and is empty now takes nothing from the peels: a reference that points
/// elsewhere, a disk that is not mounted (D-2); unless somebody says that it is meant. Blocks.
fn filled(place: &Path, layers: &[(String, PathBuf)], allow_empty: bool) -> Result<Vec<String>, String> {
    let path = place.join(FILLED);
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let mut filled = Vec::new();
    for (name, root) in layers {
        let read = Directory::read(root).map_err(|error| error.to_string())?;
        match read.tree.is_empty() {
            false => filled.push(name.clone()),
            true if !allow_empty && before.lines().any(|line| line == name) => {
                return Err(format!(
                    "{name} is empty and held files before; what was published before stays until it holds some, or is no layer any more: {LET_IT_BE_EMPTY}"
                ));
            }
            true => {}
        }
    }
    Ok(filled)
}

/// Blocks.
fn lay_over(target: &Path, layer: &Path) -> Result<(), String> {
    let directory = Directory::read(layer).map_err(|error| error.to_string())?;
    if !layer.is_dir() {
        return Err(format!("{} is not there any more", layer.display()));
    }
    for path in directory.tree.files.keys() {
        let (from, to) = (layer.join(path.as_str()), target.join(path.as_str()));
        if to.is_dir() {
            return Err(format!("{path} is a file in one layer and a directory in another"));
        }
        let copied = match to.parent() {
            Some(parent) => std::fs::create_dir_all(parent).and_then(|()| std::fs::copy(&from, &to)),
            None => std::fs::copy(&from, &to),
        };
        copied.map_err(|error| format!("cannot copy {path}: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::Arc;
    use zester_rule::rule;

    struct Repo {
        dir: tempfile::TempDir,
    }

    impl Repo {
        fn new() -> Repo {
            let repo = Repo { dir: tempfile::tempdir().unwrap() };
            repo.git(&["init", "--quiet", "--bare", "--initial-branch=main", "bare.git"]);
            repo.git(&["clone", "--quiet", "bare.git", "work"]);
            repo
        }

        fn git(&self, words: &[&str]) -> String {
            let name = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
            let mut command = Command::new("git");
            let ran = command.args(name).args(words).current_dir(self.dir.path()).output().unwrap();
            assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
            String::from_utf8(ran.stdout).unwrap().trim().to_string()
        }

        fn commit(&self, name: &str, text: &str) -> String {
            let path = self.dir.path().join("work").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            self.git(&["-C", "work", "add", "."]);
            self.git(&["-C", "work", "commit", "--quiet", "-m", "x"]);
            self.git(&["-C", "work", "push", "--quiet", "origin", "HEAD:main"]);
            self.git(&["-C", "work", "rev-parse", "HEAD"])
        }

        fn layer(&self, subdir: Option<&str>) -> GitLayer {
            GitLayer {
                url: self.dir.path().join("bare.git").display().to_string(),
                reference: Some("main".into()),
                subdir: subdir.map(String::from),
            }
        }
    }

    fn layers(layers: &[GitLayer], place: &Path) -> GitLayers {
        layers_under(layers, None, place)
    }

    fn layers_under(layers: &[GitLayer], over: Option<PathBuf>, place: &Path) -> GitLayers {
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        GitLayers::new(layers, over, place.join("git"), POLL, local_host).unwrap()
    }

    async fn again(origin: &GitLayers) -> Result<Checkout, String> {
        if let Some(last) = origin.last.lock().await.as_mut() {
            last.at = Instant::now().checked_sub(FRESH).unwrap();
        }
        origin.checkout().await
    }

    fn read(checkout: &Checkout, name: &str) -> Option<String> {
        std::fs::read_to_string(checkout.directory.join(name)).ok()
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-2")]
    async fn d2_a_branch_is_followed_by_its_commits_and_a_failed_fetch_keeps_the_last_tree() {
        let (repo, place) = (Repo::new(), tempfile::tempdir().unwrap());
        let first = repo.commit("states/web.zy", "1");
        let origin = layers(&[repo.layer(Some("states"))], place.path());
        let checkout = origin.checkout().await.unwrap();
        assert_eq!(
            (checkout.commit.as_str(), read(&checkout, "web.zy").as_deref()),
            (first.as_str(), Some("1"))
        );
        assert_eq!(again(&origin).await.unwrap(), checkout, "nothing changed");
        let second = repo.commit("states/web.zy", "2");
        let next = again(&origin).await.unwrap();
        assert_eq!((next.commit.as_str(), read(&next, "web.zy").as_deref()), (second.as_str(), Some("2")));
        assert!(!next.directory.join(".git").exists());
        let gone = repo.dir.path().join("gone.git");
        std::fs::rename(repo.dir.path().join("bare.git"), &gone).unwrap();
        let why = again(&origin).await.unwrap_err();
        assert!(why.starts_with("git failed for "), "{why}");
        assert_eq!(read(&next, "web.zy").as_deref(), Some("2"), "the last tree stays");
        let link = GitLayers::current(&place.path().join("git"));
        assert_eq!(std::fs::read_to_string(link.join("web.zy")).unwrap(), "2");
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-2")]
    async fn d2_what_a_killed_fetch_left_behind_stops_no_later_one() {
        let (repo, place) = (Repo::new(), tempfile::tempdir().unwrap());
        repo.commit("web.zy", "1");
        let origin = layers(&[repo.layer(None)], place.path());
        origin.checkout().await.unwrap();
        let second = repo.commit("web.zy", "2");
        let cache = origin.repo(&origin.layers[0]);
        std::fs::write(cache.join("shallow.lock"), "").unwrap();
        let next = again(&origin).await.unwrap();
        assert_eq!((next.commit.as_str(), read(&next, "web.zy").as_deref()), (second.as_str(), Some("2")));
        // A making of it that was torn.
        std::fs::remove_dir_all(cache.join("objects")).unwrap();
        std::fs::remove_file(cache.join("config")).unwrap();
        let third = repo.commit("web.zy", "3");
        assert_eq!(again(&origin).await.unwrap().commit, third);
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-2")]
    async fn d2_a_later_repository_lies_over_an_earlier_one() {
        let (base, over, place) = (Repo::new(), Repo::new(), tempfile::tempdir().unwrap());
        base.commit("a.zy", "base");
        let one = base.commit("b.zy", "base");
        let two = over.commit("b.zy", "over");
        let checkout = layers(&[base.layer(None), over.layer(None)], place.path()).checkout().await.unwrap();
        assert_eq!(checkout.commit, format!("{one} {two}"));
        assert_eq!(read(&checkout, "a.zy").as_deref(), Some("base"));
        assert_eq!(read(&checkout, "b.zy").as_deref(), Some("over"));
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-2")]
    async fn d2_a_directory_over_a_repository_that_is_gone_takes_nothing_from_the_peels() {
        let (repo, place) = (Repo::new(), tempfile::tempdir().unwrap());
        repo.commit("a.zy", "base");
        let over = place.path().join("over");
        let origin = layers_under(&[repo.layer(None)], Some(over.clone()), place.path());
        let gone =
            format!("{} is not there; what was published before stays: {LET_IT_BE_EMPTY}", over.display());
        assert_eq!(origin.checkout().await, Err(gone.clone()), "it was never there");
        std::fs::create_dir(&over).unwrap();
        std::fs::write(over.join("b.zy"), "over").unwrap();
        let checkout = again(&origin).await.unwrap();
        assert_eq!(read(&checkout, "b.zy").as_deref(), Some("over"));
        std::fs::remove_dir_all(&over).unwrap();
        assert_eq!(again(&origin).await, Err(gone));
        assert_eq!(read(&checkout, "b.zy").as_deref(), Some("over"), "the last tree stays");
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-2")]
    async fn d2_a_layer_that_is_empty_all_at_once_takes_nothing_from_the_peels() {
        let (base, more, place) = (Repo::new(), Repo::new(), tempfile::tempdir().unwrap());
        base.commit("a.zy", "base");
        more.commit("states/b.zy", "more");
        let over = place.path().join("over");
        std::fs::create_dir(&over).unwrap();
        let all = [base.layer(None), more.layer(Some("states"))];
        let origin = layers_under(&all, Some(over.clone()), place.path());
        let checkout = origin.checkout().await.unwrap();
        assert_eq!(read(&checkout, "b.zy").as_deref(), Some("more"), "what never held any is no loss");
        std::fs::write(over.join("c.zy"), "over").unwrap();
        let checkout = again(&origin).await.unwrap();
        std::fs::remove_file(over.join("c.zy")).unwrap();
        let why = again(&origin).await.unwrap_err();
        assert!(why.starts_with(&format!("{} is empty and held files before", over.display())), "{why}");
        assert_eq!(read(&checkout, "c.zy").as_deref(), Some("over"), "the last tree stays");
        // A master that was started anew knows it as well.
        let origin = layers_under(&all, Some(over.clone()), place.path());
        assert_eq!(origin.checkout().await.unwrap_err(), why);
        assert!(why.ends_with("`zester publish --allow-empty` publishes without it"), "{why}");
        origin.look_anew(true);
        let checkout = origin.checkout().await.unwrap();
        assert_eq!((read(&checkout, "c.zy"), read(&checkout, "a.zy")), (None, Some("base".into())));
        assert!(again(&origin).await.is_ok(), "and from then on it is no loss");
        std::fs::write(over.join("c.zy"), "over").unwrap();
        again(&origin).await.unwrap();
        std::fs::remove_dir_all(&over).unwrap();
        again(&origin).await.unwrap_err();
        origin.look_anew(true);
        assert_eq!(read(&origin.checkout().await.unwrap(), "c.zy"), None, "nor is one that is not there");
        std::fs::create_dir(&over).unwrap();
        std::fs::write(over.join("c.zy"), "over").unwrap();
        again(&origin).await.unwrap();
        // A branch without a file, and a directory that is in it no more.
        for (repo, file) in [(&base, "a.zy"), (&more, "states/b.zy")] {
            repo.git(&["-C", "work", "rm", "--quiet", file]);
            repo.git(&["-C", "work", "commit", "--quiet", "-m", "x"]);
            repo.git(&["-C", "work", "push", "--quiet", "origin", "HEAD:main"]);
            again(&origin).await.unwrap_err();
            repo.commit(file, "again");
            assert_eq!(read(&again(&origin).await.unwrap(), "c.zy").as_deref(), Some("over"));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-2")]
    async fn d2_who_asks_gets_the_commit_of_now_and_who_looks_again_costs_no_fetch() {
        let (repo, place) = (Repo::new(), tempfile::tempdir().unwrap());
        repo.commit("a.zy", "1");
        let origin = layers(&[repo.layer(None)], place.path());
        origin.checkout().await.unwrap();
        let second = repo.commit("a.zy", "2");
        origin.look_anew(false);
        let asked = origin.checkout().await.unwrap();
        assert_eq!((asked.commit.as_str(), read(&asked, "a.zy").as_deref()), (second.as_str(), Some("2")));
        // As if it had been fetched this very moment, however slow this machine is.
        repo.commit("a.zy", "3");
        if let Some(last) = origin.last.lock().await.as_mut() {
            last.at = Instant::now() + GIT_LIMIT;
        }
        assert_eq!(origin.checkout().await.unwrap(), asked);
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("D-2")]
    async fn d2_a_tree_is_where_it_was_made_whatever_the_data_directory_is_called() {
        let (repo, place) = (Repo::new(), tempfile::tempdir().unwrap());
        repo.commit("a.zy", "1");
        let up = std::env::current_dir().unwrap();
        let mut relative: PathBuf = up.components().skip(1).map(|_| "..").collect();
        relative.extend(place.path().strip_prefix("/"));
        let origin = layers(&[repo.layer(None)], &relative);
        let checkout = origin.checkout().await.unwrap();
        assert_eq!(read(&checkout, "a.zy").as_deref(), Some("1"));
        let link = GitLayers::current(&relative.join("git"));
        assert_eq!(std::fs::read_to_string(link.join("a.zy")).unwrap(), "1");
    }

    #[test]
    fn what_git_would_take_for_a_flag_or_leads_elsewhere_is_refused() {
        let layer = |url: &str, reference: &str, subdir: &str| GitLayer {
            url: url.into(),
            reference: Some(reference.into()),
            subdir: Some(subdir.into()),
        };
        assert!(check(&layer("https://h/x", "main", "states")).is_ok());
        for (url, reference, subdir) in
            [("--upload-pack=x", "main", "a"), ("https://h/x", "--x", "a"), ("https://h/x", "main", "../a")]
        {
            assert!(check(&layer(url, reference, subdir)).is_err(), "{url} {reference} {subdir}");
        }
    }
}
