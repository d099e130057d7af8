//! What the number of rules does to the cost of one event, without a bus.

use crate::report::Report;
use serde_json::json;
use std::hint::black_box;
use std::time::{Duration, Instant};
use zester_model::target::glob::Glob;
use zester_reactor::Matcher;

const EVENTS: usize = 50_000;
/// Each size is measured so often, by turns; the best counts: whatever else the machine does only adds.
const ROUNDS: usize = 7;

/// A thousand rules against ten: all but a few name other sources, as the rules of a large fleet do.
pub fn claim(report: &mut Report) -> Result<(), String> {
    let (few, many) = (matcher(10)?, matcher(1_000)?);
    let keys: Vec<String> = (0..EVENTS)
        .map(|number| format!("web-{:04}/beacon/web-{:04}/service", number % 5_000, number % 5_000))
        .collect();
    let (mut least, mut most) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        least = least.min(time(&few, &keys));
        most = most.min(time(&many, &keys));
    }
    let each = |time: Duration| time.as_nanos() as f64 / EVENTS as f64;
    let notes = json!({ "ten_ns": each(least), "thousand_ns": each(most) });
    let ratio = most.as_secs_f64() / least.as_secs_f64();
    report.claim("matching an event, 1,000 rules / ten rules", ratio, "x", 1.5, notes);
    Ok(())
}

fn matcher(rules: usize) -> Result<Matcher, String> {
    let glob = |number: usize| match number {
        0 => "*/beacon/*/service".to_string(),
        1 => "web-00*/beacon/*".to_string(),
        _ => format!("db-{number:04}/beacon/*/disk"),
    };
    let globs = (0..rules).map(|number| Glob::parse(&glob(number)).map_err(|bad| format!("{bad:?}")));
    Ok(Matcher::new(globs.collect::<Result<Vec<_>, _>>()?))
}

fn time(matcher: &Matcher, keys: &[String]) -> Duration {
    let began = Instant::now();
    for key in keys {
        black_box(matcher.matching(black_box(key)));
    }
    began.elapsed()
}
