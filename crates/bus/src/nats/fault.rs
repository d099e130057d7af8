//! The client's errors and the server's, as ours.

use crate::error::{Error, Kind};
use async_nats::client::{PublishError, PublishErrorKind, RequestError, RequestErrorKind};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use serde::de::DeserializeOwned;

pub fn of_request(what: &str, error: RequestError) -> Error {
    let kind = match error.kind() {
        RequestErrorKind::TimedOut => return Error::timeout(what),
        RequestErrorKind::NoResponders => Kind::NoResponders,
        RequestErrorKind::InvalidSubject => Kind::Invalid,
        RequestErrorKind::MaxPayloadExceeded => Kind::TooLarge,
        _ => Kind::Disconnected,
    };
    Error::because(kind, format!("{what}: {error}"), error)
}

/// The same for what only the server itself answers: silence means that no stream takes the subject now.
pub fn of_storage(what: &str, error: RequestError) -> Error {
    match error.kind() {
        RequestErrorKind::NoResponders => Error::unavailable(what),
        _ => of_request(what, error),
    }
}

/// The same for questions to JetStream itself, which every server that has it answers.
pub fn of_api(verb: &str, error: RequestError) -> Error {
    match error.kind() {
        RequestErrorKind::NoResponders => Error::off(),
        _ => of_request(verb, error),
    }
}

pub fn of_publish(what: &str, error: PublishError) -> Error {
    let kind = match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Kind::TooLarge,
        PublishErrorKind::InvalidSubject => Kind::Invalid,
        _ => Kind::Disconnected,
    };
    Error::because(kind, format!("{what}: {error}"), error)
}

/// What the server refused, by its own number.
pub fn of_server(what: &str, error: async_nats::jetstream::Error) -> Error {
    let kind = match error.error_code() {
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE | ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT => {
            Kind::Conflict
        }
        ErrorCode::STREAM_NOT_FOUND => Kind::Missing,
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => Kind::TooLarge,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::STREAM_STORE_FAILED => Kind::Full,
        _ if error.code() == 503 => Kind::Unavailable,
        _ => Kind::Other,
    };
    Error::because(kind, format!("{what}: {error}"), error)
}

/// An answer of the server in JSON, or its refusal.
pub fn answer<T: DeserializeOwned>(what: &str, payload: &[u8]) -> Result<T, Error> {
    match parse(what, payload)? {
        Response::Ok(value) => Ok(value),
        Response::Err { error } => Err(of_server(what, error)),
    }
}

pub fn parse<T: DeserializeOwned>(what: &str, payload: &[u8]) -> Result<Response<T>, Error> {
    serde_json::from_slice(payload).map_err(|error| {
        Error::because(Kind::Other, format!("{what}: the server's answer cannot be read"), error)
    })
}
