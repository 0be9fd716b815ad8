//! Durations as people write them, in one grammar for files, arguments and handlers: `500ms`, `15s`, `1h 30m`, `3d`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Reads a duration: numbers with units from milliseconds to weeks, as [jiff's friendly format] has them. A day has 24
/// hours. Returns `None` for other texts, and for what is negative or has months or years.
///
/// [jiff's friendly format]: https://docs.rs/jiff/latest/jiff/fmt/friendly/index.html
pub fn parse_duration(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.trim().parse().ok()?;
    let length = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(length).ok()
}

/// Writes a duration so that [`parse_duration`] reads it, without what is shorter than a millisecond.
pub fn format_duration(duration: Duration) -> String {
    const UNITS: [(&str, u128); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    let mut left = duration.as_millis();
    let mut parts = Vec::new();
    for (unit, size) in UNITS {
        if left >= size {
            parts.push(format!("{}{unit}", left / size));
            left %= size;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Writes a duration for people, in its two largest units: `3d 4h`, `1m 5s`, `1.2s`, `35ms`.
pub fn short(duration: Duration) -> String {
    let ms = duration.as_millis();
    let (seconds, minutes, hours) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    let two = |great: u128, unit: &str, small: u128, part: &str| {
        if small == 0 { format!("{great}{unit}") } else { format!("{great}{unit} {small}{part}") }
    };
    match () {
        () if hours >= 24 => two(hours / 24, "d", hours % 24, "h"),
        () if minutes >= 60 => two(hours, "h", minutes % 60, "m"),
        () if seconds >= 60 => two(minutes, "m", seconds % 60, "s"),
        () if seconds >= 10 || (ms % 1000 < 100 && ms >= 1000) => format!("{seconds}s"),
        () if ms >= 1000 => format!("{seconds}.{}s", ms % 1000 / 100),
        () => format!("{ms}ms"),
    }
}

/// Reads a duration that a configuration holds as a string.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    from_json(&serde_json::Value::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// Reads a duration from a JSON value, or says what it must look like.
pub fn from_json(value: &serde_json::Value) -> Result<Duration, String> {
    let parsed = value.as_str().and_then(parse_duration);
    parsed.ok_or_else(|| format!("expected a duration such as \"15s\", \"5m\" or \"3d\", not {value}"))
}

/// Writes a duration as a string.
pub fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format_duration(*value))
}

/// Durations that may be missing.
pub mod some {
    use super::*;

    /// Reads a duration that is there.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        super::deserialize(from).map(Some)
    }

    /// Writes a duration if there is one.
    pub fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        value.map(format_duration).serialize(to)
    }
}

/// Lists of durations.
pub mod list {
    use super::*;

    /// Reads a list of strings.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Duration>, D::Error> {
        let values: Vec<serde_json::Value> = Vec::deserialize(from)?;
        values.iter().map(|value| from_json(value).map_err(serde::de::Error::custom)).collect()
    }

    /// Writes a list of strings.
    pub fn serialize<S: Serializer>(value: &[Duration], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(value.iter().map(|value| format_duration(*value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn days_and_parts_are_read() {
        let read = [
            ("500ms", 500),
            (" 15s ", 15_000),
            ("1h 30m", 5_400_000),
            ("1d", 86_400_000),
            ("2 days", 172_800_000),
        ];
        for (text, ms) in read {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "15", "-1s", "1 month", "soon", "1y"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_shown_in_at_most_two_units() {
        let shown = [0, 35, 1_000, 1_250, 61_000, 3_600_000, 5_400_000, 100_800_000, 172_800_000]
            .map(|ms| short(Duration::from_millis(ms)));
        assert_eq!(shown, ["0ms", "35ms", "1s", "1.2s", "1m 1s", "1h", "1h 30m", "1d 4h", "2d"]);
    }

    proptest! {
        #[test]
        fn a_duration_that_was_written_is_read_again(ms in 0_u64..40_000_000_000) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
        }
    }
}
