//! Numbers: in a configuration, where those from the environment are strings, and as people read them.

use std::str::FromStr;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

/// Writes a number with a comma between each three digits: `1,204`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Reads a count.
pub fn count<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
where
    T: DeserializeOwned + FromStr,
{
    number(from, "a whole number, 0 or more")
}

/// Reads a count that may be missing.
pub fn some_count<'de, D: Deserializer<'de>, T>(from: D) -> Result<Option<T>, D::Error>
where
    T: DeserializeOwned + FromStr,
{
    count(from).map(Some)
}

/// Reads a number that may be a fraction.
pub fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, "a number")
}

/// Reads a number; `what` says which numbers are valid.
pub fn number<'de, D: Deserializer<'de>, T>(from: D, what: &str) -> Result<T, D::Error>
where
    T: DeserializeOwned + FromStr,
{
    let value = serde_json::Value::deserialize(from)?;
    let number = match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => T::deserialize(value.clone()).ok(),
    };
    number.ok_or_else(|| D::Error::custom(format!("expected {what}, not {value}")))
}
