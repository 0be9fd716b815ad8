//! Sizes in bytes as people write them: `512MiB`, `2GiB` or `100000000`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// Reads a size that may be missing.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    let wrong = || {
        let text = format!("expected a size such as \"512MiB\" or \"2GiB\", not {value}");
        serde::de::Error::custom(text)
    };
    let size = value.as_u64().or_else(|| parse(value.as_str()?));
    size.map(Some).ok_or_else(wrong)
}

/// Writes a size that may be missing.
pub fn serialize<S: Serializer>(value: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    value.map(shown).serialize(to)
}

/// Sizes that are never missing.
pub mod known {
    use super::*;

    /// Reads a size.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        super::deserialize(from).map(Option::unwrap_or_default)
    }

    /// Writes a size.
    pub fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&shown(*value))
    }
}

/// Reads a size such as `64 KiB`; `None` if it is none.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, size) =
        UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?.trim_end(), size)))?;
    number.parse::<u64>().ok()?.checked_mul(*size)
}

/// Returns a size as people write it.
pub fn shown(bytes: u64) -> String {
    let fits = |(_, size): &&(&str, u64)| bytes >= *size && bytes.is_multiple_of(*size);
    UNITS
        .iter()
        .find(fits)
        .map_or_else(|| bytes.to_string(), |(unit, size)| format!("{}{unit}", bytes / size))
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
            assert_eq!(parse(text), bytes, "{text}");
        }
        for text in ["", "MiB", "5MB", "1.5GiB", "-1", "99999999999GiB"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_size_survives_being_shown_and_read(bytes: u64) {
            prop_assert_eq!(parse(&shown(bytes)), Some(bytes));
        }
    }
}
