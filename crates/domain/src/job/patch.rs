//! Changes one value in a payload. All other bytes stay as they are: the order of members, white space, and numbers that no
//! type of this program could hold.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::str::FromStr;

use rmp::decode;
use serde::de::{DeserializeSeed, IgnoredAny};
use serde_json::value::RawValue;

use super::Encoding;
use super::filter::path::{Named, Path, Step};
use super::payload::read_msgpack;

/// A change of one value in a payload: `payload.email=ann@example.com`, `payload.items[0].count=3`.
///
/// If the present value is text, the new one is text too. Otherwise it is JSON, or else text. A JSON text in quotes is
/// always JSON. A member that its object does not have yet is added.
///
/// ```
/// # mod streamfleet {
/// #     pub use streamfleet_domain::job;
/// #     pub use streamfleet_domain::job::patch as admin;
/// # }
/// use streamfleet::admin::Patch;
/// use streamfleet::job::Encoding;
///
/// # fn main() -> Result<(), streamfleet::admin::PatchError> {
/// let patch: Patch = "payload.to=bob@example.com".parse()?;
/// let payload = patch.apply(br#"{"to": "ann@example.com", "n": 1.50}"#, Encoding::Json)?;
/// assert_eq!(payload, br#"{"to": "bob@example.com", "n": 1.50}"#);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    path: Path,
    value: String,
}

/// Why a payload cannot be changed in this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The change is not written as it should be.
    #[error("{text:?} is not a change of a payload, such as payload.email=ann@example.com: {why}")]
    Syntax {
        /// The beginning of the text.
        text: String,
        /// The rule that it breaks.
        why: String,
    },
    /// The payload is not what its encoding says.
    #[error("the payload is not valid {0}")]
    Unreadable(&'static str),
    /// Nobody knows the form of a raw payload.
    #[error("a payload with the encoding raw has no members: replace it as a whole")]
    Raw,
    /// The payload has nothing at this place, and nothing can be added there.
    #[error("the payload has no payload{0}")]
    Missing(String),
}

/// Where the new value goes.
struct Target {
    /// The bytes that it replaces; empty if it is added.
    replaced: Range<usize>,
    /// Whether it replaces a text.
    is_text: bool,
    /// If it is added: the name of the new member, how many members the object has, and where the object begins.
    added: Option<Added>,
}

struct Added {
    name: String,
    members: usize,
    object: usize,
}

impl FromStr for Patch {
    type Err = PatchError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SHOWN: usize = 60;
        let wrong = |why: String| PatchError::Syntax { text: text.chars().take(SHOWN).collect(), why };
        let rest =
            text.strip_prefix("payload").ok_or_else(|| wrong("it must begin with payload".to_owned()))?;
        let (path, rest) = Path::parse(rest).map_err(wrong)?;
        let value = rest.strip_prefix('=').ok_or_else(|| wrong("= must follow the path".to_owned()))?;
        Ok(Self { path, value: value.to_owned() })
    }
}

impl Patch {
    /// Returns true if the value is at or below a member with one of these names. `is_name` decides about one name.
    ///
    /// A program that hides such values from a person must refuse the change too: whether it can be made tells what the present
    /// value is like.
    #[doc(hidden)]
    pub fn looks_at(&self, is_name: impl Fn(&str) -> bool) -> bool {
        self.path.names().any(is_name)
    }

    /// Returns the payload with the new value.
    ///
    /// # Errors
    ///
    /// [`PatchError`] if the payload cannot be read, or has no such place.
    pub fn apply(&self, payload: &[u8], encoding: Encoding) -> Result<Vec<u8>, PatchError> {
        let steps = &self.path.0;
        let missing = || PatchError::Missing(self.path.to_string());
        match encoding {
            Encoding::Json => {
                let text = std::str::from_utf8(payload).map_err(|_| PatchError::Unreadable("JSON"))?;
                let place = json_place(text, steps)?.ok_or_else(missing)?;
                let value = self.json(place.is_text);
                let value = match &place.added {
                    None => value,
                    Some(added) => {
                        let gap = if added.members == 0 { "" } else { "," };
                        format!("{gap}{}:{value}", json_text(&added.name))
                    }
                };
                Ok(spliced(payload, &place.replaced, value.as_bytes()))
            }
            Encoding::Msgpack => {
                let place = msgpack_place(payload, steps)?.ok_or_else(missing)?;
                let value = self.msgpack(place.is_text)?;
                let Some(added) = &place.added else { return Ok(spliced(payload, &place.replaced, &value)) };
                let member = [msgpack_text(&added.name), value].concat();
                let longer = spliced(payload, &place.replaced, &member);
                let (members, first) =
                    members_at(payload, added.object).ok_or(PatchError::Unreadable("MessagePack"))?;
                Ok(spliced(&longer, &(added.object..first), &msgpack_map(members + 1)))
            }
            Encoding::Raw => Err(PatchError::Raw),
        }
    }

    /// The new value as JSON.
    fn json(&self, is_text: bool) -> String {
        let json = serde_json::from_str::<&RawValue>(&self.value).ok().map(RawValue::get);
        match json.filter(|json| !is_text || json.starts_with('"')) {
            Some(json) => json.to_owned(),
            None => json_text(&self.value),
        }
    }

    fn msgpack(&self, is_text: bool) -> Result<Vec<u8>, PatchError> {
        let unreadable = PatchError::Unreadable("MessagePack");
        let value: serde_json::Value =
            serde_json::from_str(&self.json(is_text)).map_err(|_| unreadable.clone())?;
        rmp_serde::to_vec_named(&value).map_err(|_| unreadable)
    }
}

fn spliced(bytes: &[u8], replaced: &Range<usize>, with: &[u8]) -> Vec<u8> {
    [&bytes[..replaced.start], with, &bytes[replaced.end..]].concat()
}

fn json_text(text: &str) -> String {
    serde_json::to_string(text).expect("a text can be written as JSON")
}

/// Finds a place in JSON; `None` if there is none.
fn json_place(text: &str, steps: &[Step]) -> Result<Option<Target>, PatchError> {
    let unreadable = |_| PatchError::Unreadable("JSON");
    let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let mut current = serde_json::from_str::<&RawValue>(text).map_err(unreadable)?.get();
    for (nth, step) in steps.iter().enumerate() {
        let found = match (current.as_bytes().first(), step) {
            (Some(b'{'), Step::Name(name)) => {
                // Of members with the same name, the last one counts.
                let members: BTreeMap<String, &RawValue> =
                    serde_json::from_str(current).map_err(unreadable)?;
                let found = members.get(name).map(|value| value.get());
                if found.is_none() && nth + 1 == steps.len() {
                    let (object, end) = (offset(current), offset(current) + current.len() - 1);
                    let added = Added { name: name.clone(), members: members.len(), object };
                    return Ok(Some(Target { replaced: end..end, is_text: false, added: Some(added) }));
                }
                found
            }
            (Some(b'['), step) => {
                let items: Vec<&RawValue> = serde_json::from_str(current).map_err(unreadable)?;
                index(step).and_then(|index| items.get(index).map(|item| item.get()))
            }
            _ => None,
        };
        let Some(found) = found else { return Ok(None) };
        current = found;
    }
    let start = offset(current);
    Ok(Some(Target {
        replaced: start..start + current.len(),
        is_text: current.starts_with('"'),
        added: None,
    }))
}

/// The element that a step names.
fn index(step: &Step) -> Option<usize> {
    match step {
        Step::Index(index) => Some(*index),
        Step::Name(name) => name.parse().ok(),
    }
}

/// Reads the value of MessagePack that begins here. Returns where it ends, too; `None` if it cannot be read.
fn read_at<'de, S: DeserializeSeed<'de>>(bytes: &[u8], at: usize, seed: S) -> Option<(S::Value, usize)> {
    let (value, left) = read_msgpack(bytes.get(at..)?, seed).ok()?;
    Some((value, bytes.len() - usize::try_from(left).ok()?))
}

/// Where the value that begins here ends.
fn end_of(bytes: &[u8], at: usize) -> Option<usize> {
    read_at(bytes, at, PhantomData::<IgnoredAny>).map(|(_, end)| end)
}

/// Returns how many members the map that begins here has, and where the first one begins.
fn members_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut content = bytes.get(at..)?;
    let members = decode::read_map_len(&mut content).ok()?;
    Some((usize::try_from(members).ok()?, bytes.len() - content.len()))
}

/// Returns how many elements the array that begins here has, and where the first one begins.
fn elements_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut content = bytes.get(at..)?;
    let elements = decode::read_array_len(&mut content).ok()?;
    Some((usize::try_from(elements).ok()?, bytes.len() - content.len()))
}

/// Finds a place in MessagePack; `None` if there is none.
fn msgpack_place(bytes: &[u8], steps: &[Step]) -> Result<Option<Target>, PatchError> {
    if end_of(bytes, 0) != Some(bytes.len()) {
        return Err(PatchError::Unreadable("MessagePack"));
    }
    Ok(msgpack_walk(bytes, steps))
}

/// Follows the steps through MessagePack that is valid.
fn msgpack_walk(bytes: &[u8], steps: &[Step]) -> Option<Target> {
    let mut at = 0;
    for (nth, step) in steps.iter().enumerate() {
        if let (Step::Name(name), Some((members, first))) = (step, members_at(bytes, at)) {
            let (mut found, mut next) = (None, first);
            for _ in 0..members {
                // A name of another kind, such as a list, is the name of nothing.
                let named = read_at(bytes, next, Named(Some(name)));
                let (is_named, value) = named.or_else(|| Some((false, end_of(bytes, next)?)))?;
                found = if is_named { Some(value) } else { found };
                next = end_of(bytes, value)?;
            }
            if found.is_none() && nth + 1 == steps.len() {
                let added = Added { name: name.clone(), members, object: at };
                return Some(Target { replaced: next..next, is_text: false, added: Some(added) });
            }
            at = found?;
        } else {
            let (elements, first) = elements_at(bytes, at)?;
            let index = index(step).filter(|index| *index < elements)?;
            at = (0..index).try_fold(first, |next, _| end_of(bytes, next))?;
        }
    }
    let is_text = decode::read_str_len(&mut &bytes[at..]).is_ok();
    Some(Target { replaced: at..end_of(bytes, at)?, is_text, added: None })
}

fn msgpack_text(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 5);
    rmp::encode::write_str(&mut out, text).expect("writing to a Vec cannot fail");
    out
}

fn msgpack_map(members: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let members = u32::try_from(members).expect("no payload has so many members");
    rmp::encode::write_map_len(&mut out, members).expect("writing to a Vec cannot fail");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn json(payload: &str, patch: &str) -> Result<String, PatchError> {
        let patched = patch.parse::<Patch>()?.apply(payload.as_bytes(), Encoding::Json)?;
        Ok(String::from_utf8(patched).unwrap())
    }

    fn msgpack(payload: &Value, patch: &str) -> Result<Value, PatchError> {
        let packed = rmp_serde::to_vec_named(payload).unwrap();
        let patched = patch.parse::<Patch>()?.apply(&packed, Encoding::Msgpack)?;
        Ok(rmp_serde::from_slice(&patched).unwrap())
    }

    #[test]
    fn a_change_names_every_member_on_its_path() {
        for (patch, looks) in [
            ("payload.card=1", true),
            ("payload.card[7].n=1", true),
            (r#"payload.lines[0]["card"]=1"#, true),
            ("payload.cards.n=card", false),
        ] {
            let patch: Patch = patch.parse().unwrap();
            assert_eq!(patch.looks_at(|name| name == "card"), looks, "{patch:?}");
        }
    }

    #[test]
    fn everything_else_in_json_stays_as_it_is_written() {
        let payload = " {\"b\": 1.50,\n \"to\":\"ann\" , \"big\":1e999, \"items\": [ {\"n\":1}, 2 ] }\n";
        let changed = |from: &str, to: &str| payload.replace(from, to);
        assert_eq!(json(payload, "payload.to=12").unwrap(), changed("\"ann\"", "\"12\""));
        assert_eq!(json(payload, "payload.to=\"\\u0041\"").unwrap(), changed("\"ann\"", "\"\\u0041\""));
        assert_eq!(json(payload, "payload.b=2").unwrap(), changed("1.50", "2"));
        assert_eq!(json(payload, "payload.b=two").unwrap(), changed("1.50", "\"two\""));
        assert_eq!(
            json(payload, "payload.items[0].n={\"a\":[]}").unwrap(),
            changed("{\"n\":1}", "{\"n\":{\"a\":[]}}")
        );
        assert_eq!(json(payload, "payload.items.1=null").unwrap(), changed("2 ]", "null ]"));
        assert_eq!(json(payload, "payload.items[0].m=x").unwrap(), changed("\"n\":1", "\"n\":1,\"m\":\"x\""));
        assert_eq!(json("{}", "payload[\"a.b\"]=1").unwrap(), "{\"a.b\":1}");
        assert_eq!(json("{\"a\":1,\"a\":2}", "payload.a=3").unwrap(), "{\"a\":1,\"a\":3}");
    }

    #[test]
    fn what_cannot_be_changed_is_refused() {
        for patch in ["payload.items[5]=1", "payload.b.c=1", "payload.x.y=1", "payload.items.n=1"] {
            let refused = json("{\"b\":1,\"items\":[1]}", patch);
            assert!(matches!(refused, Err(PatchError::Missing(_))), "{patch}: {refused:?}");
            let refused = msgpack(&json!({"b": 1, "items": [1]}), patch);
            assert!(matches!(refused, Err(PatchError::Missing(_))), "{patch}: {refused:?}");
        }
        for patch in ["", "payload", "payload=1", "payload.a", "payload..a=1", "other.a=1", "payload.a~1"] {
            assert!(matches!(patch.parse::<Patch>(), Err(PatchError::Syntax { .. })), "{patch}");
        }
        assert_eq!(json("{", "payload.a=1"), Err(PatchError::Unreadable("JSON")));
        let patch: Patch = "payload.a=1".parse().unwrap();
        for bytes in [&b""[..], b"\xc1", b"\x81\xa1", b"\x80\x80", b"\xdd\xff\xff\xff\xff"] {
            assert_eq!(patch.apply(bytes, Encoding::Msgpack), Err(PatchError::Unreadable("MessagePack")));
        }
        assert_eq!(patch.apply(b"{}", Encoding::Raw), Err(PatchError::Raw));
    }

    #[test]
    fn messagepack_is_changed_in_place() {
        let payload = json!({"to": "ann", "items": [{"n": 1}, [2, "x"]], "long": "y".repeat(300)});
        let mut want = payload.clone();
        want["to"] = json!("12");
        assert_eq!(msgpack(&payload, "payload.to=12").unwrap(), want);
        want["items"][1][0] = json!({"k": null});
        let once = msgpack(&payload, "payload.items[1][0]={\"k\":null}").unwrap();
        assert_eq!(msgpack(&once, "payload.to=12").unwrap(), want);
        want["items"][0]["m"] = json!(true);
        assert_eq!(msgpack(&want, "payload.items[0].m=true").unwrap(), want);
        // Values that JSON does not have stay: bytes, and a type of a program's own.
        let packed = b"\x82\xa1a\xc4\x02\x00\xff\xa1b\xd4\x05\x01";
        let patched = "payload.c=1".parse::<Patch>().unwrap().apply(packed, Encoding::Msgpack).unwrap();
        assert_eq!(patched, b"\x83\xa1a\xc4\x02\x00\xff\xa1b\xd4\x05\x01\xa1c\x01");
    }

    #[test]
    fn members_of_messagepack_may_be_named_by_integers_and_bytes() {
        let patched = |payload: &[u8], patch: &str| {
            patch.parse::<Patch>().unwrap().apply(payload, Encoding::Msgpack).unwrap()
        };
        assert_eq!(patched(b"\x81\x07\x01", "payload.7=2"), b"\x81\x07\x02");
        assert_eq!(patched(b"\x81\xff\x01", "payload.-1=2"), b"\x81\xff\x02");
        assert_eq!(patched(b"\x81\xcd\x01\x00\x01", "payload.256=2"), b"\x81\xcd\x01\x00\x02");
        assert_eq!(patched(b"\x81\xc4\x01a\x01", "payload.a=2"), b"\x81\xc4\x01a\x02");
    }

    proptest! {
        #[test]
        fn a_patched_payload_has_the_new_value_and_all_others(
            members in prop::collection::btree_map("[a-z]{1,5}", any::<i64>(), 0..20), name in "[a-z]{1,5}", value in any::<i64>(),
        ) {
            let before = serde_json::to_value(&members).unwrap();
            let mut want = before.clone();
            want[&name] = json!(value);
            let patch = format!("payload.{name}={value}");
            prop_assert_eq!(&msgpack(&before, &patch).unwrap(), &want);
            let text = json(&before.to_string(), &patch).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), want);
        }

        #[test]
        fn patching_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60), name in "[a-c]") {
            let patch: Patch = format!("payload.{name}[0]=1").parse().unwrap();
            for encoding in [Encoding::Json, Encoding::Msgpack] {
                let _ignored = patch.apply(&bytes, encoding).is_ok();
            }
        }
    }
}
