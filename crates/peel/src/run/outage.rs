//! What is worth telling while the bus is away: each reason once, not at every try.

/// The client of the bus begins its words so; it tells nobody anything.
const PREFIX: &str = "client error: nats: ";
/// How a lost connection looks at every try to make a new one.
const NO_ROUTE: &str = "IO error";

#[derive(Default)]
pub(super) struct Outage {
    /// Somebody was told that the connection is lost.
    lost: bool,
    /// The reason that was told last.
    told: Option<String>,
}

impl Outage {
    /// A connection that stood is gone, and that was told.
    pub(super) fn lost(&mut self) {
        *self = Outage { lost: true, told: None };
    }

    /// A connection stands.
    pub(super) fn over(&mut self) {
        *self = Outage::default();
    }

    /// The sentence for what the client of the bus says, unless it says nothing new.
    pub(super) fn hear(&mut self, words: &str) -> Option<String> {
        let reason = words.strip_prefix(PREFIX).unwrap_or(words);
        if self.told.as_deref() == Some(reason) || (self.lost && reason == NO_ROUTE) {
            return None;
        }
        self.told = Some(reason.to_string());
        Some(match reason {
            NO_ROUTE => "the bus is away; trying on until it is there".to_string(),
            other => format!("the bus does not take us: {other}; trying on"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-9")]
    fn d9_a_bus_that_is_away_is_told_once() {
        let mut outage = Outage::default();
        assert!(outage.hear("client error: nats: IO error").unwrap().starts_with("the bus is away"));
        assert_eq!(outage.hear("client error: nats: IO error"), None);
        let refused = outage.hear("client error: nats: authorization violation").unwrap();
        assert!(refused.contains("does not take us: authorization violation"), "{refused}");
        assert_eq!(outage.hear("client error: nats: authorization violation"), None);
    }

    #[test]
    #[rule("D-9")]
    fn d9_a_lost_connection_was_told_already() {
        let mut outage = Outage::default();
        outage.lost();
        assert_eq!(outage.hear("client error: nats: IO error"), None);
        assert!(outage.hear("client error: nats: authorization violation").is_some());
        outage.over();
        assert!(outage.hear("client error: nats: IO error").is_some());
    }
}
