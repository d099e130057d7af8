//! The state of each part, and the metrics of all.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a part is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Up,
    /// It works, but not as it should; the words say why. Still ready.
    Degraded(String),
    /// It does not work; the words say why. Not ready.
    Down(String),
}

/// One daemon's.
#[derive(Debug, Default)]
pub struct Health {
    checks: Mutex<BTreeMap<&'static str, State>>,
    registry: Mutex<Registry>,
}

impl Health {
    pub fn new() -> Health {
        Health::default()
    }

    /// Reports one part.
    pub fn set(&self, check: &'static str, state: State) {
        self.checks().insert(check, state);
    }

    pub fn state(&self, check: &str) -> Option<State> {
        self.checks().get(check).cloned()
    }

    /// Registers counters and gauges, whose names begin with `zester_`.
    pub fn register(&self, with: impl FnOnce(&mut Registry)) {
        with(&mut self.registry());
    }

    /// A number that is looked up when somebody asks for it.
    pub fn watch(
        &self,
        name: &'static str,
        help: &'static str,
        look: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        let look = Box::new(look);
        self.registry().register_collector(Box::new(Looked { name, help, look }));
    }

    /// Several such numbers under one name, told apart by a label.
    pub fn watch_each<L: Into<Cow<'static, str>>>(
        &self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        look: impl Fn() -> Vec<(L, u64)> + Send + Sync + 'static,
    ) {
        let look =
            Box::new(move || look().into_iter().map(|(label, number)| (label.into(), number)).collect());
        self.registry().register_collector(Box::new(LookedEach { name, help, label, look }));
    }

    /// Whether nothing is down, and a line a check.
    pub fn report(&self) -> (bool, String) {
        let checks = self.checks();
        let mut text = String::new();
        for (name, state) in checks.iter() {
            let _infallible = match state {
                State::Up => writeln!(text, "{name}: up"),
                State::Degraded(why) => writeln!(text, "{name}: degraded: {why}"),
                State::Down(why) => writeln!(text, "{name}: down: {why}"),
            };
        }
        if checks.is_empty() {
            // Whoever has not said how it is has not begun.
            return (false, "start: down: nothing was reported yet\n".into());
        }
        let ready = !checks.values().any(|state| matches!(state, State::Down(_)));
        (ready, text)
    }

    /// The metrics in the OpenMetrics text form.
    pub fn metrics(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry())?;
        Ok(text)
    }

    fn checks(&self) -> MutexGuard<'_, BTreeMap<&'static str, State>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Looked {
    name: &'static str,
    help: &'static str,
    look: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Looked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

impl Collector for Looked {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let value = ConstGauge::new(i64::try_from((self.look)()).unwrap_or(i64::MAX));
        let metric = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        value.encode(metric)
    }
}

struct LookedEach {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    look: Box<dyn Fn() -> Vec<(Cow<'static, str>, u64)> + Send + Sync>,
}

impl fmt::Debug for LookedEach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

impl Collector for LookedEach {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (label, number) in (self.look)() {
            let value = ConstGauge::new(i64::try_from(number).unwrap_or(i64::MAX));
            value.encode(metric.encode_family(&[(self.label, label.as_ref())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-11")]
    fn d11_only_what_is_down_is_not_ready() {
        let health = Health::new();
        assert!(!health.report().0, "a daemon that has not begun is not ready");
        health.set("bus", State::Up);
        health.set("disk", State::Degraded("90 % full".into()));
        assert_eq!(health.report(), (true, "bus: up\ndisk: degraded: 90 % full\n".into()));
        health.set("bus", State::Down("no connection".into()));
        assert_eq!(health.report(), (false, "bus: down: no connection\ndisk: degraded: 90 % full\n".into()));
    }

    #[test]
    #[rule("D-11")]
    fn d11_metrics_are_text_that_ends_as_the_format_asks() {
        let health = Health::new();
        let jobs = prometheus_client::metrics::counter::Counter::<u64>::default();
        health.register(|registry| registry.register("zester_jobs", "Jobs", jobs.clone()));
        health.watch("zester_peels", "Peels", || 7);
        health.watch_each("zester_dropped", "Dropped", "reason", || vec![("malformed", 3), ("missed", 0)]);
        jobs.inc();
        let text = health.metrics().unwrap();
        assert!(text.contains("zester_jobs_total 1\n"), "{text}");
        assert!(text.contains("zester_peels 7\n"), "{text}");
        assert!(text.contains("zester_dropped{reason=\"malformed\"} 3\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
