//! Rules of the reactor, read with the compiler of states.

use crate::error::Error;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zester_compile::reaction::ReactionFile;
use zester_compile::{Tree, parse_yaml};
use zester_model::diagnostic::Diagnostic;
use zester_model::limits;
use zester_model::node::Node;
use zester_model::source::Sources;
use zester_reactor::{EventContext, ReactionTemplate, RuleCompiler, RuleSet};

/// Shows problems to people; how is known to whoever draws.
pub type Show = Arc<dyn Fn(&[Diagnostic], &Sources) -> String + Send + Sync>;

/// The compiler that a reactor is given.
#[derive(Clone)]
pub struct Reactions {
    show: Show,
}

impl Reactions {
    pub fn new(show: impl Fn(&[Diagnostic], &Sources) -> String + Send + Sync + 'static) -> Reactions {
        Reactions { show: Arc::new(show) }
    }

    /// One text a problem.
    fn each(&self, diagnostics: &[Diagnostic], sources: &Sources) -> Vec<String> {
        let one = |diagnostic| (self.show)(std::slice::from_ref(diagnostic), sources).trim_end().to_string();
        diagnostics.iter().map(one).collect()
    }
}

/// The files of a rule set, for those that include others.
struct Files<'f>(&'f BTreeMap<String, String>);

impl Tree for Files<'_> {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        Ok(self.0.get(path).cloned())
    }

    fn called(&self) -> &'static str {
        "reactor directory"
    }

    fn files(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

impl RuleCompiler for Reactions {
    fn yaml(&self, path: &str, text: &str) -> Result<Node, Vec<String>> {
        let mut sources = Sources::default();
        let file = sources.add(path, text);
        parse_yaml(file, text).map_err(|diagnostics| self.each(&diagnostics, &sources))
    }

    fn template(
        &self,
        path: &str,
        text: &str,
        files: &BTreeMap<String, String>,
    ) -> Result<Arc<dyn ReactionTemplate>, Vec<String>> {
        match ReactionFile::parse(path, text, &Files(files)) {
            Ok(file) => Ok(Arc::new(Parsed { file, shown: self.clone() })),
            Err((sources, diagnostics)) => Err(self.each(&diagnostics, &sources)),
        }
    }

    fn explain(&self, path: &str, text: &str, diagnostics: &[Diagnostic]) -> Vec<String> {
        let mut sources = Sources::default();
        let file = sources.add(path, text);
        let mut diagnostics = diagnostics.to_vec();
        // All of them are about this file, whatever it was called when it was read.
        let spans = diagnostics.iter_mut().filter_map(|diagnostic| diagnostic.span.as_mut());
        spans.for_each(|span| span.file = file);
        self.each(&diagnostics, &sources)
    }
}

/// A reaction file that was read.
struct Parsed {
    file: ReactionFile,
    shown: Reactions,
}

impl ReactionTemplate for Parsed {
    fn is_plain(&self) -> bool {
        self.file.plain().is_some()
    }

    fn render(&self, context: &EventContext) -> Result<Node, Vec<String>> {
        if let Some(node) = self.file.plain() {
            return Ok(node.clone());
        }
        let part = |key: &str| context.event.get(key).cloned().unwrap_or(Value::Null);
        let mut names = Map::new();
        names.insert("tag".into(), part("tag"));
        names.insert("data".into(), part("data"));
        names.insert("event".into(), context.event.clone());
        names.insert("origin_facts".into(), context.origin_facts.clone());
        match self.file.render(&names) {
            Ok((node, _)) => Ok(node),
            Err((sources, diagnostics)) => Err(self.shown.each(&diagnostics, &sources)),
        }
    }
}

/// The files of a reactor directory by their paths below it.
pub fn files_of(root: &Path) -> Result<BTreeMap<String, String>, Error> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        let read = |error| Error::io("read the rules", &directory, error);
        for entry in std::fs::read_dir(&directory).map_err(read)? {
            let path = entry.map_err(read)?.path();
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if name.split('/').any(|part| part.starts_with('.')) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).map_err(|error| Error::io("read the rule", &path, error))?;
            if bytes.len() > limits::SOURCE_BYTES_MAX || files.len() >= limits::FILES_MAX {
                return Err(Error::other(format!("{name}: more than rules may have")));
            }
            match String::from_utf8(bytes) {
                Ok(text) => {
                    files.insert(name, text);
                }
                Err(_) if name.ends_with(".zy") => {
                    return Err(Error::other(format!("{name}: it is not text")));
                }
                Err(_) => {}
            }
        }
    }
    Ok(files)
}

/// Reads the rules of a directory: all of them, or everything that is wrong.
pub fn load(root: &Path, compiler: &Reactions) -> Result<Result<RuleSet, Vec<String>>, Error> {
    Ok(RuleSet::load(0, &files_of(root)?, compiler))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_reactor::actions;
    use zester_rule::rule;

    fn compiler() -> Reactions {
        Reactions::new(|diagnostics, sources| {
            let told = diagnostics.iter().map(|one| {
                let place = one.span.map_or_else(String::new, |span| sources.place(span));
                format!("{place}: {}", one.message)
            });
            told.collect::<Vec<_>>().join("\n")
        })
    }

    fn files(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect()
    }

    fn context(data: Value) -> EventContext {
        let event = json!({
            "id": "e1", "tag": "deploy/done", "peel": "web-1", "origin": "web-1", "depth": 0, "ts": 1, "data": data,
        });
        EventContext { event, origin_facts: json!({"os": "Debian"}) }
    }

    const RESTART: &str = "restart:\n  dispatch.module:\n    target: '{{ event.peel }}'\n    function: cmd.run\n    \
                           args:\n      command: echo {{ data.version }} {{ tag }} {{ origin_facts.os }}\n";

    #[test]
    #[rule("R-4", "R-5")]
    fn r5_a_reaction_file_is_rendered_with_what_the_event_says() {
        let of = files(&[
            ("top.zy", "reactor:\n  - '*/deploy/*':\n    - reactor.web.restart\n"),
            ("web/restart.zy", RESTART),
        ]);
        let set = RuleSet::load(1, &of, &compiler()).unwrap();
        assert_eq!(set.matching("web-1/deploy/done"), [0]);
        let node = set.template(0).unwrap().render(&context(json!({"version": "3 }}\nbad: x"}))).unwrap();
        let blocks = actions::read(&node).unwrap();
        assert_eq!(blocks.len(), 1, "what an event says adds no block");
        let zester_reactor::Action::Dispatch(dispatch) = &blocks[0].action else { panic!() };
        assert_eq!(dispatch.target, "web-1");
        assert_eq!(dispatch.args["command"], json!("echo 3 }}\nbad: x deploy/done Debian"));
    }

    #[test]
    #[rule("R-4", "R-5")]
    fn r4_what_is_wrong_is_told_at_its_place() {
        let top = "reactor:\n  - '*/deploy/*':\n      react: [reactor.web.restart]\n      throtle: 5s\n";
        let told = RuleSet::load(1, &files(&[("top.zy", top)]), &compiler()).err().unwrap();
        assert_eq!(told, ["top.zy:4:7: unknown key `throtle`"]);
        let top = "- '*/deploy/*':\n  - reactor.nobody\n";
        let told = RuleSet::load(1, &files(&[("top.zy", top)]), &compiler()).err().unwrap();
        assert_eq!(told, ["top.zy:2:5: there is no file nobody.zy"]);
        let of = files(&[("top.zy", "- '*/x': [reactor.a]\n"), ("a.zy", "a:\n  log: '{{ data.| }}'\n")]);
        let told = RuleSet::load(1, &of, &compiler()).err().unwrap();
        assert!(told[0].starts_with("a.zy:2:"), "{told:?}");
    }

    #[test]
    #[rule("R-7")]
    fn r7_a_dangerous_rule_is_warned_of_at_its_place() {
        let of = files(&[
            ("top.zy", "- '*': [reactor.let_in]\n"),
            ("let_in.zy", "ok:\n  enroll.approve:\n    id: '{{ data.id }}'\n    require_peel: '*'\n"),
        ]);
        let set = RuleSet::load(1, &of, &compiler()).unwrap();
        assert_eq!(
            set.warnings,
            [
                "let_in.zy:2:3: enroll.approve for every event",
                "let_in.zy:4:5: `require_peel` allows every peel",
                "let_in.zy:2:3: enroll.approve asks for no proof",
            ]
        );
    }
}
