//! Three pages over HTTP, for probes and for Prometheus.

use crate::checks::Health;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections served at once; more wait in the backlog.
const CONNECTIONS_MAX: usize = 32;
/// How long a client may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one connection may last.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failed accept: out of descriptors, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

const PLAIN: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A listener that is bound, and what serves it once it is awaited.
pub struct Serving {
    pub address: SocketAddr,
    listener: TcpListener,
    health: Arc<Health>,
}

/// Binds, so that a port that is taken is known at once.
pub async fn serve(address: SocketAddr, health: Arc<Health>) -> io::Result<Serving> {
    let listener = TcpListener::bind(address).await?;
    Ok(Serving { address: listener.local_addr()?, listener, health })
}

impl Serving {
    /// Serves until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let slot = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                slot = slots.clone().acquire_owned() => slot,
            };
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let health = self.health.clone();
                    connections.spawn(async move {
                        let _ended = tokio::time::timeout(CONNECTION_TIMEOUT, talk(stream, health)).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!("the health port cannot accept: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn talk(stream: TcpStream, health: Arc<Health>) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &health);
        async move { Ok::<_, Infallible>(answer) }
    });
    // A client that goes away, or speaks something else, is no concern of ours.
    let _gone = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn answer(request: &Request<Incoming>, health: &Health) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return page(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n".into());
    }
    match request.uri().path() {
        "/healthz" => page(StatusCode::OK, PLAIN, "ok\n".into()),
        "/readyz" => {
            let (ready, text) = health.report();
            let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            page(status, PLAIN, text)
        }
        "/metrics" => match health.metrics() {
            Ok(text) => page(StatusCode::OK, OPEN_METRICS, text),
            Err(_) => {
                page(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "the metrics cannot be written\n".into())
            }
        },
        _ => page(StatusCode::NOT_FOUND, PLAIN, "there is /healthz, /readyz and /metrics\n".into()),
    }
}

fn page(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
