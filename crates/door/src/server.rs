//! The server: accepts, bounds, and hands bodies on.

use crate::limits::{
    ACCEPT_PAUSE, BODY_TIMEOUT, CONNECTION_TIMEOUT, CONNECTIONS_MAX, CONNECTIONS_OF_ADDRESS_MAX,
    HANDSHAKE_TIMEOUT, HEADER_TIMEOUT, HEADERS_BYTES_MAX, REQUEST_BYTES_MAX, REQUESTS_OF_CONNECTION_MAX,
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

const PACKED: &str = "application/msgpack";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What is said to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A message.
    Message(Vec<u8>),
    /// What was sent is none: why, in a sentence.
    Malformed(String),
    NoSuchPath,
}

/// Who knows what to say.
pub trait Answers: Send + Sync + 'static {
    /// Whether this address may connect now, or how long it should wait.
    fn admit(&self, from: IpAddr) -> Result<(), Duration>;

    fn answer<'a>(&'a self, path: &'a str, body: Bytes, from: IpAddr) -> BoxFuture<'a, Reply>;
}

/// What the door proves itself with, as PEM: its certificate, its key, and the CA that signed it.
#[derive(Clone)]
pub struct Certificates<'a> {
    pub certificate: &'a str,
    pub key: &'a str,
    pub ca: &'a str,
}

impl Certificates<'_> {
    fn config(&self) -> Result<ServerConfig, String> {
        let read = |text: &str, what: &str| -> Result<Vec<CertificateDer<'static>>, String> {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            let all = all.map_err(|error| format!("the {what} cannot be read: {error:?}"))?;
            if all.is_empty() { Err(format!("there is no certificate in the {what}")) } else { Ok(all) }
        };
        let mut chain = read(self.certificate, "certificate of the door")?;
        chain.extend(read(self.ca, "certificate of the CA")?);
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|_| "the key of the door cannot be read".to_string())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        config.map_err(|error| format!("the certificate and the key of the door do not fit: {error}"))
    }
}

/// A door that is bound, and opens once it is awaited.
pub struct Door {
    address: SocketAddr,
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl Door {
    /// Binds, so that a port that is taken, or a certificate that is none, is known at once.
    pub async fn bind(address: SocketAddr, certificates: &Certificates<'_>) -> Result<Door, String> {
        let config = certificates.config()?;
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            Ok::<_, io::Error>((listener.local_addr()?, listener))
        };
        let (address, listener) =
            bound.await.map_err(|error| format!("cannot listen at {address}: {error}"))?;
        Ok(Door { address, listener, tls: TlsAcceptor::from(Arc::new(config)) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`.
    pub async fn open(self, answers: Arc<dyn Answers>, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let guests = Arc::new(Guests::default());
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = async {
                let slot = slots.clone().acquire_owned().await;
                (slot, self.listener.accept().await)
            };
            let (slot, accepted) = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, from)) => {
                    let from = from.ip().to_canonical();
                    // Hung up on before anything is spent on it.
                    if answers.admit(from).is_err() {
                        continue;
                    }
                    let Some(guest) = guests.enter(from) else { continue };
                    let (tls, answers) = (self.tls.clone(), answers.clone());
                    connections.spawn(async move {
                        let _ended = timeout(CONNECTION_TIMEOUT, talk(stream, tls, answers, from)).await;
                        drop((slot, guest));
                    });
                }
                Err(error) => {
                    tracing::warn!("the door cannot accept: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// How many connections each address has. It holds no more addresses than there are connections.
#[derive(Default)]
struct Guests(Mutex<BTreeMap<IpAddr, usize>>);

struct Guest {
    guests: Arc<Guests>,
    from: IpAddr,
}

impl Guests {
    fn enter(self: &Arc<Guests>, from: IpAddr) -> Option<Guest> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(from).or_default();
        if *count >= CONNECTIONS_OF_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(Guest { guests: self.clone(), from })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut all = self.guests.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.from) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                all.remove(&self.from);
            }
        }
    }
}

async fn talk(stream: TcpStream, tls: TlsAcceptor, answers: Arc<dyn Answers>, from: IpAddr) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await else { return };
    let count = AtomicUsize::new(0);
    let service = service_fn(|request| {
        let is_last = count.fetch_add(1, Ordering::Relaxed) + 1 >= REQUESTS_OF_CONNECTION_MAX;
        let answers = answers.clone();
        async move {
            let mut response = respond(request, answers.as_ref(), from).await;
            if is_last {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    // A client that goes away, or speaks something else, is no concern of ours.
    let _gone = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADERS_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(request: Request<Incoming>, answers: &dyn Answers, from: IpAddr) -> Response<Full<Bytes>> {
    if request.method() != Method::POST {
        return page(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only POST\n");
    }
    let path = request.uri().path().to_string();
    let body = Limited::new(request.into_body(), REQUEST_BYTES_MAX).collect();
    let body = match timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        // What is left of it is not read.
        Ok(Err(_)) => {
            return closing(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large, or was cut off\n");
        }
        Err(_) => return closing(StatusCode::REQUEST_TIMEOUT, "the request takes too long\n"),
    };
    match answers.answer(&path, body, from).await {
        Reply::Message(bytes) => page(StatusCode::OK, PACKED, bytes),
        Reply::Malformed(why) => page(StatusCode::BAD_REQUEST, PLAIN, format!("{why}\n")),
        Reply::NoSuchPath => page(StatusCode::NOT_FOUND, PLAIN, "peels enroll here, and nothing else\n"),
    }
}

fn closing(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = page(status, PLAIN, text);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

fn page(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
