//! The names under which a command is run, and what each stands for.

use super::{Drift, Exec, Provider};
use crate::claims::Claims;
use crate::resource::{Applying, Change, Checking, Explanation, GuardSetting, Invalid, Resource, Reverting};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::marker::PhantomData;
use zester_host::Fault;
use zester_host::overlay::Overlay;

/// What tells the kinds apart.
pub struct Traits {
    pub(super) kind: &'static str,
    pub(super) doc: &'static str,
    pub(super) provider: Provider,
    pub(super) refresh_only: bool,
    pub(super) script: bool,
}

/// One name.
pub trait Flavour: Send + Sync + 'static {
    const TRAITS: Traits;
}

macro_rules! flavours {
    ($($marker:ident $name:ident: $kind:literal, $doc:literal, $provider:ident, $refresh:literal, $script:literal;)+) => {$(
        pub struct $marker;

        impl Flavour for $marker {
            const TRAITS: Traits = Traits {
                kind: $kind,
                doc: include_str!($doc),
                provider: Provider::$provider,
                refresh_only: $refresh,
                script: $script,
            };
        }

        pub type $name = Flavoured<$marker>;
    )+};
}

flavours! {
    Posix ExecRun: "exec.run", "exec_run.md", Posix, false, false;
    Shell CmdRun: "cmd.run", "cmd_run.md", Shell, false, false;
    Waiting CmdWait: "cmd.wait", "cmd_wait.md", Shell, true, false;
    Scripted CmdScript: "cmd.script", "cmd_script.md", Posix, false, true;
}

/// A command under one of its names.
pub struct Flavoured<F>(Exec, PhantomData<F>);

impl<'de, F: Flavour> Deserialize<'de> for Flavoured<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Exec::deserialize(deserializer).map(|exec| Flavoured(exec, PhantomData))
    }
}

impl<F: Flavour> JsonSchema for Flavoured<F> {
    fn schema_name() -> Cow<'static, str> {
        F::TRAITS.kind.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Exec::json_schema(generator);
        let properties = schema.get_mut("properties").and_then(|properties| properties.as_object_mut());
        if let Some(properties) = properties {
            let others: &[&str] =
                if F::TRAITS.script { &["provider"] } else { &["source", "template", "context"] };
            others.iter().for_each(|name| drop(properties.shift_remove(*name)));
        }
        schema
    }
}

impl<F: Flavour> Resource for Flavoured<F> {
    const KIND: &'static str = F::TRAITS.kind;
    const PRIMARY: &'static str = "command";
    const DOC: &'static str = F::TRAITS.doc;
    const UNDOABLE: bool = false;
    const UNFORESEEN: bool = true;
    const ALIASES: &'static [(&'static str, &'static [&'static str])] = &[
        ("environment", &["env"]),
        ("refresh_only", &["refreshonly"]),
        ("returns", &["success_retcodes"]),
        ("runas", &["user"]),
    ];
    const LISTS: &'static [&'static str] = &["args", "returns", "creates"];
    type Drift = Drift;

    fn claims(&self) -> Claims {
        Claims::default().accounts(self.0.runas.as_deref(), None)
    }

    fn validate(&self) -> Vec<Invalid> {
        self.0.validate(&F::TRAITS)
    }

    async fn check(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        self.0.decide(cx, &F::TRAITS).await
    }

    fn explain(&self, drift: &Drift, done: bool) -> Explanation {
        self.0.explain(drift, done)
    }

    async fn apply(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
        self.0.apply(drift, cx, &F::TRAITS).await
    }

    fn foresee(&self, _: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        self.0.foresee(overlay)
    }

    async fn revert(_: &Drift, _: &Reverting<'_>) -> Result<Change, Fault> {
        // What a command did is not known, so it cannot be undone (S-31).
        Ok(Change::default())
    }

    fn guard_setting(&self) -> GuardSetting {
        self.0.guard_setting()
    }
}
