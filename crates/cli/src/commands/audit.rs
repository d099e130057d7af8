//! `zester audit`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::watching::{client_failure, patiently};
use crate::output::control::one_line;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use zester_client::{AuditLog, AuditRecord};
use zester_wire::UnixMillis;

/// Entries that `list` shows where nobody says how many.
const SHOWN: usize = 50;

/// Who decided what, when, and because of which request
///
/// Masters write down every job, kill, publication and refusal. Each entry names the hash of the one before it and is signed, so that
/// one which is changed, moved or taken out is found.
#[derive(clap::Args, Debug)]
pub struct Audit {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// The newest entries, oldest first
    List {
        /// How many
        #[arg(short = 'n', long, value_name = "N", default_value_t = SHOWN)]
        count: usize,
        /// Only those of the last so long
        #[arg(long, value_name = "TIME", value_parser = zester_model::duration::parse)]
        since: Option<Duration>,
        /// Only what this one wanted
        #[arg(long, value_name = "NAME")]
        who: Option<String>,
        /// Only this sort: dispatch, kill, publish, forget, reaction, policy, roster …
        #[arg(long, value_name = "ACT")]
        act: Option<String>,
        /// Only what was refused
        #[arg(long)]
        refused: bool,
        #[command(flatten)]
        connect: Connect,
    },
    /// Whether the log is what was written: exit code 2 where it is not
    Verify {
        #[command(flatten)]
        connect: Connect,
    },
    /// Write every entry to a file, one JSON object a line, with its signed bytes
    Export {
        /// Where to; - is the output
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
        #[command(flatten)]
        connect: Connect,
    },
}

pub fn run(args: Audit, app: &mut App) -> answer::Result {
    let app = &*app;
    match args.verb {
        Verb::List { count, since, who, act, refused, connect } => {
            let log = read(&connect, app)?;
            let now = zester_link::Clock::wall(&zester_link::SystemClock);
            let wanted = |record: &&AuditRecord| {
                let entry = &record.entry;
                let named = entry.who.rsplit(' ').next().unwrap_or_default();
                since.is_none_or(|since| now.since(entry.ts) <= since)
                    && who.as_ref().is_none_or(|who| *who == entry.who || who == named)
                    && act.as_ref().is_none_or(|act| *act == entry.act)
                    && (!refused || !entry.refused.is_empty())
            };
            let mut found: Vec<&AuditRecord> = log.records.iter().filter(wanted).collect();
            let from = found.len().saturating_sub(count);
            found.drain(..from);
            let text: String = found.iter().map(|record| line(record)).collect();
            let mut text = if text.is_empty() { "no entry\n".to_string() } else { text };
            if !log.breaks.is_empty() {
                text.push_str("the log is not what was written: `zester audit verify`\n");
            }
            let entries: Vec<Json> = found.iter().map(|record| document(record)).collect();
            Ok((Answer::Document { json: json!({ "entries": entries }), text }, Exit::Good))
        }
        Verb::Verify { connect } => Ok(verified(&read(&connect, app)?)),
        Verb::Export { file, connect } => {
            let log = read(&connect, app)?;
            let mut lines = String::new();
            for record in &log.records {
                let mut json = document(record);
                json["envelope"] = hex(&record.envelope).into();
                let _infallible = writeln!(lines, "{json}");
            }
            if file.as_os_str() == "-" {
                return Ok((Answer::Text(lines), Exit::Good));
            }
            std::fs::write(&file, lines)
                .map_err(|error| zester_converge::Error::io("write the log", &file, error))?;
            let (count, shown) = (log.records.len(), file.display());
            let text = format!("{count} entries are in {shown}\n");
            Ok((Answer::Document { json: json!({ "entries": count, "file": file }), text }, Exit::Good))
        }
    }
}

fn read(connect: &Connect, app: &App) -> Result<AuditLog, Failure> {
    app.block_on(async {
        let client = connect.client(app).await?;
        let read = patiently(app, client.audit()).await;
        read.map_err(|error| connect.explained(app, client_failure(error)))
    })
}

fn verified(log: &AuditLog) -> (Answer, Exit) {
    let (count, chains) = (log.records.len(), log.chains);
    let mut text = String::new();
    for one in &log.breaks {
        let _infallible = writeln!(text, "✗ {one}");
    }
    for (chain, seq) in &log.unended {
        let _infallible = writeln!(
            text,
            "· {chain} ended without saying so after entry {seq}: what it decided last may not be there"
        );
    }
    let starts = if chains == 1 { "start of a master" } else { "starts of masters" };
    let _infallible = match log.breaks.len() {
        0 => writeln!(text, "✓ {count} entries of {chains} {starts}: nothing is missing, moved or changed"),
        1 => writeln!(
            text,
            "✗ {count} entries of {chains} {starts}, and 1 place that is not as it was written"
        ),
        more => {
            writeln!(
                text,
                "✗ {count} entries of {chains} {starts}, and {more} places that are not as they were written"
            )
        }
    };
    let breaks: Vec<Json> =
        log.breaks.iter().map(|one| json!({ "record": one.sequence, "what": one.to_string() })).collect();
    let unended: Vec<Json> =
        log.unended.iter().map(|(chain, seq)| json!({ "chain": chain, "entry": seq })).collect();
    let json = json!({
        "whole": log.breaks.is_empty(), "entries": count, "chains": chains, "breaks": breaks, "unended": unended,
    });
    (Answer::Document { json, text }, if log.breaks.is_empty() { Exit::Good } else { Exit::Failed })
}

/// `2026-11-18 14:03:21  dispatch   operator bob  2hPx… test.ping on `*` (2 peels)`, and why not below.
fn line(record: &AuditRecord) -> String {
    let entry = &record.entry;
    let (who, about) = (one_line(&entry.who), one_line(&entry.about));
    let sign = if entry.refused.is_empty() { " " } else { "✗" };
    let mut text =
        format!("{} {sign} {:<9} {who:<16} {about}", when(entry.ts), entry.act).trim_end().to_string();
    if !entry.refused.is_empty() {
        let _infallible = write!(text, "\n           refused: {}", one_line(&entry.refused));
    }
    if entry.missed > 0 {
        let _infallible = write!(text, "\n           {} before it are lost", entry.missed);
    }
    text.push('\n');
    text
}

fn document(record: &AuditRecord) -> Json {
    let entry = &record.entry;
    json!({
        "record": record.sequence, "chain": entry.chain.as_str(), "seq": entry.seq, "ts": entry.ts.0, "act": entry.act,
        "who": entry.who, "key": entry.key, "about": entry.about, "refused": entry.refused, "request": entry.request,
        "missed": entry.missed, "hash": hex(&record.hash), "prev": hex(&entry.prev), "signed_by": record.signer,
    })
}

fn when(moment: UnixMillis) -> String {
    zester_schedule::shown(moment).trim_end_matches(" UTC").to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
