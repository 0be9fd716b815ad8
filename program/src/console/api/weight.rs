//! How much memory a payload takes once it is decoded: up to eighty times its bytes. This is estimated without decoding it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use streamfleet::job::Encoding;
use streamfleet_engine::admin::read_msgpack;

use super::desk::Desk;
use crate::console::problem::Problem;

/// What a value takes in the array or object that has it, …
const VALUE_BYTES: usize = 32;

/// … the places of an array that has any value: it doubles them whenever they are full, …
const LEAST_PLACES: usize = 4;

/// … what the allocator adds to what an array or a text takes, …
const ALLOCATED_BYTES: usize = 16;

/// … a text besides its bytes, …
const TEXT_BYTES: usize = 24 + ALLOCATED_BYTES;

/// … and the members of an object, besides their texts: a node of a B-tree has room for eleven, and is at least as full as this.
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
    let mut bytes = VALUE_BYTES;
    let weigh = Weigh(&mut bytes);
    match encoding {
        Encoding::Json => weigh.deserialize(&mut serde_json::Deserializer::from_slice(payload)).ok(),
        Encoding::Msgpack => read_msgpack(payload, weigh).ok().map(|((), _)| ()),
        Encoding::Raw => return 0,
    };
    bytes
}

/// Adds up what values take, besides their places in the arrays and objects that have them.
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

    fn visit_unit<E: Error>(self) -> Result<(), E> {
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
        self.add(TEXT_BYTES + bytes.len());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let (mut known, mut places) = (0_usize, 0_usize);
        while items.next_element_seed(Weigh(self.0))?.is_some() {
            known += 1;
            if places == 0 {
                places = LEAST_PLACES;
                self.add(LEAST_PLACES * VALUE_BYTES + ALLOCATED_BYTES);
            } else if known > places {
                self.add(places * VALUE_BYTES);
                places *= 2;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
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
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn many_small_values_take_much_more_than_their_bytes() {
        let ones = format!("[{}1]", "1,".repeat(999));
        assert_eq!(weight(ones.as_bytes(), Encoding::Json), (1 + 1024) * VALUE_BYTES + ALLOCATED_BYTES);
        let objects = format!("[{}{{}}]", "{\"\":1},".repeat(999));
        assert!(weight(objects.as_bytes(), Encoding::Json) > 80 * objects.len());
        let text = format!("\"{}\"", "x".repeat(1000));
        assert!(weight(text.as_bytes(), Encoding::Json) < 1100);
        let packed = rmp_serde::to_vec_named(&json!([1, {"a": "b"}, null])).unwrap();
        let same = weight(br#"[1, {"a": "b"}, null]"#, Encoding::Json);
        assert_eq!((weight(&packed, Encoding::Msgpack), weight(&packed, Encoding::Raw)), (same, 0));
        let two = (1 + LEAST_PLACES) * VALUE_BYTES + ALLOCATED_BYTES;
        assert_eq!(weight(b"[1, 2, oh", Encoding::Json), two, "what was read before the error");
        assert_eq!([weight(b"[]", Encoding::Json), weight(b"7", Encoding::Json)], [VALUE_BYTES; 2]);
    }

    /// What a value takes, by the capacities of its parts. The nodes of objects are left out.
    fn taken(value: &Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.capacity(),
            Value::Array(items) => {
                items.capacity() * size_of::<Value>() + items.iter().map(taken).sum::<usize>()
            }
            Value::Object(members) => {
                members.iter().map(|(name, value)| name.capacity() + taken(value)).sum()
            }
        }
    }

    #[test]
    fn arrays_of_short_arrays_weigh_what_they_take() {
        let nested = format!("[{}1]", "[[[1]]],".repeat(10_000));
        let mixed = format!("[{}1]", r#"[1,2,3,4,5],{"a":[1]},"text","#.repeat(5000));
        for text in [nested, mixed] {
            let value: Value = serde_json::from_str(&text).unwrap();
            let weight = weight(text.as_bytes(), Encoding::Json);
            assert!(weight >= taken(&value), "{weight} of {}", taken(&value));
        }
        // 8 MiB.
        let body = format!("[{}1]", "[[[1]]],".repeat(1 << 20));
        assert!(weight(body.as_bytes(), Encoding::Json) > 400 << 20);
    }
}
