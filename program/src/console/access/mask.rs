//! Hides values: those of fields whose names are sensitive, and those in texts about jobs.

use std::borrow::Cow;

use serde_json::Value;

/// What replaces a value.
const HIDDEN: &str = "***";

/// What precedes a value of a header, a payload or an error in the name of a gate, or in a filter as the command line has it.
const BEFORE_VALUES: [&str; 4] = ["=", "--where ", "--text ", "--error "];

/// The name of a gate, a filter, or what an action was about, without the values of jobs in it.
pub(in crate::console) fn without_values(text: &str) -> Cow<'_, str> {
    let ends = BEFORE_VALUES.iter().filter_map(|mark| text.find(mark).map(|at| at + mark.len()));
    match ends.min() {
        Some(end) => format!("{}{HIDDEN}", &text[..end]).into(),
        None => text.into(),
    }
}

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

    /// The name of a gate without its value, if that is the value of a hidden field.
    pub(in crate::console) fn about<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let field = text.strip_prefix("key:").and_then(|key| key.split_once('=')).map(|(field, _)| field);
        let is_hidden =
            |field: &str| self.hides(field) || field.rsplit('.').next().is_some_and(|name| self.hides(name));
        if field.is_some_and(is_hidden) { without_values(text) } else { text.into() }
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
                    } else if let (true, Value::String(text)) = (name == "gate", &*value) {
                        *value = self.about(text).into();
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
    fn names_and_filters_are_shown_without_values() {
        for (text, shown) in [
            ("key:h.email=ann@example.com", "key:h.email=***"),
            ("fair:normal:=a=b", "fair:normal:=***"),
            ("type:mail.send", "type:mail.send"),
            ("--type 'mail.*' --where payload.customer=9", "--type 'mail.*' --where ***"),
            ("--state waiting --text '4111 --error x'", "--state waiting --text ***"),
            ("--all", "--all"),
        ] {
            assert_eq!(without_values(text), shown);
        }
    }

    #[test]
    fn the_gate_of_a_hidden_field_is_shown_without_its_value() {
        let mask = Mask::new(["card"]);
        let mut listed =
            json!({"items": [{"gate": "key:h.Card=4711"}, {"gate": "key:h.tenant=9"}, {"gate": "queue"}]});
        mask.apply(&mut listed);
        let want =
            json!({"items": [{"gate": "key:h.Card=***"}, {"gate": "key:h.tenant=9"}, {"gate": "queue"}]});
        assert_eq!(listed, want);
    }

    #[test]
    fn named_fields_are_hidden_at_any_depth() {
        let mut value = json!({"to": "ann", "Card": {"number": 4}, "lines": [{"card": 1, "sku": 2}]});
        Mask::new(["card"]).apply(&mut value);
        assert_eq!(value, json!({"to": "ann", "Card": "***", "lines": [{"card": "***", "sku": 2}]}));
        Mask::default().apply(&mut value);
        assert!(!Mask::default().hides("card") && Mask::new(["Card"]).hides("CARD"));
    }
}
