//! A small machine that functions are tried on.

use super::{Arguments, CallContext, find};
use serde_json::{Map, Value as Json, json};
use std::path::Path;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use zester_host::overlay::Overlay;
use zester_host::process::fake::Scripted;
use zester_host::{HostRead, HostWrite, NewFile, Owner};

pub(super) struct TestHost {
    host: Overlay,
    pub(super) processes: Scripted,
    pub(super) facts: Json,
    pub(super) settings: Json,
}

impl TestHost {
    /// With these files, and the directories that they are in.
    pub(super) fn with(files: &[(&str, &str)]) -> TestHost {
        let (host, owner) = (Overlay::empty(), Owner { uid: 0, gid: 0 });
        for (path, text) in files {
            let above: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
            for directory in above.into_iter().rev() {
                if host.stat(directory).unwrap().is_none() {
                    host.make_directory(directory, 0o755, owner).unwrap();
                }
            }
            host.put_file(path.as_ref(), &NewFile { content: text.as_bytes(), mode: 0o644, owner }).unwrap();
        }
        TestHost { host, processes: Scripted::new(), facts: json!({}), settings: json!({}) }
    }

    pub(super) fn link(&self, path: &str, target: &str) {
        self.host.put_link(path.as_ref(), target.as_ref(), Owner { uid: 0, gid: 0 }).unwrap();
    }

    /// Calls a function with words as they are typed.
    pub(super) fn call(&self, function: &str, words: &[&str]) -> Result<Json, String> {
        let function = find(function).unwrap_or_else(|| panic!("there is no {function}"));
        let mut arguments = Arguments { positional: Vec::new(), named: Map::new() };
        let read = |text: &str, is_text: bool| match is_text {
            true => json!(text),
            false => serde_json::from_str(text).unwrap_or(json!(text)),
        };
        for word in words {
            let named = word.split_once('=').and_then(|(key, value)| {
                let takes = function.takes.iter().find(|takes| takes.name == key)?;
                Some((key, read(value, takes.text)))
            });
            match named {
                Some((key, value)) => drop(arguments.named.insert(key.to_string(), value)),
                None => {
                    let takes = function.takes.get(arguments.positional.len());
                    arguments.positional.push(read(word, takes.is_none_or(|takes| takes.text)));
                }
            }
        }
        let (cancel, handle) = (CancellationToken::new(), Handle::current());
        let place = CallContext {
            host: &self.host,
            processes: &self.processes,
            handle: &handle,
            facts: &self.facts,
            settings: &self.settings,
            origins: &[],
            cancel: &cancel,
            cut_output: true,
        };
        tokio::task::block_in_place(|| function.answer(&place, &arguments))
    }
}
