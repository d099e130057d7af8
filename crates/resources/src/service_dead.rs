//! `service.dead`: a service that does not run.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::service::{self, How, ServiceState};
use zester_host::Fault;

/// A service that does not run.
#[params(kind = "service.dead", primary = "name", manual = "service_dead.md")]
pub struct Dead {
    /// The service, as its manager knows it.
    name: String,
    /// Whether it starts with the machine. Unset: as it is.
    enable: Option<bool>,
    /// `true` does not wait until it has stopped, and does not look whether it did.
    #[param(default)]
    no_block: bool,
}

impl Resource for Dead {
    type State = ServiceState;
    const UNPREDICTABLE: bool = true;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &ServiceState, _: &Checking<'_>) -> Result<Want<ServiceState>, Fault> {
        if !now.known {
            return Ok(Want::Same);
        }
        let enabled = now.enabling(&self.name, self.enable)?;
        Ok(Want::Be(ServiceState { running: false, enabled, ..now.clone() }))
    }

    fn how(&self) -> How {
        How { no_block: self.no_block, ..How::default() }
    }

    fn validate(&self) -> Vec<Invalid> {
        service::refuse_odd_name(&self.name)
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(ManagedItem::Service(self.name.clone()), "dead");
        Claims::of(claim.with("enable", self.enable))
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
