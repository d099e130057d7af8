//! `module.run`: another kind, called by its name (S-20).

use crate::bound::{Bound, Drift, KindEntry, Registered, entries, read_record};
use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Change, Checking, Explanation, Forced, GuardSetting, Reverting};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use zester_host::overlay::Overlay;
use zester_host::{BoxFuture, Fault, FaultKind, HostRead};
use zester_model::catalog::{Kind, Parameter};
use zester_model::diagnostic::{self, Diagnostic};
use zester_model::program::Param;
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;

const KIND: &str = "module.run";
const DOC: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manual/module_run.md"));

/// The same, only where something that it watches has changed.
const WAIT: &str = "module.wait";
const WAIT_DOC: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manual/module_wait.md"));

/// The state that is called.
struct Delegate {
    kind: &'static str,
    called: Box<dyn Bound>,
}

/// What the journal keeps: whose record it is.
#[derive(Serialize, Deserialize)]
struct Record {
    kind: String,
    undo: Json,
}

impl Bound for Delegate {
    fn kind(&self) -> &'static str {
        self.kind
    }
    fn undoable(&self) -> bool {
        self.called.undoable()
    }
    fn check_cmd_first(&self) -> bool {
        self.called.check_cmd_first()
    }
    fn unpredictable(&self) -> bool {
        self.called.unpredictable()
    }
    fn check<'a>(&'a self, cx: &'a Checking<'a>) -> BoxFuture<'a, Result<Option<Drift>, Fault>> {
        match self.kind == WAIT && cx.forced != Some(Forced::Watch) {
            true => Box::pin(std::future::ready(Ok(None))),
            false => self.called.check(cx),
        }
    }
    fn explain(&self, drift: &Drift, done: bool) -> Explanation {
        self.called.explain(drift, done)
    }
    fn save_before_image(
        &self,
        drift: &mut Drift,
        host: &dyn HostRead,
        blobs: &dyn BlobStore,
    ) -> Result<(), Fault> {
        self.called.save_before_image(drift, host, blobs)
    }
    fn undo_record(&self, drift: &Drift) -> Result<Json, Fault> {
        Ok(self.record(self.called.undo_record(drift)?))
    }
    fn apply<'a>(&'a self, drift: &'a Drift, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
        Box::pin(async move {
            match self.called.apply(drift, cx).await {
                Ok(change) => Ok(Change { undo: change.undo.map(|undo| self.record(undo)), ..change }),
                Err(mut fault) => {
                    fault.undo = fault.undo.map(|undo| Box::new(self.record(*undo)));
                    Err(fault)
                }
            }
        })
    }
    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        self.called.predict(drift, overlay)
    }
    fn guard_setting(&self) -> GuardSetting {
        self.called.guard_setting()
    }
    fn claims(&self) -> Claims {
        self.called.claims()
    }
}

impl Delegate {
    fn record(&self, undo: Json) -> Json {
        json!({ "kind": self.called.kind(), "undo": undo })
    }
}

/// Its parameters are those of another kind, so it is registered by hand.
pub struct ModuleRun;

impl Registered<ModuleRun> for ModuleRun {
    fn entry() -> KindEntry {
        let bind = |params: &[Param], at: Span| bind(KIND, params, at);
        KindEntry {
            kind: KIND,
            bind: Box::new(bind),
            revert: Box::new(revert),
            describe: || describe(KIND, DOC),
            schema,
            about_packages: false,
        }
    }
}

/// The one that waits.
pub struct ModuleWait;

impl Registered<ModuleRun> for ModuleWait {
    fn entry() -> KindEntry {
        let bind = |params: &[Param], at: Span| bind(WAIT, params, at);
        KindEntry {
            kind: WAIT,
            bind: Box::new(bind),
            revert: Box::new(revert),
            describe: || describe(WAIT, WAIT_DOC),
            schema,
            about_packages: false,
        }
    }
}

fn describe(kind: &'static str, doc: &str) -> Kind {
    let name = Parameter {
        name: "name",
        aliases: &[],
        required: false,
        takes: "module".to_string(),
        collects: false,
        text: true,
        doc: "The module to run, with its parameters beside it.".to_string(),
    };
    Kind {
        name: kind,
        summary: doc.lines().next().unwrap_or_default().to_string(),
        doc: doc.to_string(),
        primary: "name",
        primary_required: true,
        instead_of_primary: &[],
        parameters: vec![name],
        open: true,
    }
}

fn schema() -> Json {
    json!({
        "type": "object",
        "description": "Runs another module by its name.",
        "properties": { "name": { "type": "string", "description": "The module to run." } },
    })
}

fn wrong(message: impl Into<String>, at: Span) -> Diagnostic {
    Diagnostic::new(diagnostic::Kind::State, format!("{KIND}: {}", message.into())).at(at)
}

fn bind(as_kind: &'static str, params: &[Param], at: Span) -> Result<Box<dyn Bound>, Vec<Diagnostic>> {
    let dotted: Vec<&Param> = params.iter().filter(|param| param.name.contains('.')).collect();
    let name = params.iter().find(|param| param.name == "name");
    let (kind, place, inner) = match (dotted.as_slice(), name) {
        ([one], name) => (one.name.clone(), one.key, below(one, name)?),
        ([_, second, ..], _) => {
            return Err(vec![wrong("one module at a time; give the others states of their own", second.key)]);
        }
        ([], Some(name)) => {
            let kind = name.value.as_text().unwrap_or_default().to_string();
            (kind, name.value.span, beside(params))
        }
        ([], None) => return Err(vec![wrong("it needs the name of a module", at)]),
    };
    if kind == KIND || kind == WAIT {
        return Err(vec![wrong("it cannot run itself", place)]);
    }
    if !entries().iter().any(|entry| entry.kind == kind) {
        let hint = did_you_mean(&kind, entries().iter().map(|entry| entry.kind));
        return Err(vec![wrong(format!("unknown module `{kind}`"), place).maybe_hint(hint)]);
    }
    let inner = crate::bind(&kind, &inner, place)?;
    Ok(Box::new(Delegate { kind: as_kind, called: inner }))
}

/// The parameters below a dotted key. What is its primary parameter defaults to the state id, which came as
/// `name`.
fn below(call: &Param, id: Option<&Param>) -> Result<Vec<Param>, Vec<Diagnostic>> {
    let pairs: Vec<_> = match (call.value.as_map(), call.value.as_list()) {
        (Some(map), _) => map.iter().collect(),
        (None, Some(list)) => {
            if let Some(item) = list.iter().find(|item| item.as_map().is_none()) {
                let message = format!("parameters are `key: value`, not {}", item.describe());
                return Err(vec![wrong(message, item.span)]);
            }
            list.iter().filter_map(|item| item.as_map()).flatten().collect()
        }
        (None, None) if call.value.is_null() => Vec::new(),
        (None, None) => return Err(vec![wrong("parameters are a map or a list of maps", call.value.span)]),
    };
    let mut params: Vec<Param> = Vec::new();
    for (key, value) in pairs {
        params.push(Param::new(key.as_text().unwrap_or_default(), key.span, value.clone()));
    }
    if let (Some(kind), Some(id)) = (crate::catalog::catalog().get(&call.name), id)
        && !params.iter().any(|param| kind.canonical_name(&param.name) == kind.primary)
    {
        params.push(Param::new(kind.primary, id.key, id.value.clone()));
    }
    Ok(params)
}

/// The parameters beside the module's name.
fn beside(params: &[Param]) -> Vec<Param> {
    let others = params.iter().filter(|param| param.name != "name").cloned();
    let renamed = others.map(|mut param| {
        if param.name == "m_name" {
            param.name = "name".to_string();
        }
        param
    });
    renamed.collect()
}

fn revert<'a>(undo: &'a Json, cx: &'a Reverting<'a>) -> BoxFuture<'a, Result<Change, Fault>> {
    Box::pin(async move {
        let record: Record = read_record(KIND, undo)?;
        if record.kind == KIND || record.kind == WAIT {
            return Err(Fault::new(FaultKind::Unsupported, "a record of module.run names itself"));
        }
        crate::revert(&record.kind, &record.undo, cx).await
    })
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    let case = |params, promise, world: &'static str| {
        Case::new(KIND, params, promise, move |host| furnish(host, world))
    };
    let managed = json!({ "path": "/file", "content": "new" });
    vec![
        case(json!({ "name": "an id", "file.managed": managed }), Promise::Converges, "f /file 0604 old"),
        case(json!({ "name": "file.managed", "path": "/file", "content": "new" }), Promise::Converges, ""),
        case(json!({ "name": "file.touch", "m_name": "/flag" }), Promise::Converges, ""),
        case(json!({ "name": "/flag", "file.touch": null }), Promise::Converges, ""),
        case(json!({ "name": "test.nop" }), Promise::Clean, ""),
        Case::new(WAIT, json!({ "name": "test.succeed_with_changes" }), Promise::Clean, |host| {
            furnish(host, "")
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[tokio::test]
    #[rule("S-20", "S-14")]
    async fn s20_what_waits_runs_when_something_that_it_watches_has_changed() {
        use crate::laws::FewFiles;
        use zester_host::{Query, process::fake::Scripted};
        let (host, processes, cancel) =
            (Overlay::empty(), Scripted::new(), tokio_util::sync::CancellationToken::new());
        let bound =
            crate::laws::bind_json(WAIT, &json!({ "name": "test.succeed_with_changes" })).ok().unwrap();
        for (forced, runs) in [(None, false), (Some(Forced::Prereq), false), (Some(Forced::Watch), true)] {
            let query = Query::through(&processes);
            let cx =
                Checking { host: &host, query, files: &FewFiles, forced, dry_run: false, cancel: &cancel };
            assert_eq!(bound.check(&cx).await.unwrap().is_some(), runs, "{forced:?}");
        }
    }

    #[test]
    #[rule("S-20")]
    fn s20_no_item_below_a_module_is_ignored() {
        let params = json!({ "name": "x", "file.touch": ["makedirs", { "path": "/flag" }] });
        let diagnostics = crate::laws::bind_json(KIND, &params).err().unwrap();
        assert_eq!(
            diagnostics[0].message,
            "module.run: parameters are `key: value`, not the text `makedirs`"
        );
        let params = json!({ "name": "x", "file.touch": [{ "makedirs": true }, { "path": "/flag" }] });
        assert!(crate::laws::bind_json(KIND, &params).is_ok());
    }
}
