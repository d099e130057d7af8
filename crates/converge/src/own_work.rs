//! The keys of the settings by which a peel works by itself, `schedule` and `beacons`: judged where the settings still have their
//! places, before they reach a peel, which could only tell it in its log.

use crate::call::{self, Asked};
use crate::raw_arguments::RawArguments;
use serde_json::{Map, Value as Json};
use zester_model::diagnostic::Diagnostic;
use zester_model::node::Node;
use zester_model::secret::without_placeholders;
use zester_schedule::Reading;

/// Times are read in some zone; which one does not decide whether they can be.
const ANY_ZONE: &str = "UTC";

/// What is wrong with them.
pub(crate) fn problems(settings: &Node) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (key, value) in settings.as_map().unwrap_or_default() {
        match key.as_text() {
            Some("schedule") => {
                let reading = Reading { source: "settings", local_zone: ANY_ZONE, check: &check_scheduled };
                let read = zester_schedule::read(value, &reading);
                found.extend(read.err().unwrap_or_default().iter().map(|wrong| wrong.diagnostic()));
            }
            Some("beacons") => {
                let read = zester_beacons::read(value);
                found.extend(read.err().unwrap_or_default().iter().map(|wrong| wrong.diagnostic()));
            }
            _ => {}
        }
    }
    for diagnostic in &mut found {
        diagnostic.message = without_placeholders(&diagnostic.message).into_owned();
    }
    found
}

/// Whether a machine can do what an entry of a schedule says.
pub fn check_scheduled(function: &str, args: &[Json], kwargs: &Map<String, Json>) -> Result<(), String> {
    match Asked::read(function, RawArguments::of_values(None, args, kwargs), false)? {
        Asked::Unknown => Err(call::unknown(function)),
        _ => Ok(()),
    }
}
