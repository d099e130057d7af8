//! `#!py` files are run by the system's Python, bounded in time and in what they say, and end with the run (S-54, S-46).
//!
//! A small driver talks to us over a socket of its own, so that what the file prints disturbs nobody: it gets the file,
//! facts and settings, asks what `__salt__` is asked, and answers with what `run()` returned. Secrets stay placeholders.

use crate::functions::CallContext;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use zester_compile::{PythonCall, PythonFile};
use zester_host::{Exit, Fault, FaultKind, Launch};
use zester_model::limits;

const DRIVER: &str = include_str!("python_program/driver.py");
/// Of what it prints only its last line is told, and only if it fails.
const PRINTED_KEPT: usize = 16 * 1024;

/// A line of the driver.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Call {
        call: String,
        #[serde(default)]
        bare: Vec<Json>,
        #[serde(default)]
        named: Map<String, Json>,
    },
    Failed {
        failed: String,
        line: Option<u32>,
    },
    Answer {
        answer: Json,
    },
}

type Child<'a> = Pin<Box<dyn Future<Output = Result<Exit, Fault>> + Send + 'a>>;

/// Runs a file and gives what its `run()` answers, or says in a sentence why there is nothing. Blocks.
pub fn run(program: &PythonFile<'_>, call: PythonCall<'_>, place: &CallContext<'_>) -> Result<Json, String> {
    let no_socket = |error: std::io::Error| format!("no socket to talk to python3 by: {error}");
    // Only we can enter it.
    let directory = tempfile::Builder::new().prefix("zester-py-").tempdir().map_err(no_socket)?;
    let path = directory.path().join("socket");
    let listener = {
        let _runtime = place.handle.enter();
        UnixListener::bind(&path).map_err(no_socket)?
    };
    let launch = Launch {
        timeout: Some(limits::TEMPLATE_COMMAND_TIMEOUT),
        output_kept: PRINTED_KEPT,
        leaves_nothing: true,
        // It gets placeholders, as a template does.
        secrets: Some(Arc::default()),
        ..Launch::argv(["python3", "-c", DRIVER, &path.display().to_string()])
    };
    let cancel = place.cancel.child_token();
    let mut child: Child<'_> = Box::pin(place.processes.run(&launch, None, &cancel));
    let mut talk = Talk { listener, stream: None };
    let answer = converse(program, call, place, &mut talk, &mut child);
    // An end of file tells it to go; whoever does not is ended.
    drop(talk);
    match answer {
        Ok(answer) => {
            place.handle.block_on(child).map_err(|fault| fault.message)?;
            Ok(answer)
        }
        Err(Ended::Said(why)) => {
            cancel.cancel();
            // How it ends does not matter any more.
            let _ = place.handle.block_on(child);
            Err(why)
        }
        Err(Ended::Itself(exit)) => Err(ended(exit)),
    }
}

/// Why there is no answer: what is to be told, or how the program ended.
enum Ended {
    Said(String),
    Itself(Result<Exit, Fault>),
}

fn ended(exit: Result<Exit, Fault>) -> String {
    match exit {
        Err(fault) if fault.kind == FaultKind::NotFound => "there is no python3 on this machine".into(),
        Err(fault) => fault.message,
        Ok(exit) if exit.canceled => "canceled".into(),
        Ok(exit) if exit.timed_out => {
            format!("it did not end in {} s", limits::TEMPLATE_COMMAND_TIMEOUT.as_secs())
        }
        Ok(exit) => {
            let told = exit.stderr.text.lines().map(str::trim).rfind(|line| !line.is_empty());
            format!("python3 ended without an answer: {}", told.unwrap_or("it said nothing"))
        }
    }
}

struct Talk {
    listener: UnixListener,
    stream: Option<BufReader<UnixStream>>,
}

impl Talk {
    /// Who connected.
    async fn stream(&mut self) -> std::io::Result<&mut BufReader<UnixStream>> {
        if self.stream.is_none() {
            let (stream, _) = self.listener.accept().await?;
            self.stream = Some(BufReader::new(stream));
        }
        self.stream.as_mut().ok_or_else(|| std::io::ErrorKind::NotConnected.into())
    }

    async fn tell(&mut self, message: &Json) -> std::io::Result<()> {
        let line = format!("{message}\n");
        self.stream().await?.write_all(line.as_bytes()).await
    }

    /// The next line; none at its end.
    async fn hear(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let most = limits::RENDER_VALUE_BYTES_MAX as u64 + 1;
        self.stream().await?.take(most).read_until(b'\n', &mut line).await?;
        Ok(line)
    }

    /// Tells something, and hears what is said next.
    async fn exchange(&mut self, message: &Json) -> std::io::Result<Vec<u8>> {
        self.tell(message).await?;
        self.hear().await
    }
}

fn converse(
    program: &PythonFile<'_>,
    call: PythonCall<'_>,
    place: &CallContext<'_>,
    talk: &mut Talk,
    child: &mut Child<'_>,
) -> Result<Json, Ended> {
    let mut message = json!({
        "shown": program.shown, "text": program.text, "variables": program.variables, "facts": program.facts,
        "settings": program.settings, "id": program.id, "names": program.names,
    });
    loop {
        // Functions wait on the runtime themselves, so they are called outside of this.
        let heard = place.handle.block_on(async {
            tokio::select! {
                biased;
                heard = talk.exchange(&message) => heard.map_err(|error| Ended::Said(error.to_string())),
                exit = &mut *child => Err(Ended::Itself(exit)),
            }
        })?;
        if heard.len() > limits::RENDER_VALUE_BYTES_MAX {
            let most = limits::RENDER_VALUE_BYTES_MAX >> 20;
            return Err(Ended::Said(format!("it answers with more than {most} MiB")));
        }
        if heard.is_empty() {
            return Err(Ended::Itself(place.handle.block_on(child)));
        }
        let said = serde_json::from_slice(&heard);
        match said.map_err(|error| Ended::Said(format!("python3 said what cannot be read: {error}")))? {
            Said::Call { call: name, bare, named } => {
                message = match call(&name, bare, named) {
                    Ok(answer) => json!({ "answer": answer }),
                    Err(why) => json!({ "failed": why }),
                };
            }
            Said::Failed { failed, line } => {
                let at = line.map_or_else(String::new, |line| format!("line {line}: "));
                return Err(Ended::Said(format!("{at}{failed}")));
            }
            Said::Answer { answer } => return Ok(answer),
        }
    }
}
