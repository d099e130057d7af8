//! What a managed file is to hold.

use super::Managed;
use crate::context::Checking;
use std::path::Path;
use zester_host::{Fault, FaultKind};
use zester_model::limits::FILE_BYTES_MAX;
use zester_model::outcome::Details;
use zester_secret::Revealed;

impl Managed {
    /// `None`: the state says nothing about the content.
    pub(super) fn wanted_content(&self, cx: &Checking<'_>) -> Result<Option<Revealed>, Fault> {
        let Some((name, mut content)) = self.raw_content(cx)? else { return Ok(None) };
        if self.template.is_some() {
            content = self.rendered(cx, &name, content)?;
        }
        self.end(&mut content);
        if content.is_empty() && !self.allow_empty {
            let message = format!("the content for {} is empty", self.path.display());
            return Err(
                Fault::new(FaultKind::Unsupported, message).hint("`allow_empty: true` would write it")
            );
        }
        // The bytes of a file are as they are; a text may hold a placeholder.
        let is_text = self.source.is_empty() || self.template.is_some();
        let content = if is_text { cx.files.reveal(content)? } else { content.into() };
        Ok(Some(content))
    }

    /// The line end at its end (S-47): there, left out, or as it comes. What comes from a file, or is written `content`,
    /// stays as it is unless the state asks.
    fn line_end(&self) -> Option<bool> {
        let as_in_salt = self.as_in_salt || self.contents_pillar.is_some();
        match self.contents_newline.unwrap_or(as_in_salt) {
            true => Some(true),
            false => as_in_salt.then_some(false),
        }
    }

    fn end(&self, content: &mut Vec<u8>) {
        match self.line_end() {
            Some(true) if !content.is_empty() && !content.ends_with(b"\n") => content.push(b'\n'),
            Some(false) => {
                while content.ends_with(b"\n") {
                    content.pop();
                }
            }
            _ => {}
        }
    }

    /// What decides about the content, as far as the state alone can tell: two of them that are equal make one file.
    pub(super) fn intended_content(&self) -> Option<impl std::hash::Hash> {
        let given = self.content.is_some() || !self.source.is_empty() || self.contents_pillar.is_some();
        let mut written = self.content.clone().map(String::into_bytes);
        let mut end = self.line_end();
        if let Some(written) = written.as_mut().filter(|_| self.template.is_none()) {
            self.end(written);
            end = None;
        }
        given.then_some((
            (written, &self.source, &self.contents_pillar, end),
            (&self.template, &self.context, &self.defaults),
        ))
    }

    /// The content before any rendering, and what to call it in a template's error.
    fn raw_content(&self, cx: &Checking<'_>) -> Result<Option<(String, Vec<u8>)>, Fault> {
        if let Some(content) = &self.content {
            return Ok(Some((self.path.display().to_string(), content.clone().into_bytes())));
        }
        if let Some(key) = &self.contents_pillar {
            let content = setting_text(cx, key)?;
            return Ok(Some((format!("setting {key}"), content.into_bytes())));
        }
        let mut missing: Option<Fault> = None;
        for source in &self.source {
            let path = source.strip_prefix("file://").unwrap_or(source);
            let local = path.starts_with('/');
            let read = match local {
                true => cx.host.read(Path::new(path), FILE_BYTES_MAX),
                false => cx.files.read(source),
            };
            match read {
                Ok(content) => return Ok(Some((source.clone(), content))),
                Err(fault) if fault.kind == FaultKind::NotFound => {
                    // What is missing on this machine may come; what is missing among the states does not.
                    let kind = if local { FaultKind::NotFound } else { FaultKind::Unsupported };
                    missing = Some(Fault { kind, ..fault });
                }
                Err(fault) => return Err(fault),
            }
        }
        missing.map_or(Ok(None), Err)
    }

    fn rendered(&self, cx: &Checking<'_>, name: &str, content: Vec<u8>) -> Result<Vec<u8>, Fault> {
        let text = String::from_utf8(content)
            .map_err(|_| Fault::new(FaultKind::Unsupported, format!("the template {name} is not UTF-8")))?;
        let mut context: Details = self.defaults.clone();
        context.extend(self.context.clone());
        Ok(cx.files.render(name, &text, &context)?.into_bytes())
    }
}

fn setting_text(cx: &Checking<'_>, key: &str) -> Result<String, Fault> {
    use serde_json::Value as Json;
    match cx.files.setting(key) {
        Some(Json::String(text)) => Ok(text),
        Some(Json::Number(number)) => Ok(number.to_string()),
        Some(Json::Array(lines)) if lines.iter().all(Json::is_string) => {
            Ok(lines.iter().filter_map(Json::as_str).flat_map(|line| [line, "\n"]).collect())
        }
        Some(_) => Err(Fault::new(FaultKind::Unsupported, format!("the setting `{key}` is not a text"))),
        None => Err(Fault::new(FaultKind::Unsupported, format!("there is no setting `{key}`"))),
    }
}
