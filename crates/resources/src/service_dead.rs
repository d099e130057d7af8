//! `service.dead`: a service that does not run.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::resource::{Applying, Change, Checking, Explanation, Invalid, Resource, Reverting};
use crate::service::{self, Drift, How};
use schemars::JsonSchema;
use serde::Deserialize;
use zester_host::Fault;
use zester_host::overlay::Overlay;

/// A service that does not run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dead {
    /// The service, as its manager knows it.
    name: String,
    /// Whether it starts with the machine. Unset: as it is.
    enable: Option<bool>,
    /// `true` does not wait until it has stopped, and does not look whether it did.
    #[serde(default)]
    no_block: bool,
}

impl Resource for Dead {
    const KIND: &'static str = "service.dead";
    const PRIMARY: &'static str = "name";
    const DOC: &'static str = "Stops a service. One that is not there is as dead as any.

With `enable: false` it does not start with the machine either. A revert starts what was stopped, and enables what was
disabled.

```yaml
telnet:
  service.dead:
    - enable: false
```
";
    const UNDOABLE: bool = true;
    const UNPREDICTABLE: bool = true;
    type Drift = Drift;

    fn validate(&self) -> Vec<Invalid> {
        service::refuse_odd_name(&self.name)
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(ManagedItem::Service(self.name.clone()), "dead");
        Claims::of(claim.with("enable", self.enable))
    }

    async fn check(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        let Some(status) = service::look(&self.name, cx).await? else { return Ok(None) };
        let drift = Drift {
            service: self.name.clone(),
            run: Some(false).filter(|_| status.running),
            enable: service::switched(&self.name, self.enable, &status)?,
            refresh: None,
        };
        Ok(Some(drift).filter(|drift| drift.run.is_some() || drift.enable.is_some()))
    }

    fn explain(&self, drift: &Drift, done: bool) -> Explanation {
        drift.explain(done)
    }

    async fn apply(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
        service::apply(drift, How { no_block: self.no_block, ..How::default() }, cx).await
    }

    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        drift.predict(overlay);
        Ok(())
    }

    async fn revert(undo: &Drift, cx: &Reverting<'_>) -> Result<Change, Fault> {
        service::revert(undo, cx).await
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::service::fake_init::fake_init;
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("service.dead", params, promise, move |host| fake_init(host, world))
    };
    vec![
        case(json!({ "name": "web" }), Promise::Clean, "web inactive enabled"),
        case(json!({ "name": "web" }), Promise::Clean, "db active enabled"),
        case(json!({ "name": "web" }), Promise::Converges, "web active enabled"),
        case(json!({ "name": "web", "enable": false }), Promise::Converges, "web active enabled"),
        case(json!({ "name": "web", "enable": false }), Promise::Converges, "web inactive enabled"),
        case(json!({ "name": "web", "enable": true }), Promise::Converges, "web active disabled"),
    ]
}
