//! What guards the reactor, and how strictly.

use std::time::Duration;

/// A 0 switches a guard off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guards {
    /// Events this deep in a chain are dropped, and none is sent that would be.
    pub max_chain_depth: u32,
    /// Whether rules may send events.
    pub chaining: bool,
    /// How long a rule rests for a source after a fire, where the rule says nothing else.
    pub default_throttle: Duration,
    /// Fires that a rule may complete in a minute.
    pub storm_rate: u32,
    /// How long a rule that fired more often is stopped.
    pub storm_cooldown: Duration,
    /// Events a minute that one source may send.
    pub source_rate_limit: u32,
    /// Events that it may send at once. A 0 here switches the limit off too: none at once would be none at all.
    pub source_burst: u32,
    /// Older events are dropped.
    pub max_event_age: Duration,
}

impl Default for Guards {
    fn default() -> Guards {
        Guards {
            max_chain_depth: 3,
            chaining: true,
            default_throttle: Duration::ZERO,
            storm_rate: 60,
            storm_cooldown: Duration::from_secs(300),
            source_rate_limit: 120,
            source_burst: 30,
            max_event_age: Duration::from_secs(3_600),
        }
    }
}

impl Guards {
    /// Whether an event of this depth goes too far.
    pub fn is_too_deep(&self, depth: u32) -> bool {
        self.max_chain_depth > 0 && depth >= self.max_chain_depth
    }
}
