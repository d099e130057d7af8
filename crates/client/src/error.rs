//! Why an operator got no answer.

use crate::ask::NONE_CONNECTED;
use std::fmt;
use std::time::Duration;
use zester_bus::Kind;
use zester_model::target::TargetError;
use zester_wire::{Jid, Refusal};

#[derive(Debug)]
pub enum Error {
    /// No master took it in time. Of a job that was asked for: nothing runs, and nothing will (J-28).
    NoMaster {
        waited: Duration,
        last: String,
    },
    /// Some master may have the job and has not said so: whether it runs is not known (J-28).
    InDoubt {
        jid: Jid,
        last: String,
        /// Not one of them said anything: there may be none, which old servers do not tell.
        silent: bool,
    },
    /// A master has the job, and how it goes on cannot be seen: it runs, or ran, all the same (J-28).
    OutOfSight {
        jid: Jid,
        why: Box<Error>,
    },
    /// A master said no.
    Refused(Refusal),
    /// An expression that cannot be read.
    Target(TargetError),
    /// No job has this id, or begins with it.
    NoSuchJob(String),
    /// Several jobs begin with this.
    Ambiguous {
        prefix: String,
        some: Vec<Jid>,
        count: usize,
    },
    NoSuchPeel(String),
    /// `I@` needs settings, which only masters have.
    NeedsMaster,
    /// Without a master only exact ids can be asked while the facts cannot be read.
    NeedsFacts(Box<Error>),
    /// A tree that could not be brought.
    Publish(zester_publish::Error),
    Bus(zester_link::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoMaster { waited, last } => {
                write!(out, "no master answered within {} s: {last}", waited.as_secs())?;
                match last.as_str() {
                    NONE_CONNECTED => out.write_str("; start one with `zester master run`"),
                    _ => Ok(()),
                }
            }
            Error::InDoubt { jid, last, silent: true } => write!(
                out,
                "no master answered ({last}), so it is not known whether job {jid} will run: `zester peel list` says whether one is there, `zester job show {jid}` whether it has the job"
            ),
            Error::InDoubt { jid, last, silent: false } => write!(
                out,
                "it is not known whether job {jid} will run: {last}; `zester job show {jid}` tells once the bus answers"
            ),
            Error::OutOfSight { jid, why } => write!(
                out,
                "what becomes of job {jid} cannot be seen: {why}; it goes on, and `zester job show {jid}` tells once the bus answers"
            ),
            Error::Refused(refusal) if refusal.hint.is_empty() => write!(out, "{}", refusal.message),
            Error::Refused(refusal) => write!(out, "{}; {}", refusal.message, refusal.hint),
            Error::Target(error) => error.fmt(out),
            Error::NoSuchJob(jid) => {
                write!(out, "there is no job `{jid}`; `zester job list` shows the last ones")
            }
            Error::Ambiguous { prefix, some, count } => {
                let names: Vec<&str> = some.iter().map(Jid::as_str).collect();
                let more = if *count > some.len() { "…, " } else { "" };
                write!(
                    out,
                    "{count} jobs begin with `{prefix}`; write more of the id: {more}{}",
                    names.join(", ")
                )
            }
            Error::NoSuchPeel(id) => {
                write!(out, "there is no peel `{id}`; `zester peel list` shows those there are")
            }
            Error::NeedsMaster => {
                write!(out, "`I@` asks for settings, which only a master has; leave out --direct")
            }
            Error::NeedsFacts(why) => {
                out.write_str(
                    "a target that is not an exact id needs the facts of the peels, which cannot be read: ",
                )?;
                match &**why {
                    Error::Bus(error) => error.fmt(out)?,
                    other => other.fmt(out)?,
                }
                out.write_str("; name the peels instead: L@web-01,web-02")
            }
            Error::Publish(error) => write!(out, "the files were not uploaded: {error}"),
            Error::Bus(error) => match error.bus_kind() {
                Some(Kind::Off) => write!(
                    out,
                    "{error}, and without it there are no jobs: start it with -js or a `jetstream` block; --direct reaches peels by their exact ids"
                ),
                Some(Kind::Unavailable) => {
                    write!(out, "{error}: it has no leader, or no master has made it yet")
                }
                Some(Kind::Missing) => write!(
                    out,
                    "this nats-server has no records of a fleet; the first master makes them: `zester master run` ({error})"
                ),
                _ => error.fmt(out),
            },
        }
    }
}

impl std::error::Error for Error {}

impl From<zester_link::Error> for Error {
    fn from(error: zester_link::Error) -> Error {
        Error::Bus(error)
    }
}

impl From<zester_bus::Error> for Error {
    fn from(error: zester_bus::Error) -> Error {
        Error::Bus(error.into())
    }
}
