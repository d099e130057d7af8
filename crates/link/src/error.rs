//! Why a message could not be sent, or a record not be read.

use crate::dropped::Reason;
use std::fmt;
use zester_bus::{Kind, Sequence};
use zester_identity::Spoof;
use zester_wire::{DecodeError, EncodeError};

#[derive(Debug)]
pub enum Error {
    Bus(zester_bus::Error),
    /// What we wanted to send is too large or too deep.
    Encode(EncodeError),
    /// What came back, or stands in a bucket, is not what it should be.
    Decode(DecodeError),
    /// A record of somebody else under this key.
    Mismatched {
        subject: String,
    },
    /// A record that is older than what was seen under its key: somebody put it back (I-12).
    Older {
        subject: String,
        /// Of what was put back.
        revision: Sequence,
    },
    /// Nobody whom we believe signed it (I-8, I-12).
    Spoof {
        subject: String,
        why: Spoof,
    },
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(self, Error::Bus(error) if error.kind().retryable() || error.kind() == Kind::Missing)
    }

    /// Whether somebody else wrote first.
    pub fn is_conflict(&self) -> bool {
        self.bus_kind() == Some(Kind::Conflict)
    }

    /// Under which reason what could not be read is counted.
    pub fn reason(&self) -> Reason {
        match self {
            Error::Spoof { .. } => Reason::Spoof,
            Error::Mismatched { .. } => Reason::Mismatched,
            Error::Older { .. } => Reason::Older,
            _ => Reason::Malformed,
        }
    }

    /// Whether one record is at fault, and not the bus it was read from.
    pub fn is_of_record(&self) -> bool {
        matches!(
            self,
            Error::Decode(_) | Error::Mismatched { .. } | Error::Spoof { .. } | Error::Older { .. }
        )
    }

    /// Whether what stands there counts for nobody and never will again, so that it may be written over. A key that only this
    /// reader does not know, or a clock that is wrong, is no such case: another may rightly believe it.
    pub fn is_void(&self) -> bool {
        match self {
            Error::Spoof { why, .. } => match why {
                Spoof::Unsigned | Spoof::BadSignature | Spoof::Revoked | Spoof::NotTheirs(_) => true,
                Spoof::UnknownKey
                | Spoof::BadCertificate
                | Spoof::Expired
                | Spoof::RosterExpired
                | Spoof::Ahead => false,
            },
            Error::Decode(_) | Error::Mismatched { .. } | Error::Older { .. } => true,
            Error::Bus(_) | Error::Encode(_) => false,
        }
    }

    /// Whether a newer roster may know whoever signed it.
    pub fn is_of_a_stranger(&self) -> bool {
        let strange =
            |why: &Spoof| matches!(why, Spoof::UnknownKey | Spoof::BadCertificate | Spoof::RosterExpired);
        matches!(self, Error::Spoof { why, .. } if strange(why))
    }

    /// Whether it is void because of who signed it, or did not. What a newer release wrote may be void for this one alone.
    pub fn is_disowned(&self) -> bool {
        self.is_void() && matches!(self, Error::Spoof { .. })
    }

    pub fn bus_kind(&self) -> Option<Kind> {
        match self {
            Error::Bus(error) => Some(error.kind()),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Bus(error) => error.fmt(out),
            Error::Encode(error) => error.fmt(out),
            Error::Decode(error) => error.fmt(out),
            Error::Mismatched { subject } => write!(out, "the record at {subject} speaks of another"),
            Error::Older { subject, .. } => {
                write!(out, "what stands at {subject} is older than what stood there before")
            }
            Error::Spoof { subject, why } => write!(out, "what stands at {subject} is not believed: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<zester_bus::Error> for Error {
    fn from(error: zester_bus::Error) -> Error {
        Error::Bus(error)
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Error {
        Error::Encode(error)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Error {
        Error::Decode(error)
    }
}
