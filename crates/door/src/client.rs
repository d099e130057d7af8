//! The client: one connection to a door whose CA was pinned.

use crate::limits::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, CONNECT_TIMEOUT, DEFAULT_PORT};
use crate::pin::{Pin, PinnedCa};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// To branch on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody else answers there: another CA, or a certificate for another name.
    NotTheDoor,
    /// Nobody answers, or hangs up; it may be there later.
    Away,
    /// It answered, and not as a door does.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: Kind,
    message: String,
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Where a door is: `https://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorUrl {
    host: String,
    port: u16,
}

impl FromStr for DoorUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<DoorUrl, String> {
        let bad = || format!("`{text}` is no address of a door: write https://HOST:PORT");
        let rest = text.trim().strip_prefix("https://").ok_or_else(bad)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(bad)?;
                (host, port.strip_prefix(':'))
            }
            None => rest.rsplit_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).map_err(|_| bad())?;
        let is_name = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']);
        if !is_name || ServerName::try_from(host).is_err() {
            return Err(bad());
        }
        Ok(DoorUrl { host: host.to_string(), port })
    }
}

impl fmt::Display for DoorUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "https://[{}]:{}", self.host, self.port),
            false => write!(out, "https://{}:{}", self.host, self.port),
        }
    }
}

/// A connection to the door.
pub struct Caller {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    host: String,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Caller {
    /// Connects, and makes sure that it is the door of this CA.
    pub async fn connect(url: &DoorUrl, pin: Pin) -> Result<Caller, Error> {
        let away = |why: String| Error::new(Kind::Away, format!("{url} does not answer: {why}"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| Error::new(Kind::Refused, error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(PinnedCa { pin, provider }))
            .with_no_client_auth();
        let name = ServerName::try_from(url.host.clone())
            .map_err(|error| Error::new(Kind::Refused, error.to_string()))?;
        let reached = async {
            let stream = TcpStream::connect((url.host.as_str(), url.port)).await;
            let stream = stream.map_err(|error| away(error.to_string()))?;
            let tls = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
            tls.map_err(|error| explained(url, pin, &error))
        };
        let out_of_time = |_| away(format!("nothing came within {} s", CONNECT_TIMEOUT.as_secs()));
        let stream = timeout(CONNECT_TIMEOUT, reached).await.map_err(out_of_time)??;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| away(error.to_string()))?;
        let driver = tokio::spawn(async {
            let _ended = connection.await;
        });
        Ok(Caller { sender, driver, host: url.host.clone() })
    }

    /// Sends a body to a path, and gets what is said to it.
    pub async fn post(&mut self, path: &str, body: Vec<u8>) -> Result<Bytes, Error> {
        let away = |why: String| Error::new(Kind::Away, format!("the door does not answer: {why}"));
        let request = Request::post(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/msgpack")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Error::new(Kind::Refused, error.to_string()))?;
        let asked = async {
            // The answer before may have come before the connection was done with it: what is sent then is turned away.
            self.sender.ready().await.map_err(|error| away(error.to_string()))?;
            let response =
                self.sender.send_request(request).await.map_err(|error| away(error.to_string()))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| away(error.to_string()))?;
            Ok((status, body.to_bytes()))
        };
        let out_of_time = |_| away(format!("nothing came within {} s", ANSWER_TIMEOUT.as_secs()));
        match timeout(ANSWER_TIMEOUT, asked).await.map_err(out_of_time)?? {
            (StatusCode::OK, body) => Ok(body),
            (status, body) => {
                let words: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                let words = words.trim().escape_debug().to_string();
                Err(Error::new(Kind::Refused, format!("the door says {}: {words}", status.as_u16())))
            }
        }
    }
}

/// What a handshake that failed means.
fn explained(url: &DoorUrl, pin: Pin, error: &std::io::Error) -> Error {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match of_tls {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => Error::new(
            Kind::NotTheDoor,
            format!(
                "whoever answers at {url} is not of the CA {pin}: is the pin of another fleet, or is somebody in between? nothing was sent"
            ),
        ),
        Some(rustls::Error::InvalidCertificate(why)) => Error::new(
            Kind::NotTheDoor,
            format!(
                "the certificate of the door at {url} is not good for that name: {why}; nothing was sent"
            ),
        ),
        Some(other) => Error::new(Kind::NotTheDoor, format!("{url} speaks no TLS 1.3 with us: {other}")),
        None => Error::new(Kind::Away, format!("{url} hung up: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_by_https() {
        for (text, shown) in [
            ("https://master.example:8443", "https://master.example:8443"),
            ("https://master.example/", "https://master.example:4443"),
            ("https://[::1]:1", "https://[::1]:1"),
            ("https://192.0.2.1", "https://192.0.2.1:4443"),
        ] {
            assert_eq!(text.parse::<DoorUrl>().unwrap().to_string(), shown);
        }
        for bad in [
            "",
            "http://a:1",
            "a:1",
            "https://",
            "https://a:b",
            "https://a@b",
            "https://a:1/path",
            "https://a:99999",
        ] {
            assert!(bad.parse::<DoorUrl>().is_err(), "{bad}");
        }
    }
}
