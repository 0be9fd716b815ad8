//! A payload as the JSON value that its schema describes.

use std::fmt;
use std::marker::PhantomData;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::job::Encoding;
use crate::job::payload::read_msgpack;

/// Reads a payload within the bounds of workers' decoders. As for handlers, a missing payload is null. Bytes in MessagePack
/// are base64 text, as in everything that shows payloads as JSON.
///
/// # Errors
///
/// What is wrong, in words that begin with "it".
pub(super) fn decode(payload: &[u8], encoding: Encoding) -> Result<Value, String> {
    match encoding {
        Encoding::Json | Encoding::Msgpack if payload.is_empty() => Ok(Value::Null),
        Encoding::Json => {
            serde_json::from_slice(payload).map_err(|error| format!("it is not valid JSON: {error}"))
        }
        Encoding::Msgpack => {
            let (Unpacked(value), left) = read_msgpack(payload, PhantomData::<Unpacked>)
                .map_err(|error| format!("it is not MessagePack that JSON can express: {error}"))?;
            match left {
                0 => Ok(value),
                left => Err(format!("it is not one MessagePack value: {left} bytes follow")),
            }
        }
        Encoding::Raw => Err("its encoding is raw, but a schema describes json or msgpack".to_owned()),
    }
}

/// A MessagePack value as JSON.
struct Unpacked(Value);

impl<'de> Deserialize<'de> for Unpacked {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Unpack).map(Self)
    }
}

struct Unpack;

impl<'de> Visitor<'de> for Unpack {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value that JSON has")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let finite = Number::from_f64(number).map(Value::Number);
        finite.ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(BASE64_STANDARD.encode(bytes).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        // The payload may announce more items than it has, so nothing is reserved.
        let mut array = Vec::new();
        while let Some(Unpacked(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Unpacked(value))) = entries.next_entry::<String, Unpacked>()? {
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn unpacked(bytes: &[u8]) -> Result<Value, String> {
        decode(bytes, Encoding::Msgpack)
    }

    #[test]
    fn messagepack_is_read_as_the_json_that_it_came_from() {
        let value = json!({"a": [1, -2, 2.5, true, null, "é"], "b": {"c": 18446744073709551615_u64}});
        assert_eq!(unpacked(&rmp_serde::to_vec_named(&value).unwrap()), Ok(value));
        assert_eq!(unpacked(b"\xc4\x02\xff\x00"), Ok(json!("/wA=")));
        assert_eq!(unpacked(b"\xca\x3f\xc0\x00\x00"), Ok(json!(1.5)));
    }

    #[test]
    fn a_missing_payload_is_null_as_it_is_for_handlers() {
        assert_eq!((decode(b"", Encoding::Json), unpacked(b"")), (Ok(Value::Null), Ok(Value::Null)));
    }

    #[test]
    fn what_workers_do_not_read_or_json_does_not_have_is_refused() {
        for (bytes, encoding, want) in [
            (&b"{"[..], Encoding::Json, "not valid JSON"),
            (b"{} x", Encoding::Json, "not valid JSON"),
            (b"\xff", Encoding::Json, "not valid JSON"),
            (b"\x81\xa1a\x01\x01", Encoding::Msgpack, "1 bytes follow"),
            (b"\x81\xa1a", Encoding::Msgpack, "not MessagePack"),
            (b"\x81\x01\x02", Encoding::Msgpack, "not MessagePack"),
            (b"\xca\x7f\xc0\x00\x00", Encoding::Msgpack, "not finite"),
            (b"\xdd\xff\xff\xff\xff\x01", Encoding::Msgpack, "not MessagePack"),
            (b"{}", Encoding::Raw, "encoding is raw"),
        ] {
            let error = decode(bytes, encoding).unwrap_err();
            assert!(error.starts_with("it") && error.contains(want), "{bytes:?}: {error}");
        }
        let deep = [vec![0x91; 70], vec![0xc0]].concat();
        assert!(unpacked(&deep).is_err() && unpacked(&deep[20..]).is_ok());
        assert!(decode("[".repeat(10_000).as_bytes(), Encoding::Json).is_err());
    }

    proptest! {
        #[test]
        fn reading_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for encoding in [Encoding::Json, Encoding::Msgpack, Encoding::Raw] {
                let _read = decode(&bytes, encoding).is_ok();
            }
        }
    }
}
