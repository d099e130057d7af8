//! Durations as users write them: `30s`, `5m`, `1h`, `2h30m`, `500ms`, `1.5h`, and a bare number of seconds.

use std::time::Duration;

const UNITS: [(&str, f64); 8] = [
    ("ms", 0.001),
    ("us", 0.000_001),
    ("µs", 0.000_001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
    ("w", 604_800.0),
];

/// Ten years: beyond it a duration is surely a mistake, and arithmetic stays safe.
const SECONDS_MAX: f64 = 10.0 * 366.0 * 86_400.0;

/// Parses a duration, or says in a sentence why it is none.
pub fn parse(text: &str) -> Result<Duration, String> {
    let bad = |why: &str| format!("`{text}` is not a duration: {why}; write `30s`, `5m`, `2h30m` or `500ms`");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad("it is empty"));
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| bad("a number is missing"))?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let unit = &rest[..letters];
        let scale = match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, scale)) => *scale,
            None if unit.is_empty() && rest.is_empty() && seconds == 0.0 => 1.0,
            None if unit.is_empty() => return Err(bad("a unit is missing")),
            None => return Err(bad(&format!("`{unit}` is not a unit"))),
        };
        seconds += number * scale;
        rest = &rest[letters..];
    }
    if seconds > SECONDS_MAX {
        return Err(bad("it is longer than ten years"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_users_write_them() {
        for (text, millis) in [
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h30m", 9_000_000),
            ("500ms", 500),
            ("0.05", 50),
            ("10", 10_000),
            ("1.5h", 5_400_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_reason() {
        for text in ["soon", "", "-5s", "5 parsecs", "5x", "1h5", "1e9", ".", "99999999999999999999w"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("soon").is_err_and(|why| why.contains("`soon`")));
    }
}
