//! `service.enabled`, `service.disabled`: whether a service starts with the machine, and nothing else.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::resource::{Applying, Change, Checking, Explanation, Invalid, Resource, Reverting};
use crate::service::{self, Drift, How};
use schemars::JsonSchema;
use serde::Deserialize;
use zester_host::Fault;
use zester_host::overlay::Overlay;

/// Both kinds are one, with another wish.
macro_rules! at_start {
    ($type:ident, $kind:literal, $wanted:literal, $is:literal, $doc:literal) => {
        #[doc = $is]
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $type {
            /// The service, as its manager knows it.
            name: String,
        }

        impl Resource for $type {
            const KIND: &'static str = $kind;
            const PRIMARY: &'static str = "name";
            const DOC: &'static str = concat!($doc, "\n\n```yaml\nnginx:\n  ", $kind, ": []\n```\n");
            const UNDOABLE: bool = true;
            type Drift = Drift;

            fn validate(&self) -> Vec<Invalid> {
                service::refuse_odd_name(&self.name)
            }

            fn claims(&self) -> Claims {
                // It says nothing about whether the service runs: another state may.
                let item = ManagedItem::Service(self.name.clone());
                Claims::of(Claim::about(item).with("enable", Some($wanted)))
            }

            async fn check(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
                let Some(status) = service::look(&self.name, cx).await? else {
                    // What is not there does not start.
                    return if $wanted { Err(service::missing(&self.name, cx.host)) } else { Ok(None) };
                };
                let enable = service::switched(&self.name, Some($wanted), &status)?;
                let service = self.name.clone();
                Ok(enable.map(|enable| Drift { service, run: None, enable: Some(enable), refresh: None }))
            }

            fn explain(&self, drift: &Drift, done: bool) -> Explanation {
                drift.explain(done)
            }

            async fn apply(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
                service::apply(drift, How::default(), cx).await
            }

            fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
                drift.predict(overlay);
                Ok(())
            }

            async fn revert(undo: &Drift, cx: &Reverting<'_>) -> Result<Change, Fault> {
                service::revert(undo, cx).await
            }
        }
    };
}

at_start!(
    Enabled,
    "service.enabled",
    true,
    "A service that starts with the machine.",
    "Lets a service start with the machine. Whether it runs now is not its business."
);
at_start!(
    Disabled,
    "service.disabled",
    false,
    "A service that does not start with the machine.",
    "Keeps a service from starting with the machine. Whether it runs now is not its business."
);

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::service::fake_init::fake_init;
    use serde_json::json;
    let case = |kind, promise, world: &'static str| {
        Case::new(kind, json!({ "name": "web" }), promise, move |host| fake_init(host, world))
    };
    vec![
        case("service.enabled", Promise::Clean, "web inactive enabled"),
        case("service.enabled", Promise::Converges, "web active disabled"),
        case("service.enabled", Promise::Fails, "web active static"),
        case("service.enabled", Promise::Fails, "db active enabled"),
        case("service.disabled", Promise::Clean, "web active disabled"),
        case("service.disabled", Promise::Clean, "web active static"),
        case("service.disabled", Promise::Clean, "db active enabled"),
        case("service.disabled", Promise::Converges, "web active enabled"),
    ]
}
