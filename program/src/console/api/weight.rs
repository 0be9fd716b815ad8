//! How much memory fields take while they are shown, and a payload once it is decoded: up to a hundred times its bytes. This is
//! estimated without decoding it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use streamfleet::job::{Encoding, Envelope};
use streamfleet_engine::admin::read_msgpack;

use super::Problem;
use super::work_limits::WorkLimits;

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

/// How many copies of a field are in memory while it is shown: as it came, as text, and as a value.
const COPIES: usize = 3;

/// How many copies of an answer there are: a buffer that is full moves to one of twice the size.
const ANSWERS: usize = 3;

/// What a field takes besides its bytes: it is an object in the answer.
const FIELD_BYTES: usize = 1024;

/// Notes that this request reads these fields of a job or a letter, has those in its answer that `is_shown` selects, and decodes the
/// payload this many times. The encoding that a job names may be wrong, so the heavier one counts.
///
/// # Errors
///
/// [`Problem`] with the status 413 or 429 if the memory for that is not to be had; see [`WorkLimits::hold`].
pub(super) fn hold_fields(
    work_limits: &WorkLimits,
    fields: &Envelope,
    is_shown: impl Fn(&[u8]) -> bool,
    times: usize,
) -> Result<(), Problem> {
    let taken = fields.fields().map(|(name, value)| {
        let answer = if is_shown(name) { written(name) + written(value) } else { 0 };
        FIELD_BYTES + COPIES * (name.len() + value.len()) + ANSWERS * answer
    });
    work_limits.hold(taken.sum())?;
    let payload = fields.get(b"payload").filter(|_| times > 0);
    work_limits.hold(heaviest(payload.unwrap_or_default()).saturating_mul(times))
}

/// How many bytes a field has in an answer: those of a text with what escapes them, or else twice as many in hexadecimal.
fn written(field: &[u8]) -> usize {
    let in_text = |byte: &u8| match byte {
        b'"' | b'\\' | b'\t' | b'\n' | b'\r' | 0x08 | 0x0c => 2,
        0x00..=0x1f => 6,
        _ => 1,
    };
    if std::str::from_utf8(field).is_ok() { field.iter().map(in_text).sum() } else { 2 * field.len() }
}

/// The bytes that a payload takes once it is decoded, whatever encoding it has.
fn heaviest(payload: &[u8]) -> usize {
    weight(payload, Encoding::Json).max(weight(payload, Encoding::Msgpack))
}

/// Notes that this request decodes a payload, this many times at once.
///
/// # Errors
///
/// [`Problem`] with the status 413 or 429 if the memory for that is not to be had; see [`WorkLimits::hold`].
pub(super) fn hold_decoded(
    work_limits: &WorkLimits,
    (payload, encoding): (&[u8], Encoding),
    times: usize,
) -> Result<(), Problem> {
    work_limits.hold(weight(payload, encoding).saturating_mul(times))
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

    #[test]
    fn fields_weigh_as_they_are_written() {
        for text in ["plain", "\u{1}\u{2}\t\n\r\u{8}\u{c}\"\\é\u{7f}"] {
            assert_eq!(written(text.as_bytes()) + 2, json!(text).to_string().len(), "{text:?}");
        }
        assert_eq!(written(b"\xff\x00"), 4);
    }

    #[test]
    fn all_fields_of_a_letter_weigh() {
        let held = |field: &[u8], value: &[u8], shown: bool| {
            let (work_limits, fields) = (WorkLimits::default(), Envelope::new([(field, value)].into_iter()));
            hold_fields(&work_limits, &fields, |_| shown, 1).map_err(|problem| problem.status().as_u16())
        };
        let control = vec![1; 9 << 20];
        for field in [&b"payload"[..], b"then", b"h.big"] {
            assert_eq!(held(field, &control, true), Err(413), "six times as many bytes in the answer");
            assert_eq!(held(field, &control, false), Ok(()));
        }
        assert_eq!(held(b"h.big", &vec![b'x'; 60 << 20], false), Err(413));
        let objects = format!("[{}1]", "{\"\":1},".repeat(300_000));
        assert_eq!(held(b"payload", objects.as_bytes(), false), Err(413));
        assert_eq!(held(b"then", objects.as_bytes(), false), Ok(()), "it is not decoded");
        let many = vec![(&b"a"[..], &b""[..]); 200_000];
        let many = hold_fields(&WorkLimits::default(), &Envelope::new(many.into_iter()), |_| true, 0);
        assert_eq!(many.map_err(|problem| problem.status().as_u16()), Err(413));
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
