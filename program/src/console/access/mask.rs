//! Hides values: those of fields whose names are sensitive, and those in texts about jobs.

use std::borrow::Cow;

use serde_json::Value;
use streamfleet::job::{Encoding, FairShare};
use streamfleet_engine::admin::{Filter, unpacked};
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
pub(in crate::console) const CAUSES: [&str; 3] = ["cause", "causes", "queue_cause"];

/// The keys of payloads and results.
const BODIES: [&str; 2] = ["payload", "result"];

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
            // The name of such a waiting list does not say of which field its value is.
            text.starts_with(FairShare::WAITLIST)
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

    /// The value of a field of a job, such as the header `h.card`, as everybody may see it. `name` may also be the header's own.
    pub(in crate::console) fn field<'a>(&self, name: &str, value: &'a str) -> Cow<'a, str> {
        let is_hidden = self.hides(name) || name.strip_prefix("h.").is_some_and(|header| self.hides(header));
        if is_hidden { HIDDEN.into() } else { self.text(value) }
    }

    /// A payload or a result as everybody may see its values, if anything is hidden; `None` if they are hidden as a whole, because
    /// nobody can find its fields, or it is too large to look for them.
    pub(in crate::console) fn value(&self, bytes: &[u8], encoding: Option<Encoding>) -> Option<Value> {
        // A value takes many times the memory of its bytes.
        if bytes.len() > Filter::MAX_PAYLOAD_BYTES {
            return None;
        }
        let is_packed = encoding == Some(Encoding::Msgpack);
        let value: Option<Value> =
            if is_packed { unpacked(bytes) } else { serde_json::from_slice(bytes).ok() };
        let mut value = value.filter(|value| !is_undecoded(value))?;
        self.apply(&mut value);
        Some(value)
    }

    /// A payload or a result as everybody may see its bytes; `None` if it is hidden as a whole, as for [`Mask::value`]. What is
    /// written again has only what was decoded: of members with the same name, the last one.
    pub(in crate::console) fn bytes<'a>(
        &self,
        bytes: &'a [u8],
        encoding: Option<Encoding>,
    ) -> Option<Cow<'a, [u8]>> {
        if self.is_empty() || bytes.is_empty() {
            return Some(bytes.into());
        }
        let value = self.value(bytes, encoding)?;
        let is_packed = encoding == Some(Encoding::Msgpack);
        let written =
            if is_packed { rmp_serde::to_vec_named(&value).ok()? } else { value.to_string().into_bytes() };
        Some(written.into())
    }

    /// Hides the fields in a payload or a result, or all of it if it was not decoded.
    pub(in crate::console) fn apply_to_body(&self, body: &mut Value) {
        if !self.is_empty() && is_undecoded(body) {
            *body = HIDDEN.into();
        } else {
            self.apply(body);
        }
    }

    /// A filter that finds nothing by what is hidden in texts, either.
    pub(in crate::console) fn blind(&self, filter: Filter) -> Filter {
        filter.masked(&self.names)
    }

    /// Returns true if nothing is hidden. A value in a format that cannot be read must not be shown otherwise.
    pub(in crate::console) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Hides the fields in a value, and in the texts in it. Payloads and results that were not decoded are hidden as a whole.
    pub(in crate::console) fn apply(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if self.hides(name) {
                        *value = HIDDEN.into();
                    } else if BODIES.contains(&name.as_str()) {
                        self.apply_to_body(value);
                    } else if let (true, Value::String(text)) = (ABOUT_JOBS.contains(&name.as_str()), &*value)
                    {
                        *value = self.about(text).into();
                    } else {
                        self.apply(value);
                        self.apply_to_cause(name, value);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::String(text) => {
                if let Cow::Owned(shown) = self.text(text) {
                    *text = shown;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Hides the value of a gate in the text of a cause, or of each of several.
    fn apply_to_cause(&self, name: &str, value: &mut Value) {
        if let Value::Array(items) = value {
            items.iter_mut().for_each(|item| self.apply_to_cause(name, item));
            return;
        }
        let text = value.get_mut("text").filter(|_| CAUSES.contains(&name));
        if let Some(Value::String(text)) = text
            && let Cow::Owned(shown) = self.about(text)
        {
            *text = shown;
        }
    }
}

/// Whether a payload or a result is text or bytes, in which nobody can find fields.
fn is_undecoded(body: &Value) -> bool {
    body.is_string() || body.get("encoding").is_some_and(|encoding| encoding == "base64")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is shown of bytes if cards are hidden.
    fn seen(bytes: &[u8], encoding: Encoding) -> Option<Vec<u8>> {
        Mask::new(["card"]).bytes(bytes, Some(encoding)).map(Cow::into_owned)
    }

    #[test]
    fn of_members_with_the_same_name_only_what_was_masked_is_written_again() {
        for (bytes, shown) in [
            (r#"{ "card": {"n": 4111}, "card": "***" }"#, r#"{"card":"***"}"#),
            (r#"{"a": {"card": 4111}, "a": 1}"#, r#"{"a":1}"#),
            (r#"{"\u0063ard": 4111, "card": "***"}"#, r#"{"card":"***"}"#),
            (r#"{"to": "card=4111 x"}"#, r#"{"to":"card=*** x"}"#),
        ] {
            assert_eq!(seen(bytes.as_bytes(), Encoding::Json), Some(shown.as_bytes().to_vec()), "{bytes}");
            assert_eq!(Mask::default().bytes(bytes.as_bytes(), None), Some(bytes.as_bytes().into()));
        }
        let twice = [&[0x82, 0xa4][..], b"card", &[0x07, 0xa4], b"card", &[0xa3], b"***"].concat();
        let once = rmp_serde::to_vec_named(&json!({"card": "***"})).unwrap();
        assert_eq!(seen(&twice, Encoding::Msgpack), Some(once));
    }

    #[test]
    fn bytes_that_cannot_be_decoded_are_hidden_as_a_whole() {
        // A member that JSON cannot express.
        let binary = [&[0x81, 0xa4][..], b"card", &[0xc4, 0x01, 0xff]].concat();
        let large = [&b"["[..], &b" ".repeat(Filter::MAX_PAYLOAD_BYTES)[..], b"]"].concat();
        for bytes in [&br#"{"card":"4111""#[..], b"4111 x", b"\"4111\"", &binary, &large] {
            assert_eq!(seen(bytes, Encoding::Json), None);
        }
        assert_eq!(seen(&binary, Encoding::Msgpack), None);
        assert_eq!(seen(b"", Encoding::Raw), Some(Vec::new()));
        let mut body = json!({"encoding": "base64", "data": "gaRjYXJk"});
        Mask::default().apply_to_body(&mut body);
        assert!(body.is_object());
        Mask::new(["card"]).apply_to_body(&mut body);
        assert_eq!(body, "***");
    }

    #[test]
    fn what_was_not_decoded_is_hidden_if_anything_is_masked() {
        let job = json!({
            "payload": "{\"card\":\"4111\"", "result": {"encoding": "base64", "data": "gaRjYXJk"}, "error": "no",
            "items": [{"payload": {"card": "4111", "to": "ann"}}],
        });
        let mut masked = job.clone();
        Mask::new(["card"]).apply(&mut masked);
        let want = json!({
            "payload": "***", "result": "***", "error": "no",
            "items": [{"payload": {"card": "***", "to": "ann"}}],
        });
        assert_eq!(masked, want);
        let mut shown = job.clone();
        Mask::default().apply(&mut shown);
        assert_eq!(shown, job);
    }

    #[test]
    fn a_field_is_hidden_by_its_name_with_and_without_the_prefix_of_headers() {
        let mask = Mask::new(["card"]);
        for (name, value, shown) in [
            ("h.Card", "4711", "***"),
            ("card", "4711", "***"),
            ("h.note", "card=4711 x", "card=*** x"),
            ("traceparent", "card: 4711", "card: ***"),
            ("h.discard", "4711", "4711"),
        ] {
            assert_eq!(mask.field(name, value), shown, "{name}");
            assert_eq!(Mask::default().field(name, value), value);
        }
    }

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
        // Such a waiting list does not name its field.
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
            ("--where payload.a.b=9 --dead-reason fatal", "--where payload.a.b=9 --dead-reason fatal"),
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
        Mask::new(["card"]).apply(&mut value);
        assert_eq!(value, json!({"to": "ann", "Card": "***", "lines": [{"card": "***", "sku": 2}]}));
        Mask::default().apply(&mut value);
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
