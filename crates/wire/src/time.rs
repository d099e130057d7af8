//! Moments and spans as they stand on the wire: whole milliseconds.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Milliseconds since 1970 on the sender's clock. Zero means "not set".
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn is_zero_ref(&self) -> bool {
        self.is_zero()
    }

    /// Saturates: a timeout of ten thousand years is "never", not a wrap to the past.
    pub fn plus(self, span: Duration) -> UnixMillis {
        UnixMillis(self.0.saturating_add(as_millis(span)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: UnixMillis) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Whole milliseconds of a span, saturating.
pub fn as_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// For `#[serde(with)]`: a span as a number of milliseconds.
pub(crate) mod millis {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(super::as_millis(*span))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// The same for a span that may be missing.
pub(crate) mod optional_millis {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        span.map(super::as_millis).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_never_wrap() {
        assert_eq!(UnixMillis(5).plus(Duration::MAX), UnixMillis(u64::MAX));
        assert_eq!(UnixMillis(5).since(UnixMillis(9)), Duration::ZERO);
        assert_eq!(UnixMillis(9).since(UnixMillis(5)), Duration::from_millis(4));
    }
}
