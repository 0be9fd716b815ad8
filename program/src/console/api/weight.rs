//! How much memory a payload takes once it is decoded: up to eighty times its bytes. This is estimated without decoding it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use streamfleet::job::Encoding;
use streamfleet_engine::admin::read_msgpack;

use super::desk::Desk;
use crate::console::problem::Problem;

/// What a value takes, …
const VALUE_BYTES: usize = 32;

/// … a text besides its bytes, …
const TEXT_BYTES: usize = 16;

/// … and the members of an object besides theirs: a node of a B-tree has room for eleven, and is at least as full as this.
const NODE_BYTES: usize = 656;
const NODE_MEMBERS: usize = 5;

/// Notes that this request decodes a payload, this many times at once.
///
/// # Errors
///
/// [`Problem`] with the status 413 or 429 if the memory for that is not to be had; see [`Desk::hold`].
pub(in crate::console) fn hold_decoded(
    desk: &Desk,
    (payload, encoding): (&[u8], Encoding),
    times: usize,
) -> Result<(), Problem> {
    desk.hold(weight(payload, encoding).saturating_mul(times))
}

/// The bytes that a payload takes once it is decoded. Of what cannot be read, the part before that counts.
pub(super) fn weight(payload: &[u8], encoding: Encoding) -> usize {
    let mut bytes = 0;
    let weigh = Weigh(&mut bytes);
    match encoding {
        Encoding::Json => weigh.deserialize(&mut serde_json::Deserializer::from_slice(payload)).ok(),
        Encoding::Msgpack => read_msgpack(payload, weigh).ok().map(|((), _)| ()),
        Encoding::Raw => None,
    };
    bytes
}

/// Adds up what values take.
struct Weigh<'a>(&'a mut usize);

impl Weigh<'_> {
    fn add(&mut self, bytes: usize) {
        *self.0 = self.0.saturating_add(bytes);
    }
}

impl<'de> DeserializeSeed<'de> for Weigh<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Weigh<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.add(VALUE_BYTES);
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.visit_bytes(text.as_bytes())
    }

    fn visit_bytes<E: Error>(mut self, bytes: &[u8]) -> Result<(), E> {
        self.add(VALUE_BYTES + TEXT_BYTES + bytes.len());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.add(VALUE_BYTES);
        while items.next_element_seed(Weigh(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        self.add(VALUE_BYTES);
        let mut known = 0_usize;
        while members.next_key_seed(Weigh(self.0))?.is_some() {
            if known.is_multiple_of(NODE_MEMBERS) {
                self.add(NODE_BYTES);
            }
            known += 1;
            members.next_value_seed(Weigh(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_small_values_take_much_more_than_their_bytes() {
        let ones = format!("[{}1]", "1,".repeat(999));
        assert_eq!(weight(ones.as_bytes(), Encoding::Json), 1001 * VALUE_BYTES);
        let objects = format!("[{}{{}}]", "{\"\":1},".repeat(999));
        assert!(weight(objects.as_bytes(), Encoding::Json) > 80 * objects.len());
        let text = format!("\"{}\"", "x".repeat(1000));
        assert!(weight(text.as_bytes(), Encoding::Json) < 1100);
        let packed = rmp_serde::to_vec_named(&json!([1, {"a": "b"}, null])).unwrap();
        let same = weight(br#"[1, {"a": "b"}, null]"#, Encoding::Json);
        assert_eq!((weight(&packed, Encoding::Msgpack), weight(&packed, Encoding::Raw)), (same, 0));
        assert_eq!(weight(b"[1, 2, oh", Encoding::Json), 3 * VALUE_BYTES, "what was read before the error");
    }
}
