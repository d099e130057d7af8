//! Whether a tree compiles for the peels (D-12): states with the settings that they get, and settings also with the states
//! that are published, which they would break for everybody.

use super::report::errors_words;
use super::source::Ready;
use super::{How, LintRequest, NamedTree, PublisherTask};
use std::path::Path;
use std::sync::Arc;
use zester_publish::{Error, fetch_tree};
use zester_wire::{Manifest, PeelId, Problems, Published};

/// What the compiler found.
pub struct Verdict {
    pub problems: Problems,
    /// Why it is not published, in words. None where nothing is wrong.
    pub reason: Option<String>,
}

impl PublisherTask {
    pub(super) async fn compile(&self, ready: &Ready, how: &How) -> Result<Verdict, Error> {
        let tree = named(ready);
        let settings = how.settings.clone();
        let problems = self.lint(ready.published, tree.clone(), settings).await;
        if problems.errors > 0 {
            let reason = Some(format!("it does not compile: {}", errors_words(&problems)));
            return Ok(Verdict { problems, reason });
        }
        let broken = match ready.published {
            Published::Settings => self.broken_states(&tree, how.states.as_ref()).await?,
            _ => None,
        };
        Ok(match broken {
            Some(broken) => {
                let reason =
                    format!("the published states do not compile with it: {}", errors_words(&broken));
                Verdict { problems: broken, reason: Some(reason) }
            }
            None => Verdict { problems, reason: None },
        })
    }

    /// What no longer compiles of the states that are published. States that come along and compile take their place, if there
    /// are any: an empty directory replaces nothing (D-2).
    async fn broken_states(
        &self,
        settings: &NamedTree,
        along: Option<&NamedTree>,
    ) -> Result<Option<Problems>, Error> {
        if let Some(along) = along
            && holds_files(&along.directory)
            && self.lint(Published::States, along.clone(), Some(settings.clone())).await.errors == 0
        {
            return Ok(None);
        }
        let staging = self.staging("compile-")?;
        let Some(states) = self.published_tree(Published::States, staging.path()).await? else {
            return Ok(None);
        };
        let found = self.lint(Published::States, states.clone(), Some(settings.clone())).await;
        if found.errors == 0 {
            return Ok(None);
        }
        // What does not compile with the settings that count either is not their fault.
        let before = self.published_tree(Published::Settings, staging.path()).await?;
        let before = self.lint(Published::States, states, before).await;
        let is_new = found.errors > before.errors
            || found.peels_count > before.peels_count
            || found.diagnostics.iter().any(|one| !before.diagnostics.contains(one));
        Ok(is_new.then_some(found))
    }

    /// The tree that counts, on disk. None where there is none that is whole.
    async fn published_tree(&self, published: Published, below: &Path) -> Result<Option<NamedTree>, Error> {
        let Manifest { pages, source, .. } = match self.publisher(published).manifest().await {
            Ok(Some(manifest)) => manifest,
            Ok(None) | Err(Error::Torn(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let directory = below.join(published.as_str());
        std::fs::create_dir_all(&directory).map_err(|error| Error::Disk(error.to_string()))?;
        match fetch_tree(&self.core.link, published, &pages, &directory).await {
            Ok(_) => Ok(Some(NamedTree { directory, name: source })),
            Err(Error::Torn(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn lint(&self, published: Published, tree: NamedTree, settings: Option<NamedTree>) -> Problems {
        let peels = self.core.index.snapshot();
        let known = |(peel, known): (&PeelId, &crate::index::Known)| (peel.clone(), Arc::clone(&known.facts));
        let peels = peels.iter().map(known).collect();
        self.linter.lint(LintRequest { published, tree, settings, peels }).await
    }
}

/// What cannot be read holds nothing that could be published.
fn holds_files(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| match entry.file_type() {
        Ok(found) if found.is_dir() => holds_files(&entry.path()),
        found => found.is_ok(),
    })
}

fn named(ready: &Ready) -> NamedTree {
    NamedTree { directory: ready.origin.checkout.directory.clone(), name: ready.source.clone() }
}
