//! `service.masked`, `service.unmasked`: whether anything can start a service.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::service::{self, ServiceState};
use zester_host::Fault;

/// A service that nothing and nobody can start.
#[params(kind = "service.masked", primary = "name", manual = "service_masked.md")]
pub struct Masked {
    /// The service, as systemd knows it.
    name: String,
}

/// A service that can be started.
#[params(kind = "service.unmasked", primary = "name", manual = "service_unmasked.md")]
pub struct Unmasked {
    /// The service, as systemd knows it.
    name: String,
}

fn claims(name: &str, masked: bool) -> Claims {
    // It says nothing about whether the service runs: another state may.
    Claims::of(Claim::about(ManagedItem::Service(name.to_string())).with("mask", Some(masked)))
}

/// What is masked says no longer whether it would start with the machine; unmasked, it does not.
fn masking(now: &ServiceState, masked: bool) -> Want<ServiceState> {
    if now.masked == masked {
        return Want::Same;
    }
    Want::Be(ServiceState { masked, ..now.clone() })
}

impl Resource for Masked {
    type State = ServiceState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &ServiceState, cx: &Checking<'_>) -> Result<Want<ServiceState>, Fault> {
        if !now.known {
            return Err(service::missing(&self.name, cx.host));
        }
        Ok(masking(now, true))
    }

    fn validate(&self) -> Vec<Invalid> {
        service::refuse_odd_name(&self.name)
    }

    fn claims(&self) -> Claims {
        claims(&self.name, true)
    }
}

impl Resource for Unmasked {
    type State = ServiceState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &ServiceState, _: &Checking<'_>) -> Result<Want<ServiceState>, Fault> {
        Ok(masking(now, false))
    }

    fn validate(&self) -> Vec<Invalid> {
        service::refuse_odd_name(&self.name)
    }

    fn claims(&self) -> Claims {
        claims(&self.name, false)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::service::fake_init::fake_init;
    use serde_json::json;
    let case = |kind, promise, world: &'static str| {
        Case::new(kind, json!({ "name": "web" }), promise, move |host| fake_init(host, world))
    };
    vec![
        case("service.masked", Promise::Converges, "web inactive disabled"),
        case("service.masked", Promise::Clean, "web inactive masked"),
        case("service.masked", Promise::Fails, "db active enabled"),
        case("service.unmasked", Promise::Clean, "web active disabled"),
        case("service.unmasked", Promise::Clean, "db active enabled"),
        case("service.unmasked", Promise::Converges, "web inactive masked"),
    ]
}
