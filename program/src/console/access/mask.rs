//! Hides values: those of fields whose names are sensitive, and those in texts about jobs.

use std::borrow::Cow;

use serde_json::Value;
use streamfleet::job::FairShare;
use streamfleet_engine::admin::Filter;
use streamfleet_service::mask_text;

/// What replaces a value.
const HIDDEN: &str = "***";

/// The header of a job that has a hash of its payload, from a request that may be repeated (`api::submit`).
pub(in crate::console) const CONTENT_HASH: &str = "idempotency";

/// What precedes a value of a header, a payload or an error in the name of a gate, or in a filter as the command line has it.
const BEFORE_VALUES: [&str; 4] = ["=", "--where ", "--text ", "--error "];

/// The keys of texts that may have values of jobs in them: names of gates, filters, and what actions were about.
pub(in crate::console) const ABOUT_JOBS: [&str; 3] = ["gate", "filter", "target"];

/// The keys of why jobs of a queue wait. Its text may name a gate.
pub(in crate::console) const CAUSES: [&str; 2] = ["cause", "queue_cause"];

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
    /// Hides fields of these names, whatever their case, at any depth. If there are any, it also hides the hash of payloads:
    /// with it, somebody who sees the rest of a payload could try one value after the other.
    pub(in crate::console) fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_lowercase()).collect();
        if !names.is_empty() {
            names.push(CONTENT_HASH.to_owned());
        }
        Self { names }
    }

    /// Returns true if a field of this name is hidden, such as a header.
    pub(in crate::console) fn hides(&self, name: &str) -> bool {
        !self.names.is_empty() && self.names.contains(&name.to_lowercase())
    }

    /// The name of a gate, a filter, or what an action was about, without its values if one of them may be that of a hidden field.
    /// Nobody knows what a text to search for is about.
    pub(in crate::console) fn about<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let is_key = |rest: &str| {
            let field = rest.split('=').next().unwrap_or(rest);
            self.hides(field.strip_prefix("h.").unwrap_or(field))
        };
        let is_hidden = || {
            // The name of such a room does not say of which field its value is.
            text.starts_with(FairShare::ROOM)
                || text.split("key:").skip(1).any(is_key)
                || text.split("--where ").skip(1).any(|rest| self.is_looked_at(rest))
                || ["--text ", "--error "].iter().any(|mark| text.contains(mark))
        };
        if !self.is_empty() && is_hidden() { without_values(text) } else { text.into() }
    }

    /// Whether the condition at the beginning of this, as a person types it for a shell, looks at a hidden field. What follows it
    /// is read as part of its value. One that cannot be read, because it was cut, may look at anything.
    fn is_looked_at(&self, rest: &str) -> bool {
        let condition = rest.strip_prefix('\'').map(|quoted| quoted.replace(r"'\''", "'"));
        let filter = Filter::new().condition(condition.as_deref().unwrap_or(rest));
        filter.map_or(true, |filter| filter.looks_at(|name| self.hides(name)))
    }

    /// A text that nobody has parsed, such as an error, without the values of hidden fields, as far as it shows which these are.
    pub(in crate::console) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        mask_text(&self.names, text)
    }

    /// A filter that finds nothing by what is hidden in texts, either.
    pub(in crate::console) fn blind(&self, filter: Filter) -> Filter {
        filter.masked(&self.names)
    }

    /// Returns true if nothing is hidden. A value in a format that cannot be read must not be shown otherwise.
    pub(in crate::console) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Hides the fields in a value, and in the texts in it. Returns whether it hid anything.
    pub(in crate::console) fn apply(&self, value: &mut Value) -> bool {
        match value {
            Value::Object(fields) => {
                fields.iter_mut().fold(false, |hid, (name, value)| self.apply_to_field(name, value) || hid)
            }
            Value::Array(items) => items.iter_mut().fold(false, |hid, item| self.apply(item) || hid),
            Value::String(text) => replaced(self.text(text)).map(|shown| *text = shown).is_some(),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn apply_to_field(&self, name: &str, value: &mut Value) -> bool {
        if self.hides(name) {
            *value = HIDDEN.into();
            return true;
        }
        if let (true, Value::String(text)) = (ABOUT_JOBS.contains(&name), &mut *value) {
            return replaced(self.about(text)).map(|shown| *text = shown).is_some();
        }
        self.apply(value) | self.apply_to_cause(name, value)
    }

    /// Hides the value of a gate in the text of a cause. Returns whether it hid anything.
    fn apply_to_cause(&self, name: &str, value: &mut Value) -> bool {
        match value.get_mut("text").filter(|_| CAUSES.contains(&name)) {
            Some(Value::String(text)) => replaced(self.about(text)).map(|shown| *text = shown).is_some(),
            Some(_) | None => false,
        }
    }
}

/// What replaces a text, if anything in it is hidden.
fn replaced(shown: Cow<'_, str>) -> Option<String> {
    match shown {
        Cow::Owned(shown) => Some(shown),
        Cow::Borrowed(_) => None,
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
        // Such a room does not name its field.
        assert_eq!(mask.about("fair:normal:=4711"), "fair:normal:=***");
        assert_eq!(Mask::new(["my/card"]).about("key:h.my/Card=4711"), "key:h.my/Card=***");
    }

    #[test]
    fn filters_and_targets_are_shown_without_the_values_of_hidden_fields() {
        let mask = Mask::new(["password", "token"]);
        for (text, shown) in [
            ("--type a --where payload.password=canary", "--type a --where ***"),
            ("--where 'payload.user.Token>=canary'", "--where ***"),
            ("--where h.tenant=9 --where h.token=canary", "--where ***"),
            ("--where h.tenant=9", "--where h.tenant=9"),
            ("--where payload.a.b=9 --reason fatal", "--where payload.a.b=9 --reason fatal"),
            ("--where 'payload.items[0].password=canary'", "--where ***"),
            (r#"--where 'payload["a b"].password=canary'"#, "--where ***"),
            (r#"--where 'payload["it'\''s"].token=canary'"#, "--where ***"),
            ("--where 'payload.items[0", "--where ***"),
            ("--text canary", "--text ***"),
            ("key:h.token=canary", "key:h.token=***"),
            ("key:h.tenant=9", "key:h.tenant=9"),
            ("type:token", "type:token"),
        ] {
            assert_eq!(mask.about(text), shown, "{text}");
            assert_eq!(Mask::default().about(text), text);
        }
        let mut listed = json!({"filter": "--where payload.password=canary", "target": "key:h.token=canary"});
        mask.apply(&mut listed);
        assert_eq!(listed, json!({"filter": "--where ***", "target": "key:h.token=***"}));
    }

    #[test]
    fn the_hash_of_a_payload_is_hidden_with_anything_else() {
        assert!(Mask::new(["card"]).hides("Idempotency"));
        let nothing = Mask::new(Vec::<String>::new());
        assert!(nothing.is_empty() && !nothing.hides(CONTENT_HASH));
    }

    #[test]
    fn named_fields_are_hidden_at_any_depth() {
        let mut value = json!({"to": "ann", "Card": {"number": 4}, "lines": [{"card": 1, "sku": 2}]});
        assert!(Mask::new(["card"]).apply(&mut value));
        assert_eq!(value, json!({"to": "ann", "Card": "***", "lines": [{"card": "***", "sku": 2}]}));
        assert!(!Mask::default().apply(&mut value) && !Mask::new(["iban"]).apply(&mut value));
        let mut attempt =
            json!({"error": "refused {\"card\":\"4711\"}", "errors": ["card=4711"], "worker": "w"});
        Mask::new(["Card"]).apply(&mut attempt);
        assert_eq!(
            attempt,
            json!({"error": "refused {\"card\":\"***\"}", "errors": ["card=***"], "worker": "w"})
        );
        assert!(!Mask::default().hides("card") && Mask::new(["Card"]).hides("CARD"));
    }
}
