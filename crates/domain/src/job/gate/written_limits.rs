//! How a configuration writes limits, such as `{ concurrency = 10, rate = "100/s" }`. Redis holds them in the form of
//! [`Limits`] itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Breaker, GateName, Limits, Rate};
use crate::job::duration;
use crate::job::number::{count, fraction, some_count};

/// Limits whose serde is that of a configuration.
#[derive(Deserialize, Serialize)]
pub struct WrittenLimits(#[serde(with = "Table")] pub Limits);

#[derive(Deserialize, Serialize)]
#[serde(remote = "Limits", deny_unknown_fields)]
struct Table {
    #[serde(default, deserialize_with = "some_count", skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
    #[serde(default, with = "rate", skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
    #[serde(default, with = "breaker", skip_serializing_if = "Option::is_none")]
    breaker: Option<Breaker>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WrittenBreaker {
    #[serde(deserialize_with = "fraction")]
    ratio: f64,
    #[serde(default = "min", deserialize_with = "count")]
    min: u32,
    #[serde(default = "window", with = "duration")]
    window: Duration,
    #[serde(default = "cooldown", with = "duration")]
    cooldown: Duration,
}

fn min() -> u32 {
    20
}

fn window() -> Duration {
    Duration::from_secs(60)
}

fn cooldown() -> Duration {
    Duration::from_secs(30)
}

/// Reads limits.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Limits, D::Error> {
    Table::deserialize(from)
}

/// Writes limits.
pub fn serialize<S: Serializer>(limits: &Limits, to: S) -> Result<S::Ok, S::Error> {
    Table::serialize(limits, to)
}

/// The limits of fields, by their gates without `key:`, such as `h.tenant` or `h.tenant=9`.
pub mod by_key {
    use super::*;

    /// Reads a table.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<GateName, Limits>, D::Error> {
        let table = BTreeMap::<Key, WrittenLimits>::deserialize(from)?;
        Ok(table.into_iter().map(|(Key(gate), WrittenLimits(limits))| (gate, limits)).collect())
    }

    /// Writes a table.
    pub fn serialize<S: Serializer>(table: &BTreeMap<GateName, Limits>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(table.iter().map(|(gate, limits)| (key(gate), WrittenLimits(*limits))))
    }
}

/// Returns what a configuration calls the gate of a field.
pub fn key(gate: &GateName) -> &str {
    gate.as_str().strip_prefix("key:").unwrap_or(gate.as_str())
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key(GateName);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let key = String::deserialize(from)?;
        format!("key:{key}").parse().map(Self).map_err(D::Error::custom)
    }
}

mod rate {
    use super::*;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
        String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
    }

    pub(super) fn serialize<S: Serializer>(rate: &Option<Rate>, to: S) -> Result<S::Ok, S::Error> {
        rate.map(|rate| rate.to_string()).serialize(to)
    }
}

mod breaker {
    use super::*;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Breaker>, D::Error> {
        let WrittenBreaker { ratio, min, window, cooldown } = WrittenBreaker::deserialize(from)?;
        Breaker::new(ratio, min, window, cooldown).map(Some).map_err(D::Error::custom)
    }

    pub(super) fn serialize<S: Serializer>(breaker: &Option<Breaker>, to: S) -> Result<S::Ok, S::Error> {
        let written = |Breaker { ratio, min, window_ms, cooldown_ms }| WrittenBreaker {
            ratio,
            min,
            window: Duration::from_millis(window_ms),
            cooldown: Duration::from_millis(cooldown_ms),
        };
        breaker.map(written).serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Limits, String> {
        let read = serde_json::from_str::<WrittenLimits>(json);
        read.map(|WrittenLimits(limits)| limits).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_read_with_their_defaults_and_written_again() {
        let json = r#"{"concurrency": "3", "rate": "100/s", "breaker": {"ratio": 0.5}}"#;
        let limits = read(json).unwrap();
        let breaker = Breaker::new(0.5, 20, window(), cooldown()).unwrap();
        let want = Limits::default().concurrency(3).rate("100/s".parse::<Rate>().unwrap()).breaker(breaker);
        assert_eq!(limits, want);
        let written = serde_json::to_string(&WrittenLimits(limits)).unwrap();
        let want = r#"{"concurrency":3,"rate":"100/s","breaker":{"ratio":0.5,"min":20,"window":"1m","cooldown":"30s"}}"#;
        assert_eq!(written, want);
        assert!(read("{}").unwrap().is_empty());
    }

    #[test]
    fn limits_that_would_stop_everything_are_refused() {
        assert!(read(r#"{"rate": "0/s"}"#).unwrap_err().contains("at least 1 job"));
        assert!(read(r#"{"breaker": {"ratio": 1.5}}"#).unwrap_err().contains("at most 1"));
        assert!(read(r#"{"concurency": 1}"#).unwrap_err().contains("unknown field"));
        let nothing = Limits::default().concurrency(0).check().unwrap();
        assert!(nothing.to_string().starts_with("concurrency: is 0"), "{nothing}");
    }

    #[test]
    fn a_key_is_named_without_its_kind() {
        #[derive(Deserialize, Serialize)]
        struct Keys(#[serde(with = "by_key")] BTreeMap<GateName, Limits>);

        let json = r#"{"h.tenant":{"concurrency":2},"h.tenant=9":{"concurrency":1}}"#;
        let keys: Keys = serde_json::from_str(json).unwrap();
        let gates: Vec<_> = keys.0.keys().map(GateName::as_str).collect();
        assert_eq!(gates, ["key:h.tenant", "key:h.tenant=9"]);
        assert_eq!(serde_json::to_string(&keys).unwrap(), json);
        assert!(serde_json::from_str::<Keys>(r#"{"a b":{}}"#).is_err());
    }
}
