//! What is told of a bus that goes away: that it did, and that it is back, each once and not at every try.

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outage {
    lost: bool,
}

impl Outage {
    /// There is no connection any more.
    pub fn begins(&mut self) {
        if self.is_news(true) {
            tracing::warn!(
                "the connection to the bus was lost; jobs go on at their peels, and it is tried until it is back"
            );
        }
    }

    /// There is one.
    pub fn over(&mut self) {
        if self.is_news(false) {
            tracing::info!("the connection to the bus is back");
        }
    }

    fn is_news(&mut self, lost: bool) -> bool {
        std::mem::replace(&mut self.lost, lost) != lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_told_once_and_so_is_the_next() {
        let mut outage = Outage::default();
        assert!(!outage.is_news(false), "the first connection is no news");
        assert!(outage.is_news(true) && !outage.is_news(true));
        assert!(outage.is_news(false) && !outage.is_news(false));
        assert!(outage.is_news(true));
    }
}
