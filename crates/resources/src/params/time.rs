//! A length of time.

use std::time::Duration;

/// `30s`, `5m`, `500ms`, or a number of seconds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

super::from_text!(Time, "duration like `30s`", |text| zester_model::duration::parse(text).map(Time));
