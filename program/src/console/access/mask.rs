//! Hides the values of fields whose names are sensitive.

use serde_json::Value;

/// What replaces a value.
const HIDDEN: &str = "***";

/// The names of fields whose values nobody sees.
#[derive(Debug, Clone, Default)]
pub(in crate::console) struct Mask {
    /// In lower case.
    names: Vec<String>,
}

impl Mask {
    /// Hides fields of these names, whatever their case, at any depth.
    pub(in crate::console) fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(|name| name.as_ref().to_lowercase()).collect() }
    }

    /// Returns true if a field of this name is hidden, such as a header.
    pub(in crate::console) fn hides(&self, name: &str) -> bool {
        !self.names.is_empty() && self.names.contains(&name.to_lowercase())
    }

    /// Returns true if nothing is hidden. A value in a format that cannot be read must not be shown otherwise.
    pub(in crate::console) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Hides the fields in a value.
    pub(in crate::console) fn apply(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if self.hides(name) {
                        *value = HIDDEN.into();
                    } else {
                        self.apply(value);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn named_fields_are_hidden_at_any_depth() {
        let mut value = json!({"to": "ann", "Card": {"number": 4}, "lines": [{"card": 1, "sku": 2}]});
        Mask::new(["card"]).apply(&mut value);
        assert_eq!(value, json!({"to": "ann", "Card": "***", "lines": [{"card": "***", "sku": 2}]}));
        Mask::default().apply(&mut value);
        assert!(!Mask::default().hides("card") && Mask::new(["Card"]).hides("CARD"));
    }
}
