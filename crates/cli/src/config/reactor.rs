//! `reactor.*`: how a master reacts to events.

use super::{Span, lay};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use zester_master::Reacting;
use zester_reactor::RuleCompiler;

/// A 0 switches a guard off.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reactor {
    /// Whether this master reacts. It publishes rules all the same.
    pub enabled: Option<bool>,
    /// The rules that this master publishes.
    pub dir: Option<PathBuf>,
    pub workers: Option<usize>,
    pub render_timeout: Option<Span>,
    pub max_chain_depth: Option<u32>,
    pub chaining: Option<bool>,
    pub default_throttle: Option<Span>,
    pub storm_rate: Option<u32>,
    pub storm_cooldown: Option<Span>,
    pub source_rate_limit: Option<u32>,
    pub source_burst: Option<u32>,
    pub max_event_age: Option<Span>,
    pub ack_wait: Option<Span>,
    pub reload_debounce: Option<Span>,
    pub reload_jitter: Option<Span>,
}

impl Reactor {
    pub fn lay(&mut self, over: Reactor) {
        lay!(self, over; enabled, dir, workers, render_timeout, max_chain_depth, chaining, default_throttle);
        lay!(self, over; storm_rate, storm_cooldown, source_rate_limit, source_burst, max_event_age);
        lay!(self, over; ack_wait, reload_debounce, reload_jitter);
    }

    /// What is no guard cannot be nothing.
    pub fn check(&self) -> Result<(), String> {
        let spans = [("render_timeout", self.render_timeout), ("ack_wait", self.ack_wait)];
        let zero = spans.into_iter().find(|(_, span)| span.is_some_and(|Span(span)| span.is_zero()));
        let workers = (self.workers == Some(0)).then_some("workers");
        let wrong = zero.map(|(name, _)| name).or(workers);
        wrong.map_or(Ok(()), |name| Err(format!("reactor.{name} must be more than nothing")))
    }

    /// What a master goes by, with the compiler that it is given.
    pub fn over_defaults(&self, compiler: Arc<dyn RuleCompiler>) -> Reacting {
        let mut reacting = Reacting::default();
        let guards = &mut reacting.guards;
        let spans = [
            (&mut guards.default_throttle, self.default_throttle),
            (&mut guards.storm_cooldown, self.storm_cooldown),
            (&mut guards.max_event_age, self.max_event_age),
            (&mut reacting.render_timeout, self.render_timeout),
            (&mut reacting.ack_wait, self.ack_wait),
            (&mut reacting.reload_debounce, self.reload_debounce),
            (&mut reacting.reload_jitter, self.reload_jitter),
        ];
        for (default, given) in spans {
            if let Some(Span(span)) = given {
                *default = span;
            }
        }
        let numbers = [
            (&mut guards.max_chain_depth, self.max_chain_depth),
            (&mut guards.storm_rate, self.storm_rate),
            (&mut guards.source_rate_limit, self.source_rate_limit),
            (&mut guards.source_burst, self.source_burst),
        ];
        for (default, given) in numbers {
            *default = given.unwrap_or(*default);
        }
        guards.chaining = self.chaining.unwrap_or(guards.chaining);
        reacting.workers = self.workers.unwrap_or(reacting.workers);
        reacting.compiler = self.enabled.unwrap_or(true).then_some(compiler);
        reacting
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;
    use zester_model::diagnostic::Diagnostic;
    use zester_model::node::Node;
    use zester_reactor::{Guards, ReactionTemplate};
    use zester_rule::rule;

    struct NoCompiler;

    impl RuleCompiler for NoCompiler {
        fn yaml(&self, _: &str, _: &str) -> Result<Node, Vec<String>> {
            Err(Vec::new())
        }

        fn template(
            &self,
            _: &str,
            _: &str,
            _: &BTreeMap<String, String>,
        ) -> Result<Arc<dyn ReactionTemplate>, Vec<String>> {
            Err(Vec::new())
        }

        fn explain(&self, _: &str, _: &str, _: &[Diagnostic]) -> Vec<String> {
            Vec::new()
        }
    }

    /// No two values are alike, and none is what it is when nobody says.
    const EVERY_KEY: &str = "reactor:
  enabled: false
  dir: /srv/rules
  workers: 17
  render_timeout: 18s
  max_chain_depth: 19
  chaining: false
  default_throttle: 20s
  storm_rate: 21
  storm_cooldown: 22s
  source_rate_limit: 23
  source_burst: 24
  max_event_age: 25s
  ack_wait: 26s
  reload_debounce: 27s
  reload_jitter: 28s
";

    fn read(text: &str) -> Reactor {
        parse("c.yaml", text).unwrap_or_else(|_| panic!("{text}")).reactor
    }

    fn over_defaults(config: &Reactor) -> Reacting {
        config.over_defaults(Arc::new(NoCompiler))
    }

    #[test]
    #[rule("R-12")]
    fn r12_every_key_reaches_its_place() {
        let read = read(EVERY_KEY);
        let mut laid = Reactor::default();
        laid.lay(read.clone());
        let mut kept = read.clone();
        kept.lay(Reactor::default());
        let seconds = Duration::from_secs;
        for (way, config) in [("read", read), ("laid over nothing", laid), ("with nothing over it", kept)] {
            assert_eq!(config.check(), Ok(()), "{way}");
            assert_eq!(config.dir.as_deref(), Some(std::path::Path::new("/srv/rules")), "{way}");
            let found = over_defaults(&config);
            let guards = Guards {
                max_chain_depth: 19,
                chaining: false,
                default_throttle: seconds(20),
                storm_rate: 21,
                storm_cooldown: seconds(22),
                source_rate_limit: 23,
                source_burst: 24,
                max_event_age: seconds(25),
            };
            assert_eq!(found.guards, guards, "{way}");
            assert!(found.compiler.is_none(), "{way}: it does not react");
            assert_eq!(found.workers, 17, "{way}");
            let spans = [found.render_timeout, found.ack_wait, found.reload_debounce, found.reload_jitter];
            assert_eq!(spans, [18, 26, 27, 28].map(seconds), "{way}");
        }
    }

    #[test]
    #[rule("R-1", "R-11", "R-12", "R-13")]
    fn r12_what_nobody_says_is_as_the_rules_have_it() {
        let seconds = Duration::from_secs;
        let found = over_defaults(&read("reactor: {}"));
        let guards = Guards {
            max_chain_depth: 3,
            chaining: true,
            default_throttle: Duration::ZERO,
            storm_rate: 60,
            storm_cooldown: seconds(300),
            source_rate_limit: 120,
            source_burst: 30,
            max_event_age: seconds(3_600),
        };
        assert_eq!(found.guards, guards);
        assert!(found.compiler.is_some(), "a master reacts unless it is told not to");
        assert_eq!(found.workers, 4);
        let spans = [found.render_timeout, found.ack_wait, found.reload_debounce, found.reload_jitter];
        assert_eq!(spans, [30, 60, 2, 5].map(seconds));
        assert!(found.queue >= 64, "no less than may be given out at once");
    }

    #[test]
    #[rule("R-12")]
    fn r12_zero_is_read_for_guards_and_refused_for_the_rest() {
        let numbers = ["max_chain_depth", "storm_rate", "source_rate_limit", "source_burst"];
        let spans =
            ["default_throttle", "storm_cooldown", "max_event_age", "reload_debounce", "reload_jitter"];
        for key in numbers.into_iter().chain(spans) {
            assert_eq!(read(&format!("reactor: {{{key}: 0}}")).check(), Ok(()), "{key}");
        }
        for key in ["workers", "render_timeout", "ack_wait"] {
            let told = read(&format!("reactor: {{{key}: 0}}")).check();
            assert_eq!(told, Err(format!("reactor.{key} must be more than nothing")));
        }
        let off = over_defaults(&read("reactor: {storm_rate: 0, source_burst: 0, max_event_age: 0}")).guards;
        let defaults = Guards::default();
        let expected = Guards { storm_rate: 0, source_burst: 0, max_event_age: Duration::ZERO, ..defaults };
        assert_eq!(off, expected);
    }
}
