//! How long strangers may take, and how much they may send (I-13).

use std::time::Duration;

/// Connections that are served at once; more wait in the backlog of the operating system.
pub const CONNECTIONS_MAX: usize = 256;
/// Of these, of one address: one that is slow on purpose holds up nobody else.
pub const CONNECTIONS_OF_ADDRESS_MAX: usize = 64;
/// How long the TLS handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to say what it wants, and then to send it.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
pub const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one connection may last, whatever it does.
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests of one connection: a nonce, a request, and room.
pub const REQUESTS_OF_CONNECTION_MAX: usize = 8;
/// Bytes of the headers of a request.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a request.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Bytes of an answer: a roster of ten thousand keys fits.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a client tries to reach the door, and waits for an answer.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// After a failed accept: out of descriptors, most likely.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Where a door is when nobody says.
pub const DEFAULT_PORT: u16 = 4443;
