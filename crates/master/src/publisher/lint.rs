//! What a tree is compiled with before it is published (D-12). The compiler comes in from outside.

use futures_util::future::BoxFuture;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use zester_wire::{PeelId, Problems, Published};

/// A tree on disk, and how messages about it name it.
#[derive(Clone, Debug)]
pub struct NamedTree {
    pub directory: PathBuf,
    pub name: String,
}

/// What is to be compiled.
pub struct LintRequest {
    pub published: Published,
    pub tree: NamedTree,
    /// The settings that states are compiled with.
    pub settings: Option<NamedTree>,
    /// For whom. Nobody known: only what is wrong on every machine counts.
    pub peels: Vec<(PeelId, Arc<Value>)>,
}

/// Finds what would not compile.
pub trait Linter: Send + Sync {
    fn lint(&self, request: LintRequest) -> BoxFuture<'_, Problems>;

    /// The lines of a settings file where a secret stands that nobody sealed. Such a file is never published (D-6).
    fn unsealed(&self, _path: &str, _text: &str) -> Vec<u32> {
        Vec::new()
    }
}

/// Finds nothing, ever.
pub struct NoLint;

impl Linter for NoLint {
    fn lint(&self, _: LintRequest) -> BoxFuture<'_, Problems> {
        Box::pin(std::future::ready(Problems::default()))
    }
}
