//! How a queue is shared between the values of a field, so that a flood of one value does not delay the jobs of others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gate::{IN_PAYLOAD, is_field, is_in_payload};
use super::{GateName, InvalidLimit};

/// How a queue is shared between the values of a field or header, such as its tenants.
///
/// ```
/// # use streamfleet_domain as streamfleet;
/// use streamfleet::job::FairShare;
///
/// let share = FairShare::new("h.tenant")?.weight("9", 3)?;
/// assert_eq!((share.field(), share.weight_of("9"), share.weight_of("8")), ("h.tenant", 3, 1));
/// # Ok::<(), streamfleet::job::InvalidLimit>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct FairShare {
    by: String,
    #[serde(default)]
    weights: BTreeMap<String, u32>,
}

impl FairShare {
    /// The most values that can have a weight of their own.
    pub const MAX_WEIGHTS: usize = 100;

    /// The largest weight.
    pub const MAX_WEIGHT: u32 = 100;

    /// The beginning of the name of a waiting list whose jobs wait for the turn of their value.
    #[doc(hidden)]
    pub const WAITLIST: &str = "fair:";

    /// Shares a queue between the values of a field, such as `h.tenant` for a header. Each value has the weight 1.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit`] if this is not the name of a field that gates can depend on.
    pub fn new(field: &str) -> Result<Self, InvalidLimit> {
        if !is_field(field) {
            let most = GateName::MAX_FIELD_BYTES;
            let why = match is_in_payload(field) {
                true => IN_PAYLOAD.to_owned(),
                false => format!(
                    "a queue is shared by a field of 1 to {most} letters, digits, dots, hyphens and underscores"
                ),
            };
            return Err(InvalidLimit::new(why));
        }
        Ok(Self { by: field.to_owned(), weights: BTreeMap::new() })
    }

    /// Sets how many jobs of a value start in each of its turns: 1 to 100, for at most 100 values.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit`] beyond these bounds, or if no room can have this value in its name: that needs 1 to 128 bytes without
    /// control characters.
    pub fn weight(mut self, value: &str, weight: u32) -> Result<Self, InvalidLimit> {
        if !super::gate::is_value(value) {
            return Err(InvalidLimit::new(
                "a weight needs a value of 1 to 128 bytes without control characters",
            ));
        }
        if !(1..=Self::MAX_WEIGHT).contains(&weight) {
            let most = Self::MAX_WEIGHT;
            return Err(InvalidLimit::new(format!(
                "the weight of {value:?} is {weight}, but must be 1 to {most}"
            )));
        }
        self.weights.insert(value.to_owned(), weight);
        if self.weights.len() > Self::MAX_WEIGHTS {
            let most = Self::MAX_WEIGHTS;
            return Err(InvalidLimit::new(format!("at most {most} values can have a weight")));
        }
        Ok(self)
    }

    /// Returns the field.
    pub fn field(&self) -> &str {
        &self.by
    }

    /// Returns the weights that were set, by value.
    pub fn weights(&self) -> &BTreeMap<String, u32> {
        &self.weights
    }

    /// Returns the weight of a value.
    pub fn weight_of(&self, value: &str) -> u32 {
        self.weights.get(value).copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_keeps_its_form_in_redis() {
        let share = FairShare::new("h.tenant").unwrap().weight("9", 3).unwrap();
        let json = serde_json::to_string(&share).unwrap();
        assert_eq!(json, r#"{"by":"h.tenant","weights":{"9":3}}"#);
        assert_eq!(serde_json::from_str::<FairShare>(&json).unwrap(), share);
    }

    #[test]
    fn a_share_that_cannot_be_is_refused() {
        assert!(FairShare::new("a b").is_err() && FairShare::new("").is_err());
        let share = || FairShare::new("h.tenant").unwrap();
        for (value, weight) in [("9", 0), ("9", 101), ("", 1), ("\n", 1)] {
            assert!(share().weight(value, weight).is_err(), "{value:?} {weight}");
        }
        let many = (0..100).try_fold(share(), |share, nth| share.weight(&nth.to_string(), 2)).unwrap();
        assert!(many.clone().weight("7", 3).is_ok() && many.weight("another", 2).is_err());
    }
}
