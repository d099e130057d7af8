//! The names under which a command is run, and what each stands for.

use super::{Drift, Exec, Provider};
use crate::claims::Claims;
use crate::resource::{Applying, Change, Checking, Explanation, GuardSetting, Invalid, Resource, Reverting};
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
                doc: include_str!($doc),
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

impl<F: ExecVariant> Resource for ExecAs<F> {
    const KIND: &'static str = F::SPEC.kind;
    const PRIMARY: &'static str = "command";
    const DOC: &'static str = F::SPEC.doc;
    const UNDOABLE: bool = false;
    const UNPREDICTABLE: bool = true;
    const ALIASES: &'static [(&'static str, &'static [&'static str])] = &[
        ("environment", &["env"]),
        ("refresh_only", &["refreshonly"]),
        ("returns", &["success_retcodes"]),
        ("runas", &["user"]),
    ];
    const LISTS: &'static [&'static str] = &["args", "returns", "creates"];
    const SECRETS: &'static [&'static str] = &["environment", "stdin", "context"];
    type Drift = Drift;

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

    async fn check(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        self.0.decide(cx, &F::SPEC).await
    }

    fn explain(&self, drift: &Drift, done: bool) -> Explanation {
        self.0.explain(drift, done)
    }

    async fn apply(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
        self.0.apply(drift, cx, &F::SPEC).await
    }

    fn predict(&self, _: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        self.0.predict(overlay)
    }

    async fn revert(_: &Drift, _: &Reverting<'_>) -> Result<Change, Fault> {
        // What a command did is not known, so it cannot be undone (S-31).
        Ok(Change::default())
    }

    fn guard_setting(&self) -> GuardSetting {
        self.0.guard_setting()
    }
}
