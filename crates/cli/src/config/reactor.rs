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
