//! The limits of gates, as the file writes them. They apply to the whole fleet, not to one process.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values;
use crate::job::{Breaker, GateName, InvalidName, Limits, Rate, duration};

/// What a gate lets through at most; see [`Limits`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitsSection {
    /// How many jobs may run at once in the whole fleet.
    #[serde(deserialize_with = "values::some_count", skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many jobs may start in a period, such as `100/s`.
    #[serde(with = "values::some_text", skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// When failures close the gate for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerSection>,
}

/// When failures close a gate for a while; see [`Breaker`].
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BreakerSection {
    /// The share of attempts that fail.
    #[serde(deserialize_with = "values::fraction")]
    pub ratio: f64,
    /// Of at least this many attempts.
    #[serde(default = "min", deserialize_with = "values::count")]
    pub min: u32,
    /// That ended within this time.
    #[serde(default = "window", with = "duration")]
    pub window: Duration,
    /// How long the gate stays closed before one job is tried.
    #[serde(default = "cooldown", with = "duration")]
    pub cooldown: Duration,
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

impl LimitsSection {
    /// Returns true if nothing is limited.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the limits. What is out of bounds was reported before, and limits nothing.
    pub(super) fn limits(&self) -> Limits {
        let breaker = self.breaker.as_ref().and_then(|section| section.breaker().ok());
        Limits::default().concurrency(self.concurrency).rate(self.rate).breaker(breaker)
    }

    /// Returns each key that is out of bounds, and why.
    pub(super) fn check(&self) -> Vec<(&'static str, String)> {
        let concurrency = (self.concurrency == Some(0)).then(|| {
            ("concurrency", "is 0, but must be at least 1; to stop all jobs, pause them".to_owned())
        });
        let breaker = self.breaker.as_ref().and_then(|section| section.breaker().err());
        concurrency.into_iter().chain(breaker.map(|why| ("breaker", why))).collect()
    }
}

impl BreakerSection {
    fn breaker(&self) -> Result<Breaker, String> {
        let Self { ratio, min, window, cooldown } = *self;
        Breaker::new(ratio, min, window, cooldown).map_err(|error| error.to_string())
    }
}

/// A field, for each of its values, or `field=value`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName(GateName);

impl KeyName {
    /// Returns the gate.
    pub fn gate(&self) -> &GateName {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.as_str();
        out.write_str(name.strip_prefix("key:").unwrap_or(name))
    }
}

impl FromStr for KeyName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        format!("key:{text}").parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> LimitsSection {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn limits_are_read_with_their_defaults() {
        let limits = read("concurrency = 3\nrate = \"100/s\"\nbreaker = { ratio = 0.5 }").limits();
        let breaker = Breaker::new(0.5, 20, window(), cooldown()).unwrap();
        let want = Limits::default().concurrency(3).rate("100/s".parse::<Rate>().unwrap()).breaker(breaker);
        assert_eq!(limits, want);
        assert!(read("").is_empty() && read("").limits().is_empty());
    }

    #[test]
    fn limits_that_would_stop_everything_are_refused() {
        let wrong: Vec<_> = read("concurrency = 0\nbreaker = { ratio = 1.5 }")
            .check()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(wrong, ["concurrency", "breaker"]);
        assert!(toml::from_str::<LimitsSection>("rate = \"0/s\"").is_err());
    }

    #[test]
    fn a_key_is_named_without_its_kind() {
        for text in ["h.tenant", "h.tenant=9"] {
            assert_eq!(text.parse::<KeyName>().unwrap().to_string(), text);
        }
        assert!("a b".parse::<KeyName>().is_err());
    }
}
