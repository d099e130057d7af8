//! Reading a file from a server, by HTTP.
//!
//! It only reads, into memory and within limits, so a check may do it: what it brings is known to a dry run as well.

use crate::fault::{Fault, FaultKind};
use std::io::Read;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use zester_model::limits::{DOWNLOAD_REDIRECTS_MAX, DOWNLOAD_STALL_MAX, DOWNLOAD_TIME_MAX};

/// How often the one who waits looks whether it was cancelled.
const TICK: Duration = Duration::from_millis(50);
const CHUNK: usize = 64 * 1024;

/// What is to be read.
#[derive(Clone, Debug)]
pub struct Download<'a> {
    pub url: &'a str,
    /// More than this is a fault.
    pub bytes_max: u64,
    pub cancel: &'a CancellationToken,
}

/// Reads it, on a thread of its own: whoever is cancelled leaves at once, and the thread ends by the time limits.
pub(crate) fn read(download: &Download<'_>) -> Result<Vec<u8>, Fault> {
    let (url, bytes_max) = (download.url.to_string(), download.bytes_max);
    let (sender, receiver) = sync_channel(1);
    let cancel = download.cancel.clone();
    let begun = std::thread::Builder::new().name("download".into()).spawn(move || {
        // Nobody waits any more where this fails.
        let _ = sender.send(get(&url, bytes_max, &cancel));
    });
    begun.map_err(|error| Fault::new(FaultKind::Io, format!("a thread cannot be started: {error}")))?;
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(read) => return read,
            Err(_) if download.cancel.is_cancelled() => return Err(Fault::canceled()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Fault::new(FaultKind::Io, format!("the download of {} broke off", download.url)));
            }
        }
    }
}

/// What the system trusts, read once.
fn agent() -> &'static Agent {
    static AGENT: OnceLock<Agent> = OnceLock::new();
    AGENT.get_or_init(|| {
        let system = rustls_native_certs::load_native_certs();
        let roots: Vec<Certificate<'static>> =
            system.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("zester/", env!("CARGO_PKG_VERSION")))
            .max_redirects(DOWNLOAD_REDIRECTS_MAX)
            .timeout_global(Some(DOWNLOAD_TIME_MAX))
            .timeout_connect(Some(DOWNLOAD_STALL_MAX))
            .timeout_per_read(Some(DOWNLOAD_STALL_MAX))
            .build()
            .new_agent()
    })
}

fn get(url: &str, bytes_max: u64, cancel: &CancellationToken) -> Result<Vec<u8>, Fault> {
    let response = agent().get(url).call().map_err(|error| failed(url, &error))?;
    let announced = response.body().content_length();
    let too_large = || {
        let message = format!("{url} has more than the {bytes_max} bytes that are read");
        Fault::new(FaultKind::Unsupported, message)
    };
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large());
    }
    let mut reader = response.into_body().into_reader();
    let (mut content, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    loop {
        if cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        let read = reader
            .read(&mut chunk)
            .map_err(|error| Fault::new(FaultKind::Io, format!("{url} cannot be read: {error}")))?;
        if read == 0 {
            return Ok(content);
        }
        content.extend_from_slice(&chunk[..read]);
        if content.len() as u64 > bytes_max {
            return Err(too_large());
        }
    }
}

fn failed(url: &str, error: &ureq::Error) -> Fault {
    match error {
        ureq::Error::StatusCode(status @ (404 | 410)) => {
            Fault::new(FaultKind::NotFound, format!("{url} does not exist (status {status})"))
        }
        ureq::Error::StatusCode(status @ (401 | 403)) => {
            Fault::new(FaultKind::Denied, format!("{url} is not for us (status {status})"))
        }
        ureq::Error::StatusCode(status) => {
            Fault::new(FaultKind::Io, format!("{url} cannot be read: status {status}"))
        }
        ureq::Error::Timeout(_) => {
            Fault::new(FaultKind::TimedOut, format!("{url} gave no answer in time: {error}"))
        }
        other => Fault::new(FaultKind::Io, format!("{url} cannot be read: {other}")),
    }
}
