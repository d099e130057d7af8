//! A bucket that is full, a server whose disk is, a cluster without a quorum: running jobs end, new ones are refused at once with
//! the reason, nothing that was refused runs later, `readyz` says it, and everything works again without a restart.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};
use zester_bus::nats::{Nats, Options, connect};
use zester_bus::{Bus, Kind, Store};
use zester_rule::rule;
use zester_testkit::{Cluster, Server, wait_for};

/// Longer than a refusal that needs no waiting may take on a busy machine, and shorter than a client waits for a master.
const AT_ONCE: Duration = Duration::from_secs(8);
/// How large the bucket of records is here.
const SMALL: u64 = 512 * 1024;

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What `/readyz` says, with its status.
fn readyz(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET /readyz HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

pub fn wait_readyz(port: u16, words: &[&str]) -> String {
    wait_for(&format!("readyz says {words:?}"), PATIENCE, || {
        readyz(port).filter(|text| words.iter().all(|word| text.contains(word)))
    })
}

/// The work leaves a line in a file that says which job ran.
fn attempt(fleet: &Fleet, name: &str) -> (Output, Duration) {
    let began = Instant::now();
    let command = format!("name=echo ran >> {}", fleet.path(name).display());
    let output = fleet.zester(&["*", "cmd.run", &command, "--timeout", "10m"]);
    (output, began.elapsed())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ran(fleet: &Fleet, name: &str) -> bool {
    fleet.path(name).exists()
}

/// Jobs are refused at once, and the words say why. Returns their names. One of them may find the machine busy.
fn are_refused(fleet: &Fleet, words: &[&str]) -> Vec<String> {
    let names: Vec<String> = (0..3).map(|number| format!("refused-{number}")).collect();
    let refused = |name: &String| {
        let (output, took) = attempt(fleet, name);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(words.iter().any(|word| text.contains(word)), "{words:?}: {text}");
        took
    };
    let quickest = names.iter().map(refused).min().unwrap();
    assert!(quickest < AT_ONCE, "{quickest:?}");
    names
}

/// Jobs are taken again; and once one has run, so would have what was refused before it.
fn works_again(fleet: &Fleet, refused: &[String]) {
    wait_for("a job is taken again", PATIENCE, || attempt(fleet, "after").0.status.success().then_some(()));
    assert!(ran(fleet, "after"));
    for name in refused {
        assert!(!ran(fleet, name), "{name} was refused, and ran");
    }
}

struct Filler {
    runtime: tokio::runtime::Runtime,
    bus: Nats,
    store: Store,
}

impl Filler {
    fn new(url: &str) -> Filler {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let bus = runtime.block_on(connect(Options::new(vec![url.to_string()], "filler"))).unwrap();
        let store = Store::bucket("jobs", SMALL);
        runtime.block_on(bus.ensure(&store, 1)).unwrap();
        Filler { runtime, bus, store }
    }

    /// Puts in what nobody can read, and so nobody removes, until no record fits any more. The oldest server counts a message
    /// without what it is stored with, and drops the oldest record where only that does not fit: so it is filled exactly.
    fn fill(&self) {
        const STORED_WITH: u64 = 30 + "$KV.jobs.filler-0000".len() as u64;
        self.runtime.block_on(async {
            for number in 0..100 {
                let usage = self.bus.usage(&self.store).await.unwrap();
                let left = (SMALL - usage.bytes).saturating_sub(STORED_WITH + 8);
                if left == 0 {
                    break;
                }
                let key = format!("filler-{number:04}");
                let value = vec![0; usize::try_from(left.min(16 * 1024)).unwrap()];
                self.bus.put("jobs", &key, value.into()).await.unwrap();
            }
            let full = self.bus.put("jobs", "filler-last", vec![0; 64].into()).await;
            assert_eq!(full.map_err(|error| error.kind()), Err(Kind::Full));
            let usage = self.bus.usage(&self.store).await.unwrap();
            assert!(usage.percent() >= 99, "{usage:?}");
        });
    }

    fn empty(&self) {
        self.runtime.block_on(async {
            for key in self.bus.keys("jobs", "*").await.unwrap() {
                if key.starts_with("filler-") {
                    self.bus.purge("jobs", &key, None).await.unwrap();
                }
            }
        });
    }
}

#[test]
#[rule("J-23", "J-28", "J-29")]
fn j23_a_bucket_of_jobs_that_is_full_to_the_last_byte() {
    let server = Server::start();
    let filler = Filler::new(&server.url());
    let port = free_port();
    let mut fleet = Fleet::new(&server.url());
    fleet.start_master_with_health("m1", port);
    let fleet = fleet.started(0, 2);
    wait_readyz(port, &["200 OK", "stores: up"]);
    let jid = fleet.dispatch_gated("*", "gate");
    let killed = fleet.dispatch_gated("*", "other");
    fleet.wait_begun("gate", 2);
    assert_eq!(fleet.job(&jid)["status"], "running");
    filler.fill();
    let refused = are_refused(&fleet, &["jobs is 9", "jobs is 100 % full", "jobs has refused writes"]);
    wait_readyz(port, &["503", "stores: down: jobs is "]);
    // What runs goes on; a kill says what is true.
    let output = fleet.zester(&["job", "kill", &killed]);
    assert!(output.status.success(), "{}", said(&output));
    fleet.open("gate");
    wait_for("the returns are stored", PATIENCE, || {
        (fleet.job(&jid)["returns"].as_object()?.len() == 2).then_some(())
    });
    filler.empty();
    let job = fleet.wait_over(&jid);
    assert_eq!(job["status"], "complete", "{job:#}");
    let job = fleet.wait_over(&killed);
    assert_eq!(job["status"], "canceled", "{job:#}");
    wait_readyz(port, &["200 OK", "stores: up"]);
    works_again(&fleet, &refused);
}

/// A disk of its own for a server, so small that it can be filled. Ends with this value.
pub struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    /// None where this user may not mount.
    pub fn new() -> Option<SmallDisk> {
        let dir = tempfile::Builder::new().prefix("zester-disk-").tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
            .arg(dir.path())
            .output();
        mounted.is_ok_and(|output| output.status.success()).then_some(SmallDisk { dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes all the room there is.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("ballast")).unwrap();
        for size in [64 * 1024, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn empty(&self) {
        std::fs::remove_file(self.path().join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ended = std::process::Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

#[test]
#[rule("J-23", "J-28", "J-29")]
fn j23_a_server_whose_disk_is_full() {
    let Some(disk) = SmallDisk::new() else { zester_testkit::skip!("only root can mount a small disk") };
    let mut server = Server::start_on(disk.path());
    let port = free_port();
    let mut fleet = Fleet::new(&server.url());
    fleet.start_master_with_health("m1", port);
    let fleet = fleet.started(0, 2);
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 2);
    disk.fill();
    assert_eq!(fleet.job(&jid)["status"], "running");
    wait_readyz(port, &["503", "stores: down: "]);
    let mut refused = Vec::new();
    for number in 0..2 {
        let name = format!("refused-{number}");
        let (output, _) = attempt(&fleet, &name);
        let text = said(&output);
        match output.status.code() {
            Some(1) => assert!(text.contains(" since "), "{text}"),
            // The oldest server answers nobody any more, so that no master can say anything.
            Some(3) => assert!(text.contains("it is not known whether job"), "{text}"),
            _ => panic!("{text}"),
        }
        refused.push(name);
    }
    fleet.open("gate");
    disk.empty();
    // A server that turned JetStream off for want of room needs a restart of its own; our daemons do not.
    if !fleet_recovers(port) {
        server.restart();
    }
    wait_readyz(port, &["200 OK", "stores: up"]);
    let job = fleet.wait_over(&jid);
    assert_eq!(job["status"], "complete", "{job:#}");
    works_again(&fleet, &refused);
}

fn fleet_recovers(port: u16) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if readyz(port).is_some_and(|text| text.contains("stores: up")) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

#[test]
#[rule("J-23", "J-28", "J-29")]
fn j28_a_cluster_that_lost_its_quorum() {
    let mut cluster = Cluster::start(3);
    let port = free_port();
    let mut fleet = Fleet::new(&cluster.urls().join(","));
    fleet.start_master_with_health("m1", port);
    let fleet = fleet.started(0, 2);
    wait_readyz(port, &["200 OK", "stores: up"]);
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 2);
    assert_eq!(fleet.job(&jid)["status"], "running");
    cluster.kill(0);
    cluster.kill(1);
    wait_readyz(port, &["503", "stores: down: ", "no leader since"]);
    // Longer than an election takes; until then a client waits, and says that it does not know.
    wait_for("a refusal that is not an election's", PATIENCE, || {
        let (output, _) = attempt(&fleet, "early");
        match output.status.code() {
            Some(1) => said(&output).contains("no leader since").then_some(()),
            Some(3) => {
                assert!(said(&output).contains("it is not known whether job"), "{}", said(&output));
                None
            }
            _ => panic!("{}", said(&output)),
        }
    });
    let refused = are_refused(&fleet, &["no leader since"]);
    fleet.open("gate");
    cluster.restart(0);
    cluster.restart(1);
    let job = fleet.wait_over(&jid);
    assert_eq!(job["status"], "complete", "{job:#}");
    wait_readyz(port, &["200 OK", "stores: up"]);
    works_again(&fleet, &refused);
}
