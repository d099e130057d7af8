//! How often one address may ask at the door, in a bounded memory (I-13).

use crate::limits::{ADDRESS_BURST, ADDRESS_PER_SECOND, ADDRESSES_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use zester_wire::UnixMillis;

/// What one request costs, in milliseconds of waiting.
const COST: u64 = 1_000 / ADDRESS_PER_SECOND;

/// One number an address says it all: when its share will be whole again. Two tables take turns: when the newer is full, the
/// older goes, so that whoever asked lately is known and no flood of addresses grows it.
#[derive(Default)]
pub struct AddressRate {
    newer: BTreeMap<IpAddr, u64>,
    older: BTreeMap<IpAddr, u64>,
}

impl AddressRate {
    /// Takes one request of this address, or says how long it should wait.
    pub fn take(&mut self, address: IpAddr, now: UnixMillis) -> Result<(), Duration> {
        let address = neighbourhood(address);
        let known = self.newer.get(&address).or_else(|| self.older.get(&address)).copied();
        let whole_at = known.unwrap_or_default().max(now.0);
        let behind = whole_at - now.0;
        if behind + COST > ADDRESS_BURST * COST {
            return Err(Duration::from_millis(behind + COST - ADDRESS_BURST * COST));
        }
        if self.newer.len() >= ADDRESSES_MAX && !self.newer.contains_key(&address) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(address, whole_at + COST);
        Ok(())
    }
}

/// Who has one address of IPv6 has a whole network of them.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let mut segments = v6.segments();
            segments[4..].fill(0);
            IpAddr::from(segments)
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

    fn v4(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    #[rule("I-4", "I-13")]
    fn i4_an_address_that_asks_too_often_waits_and_others_do_not() {
        let mut rate = AddressRate::default();
        for _ in 0..ADDRESS_BURST {
            assert_eq!(rate.take(v4(1), NOW), Ok(()));
        }
        let wait = rate.take(v4(1), NOW).unwrap_err();
        assert_eq!(wait, Duration::from_millis(COST));
        assert_eq!(rate.take(v4(2), NOW), Ok(()));
        assert_eq!(rate.take(v4(1), NOW.plus(wait)), Ok(()));
        assert!(rate.take(v4(1), NOW.plus(wait)).is_err());
    }

    #[test]
    #[rule("I-13")]
    fn i13_the_memory_of_addresses_is_bounded_and_keeps_who_asked_lately() {
        let mut rate = AddressRate::default();
        for number in 0..3 * ADDRESSES_MAX as u32 {
            assert_eq!(rate.take(v4(number), NOW), Ok(()));
        }
        assert!(rate.newer.len() + rate.older.len() <= 2 * ADDRESSES_MAX);
        let last = v4(3 * ADDRESSES_MAX as u32 - 1);
        for _ in 1..ADDRESS_BURST {
            assert_eq!(rate.take(last, NOW), Ok(()));
        }
        assert!(rate.take(last, NOW).is_err());
    }

    #[test]
    #[rule("I-13")]
    fn i13_a_network_of_ipv6_is_one_address() {
        let mut rate = AddressRate::default();
        for number in 0..ADDRESS_BURST {
            let address: IpAddr = format!("2001:db8:0:1::{number:x}").parse().unwrap();
            assert_eq!(rate.take(address, NOW), Ok(()));
        }
        assert!(rate.take("2001:db8:0:1::ffff".parse().unwrap(), NOW).is_err());
        assert!(rate.take("2001:db8:0:2::1".parse().unwrap(), NOW).is_ok());
        // The same address, written in the other way.
        assert_eq!(neighbourhood("::ffff:192.0.2.1".parse().unwrap()), v4(0xc000_0201));
    }
}
