//! `zester event`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::watching::client_failure;
use crate::output::{event_text, reader_is_gone, to_stdout};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use zester_client::{Client, SeenEvent};
use zester_converge::raw_arguments::{RawArguments, lettered_value};
use zester_model::target::glob::Glob;
use zester_wire::Tag;

/// Send events to the reactor, and watch them
///
/// Every event has a key, `ORIGIN/TAG`: the origin is the peel that sent it, `_master`, or `_admin` for what is sent here. The
/// rules of the reactor are globs over keys.
#[derive(clap::Args, Debug)]
pub struct Event {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Send an event, and wait until it is kept
    ///
    /// It comes from `_admin`: `event send deploy/done` has the key `_admin/deploy/done`. Values are read as YAML: `n=5` is a
    /// number, `n='"5"'` a text, and so is whatever would lose letters: `version=1.10`, `007`, `yes`.
    #[command(after_help = SEND_EXAMPLES)]
    Send {
        /// The tag: names of letters, digits, `_` and `-`, with slashes between
        #[arg(value_name = "TAG")]
        tag: String,
        /// The data, key by key
        #[arg(value_name = "k=v")]
        words: Vec<String>,
        /// The data as one JSON object; keys given as words lie over it
        #[arg(long, value_name = "JSON")]
        data: Option<String>,
        #[command(flatten)]
        connect: Connect,
    },
    /// Show events as they come, until Ctrl-C
    ///
    /// In JSON: one object a line, with the keys ts, key, origin, tag, id, depth and data.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch {
        /// Only events whose key matches this glob; `*` crosses slashes
        #[arg(value_name = "GLOB", default_value = "*")]
        glob: String,
        /// Begin with what was kept in the last so long: 10m, 1h, 7d
        #[arg(long, value_name = "DURATION", value_parser = zester_model::duration::parse)]
        since: Option<Duration>,
        #[command(flatten)]
        connect: Connect,
    },
}

const SEND_EXAMPLES: &str = "Examples:
  zester event send deploy/done version=1.4.2 hosts='[web-01, web-02]'
  zester event send test --data '{\"service\": \"nginx\", \"running\": false}'";

const WATCH_EXAMPLES: &str = "Examples:
  zester event watch                          everything from now on
  zester event watch '*/beacon/*' --since 1h  what beacons told in the last hour, and tell
  zester event watch '_master/job/*' --format json";

pub fn run(args: Event, app: &mut App) -> answer::Result {
    let app = &*app;
    app.block_on(async move {
        let (Verb::Send { connect, .. } | Verb::Watch { connect, .. }) = &args.verb;
        // Before anybody is asked.
        let asked = read(&args.verb)?;
        let client = connect.client(app).await?;
        let answer = match asked {
            Asked::Send(tag, data) => send(app, &client, tag, data).await,
            Asked::Watch(glob, since) => watch(app, &client, &glob, since).await,
        };
        let answer = answer.map_err(|failure| connect.explained(app, failure));
        let _closed = client.link().bus().close().await;
        answer
    })
}

enum Asked {
    Send(Tag, Map<String, Json>),
    Watch(Box<Glob>, Option<Duration>),
}

fn read(verb: &Verb) -> Result<Asked, Failure> {
    match verb {
        Verb::Send { tag, words, data, .. } => {
            let parsed = Tag::parse(tag).map_err(|bad| {
                let bad = bad.why;
                Failure::usage(format!(
                    "`{tag}` is not a tag: {bad}; write names with slashes between: deploy/done"
                ))
            })?;
            Ok(Asked::Send(parsed, event_data(words, data.as_deref())?))
        }
        Verb::Watch { glob, since, .. } => Ok(Asked::Watch(Box::new(key_glob(glob)?), *since)),
    }
}

/// A glob over keys of events.
pub fn key_glob(text: &str) -> Result<Glob, Failure> {
    Glob::parse(text)
        .map_err(|mistake| Failure::usage(format!("`{text}` is not a glob: {}", mistake.message)))
}

/// The data of an event: an object, and words that lie over it.
pub fn event_data(words: &[String], object: Option<&str>) -> Result<Map<String, Json>, Failure> {
    let mut data = match object.map(serde_json::from_str::<Json>) {
        None => Map::new(),
        Some(Ok(Json::Object(map))) => map,
        Some(Ok(_)) => {
            return Err(Failure::usage("the data of an event is a JSON object: {\"service\": \"nginx\"}"));
        }
        Some(Err(error)) => return Err(Failure::usage(format!("the data is not JSON: {error}"))),
    };
    let parsed = RawArguments::parse(words);
    if let Some(word) = parsed.positional.first() {
        return Err(Failure::usage(format!("`{}` is not of the form k=v", word.shown())));
    }
    if let Some(name) = parsed.twice() {
        return Err(Failure::usage(format!("`{name}` is given twice")));
    }
    data.extend(parsed.named.iter().map(|(key, value)| (key.clone(), lettered_value(value))));
    Ok(data)
}

async fn send(app: &App, client: &Client, tag: Tag, data: Map<String, Json>) -> answer::Result {
    let sent = client.send_event(tag, data).await.map_err(client_failure)?;
    let key = sent.subject.match_key();
    let text = event_text::sent(&key, &sent.event.id, app.output.paint());
    let json = json!({
        "id": sent.event.id, "key": key, "tag": sent.event.tag.as_str(), "ts": sent.event.ts,
        "sequence": sent.sequence,
    });
    Ok((Answer::Document { json, text }, Exit::Good))
}

/// The object of C-11.
pub fn document(seen: &SeenEvent) -> Json {
    let SeenEvent { subject, event, .. } = seen;
    json!({
        "ts": event.ts, "key": subject.match_key(), "origin": subject.origin().to_string(),
        "tag": event.tag.as_str(), "id": event.id, "depth": event.depth, "data": event.data,
    })
}

async fn watch(app: &App, client: &Client, glob: &Glob, since: Option<Duration>) -> answer::Result {
    let mut signals = app.signals.listen();
    let mut watch = client.watch_events(since).await.map_err(client_failure)?;
    loop {
        let seen = tokio::select! {
            biased;
            exit = signals.next() => return Ok((Answer::Text(String::new()), exit)),
            seen = watch.next() => seen.map_err(client_failure)?,
        };
        let Some(seen) = seen else { return Err(Failure::usage("the connection to the bus was closed")) };
        if !glob.matches(&seen.subject.match_key()) {
            continue;
        }
        match app.output.is_text() {
            true => to_stdout(&event_text::line(&seen, app.output.paint())),
            false => app.output.object(&document(&seen)),
        }
        if reader_is_gone() {
            return Ok((Answer::Text(String::new()), Exit::Good));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("C-12", "C-15")]
    fn c12_the_data_of_an_event_is_read_from_words_and_json() {
        let words =
            ["n=5", "t=\"5\"", "l=[a, 1]", "v=1.10", "mode=0644", "ok=true", "on=yes"].map(String::from);
        let data = event_data(&words, Some(r#"{"n": 1, "x": {"y": null}}"#)).unwrap();
        let expected = json!({
            "n": 5, "t": "5", "l": ["a", 1], "v": "1.10", "mode": "0644", "ok": true, "on": "yes",
            "x": {"y": null},
        });
        assert_eq!(Json::Object(data), expected);
        let told = |words: &[&str], json: Option<&str>| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            event_data(&words, json).unwrap_err().error.to_string()
        };
        assert!(told(&["nginx"], None).contains("`nginx` is not of the form k=v"));
        assert!(told(&["a=1", "a=2"], None).contains("given twice"));
        assert!(told(&[], Some("[1]")).contains("is a JSON object"));
        assert!(told(&[], Some("{a")).contains("not JSON"));
    }
}
