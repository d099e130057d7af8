//! Several servers that keep JetStream together.

use crate::binary;
use crate::node::{Node, READY};
use crate::port::Port;
use crate::wait::wait_for;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// A JetStream cluster on the loopback. Ends with this value, and with the test process.
pub struct Cluster {
    nodes: Vec<Node>,
    monitors: Vec<Port>,
    _routes: Vec<Port>,
}

impl Cluster {
    /// Starts the servers and waits until they have chosen a leader and all follow it.
    pub fn start(size: usize) -> Cluster {
        Cluster::run(&binary::find(), size)
    }

    fn run(binary: &Path, size: usize) -> Cluster {
        let routes: Vec<Port> = (0..size).map(|_| Port::claim()).collect();
        let monitors: Vec<Port> = (0..size).map(|_| Port::claim()).collect();
        let peers: Vec<String> =
            routes.iter().map(|port| format!("nats://127.0.0.1:{}", port.number)).collect();
        let peers = peers.join(", ");
        let configs = routes.iter().zip(&monitors).enumerate().map(|(index, (route, monitor))| {
            format!(
                "server_name: node-{index}\nhttp: \"127.0.0.1:{}\"\n\
                 cluster {{ name: zester-test, listen: \"127.0.0.1:{}\", routes: [{peers}] }}",
                monitor.number, route.number
            )
        });
        let nodes = configs.map(|config| Node::new(binary, &config)).collect();
        let mut cluster = Cluster { nodes, monitors, _routes: routes };
        for node in &mut cluster.nodes {
            node.spawn();
        }
        for node in &mut cluster.nodes {
            node.wait_ready();
        }
        cluster.wait_for_members();
        cluster
    }

    /// Waits until the leader has every other server up to date. Two of three are enough to choose a leader; if that one were
    /// killed before the third has joined, the one that is left would wait for it for ever.
    fn wait_for_members(&self) {
        wait_for("all servers in the cluster", READY, || {
            let leader = self.wait_for_leader();
            let report = ask(self.monitors[leader].number, "/jsz")?;
            let others = report["meta_cluster"]["replicas"].as_array()?;
            let joined = others.iter().filter(|other| other["current"] == true).count();
            // Clients learn from each of them how many there are.
            let told = |monitor: &Port| {
                let report = ask(monitor.number, "/varz")?;
                Some(report["connect_urls"].as_array()?.len())
            };
            let all = self.nodes.len();
            (joined == all - 1 && self.monitors.iter().all(|monitor| told(monitor) == Some(all)))
                .then_some(())
        });
    }

    /// The addresses of all servers, for one client.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Node::url).collect()
    }

    pub fn url(&self, index: usize) -> String {
        self.nodes[index].url()
    }

    /// Ends one server as a crash would.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
    }

    /// Starts one server again with its ports and its store.
    pub fn restart(&mut self, index: usize) {
        self.nodes[index].kill();
        self.nodes[index].spawn();
        self.nodes[index].wait_ready();
    }

    /// Waits until every running server names the same leader of the cluster, and that one runs. Returns its index.
    pub fn wait_for_leader(&self) -> usize {
        wait_for("a leader of the cluster", READY, || {
            let running = (0..self.nodes.len()).filter(|index| self.nodes[*index].running());
            let named: Option<Vec<usize>> = running.map(|index| self.leader_says(index)).collect();
            let named = named?;
            let first = *named.first()?;
            let agreed = named.iter().all(|leader| *leader == first);
            (agreed && self.nodes[first].running()).then_some(first)
        })
    }

    /// Waits until every running server that keeps a stream (a bucket is `KV_<name>`) names the same leader of it, and that one
    /// runs. Returns its index.
    pub fn wait_for_leader_of(&self, stream: &str) -> usize {
        wait_for(&format!("a leader of {stream}"), READY, || {
            let running = (0..self.nodes.len()).filter(|index| self.nodes[*index].running());
            let named: Vec<Option<usize>> =
                running.filter_map(|index| self.stream_leader_says(index, stream)).collect();
            let first = (*named.first()?)?;
            let agreed = named.iter().all(|leader| *leader == Some(first));
            (agreed && self.nodes[first].running()).then_some(first)
        })
    }

    /// Whom this node takes for the leader of a stream; none if it does not keep it, or does not answer.
    fn stream_leader_says(&self, index: usize, stream: &str) -> Option<Option<usize>> {
        let report = ask(self.monitors[index].number, "/jsz?accounts=true&streams=true")?;
        let accounts = report["account_details"].as_array()?;
        let mut streams = accounts.iter().filter_map(|account| account["stream_detail"].as_array()).flatten();
        let found = streams.find(|detail| detail["name"] == stream)?;
        let leader = found["cluster"]["leader"].as_str().and_then(|name| name.strip_prefix("node-"));
        Some(leader.and_then(|number| number.parse().ok()))
    }

    /// Which node this one takes for the leader, once it knows of all nodes.
    fn leader_says(&self, index: usize) -> Option<usize> {
        let report = ask(self.monitors[index].number, "/jsz")?;
        if report["meta_cluster"]["cluster_size"] != self.nodes.len() {
            return None;
        }
        let leader = report["meta_cluster"]["leader"].as_str()?;
        leader.strip_prefix("node-")?.parse().ok()
    }
}

/// A question to the monitoring port.
fn ask(port: u16, path: &str) -> Option<serde_json::Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}
