//! What a job got from its producer: its payload, decoded and cut at a bound, its headers, and the job that submitted it.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use serde_json::{Value, json};
use streamfleet::job::{Encoding, Envelope, FollowUps};
use streamfleet_engine::admin::unpacked;

use super::{results, seen};

/// The fields that say when and how a job runs, and what it belongs to.
const TERMS: [&str; 9] = [
    "max_attempts",
    "timeout_ms",
    "expires_at_ms",
    "tracking",
    "on_success",
    "on_failure",
    "batch",
    "campaign",
    "traceparent",
];

/// The most bytes of a payload that people see unless they want all of it …
const SHOWN_BYTES: usize = 4096;

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
    /// Why the payload is not shown, if codecs have encoded it, such as `encrypted with the key 2026-11, 1.2 KiB: not shown`. One that
    /// was only compressed is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_unseen: Option<String>,
    /// How the payload is encoded, as the job says it.
    pub encoding: String,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The job whose end submitted this one.
    pub parent: Option<String>,
    /// The queue of that job, if it is another one.
    pub parent_queue: Option<String>,
    /// When and how it runs, and what it belongs to: its fields `max_attempts`, `timeout_ms`, `expires_at_ms`, `tracking`,
    /// `on_success`, `on_failure`, `batch`, `campaign` (the task that has replayed it) and `traceparent`, as far as it has them.
    pub terms: BTreeMap<String, String>,
    /// The jobs that follow it, as it was submitted with them; null if there are none, or if they cannot be read.
    pub then: Option<Value>,
    /// The payload as people read it; `None` if it is empty.
    #[serde(skip)]
    pub shown: Option<String>,
}

impl Input {
    /// The most bytes of a payload that are decoded unless somebody wants all of it.
    pub const MAX_DECODED: usize = 64 * 1024;

    /// Reads it from a job's fields; `is_full` shows a large payload too.
    pub fn of(fields: &Envelope, is_full: bool) -> Self {
        let Some(seen) = seen(fields) else { return Self::as_is(fields, is_full) };
        let payload_bytes = fields.get(b"payload").unwrap_or_default().len();
        let input = Self::as_is(&seen.fields, is_full);
        Self {
            payload_bytes,
            shown: seen.unseen.clone().or(input.shown),
            payload_unseen: seen.unseen,
            ..input
        }
    }

    fn as_is(fields: &Envelope, is_full: bool) -> Self {
        let payload = fields.get(b"payload").unwrap_or_default();
        let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = fields.fields().filter_map(|(name, value)| {
            let name = name.strip_prefix(b"h.")?;
            Some((owned(name), owned(value)))
        });
        let encoding = encoding(fields);
        let is_cut = payload.len() > Self::MAX_DECODED && !is_full;
        let shown = shown(payload, encoding, if is_full { usize::MAX } else { SHOWN_BYTES }, is_cut);
        Self {
            payload: if is_cut { Value::Null } else { value(payload, encoding) },
            payload_cut: is_cut,
            headers: headers.collect(),
            then: fields.get(b"then").filter(|then| then.len() <= FollowUps::MAX_CHAIN_BYTES).and_then(read),
            shown: Some(shown).filter(|_| !payload.is_empty()),
            ..Self::without_values(fields)
        }
    }

    /// Reads it for somebody who may not see the values of a job: an empty text stands for a payload that is not too large.
    pub fn without_values(fields: &Envelope) -> Self {
        let text = |name: &str| Some(String::from_utf8_lossy(fields.get(name.as_bytes())?).into_owned());
        let payload_bytes = fields.get(b"payload").unwrap_or_default().len();
        let payload_cut = payload_bytes > Self::MAX_DECODED;
        Self {
            payload: if payload_cut || payload_bytes == 0 { Value::Null } else { Value::from("") },
            payload_bytes,
            payload_cut,
            payload_unseen: None,
            encoding: text("encoding").unwrap_or_else(|| Encoding::default().as_str().to_owned()),
            headers: BTreeMap::new(),
            parent: text("parent"),
            parent_queue: text("parent_queue"),
            terms: TERMS.into_iter().filter_map(|name| Some((name.to_owned(), text(name)?))).collect(),
            then: None,
            shown: None,
        }
    }
}

fn read(json: &[u8]) -> Option<Value> {
    serde_json::from_slice(json).ok()
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
    use std::io::Write as _;

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
        let payload = format!("\"{}\"", "é".repeat(Input::MAX_DECODED));
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
    fn values_are_neither_decoded_nor_copied_for_those_who_may_not_see_them() {
        let of = |payload: &[u8]| {
            let fields: [(&[u8], &[u8]); 3] =
                [(b"h.tenant", b"9"), (b"parent", b"order-7"), (b"payload", payload)];
            Input::without_values(&Envelope::new(fields.into_iter()))
        };
        let small = of(b"{\"a\":1}");
        assert_eq!((small.payload, small.payload_bytes, small.payload_cut), (json!(""), 7, false));
        assert_eq!((small.headers.len(), small.parent.as_deref(), small.shown), (0, Some("order-7"), None));
        let large = of(&[b'1'; Input::MAX_DECODED + 1]);
        assert!(large.payload.is_null() && large.payload_cut);
        assert!(of(b"").payload.is_null());
    }

    #[test]
    fn of_a_payload_that_was_encoded_as_much_is_shown_as_can_be_seen() {
        let of = |header: &str, payload: &[u8]| {
            let fields = [("payload", payload), ("encoding", b"raw"), ("h.codec", header.as_bytes())];
            input(&fields, false)
        };
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(br#"{"to":"ann"}"#).unwrap();
        let packed = packed.finish().unwrap();
        let gzip = of("json gzip", &packed);
        assert_eq!((gzip.payload, gzip.encoding.as_str()), (json!({"to": "ann"}), "json"));
        assert_eq!((gzip.payload_bytes, gzip.shown.as_deref()), (packed.len(), Some(r#"{"to":"ann"}"#)));
        assert_eq!(gzip.payload_unseen, None);
        let sealed = of("json gzip aes-256-gcm;key=2026-11", b"secret bytes");
        let why = "encrypted with the key 2026-11, 12 bytes: not shown";
        assert_eq!((sealed.payload, sealed.payload_bytes), (json!(""), 12));
        assert_eq!((sealed.shown.as_deref(), sealed.payload_unseen.as_deref()), (Some(why), Some(why)));
        let broken = of("json gzip", &packed[..9]).payload_unseen.unwrap();
        assert_eq!(broken, "compressed, 9 bytes, and the compressed payload is cut off: not shown");
        assert_eq!(of("h264", b"frame").shown.as_deref(), Some("frame"));
    }

    #[test]
    fn headers_and_the_parent_are_shown() {
        let fields: [(&str, &[u8]); 3] = [("h.tenant", b"9"), ("h.a", b"b"), ("parent", b"order-7")];
        let input = input(&fields, false);
        assert_eq!(serde_json::to_value(&input.headers).unwrap(), json!({"a": "b", "tenant": "9"}));
        assert_eq!((input.parent.as_deref(), input.shown), (Some("order-7"), None));
    }
}
