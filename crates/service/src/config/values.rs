//! How single values are written: durations, numbers that may be strings, pauses before retries, and names.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::job::number::number;
pub(super) use crate::job::number::{count, some_count};
use crate::job::{Backoff, duration, format_duration};

/// Which jobs leave a record.
pub(super) mod tracking {
    use super::*;
    use crate::job::Tracking;

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tracking, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        let wrong = || D::Error::custom(format!("expected \"none\", \"failures\" or \"all\", not {value}"));
        value.as_str().and_then(Tracking::parse).ok_or_else(wrong)
    }

    pub(in crate::config) fn serialize<S: Serializer>(value: &Tracking, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.as_str())
    }
}

/// Which jobs leave a record, if it is set.
pub(super) mod optional_tracking {
    use super::*;
    use crate::job::Tracking;

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Tracking>, D::Error> {
        tracking::deserialize(from).map(Some)
    }

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Tracking>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Tracking::as_str).serialize(to)
    }
}

/// Lists of durations.
pub(super) mod durations {
    use super::*;

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Duration>, D::Error> {
        let values: Vec<serde_json::Value> = Vec::deserialize(from)?;
        values.iter().map(|value| duration::from_json(value).map_err(D::Error::custom)).collect()
    }

    pub(in crate::config) fn serialize<S: Serializer>(value: &[Duration], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(value.iter().map(|value| format_duration(*value)))
    }
}

/// Durations that may be missing.
pub(super) mod some_duration {
    use super::*;

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        duration::deserialize(from).map(Some)
    }

    pub(in crate::config) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(format_duration).serialize(to)
    }
}

/// Sizes in bytes that may be missing, such as `512MiB`, `2GiB` or `100000000`.
pub(super) use crate::job::size as some_size;

/// Sizes in bytes.
pub(super) mod size {
    use super::*;

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let size = some_size::deserialize(from)?;
        size.ok_or_else(|| D::Error::custom("the size is missing"))
    }

    pub(in crate::config) fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
        some_size::shown(*value).serialize(to)
    }
}

/// Reads a number that may be a fraction. From the environment it arrives as a string.
pub(super) fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, "a number")
}

/// How the file writes a [`Backoff`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "Backoff", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum BackoffSection {
    Fixed(#[serde(with = "duration")] Duration),
    List(#[serde(with = "durations")] Vec<Duration>),
    Linear {
        #[serde(with = "duration")]
        step: Duration,
        #[serde(with = "duration")]
        max: Duration,
    },
    Exponential {
        #[serde(with = "duration")]
        base: Duration,
        #[serde(default = "doubling", deserialize_with = "fraction")]
        factor: f64,
        #[serde(with = "duration")]
        max: Duration,
    },
}

fn doubling() -> f64 {
    2.0
}

/// Reads a string and parses it.
pub(super) fn text<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
where
    T: FromStr,
    T::Err: Display,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// Writes a parsed value as a string.
pub(super) fn shown_text<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Parsed strings that may be missing.
pub(super) mod some_text {
    use super::*;

    pub(in crate::config) fn deserialize<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr,
        T::Err: Display,
    {
        text(from).map(Some)
    }

    pub(in crate::config) fn serialize<S, T>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: Display,
    {
        value.as_ref().map(ToString::to_string).serialize(to)
    }
}

/// Tables whose keys are names.
pub(super) mod named {
    use super::*;

    pub(in crate::config) fn deserialize<'de, D, K, V>(from: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        D: Deserializer<'de>,
        K: FromStr + Ord,
        K::Err: Display,
        V: Deserialize<'de>,
    {
        let entries = BTreeMap::<Key<K>, V>::deserialize(from)?;
        Ok(entries.into_iter().map(|(Key(key), value)| (key, value)).collect())
    }

    pub(in crate::config) fn serialize<S, K, V>(map: &BTreeMap<K, V>, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        K: Display,
        V: Serialize,
    {
        to.collect_map(map.iter().map(|(key, value)| (key.to_string(), value)))
    }
}

/// Tables whose keys are names, which may be missing.
pub(super) mod some_named {
    use super::*;

    pub(in crate::config) fn deserialize<'de, D, K, V>(from: D) -> Result<Option<BTreeMap<K, V>>, D::Error>
    where
        D: Deserializer<'de>,
        K: FromStr + Ord,
        K::Err: Display,
        V: Deserialize<'de>,
    {
        named::deserialize(from).map(Some)
    }

    pub(in crate::config) fn serialize<S, K, V>(
        map: &Option<BTreeMap<K, V>>,
        to: S,
    ) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        K: Display,
        V: Serialize,
    {
        match map {
            Some(map) => named::serialize(map, to),
            None => to.serialize_none(),
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<K>(K);

impl<'de, K: FromStr> Deserialize<'de> for Key<K>
where
    K::Err: Display,
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_in_binary_units() {
        let want =
            [("512MiB", Some(512 << 20)), ("2 GiB", Some(2 << 30)), ("10KiB", Some(10_240)), ("7", Some(7))];
        for (text, bytes) in want {
            assert_eq!(some_size::parse(text), bytes, "{text}");
        }
        for text in ["", "MiB", "5MB", "1.5GiB", "-1", "99999999999GiB"] {
            assert_eq!(some_size::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_size_survives_being_shown_and_read(bytes: u64) {
            prop_assert_eq!(some_size::parse(&some_size::shown(bytes)), Some(bytes));
        }
    }

    #[test]
    fn names_of_variables_keep_their_case_in_a_configuration_file() {
        use crate::config::Sources;

        let mut file = tempfile::NamedTempFile::new().unwrap();
        let toml = "[types.a]\nhandler.exec = { command = [\"true\"], env = { API_Base = \"x\" } }\n";
        std::io::Write::write_all(&mut file, toml.as_bytes()).unwrap();
        let sources = Sources { files: vec![file.path().into()], ..Sources::default() };
        let types = sources.read().unwrap().config.types;
        let Some(streamfleet::handlers::Config::Exec(exec)) = &types["a"].handler else { panic!("not exec") };
        assert_eq!(exec.env.keys().collect::<Vec<_>>(), ["API_Base"]);
    }
}
