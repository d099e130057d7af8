//! Ports that stay ours while a server is down between a kill and a restart.

use std::fs::File;
use std::net::TcpListener;
use std::ops::Range;

/// Below what Linux hands out to outgoing connections, so that no client takes the port of a server that is down.
const RANGE: Range<u16> = 20_000..32_000;

/// A port that no other test process takes while this value lives.
pub struct Port {
    pub number: u16,
    _claim: File,
}

impl Port {
    pub fn claim() -> Port {
        let claims = std::env::temp_dir().join("zester-testkit-ports");
        if let Err(error) = std::fs::create_dir_all(&claims) {
            panic!("{}: {error}", claims.display());
        }
        // Processes begin at different places, so that they rarely meet.
        let first = usize::try_from(std::process::id()).unwrap_or_default() * 37;
        for number in RANGE.cycle_from(first) {
            let Ok(claim) = File::create(claims.join(number.to_string())) else { continue };
            if claim.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Port { number, _claim: claim };
            }
        }
        panic!("no free port between {} and {}", RANGE.start, RANGE.end);
    }
}

trait CycleFrom {
    fn cycle_from(self, first: usize) -> impl Iterator<Item = u16>;
}

impl CycleFrom for Range<u16> {
    /// Every number once, beginning somewhere in the middle.
    fn cycle_from(self, first: usize) -> impl Iterator<Item = u16> {
        let count = self.len();
        self.cycle().skip(first % count).take(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_claims_never_share_a_port() {
        let ports: Vec<Port> = (0..20).map(|_| Port::claim()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
    }
}
