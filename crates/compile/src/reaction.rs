//! Reaction files of the reactor: Jinja, then YAML, parsed once and rendered for each event.
//!
//! An event is written by whoever can send one, so that nothing of it may change what a file says. What a `{{ }}`
//! yields never stands in the text that is read as YAML: a placeholder does, and the value is put in when the structure
//! is settled (`template/fills.rs`, `yaml/fill.rs`). Control flow is the file's own: a loop over a list of the event
//! yields as many blocks as the list has items, because the file says so.

use crate::position::Positions;
use crate::renderer::passes;
use crate::template::{ReactionTemplate, is_template};
use crate::{Tree, yaml};
use serde_json::Value as Json;
use std::sync::Arc;
use zester_model::diagnostic::Diagnostic;
use zester_model::node::Node;
use zester_model::source::Sources;

/// A reaction file, ready to be rendered for any event.
pub struct ReactionFile {
    content: Content,
}

enum Content {
    /// No template: the same for every event.
    Plain(Node, Sources),
    Template(Box<ReactionTemplate>),
}

impl ReactionFile {
    /// Parses a file of the reactor dir. `path` is relative to it; `tree` has what the file includes and imports.
    pub fn parse(
        path: &str,
        text: &str,
        tree: &dyn Tree,
    ) -> Result<ReactionFile, (Sources, Vec<Diagnostic>)> {
        let text: Arc<str> = text.strip_prefix('\u{feff}').unwrap_or(text).into();
        let mut sources = Sources::default();
        let file = sources.add(path, text.clone());
        let meant = "a reaction is Jinja and YAML: it is rendered for every event";
        let chosen = passes(&text, file)
            .and_then(|passes| passes.without("gpg", meant, file))
            .and_then(|passes| passes.without("py", meant, file));
        let passes = match chosen {
            Ok(passes) => passes,
            Err(diagnostic) => return Err((sources, vec![diagnostic])),
        };
        let content = if !passes.template || !is_template(&text) {
            match yaml::compose(&text, &mut Positions::plain(file, &text)) {
                Ok(node) => Content::Plain(node, sources),
                Err(diagnostics) => return Err((sources, diagnostics)),
            }
        } else {
            Content::Template(Box::new(ReactionTemplate::parse(path, &text, tree)?))
        };
        Ok(ReactionFile { content })
    }

    /// Its blocks, where they are the same for every event.
    pub fn plain(&self) -> Option<&Node> {
        match &self.content {
            Content::Plain(node, _) => Some(node),
            Content::Template(_) => None,
        }
    }

    /// Renders for one event: the blocks, or null where there are none.
    pub fn render(
        &self,
        context: &serde_json::Map<String, Json>,
    ) -> Result<(Node, Sources), (Sources, Vec<Diagnostic>)> {
        let template = match &self.content {
            Content::Plain(node, sources) => return Ok((node.clone(), sources.clone())),
            Content::Template(template) => template,
        };
        let sources = template.sources();
        let composed = template.render(context).and_then(|filled| {
            let mut positions = filled.rendered.positions(sources, template.file());
            yaml::compose_filled(&filled.rendered.text, &mut positions, &filled.fills)
        });
        match composed {
            Ok(node) => Ok((node, sources.clone())),
            Err(diagnostics) => Err((sources.clone(), diagnostics)),
        }
    }
}
