//! How a payload travels in a line: as a JSON value if it is one, otherwise as base64. Pure.

use std::borrow::Cow;
use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::job::Encoding;
use crate::job::payload::{is_readable, read_msgpack};

/// How many bytes are searched at once.
const BLOCK_BYTES: usize = 256;

/// A payload as a part of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Body<'a> {
    /// JSON in one line.
    Json(Cow<'a, [u8]>),
    Base64(String),
}

impl<'a> Body<'a> {
    /// Returns how this payload travels. JSON stays as it is, except for its line ends.
    pub(super) fn of(payload: &'a [u8], encoding: Encoding) -> Self {
        let json = match encoding {
            Encoding::Json | Encoding::Msgpack if payload.is_empty() => Some(Cow::Borrowed(&b"null"[..])),
            Encoding::Json => is_readable(payload, Encoding::Json).then(|| in_one_line(payload)),
            Encoding::Msgpack => unpacked(payload).map(Cow::Owned),
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
                line.extend_from_slice(b"\"");
            }
        }
    }
}

/// Outside of texts, line ends mean as much as spaces. Inside, valid JSON has none.
fn in_one_line(json: &[u8]) -> Cow<'_, [u8]> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    // To look at all bytes of a block takes less time than to stop at the first one.
    if !json.chunks(BLOCK_BYTES).any(|block| block.iter().filter(|byte| is_end(byte)).count() > 0) {
        return Cow::Borrowed(json);
    }
    json.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }).collect()
}

/// Returns MessagePack as JSON, if JSON can express it. It is written as it is read: the values of a hostile payload would
/// take a hundred times its size.
fn unpacked(payload: &[u8]) -> Option<Vec<u8>> {
    let mut json = Vec::new();
    let ((), left) = read_msgpack(payload, Plain(&mut json)).ok()?;
    (left == 0).then_some(json)
}

/// Writes a value that loses nothing as JSON: no bytes, no other keys than texts, and only finite numbers.
struct Plain<'a>(&'a mut Vec<u8>);

impl Plain<'_> {
    fn write<E: Error>(self, value: &(impl Serialize + ?Sized)) -> Result<(), E> {
        serde_json::to_writer(self.0, value).map_err(E::custom)
    }

    /// Ends an array or an object. Each of its values has a comma after it.
    fn end(self, end: u8) {
        if self.0.last() == Some(&b',') {
            self.0.pop();
        }
        self.0.push(end);
    }
}

impl<'de> DeserializeSeed<'de> for Plain<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value that JSON can express")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if value.is_finite() { self.write(&value) } else { Err(E::custom("not a finite number")) }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.write(value)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.write(&())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        while items.next_element_seed(Plain(&mut *self.0))?.is_some() {
            self.0.push(b',');
        }
        self.end(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        while let Some(key) = entries.next_key::<String>()? {
            Plain(&mut *self.0).write::<A::Error>(&key)?;
            self.0.push(b':');
            entries.next_value_seed(Plain(&mut *self.0))?;
            self.0.push(b',');
        }
        self.end(b'}');
        Ok(())
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
        assert_eq!(Body::of(pretty, Encoding::Json), Body::Json(one_line.into()));
        let long = [vec![b'1'; 2 * BLOCK_BYTES], b"\r".to_vec()].concat();
        let want = [vec![b'1'; 2 * BLOCK_BYTES], b" ".to_vec()].concat();
        assert_eq!(Body::of(&long, Encoding::Json), Body::Json(want.into()));
        assert_eq!(Body::of(b"", Encoding::Json), Body::Json(b"null".into()));
        assert_eq!(Body::of(b"{", Encoding::Json), Body::Base64("ew==".to_owned()));
        assert_eq!(Body::of(b"[\"\xff\"]", Encoding::Json), Body::Base64("WyL/Il0=".to_owned()));
    }

    #[test]
    fn messagepack_is_what_all_packages_make_of_it() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/codecs/vectors.json");
        let vectors: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for vector in vectors["packed"].as_array().unwrap() {
            let bytes = BASE64_STANDARD.decode(vector["bytes"].as_str().unwrap()).unwrap();
            let json = match Body::of(&bytes, Encoding::Msgpack) {
                Body::Json(json) => Some(serde_json::from_slice::<serde_json::Value>(&json).unwrap()),
                Body::Base64(_) => None,
            };
            let want = vector["json"].as_str().map(|json| serde_json::from_str(json).unwrap());
            assert_eq!(json, want, "{vector}");
        }
    }

    #[test]
    fn messagepack_is_json_if_it_loses_nothing() {
        let value = json!({"a": [1, -1, 1.5, null, true, "é", u64::MAX]});
        let packed = rmp_serde::to_vec_named(&value).unwrap();
        assert_eq!(Body::of(&packed, Encoding::Msgpack), Body::Json(value.to_string().into_bytes().into()));
        let nested = b"\x84\xa1b\x90\xa1a\x80\xa1c\x92\x01\x91\xc0\xa2\"\n\xca\x3f\x00\x00\x00";
        let json = br#"{"b":[],"a":{},"c":[1,[null]],"\"\n":0.5}"#.to_vec();
        assert_eq!(Body::of(nested, Encoding::Msgpack), Body::Json(json.into()), "in the same order");
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
        assert_eq!(&line[..], b"{\"a\":1,\"payload_base64\":\"\"");
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
