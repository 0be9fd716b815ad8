//! How a payload travels in a line: as a JSON value if it is one, otherwise as base64. Pure.

use std::fmt;
use std::io::Cursor;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::job::Encoding;
use crate::job::payload::is_readable;

/// MessagePack that is nested deeper than this travels as base64, as workers do not read it.
const MAX_DEPTH: usize = 64;

/// A payload as a part of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Body {
    /// JSON in one line.
    Json(Vec<u8>),
    Base64(String),
}

impl Body {
    /// Returns how this payload travels. JSON stays as it is, except for its line ends.
    pub(super) fn of(payload: &[u8], encoding: Encoding) -> Self {
        let json = match encoding {
            Encoding::Json | Encoding::Msgpack if payload.is_empty() => Some(b"null".to_vec()),
            Encoding::Json => is_readable(payload, Encoding::Json).then(|| in_one_line(payload)),
            Encoding::Msgpack => unpacked(payload).map(|value| value.to_string().into_bytes()),
            Encoding::Raw => None,
        };
        json.map_or_else(|| Self::Base64(BASE64_STANDARD.encode(payload)), Self::Json)
    }

    /// Appends the field to an object that already has some.
    pub(super) fn append_to(self, line: &mut Vec<u8>) {
        match self {
            Self::Json(json) => {
                line.extend_from_slice(b",\"payload\":");
                line.extend_from_slice(&json);
            }
            Self::Base64(text) => {
                line.extend_from_slice(b",\"payload_base64\":\"");
                line.extend_from_slice(text.as_bytes());
                line.push(b'"');
            }
        }
    }
}

/// Outside of texts, line ends mean as much as spaces. Inside, valid JSON has none.
fn in_one_line(json: &[u8]) -> Vec<u8> {
    json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

/// Returns MessagePack as JSON, if JSON can express it.
fn unpacked(payload: &[u8]) -> Option<Value> {
    let mut decoder = rmp_serde::Deserializer::new(Cursor::new(payload));
    decoder.set_max_depth(MAX_DEPTH);
    let Plain(value) = Plain::deserialize(&mut decoder).ok()?;
    (decoder.position() == payload.len() as u64).then_some(value)
}

/// A value that loses nothing as JSON: no bytes, no other keys than texts, and only finite numbers.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value that JSON can express")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Plain(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Plain(value))) = entries.next_entry::<String, Plain>()? {
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn json_stays_as_it_is_except_for_line_ends() {
        let pretty = b"{\r\n \"n\": 12345678901234567890123, \"n\": 1.0}\n";
        let one_line = b"{   \"n\": 12345678901234567890123, \"n\": 1.0} ".to_vec();
        assert_eq!(Body::of(pretty, Encoding::Json), Body::Json(one_line));
        assert_eq!(Body::of(b"", Encoding::Json), Body::Json(b"null".to_vec()));
        assert_eq!(Body::of(b"{", Encoding::Json), Body::Base64("ew==".to_owned()));
        assert_eq!(Body::of(b"[\"\xff\"]", Encoding::Json), Body::Base64("WyL/Il0=".to_owned()));
    }

    #[test]
    fn messagepack_is_json_if_it_loses_nothing() {
        let value = json!({"a": [1, -1, 1.5, null, true, "é", u64::MAX]});
        let packed = rmp_serde::to_vec_named(&value).unwrap();
        assert_eq!(Body::of(&packed, Encoding::Msgpack), Body::Json(value.to_string().into_bytes()));
        for lossy in
            [&b"\xc4\x01\xff"[..], b"\x81\x01\x02", b"\xcb\x7f\xf8\0\0\0\0\0\0", b"\xd4\x01\x00", b"\x01\x01"]
        {
            assert!(matches!(Body::of(lossy, Encoding::Msgpack), Body::Base64(_)), "{lossy:?}");
        }
    }

    #[test]
    fn raw_bytes_are_base64() {
        assert_eq!(Body::of(b"{}", Encoding::Raw), Body::Base64("e30=".to_owned()));
        let mut line = b"{\"a\":1".to_vec();
        Body::of(b"", Encoding::Raw).append_to(&mut line);
        assert_eq!(line, b"{\"a\":1,\"payload_base64\":\"\"");
    }

    proptest! {
        #[test]
        fn no_bytes_are_lost(payload: Vec<u8>, encoding in prop::sample::select(vec![Encoding::Json, Encoding::Raw])) {
            match Body::of(&payload, encoding) {
                Body::Base64(text) => prop_assert_eq!(BASE64_STANDARD.decode(text).unwrap(), payload),
                Body::Json(json) => prop_assert!(!json.contains(&b'\n')),
            }
        }
    }
}
