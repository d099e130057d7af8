//! What can go wrong on the bus, small enough to branch on.

use std::error::Error as StdError;
use std::fmt;

/// What a caller may want to know about a failure.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The bus was closed by us. Nothing will work on it again.
    Closed,
    /// There is no connection now. Nothing was sent.
    Disconnected,
    /// No answer in time. What was asked may still have happened.
    Timeout,
    /// Nobody listens on the subject of a request.
    NoResponders,
    /// No stream or bucket answers: it does not exist, or has no leader now.
    Unavailable,
    /// The server has no JetStream: it keeps nothing for anybody.
    Off,
    /// The server knows no stream or bucket of that name. During an election it may say so of one that exists.
    Missing,
    /// A key exists that must not, or its revision is not the expected one.
    Conflict,
    /// Larger than the server, the stream or the bucket takes. Nothing was stored.
    TooLarge,
    /// The stream or bucket is full.
    Full,
    /// The server does not allow it.
    Refused,
    /// A subject, pattern or key that is none.
    Invalid,
    /// Anything else; the words say what.
    Other,
}

impl Kind {
    /// Whether the same call may succeed later.
    pub fn retryable(self) -> bool {
        matches!(
            self,
            Kind::Disconnected | Kind::Timeout | Kind::NoResponders | Kind::Unavailable | Kind::Off
        )
    }
}

/// A failure: its kind, one sentence, and what caused it.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub fn new(kind: Kind, what: impl Into<String>) -> Error {
        Error { kind, what: what.into(), source: None }
    }

    pub fn because(
        kind: Kind,
        what: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        Error { kind, what: what.into(), source: Some(source.into()) }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn closed() -> Error {
        Error::new(Kind::Closed, "the bus is closed")
    }

    pub(crate) fn disconnected() -> Error {
        Error::new(Kind::Disconnected, "there is no connection to the bus")
    }

    pub(crate) fn timeout(what: &str) -> Error {
        Error::new(Kind::Timeout, format!("{what}: no answer in time"))
    }

    pub(crate) fn unavailable(what: &str) -> Error {
        Error::new(Kind::Unavailable, format!("{what}: no stream or bucket answers"))
    }

    pub(crate) fn off() -> Error {
        Error::new(Kind::Off, "JetStream is off on the nats-server")
    }

    pub(crate) fn too_large(what: &str, size: usize, limit: usize) -> Error {
        Error::new(Kind::TooLarge, format!("{what}: {size} bytes, the limit is {limit}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_is_retryable() {
        let retryable = [Kind::Disconnected, Kind::Timeout, Kind::NoResponders, Kind::Unavailable, Kind::Off];
        let final_ones = [
            Kind::Closed,
            Kind::Missing,
            Kind::Conflict,
            Kind::TooLarge,
            Kind::Full,
            Kind::Refused,
            Kind::Invalid,
            Kind::Other,
        ];
        assert!(retryable.iter().all(|kind| kind.retryable()));
        assert!(!final_ones.iter().any(|kind| kind.retryable()));
    }

    #[test]
    fn the_cause_is_kept() {
        let error = Error::because(Kind::Other, "it broke", std::io::Error::other("a wire"));
        assert_eq!(error.to_string(), "it broke");
        assert_eq!(StdError::source(&error).map(ToString::to_string).as_deref(), Some("a wire"));
    }
}
