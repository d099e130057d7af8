//! `timing.*`: the spans of the spec, for whoever must change one (C-10).

use super::lay;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};
use std::fmt;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    pub master_heartbeat: Option<Span>,
    pub master_ttl: Option<Span>,
    pub orphan_scan: Option<Span>,
    pub orphan_misses: Option<u32>,
    pub ack_window: Option<Span>,
    pub unreachable_grace: Option<Span>,
    pub peel_heartbeat: Option<Span>,
    pub peel_ttl: Option<Span>,
    pub forget_peels: Option<Span>,
    pub reconnect_spread: Option<Span>,
    pub lease_ttl: Option<Span>,
    pub kill_grace: Option<Span>,
}

impl Timing {
    pub fn lay(&mut self, over: Timing) {
        lay!(self, over; master_heartbeat, master_ttl, orphan_scan, orphan_misses, ack_window);
        lay!(self, over; unreachable_grace, peel_heartbeat, peel_ttl, forget_peels, reconnect_spread);
        lay!(self, over; lease_ttl, kill_grace);
    }

    /// What beats, scans or expires every nothing would never rest, or never expire.
    pub fn check(&self) -> Result<(), String> {
        let spans = [
            ("master_heartbeat", self.master_heartbeat),
            ("master_ttl", self.master_ttl),
            ("orphan_scan", self.orphan_scan),
            ("peel_heartbeat", self.peel_heartbeat),
            ("peel_ttl", self.peel_ttl),
            ("lease_ttl", self.lease_ttl),
        ];
        let zero = spans.into_iter().find(|(_, span)| span.is_some_and(|Span(span)| span.is_zero()));
        let misses = ("orphan_misses", self.orphan_misses == Some(0));
        let wrong = zero.map(|(name, _)| name).or(misses.1.then_some(misses.0));
        wrong.map_or(Ok(()), |name| Err(format!("timing.{name} must be more than nothing")))
    }

    /// What the daemons go by.
    pub fn over_defaults(&self) -> zester_jobs::Timing {
        let mut timing = zester_jobs::Timing::default();
        let spans = [
            (&mut timing.master_heartbeat, &self.master_heartbeat),
            (&mut timing.master_ttl, &self.master_ttl),
            (&mut timing.orphan_scan, &self.orphan_scan),
            (&mut timing.ack_window, &self.ack_window),
            (&mut timing.unreachable_grace, &self.unreachable_grace),
            (&mut timing.peel_heartbeat, &self.peel_heartbeat),
            (&mut timing.peel_ttl, &self.peel_ttl),
            (&mut timing.forget_peels, &self.forget_peels),
            (&mut timing.reconnect_spread, &self.reconnect_spread),
            (&mut timing.lease_ttl, &self.lease_ttl),
            (&mut timing.kill_grace, &self.kill_grace),
        ];
        for (default, given) in spans {
            if let Some(Span(span)) = given {
                *default = *span;
            }
        }
        timing.orphan_misses = self.orphan_misses.unwrap_or(timing.orphan_misses);
        timing
    }
}

/// A duration as users write it: `2s`, or a bare number of seconds (J-4).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span(pub std::time::Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        struct Words;

        impl Visitor<'_> for Words {
            type Value = Span;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a duration like `30s`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
                zester_model::duration::parse(text).map(Span).map_err(E::custom)
            }
        }

        // As text whatever it looks like, so that `5` and `5s` are read by the same rules.
        deserializer.deserialize_str(Words).map_err(D::Error::custom)
    }
}
