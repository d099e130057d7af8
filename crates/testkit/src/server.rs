//! One private server.

use crate::binary;
use crate::node::Node;
use nix::sys::signal::Signal;
use std::path::Path;

/// A `nats-server` with JetStream, a port and a directory of its own. Ends with this value, and with the test process.
pub struct Server {
    node: Node,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub fn start() -> Server {
        Server::start_with("")
    }

    /// The same with more lines of configuration, for example `max_payload: 65536`.
    pub fn start_with(config: &str) -> Server {
        Server::run(&binary::find(), config)
    }

    /// A server that keeps nothing: messages only.
    pub fn start_without_jetstream() -> Server {
        let mut node = Node::without_jetstream(&binary::find());
        node.spawn();
        node.wait_ready();
        Server { node }
    }

    /// One that keeps everything below a directory of the test's.
    pub fn start_on(store: &Path) -> Server {
        let mut node = Node::storing_in(&binary::find(), store);
        node.spawn();
        node.wait_ready();
        Server { node }
    }

    fn run(binary: &Path, config: &str) -> Server {
        let mut node = Node::new(binary, config);
        node.spawn();
        node.wait_ready();
        Server { node }
    }

    pub fn url(&self) -> String {
        self.node.url()
    }

    /// The server's log so far.
    pub fn said(&self) -> String {
        self.node.said()
    }

    /// Ends the server as a crash would.
    pub fn kill(&mut self) {
        self.node.kill();
    }

    /// Ends the server in its own order.
    pub fn stop(&mut self) {
        self.node.stop();
    }

    /// Stops the server where it is: connections stay, and nothing answers.
    pub fn freeze(&mut self) {
        self.node.freeze();
    }

    /// Lets it go on.
    pub fn thaw(&mut self) {
        self.node.signal(Signal::SIGCONT);
    }

    /// Starts it again on the same port with the same store.
    pub fn restart(&mut self) {
        self.node.kill();
        self.node.spawn();
        self.node.wait_ready();
    }
}
