//! Thousands of peels in one process, each with a connection of its own: what `zester bench peels` measures a fleet with.
//!
//! They are the peels of the product, except for two parts: what they remember is in memory, and all they can do is
//! answer `test.ping`. Everything between them and the server is real.

mod ping;

use ping::Ping;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zester_bus::Bus;
use zester_bus::limits::PING_INTERVAL_OF_PEELS;
use zester_bus::nats::{Options, connect};
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_peel::Setup;
use zester_peel::store::MemoryStore;
use zester_wire::PeelId;

/// Connections that are being made at once. More would only wait for the server.
const CONNECTING_MAX: usize = 128;
/// How long the server may take to answer one of so many.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// After a failed try to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(200);
/// Tries to connect before the swarm gives up.
const CONNECT_TRIES: usize = 50;

/// Why there is no swarm.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The name of one of them.
pub fn name(number: usize) -> String {
    format!("swarm-{number:05}")
}

/// Lives until `stop`, as the peels of these numbers. `connected` is called once all have a connection.
pub async fn run(
    urls: Vec<String>,
    numbers: Range<usize>,
    timing: Timing,
    connected: impl FnOnce(),
    stop: CancellationToken,
) -> Result<(), Error> {
    let permits = Arc::new(Semaphore::new(CONNECTING_MAX));
    let mut connecting = JoinSet::new();
    for number in numbers {
        let (urls, permits, spread) = (urls.clone(), permits.clone(), timing.reconnect_spread);
        connecting.spawn(async move {
            let _permit = permits.acquire().await;
            open(urls, number, spread).await
        });
    }
    let mut peels = JoinSet::new();
    while let Some(opened) = connecting.join_next().await {
        let (link, number) = opened.map_err(|error| Error(error.to_string()))??;
        let (timing, stop) = (timing.clone(), stop.clone());
        peels.spawn(live(link, number, timing, stop));
    }
    connected();
    while let Some(ended) = peels.join_next().await {
        ended.map_err(|error| Error(error.to_string()))??;
    }
    Ok(())
}

async fn open(urls: Vec<String>, number: usize, spread: Duration) -> Result<(Link, usize), Error> {
    let mut options = Options::new(urls, name(number));
    options.answer_timeout = ANSWER_TIMEOUT;
    options.reconnect_spread = spread;
    options.probe_every = PING_INTERVAL_OF_PEELS;
    let mut tries = 0;
    loop {
        match connect(options.clone()).await {
            Ok(bus) => {
                let bus: Arc<dyn Bus> = Arc::new(bus);
                return Ok((Link::new(bus), number));
            }
            Err(error) if tries == CONNECT_TRIES => return Err(Error(error.to_string())),
            Err(_) => {
                tries += 1;
                tokio::time::sleep(CONNECT_PAUSE).await;
            }
        }
    }
}

async fn live(link: Link, number: usize, timing: Timing, stop: CancellationToken) -> Result<(), Error> {
    let id = PeelId::parse(&name(number)).map_err(|bad| Error(bad.to_string()))?;
    let boot = link.new_token().map_err(|error| Error(error.to_string()))?;
    let setup = Setup { id: id.clone(), boot, timing, version: env!("CARGO_PKG_VERSION").into() };
    let (store, work) = (Arc::new(MemoryStore::new()), Arc::new(Ping { id }));
    let health = Arc::new(Health::new());
    zester_peel::run(link, store, work, setup, health, stop).await.map_err(|error| Error(error.to_string()))
}
