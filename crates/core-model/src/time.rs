//! Times in the form of the API.

use std::convert::Infallible;

use serde::{Deserializer, Serializer};

use crate::text;

/// A point in time. The API stores whole seconds.
pub type Timestamp = jiff::Timestamp;

/// Formats a time as Go's `time.RFC3339Nano` in UTC, the format of the trigger-time annotation.
pub fn rfc3339(time: Timestamp) -> String {
    time.to_string()
}

/// Deserialises an optional time. `null` and the empty string become `None`.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let read = |text: &str| match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|error| format!("{text:?} is no time: {error}")),
    };
    Ok(text::through(deserializer, read)?.flatten())
}

/// Deserialises an optional time. An unreadable one becomes `None`.
pub(crate) fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let read = |text: &str| Ok::<_, Infallible>(text.parse().ok());
    Ok(text::through(deserializer, read)?.flatten())
}

pub(crate) fn write_optional<S: Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&rfc3339(*time)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_go_does() {
        for (text, want) in [
            ("2024-01-01T00:00:10Z", "2024-01-01T00:00:10Z"),
            ("2024-01-01T01:00:10+01:00", "2024-01-01T00:00:10Z"),
            ("2024-01-01T00:00:10.500Z", "2024-01-01T00:00:10.5Z"),
        ] {
            assert_eq!(rfc3339(text.parse().unwrap()), want);
        }
    }
}
