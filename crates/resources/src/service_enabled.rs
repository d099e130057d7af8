//! `service.enabled`, `service.disabled`: whether a service starts with the machine, and nothing else.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::service::{self, ServiceState};
use zester_host::Fault;

/// Both kinds are one, with another wish.
macro_rules! at_start {
    ($type:ident, $kind:literal, $wanted:literal, $is:literal, $doc:literal) => {
        #[doc = $is]
        #[params(kind = $kind, primary = "name", doc = concat!($doc, "\n\n```yaml\nnginx:\n  ", $kind, ": []\n```\n"))]
        pub struct $type {
            /// The service, as its manager knows it.
            name: String,
        }

        impl Resource for $type {
            type State = ServiceState;

            fn key(&self) -> String {
                self.name.clone()
            }

            async fn desired(
                &self,
                now: &ServiceState,
                cx: &Checking<'_>,
            ) -> Result<Want<ServiceState>, Fault> {
                if !now.known {
                    // What is not there does not start.
                    return if $wanted { Err(service::missing(&self.name, cx.host)) } else { Ok(Want::Same) };
                }
                let enabled = now.enabling(&self.name, Some($wanted))?;
                Ok(Want::Be(ServiceState { enabled, ..now.clone() }))
            }

            fn validate(&self) -> Vec<Invalid> {
                service::refuse_odd_name(&self.name)
            }

            fn claims(&self) -> Claims {
                // It says nothing about whether the service runs: another state may.
                let item = ManagedItem::Service(self.name.clone());
                Claims::of(Claim::about(item).with("enable", Some($wanted)))
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
