//! Compiles what is about to be published, for the peels that are known (D-12).

use super::external::External;
use crate::output::diagnostics;
use crate::output::paint::Paint;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_converge::Error;
use zester_converge::document;
use zester_converge::lint::peels::{self, KnownPeel, PeelsReport, TreeToLint};
use zester_converge::local_host::LocalHost;
use zester_converge::reactions;
use zester_master::{LintRequest, Linter};
use zester_model::merge::Merge;
use zester_wire::{PeelId, Problems, Published};

/// Bytes of problems that an answer carries as text.
const TEXT_MAX: usize = 64 * 1024;
/// Problems that it carries for machines.
const DIAGNOSTICS_MAX: usize = 100;
/// Warnings that it carries.
const WARNINGS_MAX: usize = 20;
/// Peels that it names.
const PEELS_NAMED: usize = 100;

pub struct FleetLint {
    pub local_host: LocalHost,
    pub merge: Merge,
    pub external: Option<Arc<External>>,
}

impl Linter for FleetLint {
    fn unsealed(&self, path: &str, text: &str) -> Vec<u32> {
        zester_secret::unsealed_lines(path, text)
    }

    fn lint(&self, request: LintRequest) -> std::pin::Pin<Box<dyn Future<Output = Problems> + Send + '_>> {
        let (local_host, merge, external) = (self.local_host.clone(), self.merge, self.external.clone());
        Box::pin(async move {
            let cancel = CancellationToken::new();
            let _ends_with_us = cancel.clone().drop_guard();
            let linted = tokio::task::spawn_blocking(move || {
                lint(&request, merge, external.as_deref(), &local_host, &cancel)
            })
            .await;
            // A whole tree for many peels was in memory, and this daemon mostly waits.
            zester_host::heap::give_back();
            linted.unwrap_or_else(|error| failed(&Error::other(format!("it ended unexpectedly: {error}"))))
        })
    }
}

fn lint(
    request: &LintRequest,
    merge: Merge,
    external: Option<&External>,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Problems {
    let ids: BTreeMap<&str, &PeelId> = request.peels.iter().map(|(peel, _)| (peel.as_str(), peel)).collect();
    let known: Vec<KnownPeel<'_>> = request
        .peels
        .iter()
        .map(|(peel, facts)| KnownPeel {
            id: peel.as_str(),
            facts: facts.as_ref(),
            external: external.and_then(|external| external.text(peel)),
        })
        .collect();
    let tree = TreeToLint {
        root: &request.tree.directory,
        name: &request.tree.name,
        settings: request.settings.as_ref().map(|settings| settings.directory.as_path()),
        merge,
    };
    let linted = match request.published {
        Published::States => peels::states(&tree, &known, local_host, cancel),
        Published::Settings => peels::settings(&tree, &known, local_host, cancel),
        Published::Reactor => return rules(request),
    };
    let PeelsReport { report, broken, checked, sealed_for_others } = match linted {
        Ok(linted) => linted,
        Err(error) => return failed(&error),
    };
    // Trees that were brought lie elsewhere than whoever brought them knows.
    let by_name = |text: String| {
        let named = request.settings.iter().chain([&request.tree]);
        named.fold(text, |text, named| text.replace(&named.directory.display().to_string(), &named.name))
    };
    let text = by_name(diagnostics::text(&report.diagnostics, &report.sources, Paint::new(false)));
    let reports = document::diagnostics(&report.diagnostics, &report.sources);
    let reports = reports.get("errors").and_then(|all| all.as_array()).cloned().unwrap_or_default();
    Problems {
        errors: report.diagnostics.len() as u64,
        text: cut(text),
        diagnostics: reports.into_iter().take(DIAGNOSTICS_MAX).collect(),
        peels_count: broken.len() as u64,
        peels: broken
            .iter()
            .filter_map(|id| ids.get(id.as_str()))
            .take(PEELS_NAMED)
            .copied()
            .cloned()
            .collect(),
        checked: checked as u64,
        known: request.peels.len() as u64,
        warnings: sealed_for_others.into_iter().take(WARNINGS_MAX).map(by_name).collect(),
    }
}

/// Rules are the same for everybody: they load, or they do not.
fn rules(request: &LintRequest) -> Problems {
    let warned = |warning: &String| warning.lines().next().unwrap_or_default().to_string();
    match reactions::load(&request.tree.directory, &super::rule_compiler()) {
        Err(error) => failed(&error),
        Ok(Ok(rules)) => Problems {
            warnings: rules.warnings.iter().map(warned).take(WARNINGS_MAX).collect(),
            ..Problems::default()
        },
        Ok(Err(problems)) => {
            let diagnostics = problems.iter().map(|text| json!({"message": text})).take(DIAGNOSTICS_MAX);
            Problems {
                errors: problems.len() as u64,
                diagnostics: diagnostics.collect(),
                text: cut(problems.join("\n\n") + "\n"),
                ..Problems::default()
            }
        }
    }
}

/// What could not even be read does not compile.
fn failed(error: &Error) -> Problems {
    let text = format!("error: {}\n", document::error_sentence(error));
    let diagnostics = vec![document::of_error(error)];
    Problems { errors: 1, text: cut(text), diagnostics, ..Problems::default() }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n…\n");
    }
    text
}
