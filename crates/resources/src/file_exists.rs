//! `file.exists` and `file.missing`: something has to be there, or nothing.

use crate::action::Action;
use crate::claims::Claims;
use crate::context::{Applying, Checking, Explanation};
use crate::params::{Absolute, params};
use zester_host::{Fault, FaultKind};

/// A path at which something has to be.
#[params(kind = "file.exists", primary = "path", manual = "file_exists.md")]
pub struct Exists {
    /// Where something has to be: a file, a directory, anything that a link leads to.
    path: Absolute,
}

/// A path at which nothing may be.
#[params(kind = "file.missing", primary = "path", manual = "file_missing.md")]
pub struct Missing {
    /// Where nothing may be.
    path: Absolute,
}

impl Action for Exists {
    type Plan = ();
    const UNPREDICTABLE: bool = false;

    async fn plan(&self, cx: &Checking<'_>) -> Result<Option<()>, Fault> {
        match cx.host.stat_followed(&self.path)? {
            Some(_) => Ok(None),
            None => {
                let message = format!("{} does not exist", self.path.display());
                Err(Fault::new(FaultKind::NotFound, message))
            }
        }
    }

    fn describe(&self, (): &(), _: bool) -> Explanation {
        Explanation::default()
    }

    async fn act(&self, (): &(), _: &Applying<'_>) -> Result<Explanation, Fault> {
        Ok(Explanation::default())
    }

    fn claims(&self) -> Claims {
        Claims::default().needs([&*self.path])
    }
}

impl Action for Missing {
    type Plan = ();
    const UNPREDICTABLE: bool = false;

    async fn plan(&self, cx: &Checking<'_>) -> Result<Option<()>, Fault> {
        match cx.host.stat(&self.path)? {
            None => Ok(None),
            Some(_) => {
                let message = format!("{} exists, and nothing may be there", self.path.display());
                Err(Fault::new(FaultKind::InTheWay, message).hint("`file.absent` would remove it"))
            }
        }
    }

    fn describe(&self, (): &(), _: bool) -> Explanation {
        Explanation::default()
    }

    async fn act(&self, (): &(), _: &Applying<'_>) -> Result<Explanation, Fault> {
        Ok(Explanation::default())
    }

    fn claims(&self) -> Claims {
        Claims::default().needs([&*self.path])
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |kind: &'static str, promise, world: &'static str| {
        Case::new(kind, json!({ "path": "/p" }), promise, move |host| furnish(host, world))
    };
    vec![
        case("file.exists", Promise::Clean, "f /p 0644 text"),
        case("file.exists", Promise::Clean, "d /d 0755\nl /p d"),
        case("file.exists", Promise::Fails, ""),
        case("file.exists", Promise::Fails, "l /p nowhere"),
        case("file.missing", Promise::Clean, ""),
        case("file.missing", Promise::Fails, "f /p 0644 text"),
        case("file.missing", Promise::Fails, "l /p nowhere"),
    ]
}
