//! What a managed file is to hold.

use super::{Encoding, Managed};
use crate::context::Checking;
use crate::params::{FileMode, Mode};
use crate::source;
use serde_json::Value as Json;
use std::path::Path;
use zester_host::{Fault, FaultKind};
use zester_secret::Revealed;

impl Managed {
    /// `None`: the state says nothing about the content.
    pub(super) fn wanted_content(
        &self,
        cx: &Checking<'_>,
        old: Option<&[u8]>,
    ) -> Result<Option<Revealed>, Fault> {
        if let ([source], Some(old)) = (&self.source[..], old)
            && self.source_hash().wanted(cx, source)?.is_some_and(|wanted| wanted.fits(old))
        {
            return Ok(None);
        }
        let Some((name, mut content)) = self.raw_content(cx)? else { return Ok(None) };
        if self.template.is_some() {
            content = source::rendered(cx, &name, content, &self.defaults, &self.context)?.into_bytes();
        }
        self.end(&mut content);
        content = self.encoded(content)?;
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

    /// Whether what is there can be told from what is wanted by its digest alone, so that nothing has to be fetched.
    pub(super) fn compares_first(&self) -> bool {
        let remote = matches!(&self.source[..], [source] if source::is_remote(source));
        remote && self.source_hash.is_some() && self.template.is_none() && self.contents_newline.is_none()
    }

    /// The permissions that the state says, or those of its source.
    pub(super) fn wanted_mode(&self, cx: &Checking<'_>) -> Result<Option<Mode>, Fault> {
        match self.mode {
            None => return Ok(None),
            Some(FileMode::Bits(mode)) => return Ok(Some(mode)),
            Some(FileMode::Keep) => {}
        }
        let mut missing = None;
        for source in &self.source {
            let path = source::local_name(source);
            let mode = match path.starts_with('/') {
                true => cx.host.stat_followed(Path::new(path))?.map(|meta| meta.mode),
                false => match cx.files.mode(source) {
                    Ok(mode) => Some(mode),
                    Err(fault) if fault.kind == FaultKind::NotFound => None,
                    Err(fault) => return Err(fault),
                },
            };
            match mode {
                Some(mode) => return Ok(Some(Mode(mode))),
                None => missing = Some(source),
            }
        }
        let message = format!("there is no {}", missing.map_or("source", String::as_str));
        Err(Fault::new(FaultKind::NotFound, message))
    }

    fn encoded(&self, content: Vec<u8>) -> Result<Vec<u8>, Fault> {
        let most = match self.encoding {
            None | Some(Encoding::Utf8) => return Ok(content),
            Some(Encoding::Ascii) => 0x7f,
            Some(Encoding::Latin1) => 0xff,
        };
        let path = self.path.display();
        let text = String::from_utf8(content).map_err(|_| {
            Fault::new(FaultKind::Unsupported, format!("the content for {path} is not UTF-8"))
        })?;
        text.chars()
            .map(|char| u8::try_from(u32::from(char)).ok().filter(|byte| *byte <= most).ok_or(char))
            .collect::<Result<Vec<u8>, char>>()
            .map_err(|char| {
                let message = format!("the content for {path} holds `{char}`, which this `encoding` has not");
                Fault::new(FaultKind::Unsupported, message)
            })
    }

    /// The line end at its end (S-47): there, left out, or as it comes. What comes from a file, or is written `content`,
    /// stays as it is unless the state asks.
    fn line_end(&self) -> Option<bool> {
        let from_data = self.contents_pillar.is_some() || self.contents_grains.is_some();
        let as_in_salt = self.as_in_salt || from_data;
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
        let given = self.content.is_some()
            || !self.source.is_empty()
            || self.contents_pillar.is_some()
            || self.contents_grains.is_some();
        let mut written = self.content.clone().map(String::into_bytes);
        let mut end = self.line_end();
        if let Some(written) = written.as_mut().filter(|_| self.template.is_none()) {
            self.end(written);
            end = None;
        }
        given.then_some((
            (written, &self.source, &self.contents_pillar, &self.contents_grains, end),
            (&self.source_hash, self.encoding),
            (&self.template, &self.context, &self.defaults),
        ))
    }

    /// The content before any rendering, and what to call it in a template's error.
    fn raw_content(&self, cx: &Checking<'_>) -> Result<Option<(String, Vec<u8>)>, Fault> {
        if let Some(content) = &self.content {
            return Ok(Some((self.path.display().to_string(), content.clone().into_bytes())));
        }
        if let Some(key) = &self.contents_pillar {
            let content = text_of("setting", key, cx.files.setting(key))?;
            return Ok(Some((format!("setting {key}"), content.into_bytes())));
        }
        if let Some(key) = &self.contents_grains {
            let content = text_of("fact", key, cx.files.fact(key))?;
            return Ok(Some((format!("fact {key}"), content.into_bytes())));
        }
        let Some((source, content)) = source::first(cx, &self.source)? else { return Ok(None) };
        let hash = self.source_hash();
        hash.verify(hash.wanted(cx, source)?.as_ref(), source, &content)?;
        Ok(Some((source.to_string(), content)))
    }
}

fn text_of(what: &str, key: &str, value: Option<Json>) -> Result<String, Fault> {
    match value {
        Some(Json::String(text)) => Ok(text),
        Some(Json::Number(number)) => Ok(number.to_string()),
        Some(Json::Array(lines)) if lines.iter().all(Json::is_string) => {
            Ok(lines.iter().filter_map(Json::as_str).flat_map(|line| [line, "\n"]).collect())
        }
        Some(_) => Err(Fault::new(FaultKind::Unsupported, format!("the {what} `{key}` is not a text"))),
        None => Err(Fault::new(FaultKind::Unsupported, format!("there is no {what} `{key}`"))),
    }
}
