//! What a job got from its producer: its payload, decoded and cut at a bound, its headers, and the job that submitted it.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use serde_json::{Value, json};
use streamfleet::job::{Encoding, Envelope};
use streamfleet_engine::admin::unpacked;

use super::results;

/// The most bytes of a payload that people see unless they want all of it …
const SHOWN_BYTES: usize = 4096;

/// … and the most that its value has.
const JSON_BYTES: usize = 64 * 1024;

/// What a job got.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = JobInput)]
#[non_exhaustive]
pub struct Input {
    /// The payload; null if it is too large.
    pub payload: Value,
    /// How many bytes the payload has.
    pub payload_bytes: usize,
    /// True if the payload is too large to be shown without `--full`.
    pub payload_cut: bool,
    /// How the payload is encoded, as the job says it.
    pub encoding: String,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The job whose end submitted this one.
    pub parent: Option<String>,
    /// The payload as people read it; `None` if it is empty.
    #[serde(skip)]
    pub shown: Option<String>,
}

impl Input {
    /// Reads it from a job's fields; `is_full` shows a large payload too.
    pub(super) fn of(fields: &Envelope, is_full: bool) -> Self {
        let text = |name: &str| Some(String::from_utf8_lossy(fields.get(name.as_bytes())?).into_owned());
        let payload = fields.get(b"payload").unwrap_or_default();
        let named = text("encoding").unwrap_or_else(|| Encoding::default().as_str().to_owned());
        let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = fields.fields().filter_map(|(name, value)| {
            let name = name.strip_prefix(b"h.")?;
            Some((owned(name), owned(value)))
        });
        let encoding = encoding(fields);
        let is_cut = payload.len() > JSON_BYTES && !is_full;
        let shown = shown(payload, encoding, if is_full { usize::MAX } else { SHOWN_BYTES }, is_cut);
        Self {
            payload: if is_cut { Value::Null } else { value(payload, encoding) },
            payload_bytes: payload.len(),
            payload_cut: is_cut,
            encoding: named,
            headers: headers.collect(),
            parent: text("parent"),
            shown: Some(shown).filter(|_| !payload.is_empty()),
        }
    }
}

/// How a job's payload is encoded; `None` if no worker knows such an encoding.
pub fn encoding(fields: &Envelope) -> Option<Encoding> {
    let named = |name| std::str::from_utf8(name).ok().and_then(Encoding::parse);
    fields.get(b"encoding").map_or(Some(Encoding::default()), named)
}

/// The payload as a value. Nothing is lost, whatever it contains.
fn value(payload: &[u8], encoding: Option<Encoding>) -> Value {
    match encoding {
        Some(Encoding::Json) if payload.is_empty() => Value::Null,
        Some(Encoding::Json) => results::value(payload),
        // JSON cannot express all of MessagePack, such as binary data.
        Some(Encoding::Msgpack) => unpacked(payload).unwrap_or_else(|| plain(payload)),
        Some(Encoding::Raw) | None => plain(payload),
    }
}

fn plain(payload: &[u8]) -> Value {
    match std::str::from_utf8(payload) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "encoding": "base64", "data": BASE64_STANDARD.encode(payload) }),
    }
}

/// The payload as people read it: text as it is, MessagePack as JSON unless it is cut, anything else in hexadecimal; at most this
/// many bytes.
fn shown(payload: &[u8], encoding: Option<Encoding>, most: usize, is_cut: bool) -> String {
    let is_packed = encoding == Some(Encoding::Msgpack);
    // What is decoded takes much more memory than its bytes.
    let text = match (is_packed && !is_cut).then(|| unpacked::<Value>(payload)).flatten() {
        Some(value) => value.to_string(),
        None => match std::str::from_utf8(payload) {
            Ok(text) if !is_packed => text.to_owned(),
            Ok(_) | Err(_) => payload.iter().take(most).map(|byte| format!("{byte:02x}")).collect(),
        },
    };
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{} … ({} bytes in total; --full shows all of them)", &text[..end], payload.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(fields: &[(&str, &[u8])], is_full: bool) -> Input {
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), *value));
        Input::of(&Envelope::new(fields), is_full)
    }

    #[test]
    fn a_payload_is_decoded_whatever_its_encoding() {
        let order = json!({"customer": 9});
        let packed = rmp_serde::to_vec_named(&order).unwrap();
        let shown = |payload: &[u8], encoding: &[u8]| {
            let input = input(&[("payload", payload), ("encoding", encoding)], false);
            (input.payload, input.shown.unwrap_or_default())
        };
        let text = r#"{"customer":9}"#;
        assert_eq!(shown(text.as_bytes(), b"json"), (order.clone(), text.to_owned()));
        assert_eq!(shown(&packed, b"msgpack"), (order, text.to_owned()));
        assert_eq!(shown(b"9", b"raw"), (json!("9"), "9".to_owned()));
        assert_eq!(shown(b"\xff\x00", b"raw").1, "ff00");
        assert_eq!(
            shown(b"\xc1", b"msgpack"),
            (json!({"encoding": "base64", "data": "wQ=="}), "c1".to_owned())
        );
        assert_eq!(shown(b"", b"json"), (Value::Null, String::new()));
    }

    #[test]
    fn a_large_payload_is_cut_unless_all_of_it_is_wanted() {
        let payload = format!("\"{}\"", "é".repeat(JSON_BYTES));
        let cut = input(&[("payload", payload.as_bytes())], false);
        assert!(cut.payload_cut && cut.payload.is_null());
        let shown = cut.shown.unwrap();
        assert!(shown.ends_with("é … (131074 bytes in total; --full shows all of them)"), "{shown}");
        let packed = rmp_serde::to_vec_named(&payload).unwrap();
        let cut =
            input(&[("payload", packed.as_slice()), ("encoding", &b"msgpack"[..])], false).shown.unwrap();
        assert!(cut.starts_with("db0002"), "it is not decoded: {cut}");
        let full = input(&[("payload", payload.as_bytes())], true);
        assert!(!full.payload_cut);
        assert_eq!(full.shown.unwrap(), payload);
    }

    #[test]
    fn headers_and_the_parent_are_shown() {
        let fields: [(&str, &[u8]); 3] = [("h.tenant", b"9"), ("h.a", b"b"), ("parent", b"order-7")];
        let input = input(&fields, false);
        assert_eq!(serde_json::to_value(&input.headers).unwrap(), json!({"a": "b", "tenant": "9"}));
        assert_eq!((input.parent.as_deref(), input.shown), (Some("order-7"), None));
    }
}
