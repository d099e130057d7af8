//! What a law runs on.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::nats::{self, Options, Reads};
use zester_bus::{Bus, Bytes, Delivery, Kind, Store, Subscription};
use zester_testkit::{Server, wait_until};

pub const PATIENCE: Duration = Duration::from_secs(30);

pub enum Bench {
    Memory(Net),
    Nats(Box<Server>, Reads),
}

impl Bench {
    pub fn memory() -> Bench {
        Bench::Memory(Net::new(Arc::new(TokioClock::new())))
    }

    pub fn nats() -> Bench {
        Bench::Nats(Box::new(Server::start()), Reads::All)
    }

    /// Whoever reads as an account without JetStream has to.
    pub fn single_reads() -> Bench {
        Bench::Nats(Box::new(Server::start()), Reads::Single)
    }

    pub async fn connect(&self, name: &str) -> Arc<dyn Bus> {
        match self {
            Bench::Memory(net) => Arc::new(net.connect(name)),
            Bench::Nats(server, reads) => {
                let options = Options { reads: *reads, ..Options::new(vec![server.url()], name) };
                Arc::new(nats::connect(options).await.unwrap())
            }
        }
    }

    /// A client that gives up soon, on a server that is asked in real time.
    pub async fn connect_hasty(&self, name: &str) -> Arc<dyn Bus> {
        match self {
            Bench::Memory(net) => Arc::new(net.connect(name)),
            Bench::Nats(server, reads) => {
                let options = Options {
                    reads: *reads,
                    answer_timeout: Duration::from_millis(500),
                    ..Options::new(vec![server.url()], name)
                };
                Arc::new(nats::connect(options).await.unwrap())
            }
        }
    }

    /// The server stands still, and nobody is told.
    pub fn freeze(&mut self) {
        match self {
            Bench::Memory(net) => net.freeze(),
            Bench::Nats(server, _) => server.freeze(),
        }
    }

    pub fn thaw(&mut self) {
        match self {
            Bench::Memory(net) => net.thaw(),
            Bench::Nats(server, _) => server.thaw(),
        }
    }

    /// Removes a store and makes it again.
    pub async fn recreate(&mut self, bus: &dyn Bus, store: &Store) {
        match self {
            Bench::Memory(net) => net.recreate(&store.stream_name()),
            Bench::Nats(server, _) => {
                let raw = async_nats::connect(server.url()).await.unwrap();
                let raw = async_nats::jetstream::new(raw);
                raw.delete_stream(store.stream_name()).await.unwrap();
                bus.ensure(store, 1).await.unwrap();
            }
        }
    }

    pub fn crash(&mut self) {
        match self {
            Bench::Memory(net) => net.crash(),
            Bench::Nats(server, _) => server.kill(),
        }
    }

    pub fn restart(&mut self) {
        match self {
            Bench::Memory(net) => net.restart(),
            Bench::Nats(server, _) => server.restart(),
        }
    }
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// A bucket that takes a little.
pub async fn bucket(bus: &dyn Bus, name: &str) -> Store {
    let store = Store::bucket(name, 1024 * 1024);
    bus.ensure(&store, 1).await.unwrap();
    store
}

/// Anything that takes longer hangs.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it hangs")
}

/// The next message as text.
pub async fn text(subscription: &mut Subscription) -> String {
    match soon(subscription.next()).await {
        Some(Delivery::Message(message)) => String::from_utf8(message.payload.to_vec()).unwrap(),
        other => panic!("not a message: {other:?}"),
    }
}

pub async fn wait_connected(bus: &dyn Bus, connected: bool) {
    let what = if connected { "a connection" } else { "the end of the connection" };
    wait_until(what, PATIENCE, || async { (bus.info().connected == connected).then_some(()) }).await;
}

pub fn kind<T>(result: Result<T, zester_bus::Error>) -> Option<Kind> {
    result.err().map(|error| error.kind())
}
