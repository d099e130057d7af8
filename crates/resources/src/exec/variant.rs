//! The names under which a command is run, and what each stands for.

use super::{Due, Exec, Provider};
use crate::action::Action;
use crate::claims::Claims;
use crate::context::{Applying, Checking, Explanation, GuardSetting};
use crate::params::{Invalid, Params};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::path::PathBuf;
use zester_host::Fault;
use zester_host::overlay::Overlay;

/// What tells the kinds apart.
pub struct VariantSpec {
    pub(super) kind: &'static str,
    pub(super) doc: &'static str,
    pub(super) provider: Provider,
    pub(super) refresh_only: bool,
    pub(super) script: bool,
}

/// One name.
pub trait ExecVariant: Send + Sync + 'static {
    const SPEC: VariantSpec;
}

macro_rules! exec_variants {
    ($($marker:ident $name:ident: $kind:literal, $doc:literal, $provider:ident, $refresh:literal, $script:literal;)+) => {$(
        pub struct $marker;

        impl ExecVariant for $marker {
            const SPEC: VariantSpec = VariantSpec {
                kind: $kind,
                doc: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/manual/", $doc)),
                provider: Provider::$provider,
                refresh_only: $refresh,
                script: $script,
            };
        }

        pub type $name = ExecAs<$marker>;
    )+};
}

exec_variants! {
    Posix ExecRun: "exec.run", "exec_run.md", Posix, false, false;
    Shell CmdRun: "cmd.run", "cmd_run.md", Shell, false, false;
    Waiting CmdWait: "cmd.wait", "cmd_wait.md", Shell, true, false;
    Scripted CmdScript: "cmd.script", "cmd_script.md", Posix, false, true;
}

/// A command under one of its names.
pub struct ExecAs<F>(Exec, PhantomData<F>);

impl<'de, F: ExecVariant> Deserialize<'de> for ExecAs<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Exec::deserialize(deserializer).map(|exec| ExecAs(exec, PhantomData))
    }
}

impl<F: ExecVariant> JsonSchema for ExecAs<F> {
    fn schema_name() -> Cow<'static, str> {
        F::SPEC.kind.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Exec::json_schema(generator);
        let properties = schema.get_mut("properties").and_then(|properties| properties.as_object_mut());
        if let Some(properties) = properties {
            let others: &[&str] =
                if F::SPEC.script { &["provider"] } else { &["source", "template", "context"] };
            others.iter().for_each(|name| drop(properties.shift_remove(*name)));
        }
        schema
    }
}

impl<F: ExecVariant> Params for ExecAs<F> {
    const KIND: &'static str = F::SPEC.kind;
    const PRIMARY: &'static str = Exec::PRIMARY;
    const INSTEAD_OF_PRIMARY: &'static [&'static str] = Exec::INSTEAD_OF_PRIMARY;
    const DOC: &'static str = F::SPEC.doc;
    const ALIASES: &'static [(&'static str, &'static [&'static str])] = Exec::ALIASES;
    const LISTS: &'static [&'static str] = Exec::LISTS;
    const LINES: &'static [&'static str] = Exec::LINES;
    const SECRETS: &'static [&'static str] = Exec::SECRETS;

    fn spelled(&mut self, word: &str) {
        self.0.spelled(word);
    }
}

impl<F: ExecVariant> Action for ExecAs<F> {
    type Plan = Due;

    fn claims(&self) -> Claims {
        let script = F::SPEC.script.then(|| PathBuf::from(self.0.script_source()));
        let needs: Vec<PathBuf> = self.0.creates().chain(script).collect();
        Claims::default()
            .accounts(self.0.runas.as_deref(), None)
            .works_in(self.0.cwd.as_ref().map(|cwd| cwd.0.as_path()))
            .needs(needs.iter().map(PathBuf::as_path))
    }

    fn validate(&self) -> Vec<Invalid> {
        self.0.validate(&F::SPEC)
    }

    async fn plan(&self, cx: &Checking<'_>) -> Result<Option<Due>, Fault> {
        self.0.decide(cx, &F::SPEC).await
    }

    fn describe(&self, due: &Due, done: bool) -> Explanation {
        self.0.describe(due, done)
    }

    async fn act(&self, due: &Due, cx: &Applying<'_>) -> Result<Explanation, Fault> {
        self.0.act(due, cx, &F::SPEC).await
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.0.predict(overlay)
    }

    fn guard_setting(&self) -> GuardSetting {
        self.0.guard_setting()
    }
}
