//! `cron.file`: the whole crontab of a user.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::crontab::{Crontab, claims_of};
use crate::params::{Invalid, outside_states, params};
use crate::resource::{Resource, Want};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use zester_host::{Fault, FaultKind};
use zester_model::outcome::Details;

/// The whole crontab of a user.
#[params(kind = "cron.file", primary = "name", manual = "cron_file.md")]
pub struct File {
    /// The file that is to be the crontab, below the states directory or of this machine.
    #[param(alias = "source")]
    name: String,
    /// Whose crontab.
    #[param(default = "root".to_string())]
    user: String,
    /// `jinja` renders it first.
    template: Option<String>,
    /// Values for the template.
    #[param(default)]
    context: BTreeMap<String, Json>,
    /// Values for the template where `context` has none.
    #[param(default)]
    defaults: BTreeMap<String, Json>,
    /// `false` leaves a crontab alone that is there already. Default: true.
    #[param(default = true)]
    replace: bool,
}

impl Resource for File {
    type State = Crontab;

    fn key(&self) -> String {
        self.user.clone()
    }

    async fn desired(&self, now: &Crontab, cx: &Checking<'_>) -> Result<Want<Crontab>, Fault> {
        if now.text.is_some() && !self.replace {
            return Ok(Want::Same);
        }
        let content = cx.files.read(&self.name)?;
        let text = String::from_utf8(content)
            .map_err(|_| Fault::new(FaultKind::Unsupported, format!("{} is not UTF-8 text", self.name)))?;
        let mut text = match self.template {
            Some(_) => {
                let context: Details = self
                    .defaults
                    .iter()
                    .chain(&self.context)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                cx.files.render(&self.name, &text, &context)?
            }
            None => text,
        };
        // Cron does not read a last line that does not end.
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(Want::Be(Crontab { text: Some(text) }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = crate::accounts::odd_names("user", [&self.user]);
        invalid.extend(outside_states(&self.name).map(|why| Invalid::new("name", why)));
        if let Some(other) = self.template.as_ref().filter(|engine| *engine != "jinja") {
            invalid.push(Invalid::new("template", format!("`{other}` is no template engine; write `jinja`")));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let item = ManagedItem::Named("crontab of", self.user.clone());
        claims_of(Claims::of(Claim::new(item, "a file").with("name", Some(&self.name))), &self.user)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::crontab::fake_crontab::{SPOOL, fake_crontab};
    use crate::laws::{Case, Promise};
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("cron.file", params, promise, move |host| fake_crontab(host, world)).with_books(&[SPOOL])
    };
    vec![
        case(json!({ "name": "salt://run.sh" }), Promise::Converges, ""),
        case(json!({ "name": "salt://run.sh" }), Promise::Converges, "1 * * * * own\n"),
        case(json!({ "name": "salt://run.sh" }), Promise::Clean, "#!/bin/sh\ntrue\n"),
        case(json!({ "name": "salt://run.sh", "replace": false }), Promise::Clean, "1 * * * * own\n"),
        case(json!({ "name": "salt://none" }), Promise::Fails, ""),
    ]
}
