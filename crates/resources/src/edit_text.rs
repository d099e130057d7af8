//! The text that an edit brings: written in the state, or taken from files.

use crate::claims::Claims;
use crate::context::Checking;
use crate::params::{Invalid, Template};
use crate::source;
use std::path::Path;
use zester_host::Fault;
use zester_model::outcome::Details;

/// Where it comes from.
pub(crate) struct EditText<'a> {
    pub(crate) texts: &'a [String],
    /// As in Salt, these are templates unless something else is said.
    pub(crate) sources: &'a [String],
    pub(crate) template: Option<Template>,
    pub(crate) context: &'a Details,
    pub(crate) defaults: &'a Details,
}

impl EditText<'_> {
    /// The texts one by one, those of files last.
    pub(crate) fn read(&self, cx: &Checking<'_>) -> Result<Vec<String>, Fault> {
        let mut texts = self.texts.to_vec();
        for name in self.sources {
            let content = source::read(cx, name)?;
            texts.push(match self.template {
                None | Some(Template::Jinja) => {
                    source::rendered(cx, name, content, self.defaults, self.context)?
                }
            });
        }
        Ok(texts)
    }

    pub(crate) fn invalid(&self) -> Vec<Invalid> {
        self.sources.iter().filter_map(|name| source::invalid(name, source::Remote::Refused)).collect()
    }

    pub(crate) fn needs(&self) -> Claims {
        Claims::default().needs(self.sources.iter().map(|name| Path::new(source::local_name(name))))
    }
}
