//! Events of one rule and one source have their turns in the order of the stream; others do not wait for them.

use crate::limits::LANES_MAX;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::watch;
use zester_wire::Origin;

/// The last event of each rule and source.
#[derive(Default)]
pub struct Lanes {
    last: HashMap<(Arc<str>, Origin), watch::Receiver<()>>,
}

/// The turn of one event in all its lanes. Dropped, it is the turn of the next.
pub struct LanePlace {
    before: Vec<watch::Receiver<()>>,
    _held: watch::Sender<()>,
}

impl Lanes {
    /// Joins the lanes of these rules, behind all who joined before.
    pub fn join<'r>(&mut self, rules: impl Iterator<Item = &'r Arc<str>>, origin: &Origin) -> LanePlace {
        if self.last.len() >= LANES_MAX {
            self.last.retain(|_, last| last.has_changed().is_ok());
        }
        let (held, mine) = watch::channel(());
        let rules: BTreeSet<&Arc<str>> = rules.collect();
        let join = |rule: &Arc<str>| self.last.insert((rule.clone(), origin.clone()), mine.clone());
        let before = rules.into_iter().filter_map(join).collect();
        LanePlace { before, _held: held }
    }
}

impl LanePlace {
    /// Until all who joined before are done.
    pub async fn comes(&mut self) {
        while let Some(before) = self.before.last_mut() {
            // Only the end of the sender ends this. Whoever stops waiting and asks again waits for the same.
            while before.changed().await.is_ok() {}
            self.before.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use zester_rule::rule;
    use zester_wire::PeelId;

    fn join(lanes: &mut Lanes, rules: &[&str], peel: &str) -> LanePlace {
        let rules: Vec<Arc<str>> = rules.iter().map(|rule| Arc::from(*rule)).collect();
        lanes.join(rules.iter(), &Origin::Peel(PeelId::parse(peel).unwrap()))
    }

    #[test]
    #[rule("R-25")]
    fn r25_one_rule_and_source_goes_in_order_and_others_do_not_wait() {
        let mut lanes = Lanes::default();
        let mut first = join(&mut lanes, &["a", "b", "a"], "web");
        let mut second = join(&mut lanes, &["b"], "web");
        let mut after_second = join(&mut lanes, &["b"], "web");
        let mut other_rule = join(&mut lanes, &["c"], "web");
        let mut other_source = join(&mut lanes, &["a", "b"], "db");
        let mut third = join(&mut lanes, &["a"], "web");
        for free in [&mut first, &mut other_rule, &mut other_source] {
            assert!(free.comes().now_or_never().is_some(), "nobody is before it");
        }
        for waiting in [&mut second, &mut after_second, &mut third] {
            assert!(waiting.comes().now_or_never().is_none(), "the first has its turn");
        }
        drop(first);
        for free in [&mut second, &mut third] {
            assert!(free.comes().now_or_never().is_some(), "all before it are done");
        }
        assert!(after_second.comes().now_or_never().is_none(), "the second has its turn");
        drop(second);
        assert!(after_second.comes().now_or_never().is_some());
    }
}
