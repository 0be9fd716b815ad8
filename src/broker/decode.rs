//! Redis's replies, decoded by hand: the client's own conversions fail on empty reads and on deleted entries, and
//! collapse arrays of one item. Bytes are copied out, because a kept slice keeps the whole reply alive.

use fred::types::Value;

use super::error::Error;
use crate::job::{EntryId, Envelope, Lane};

/// One entry of a work stream.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: EntryId,
    pub(crate) lane: Lane,
    /// `None` where the entry is pending but was deleted.
    pub(crate) envelope: Option<Envelope>,
}

/// What XREADGROUP answers: `nil`, or for each stream its name and entries.
#[expect(clippy::wildcard_enum_match_arm, reason = "another crate's enum, of which this much matters")]
pub(crate) fn streams(
    command: &'static str,
    reply: Value,
    lane_of: impl Fn(&[u8]) -> Option<Lane>,
) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    match reply {
        Value::Null => {}
        Value::Array(streams) => {
            for stream in streams {
                let [name, Value::Array(items)] = pair(command, stream)? else {
                    return Err(Error::contract(command, "a stream without entries"));
                };
                let lane = name.as_bytes().and_then(&lane_of);
                let lane = lane.ok_or_else(|| Error::contract(command, &name))?;
                entries.reserve(items.len());
                for item in items {
                    entries.push(entry(command, item, lane)?);
                }
            }
        }
        other => return Err(Error::contract(command, other)),
    }
    Ok(entries)
}

/// A list of entries, as XRANGE and XAUTOCLAIM have it.
pub(crate) fn entries(command: &'static str, reply: Value, lane: Lane) -> Result<Vec<Entry>, Error> {
    let Value::Array(items) = reply else { return Err(Error::contract(command, reply)) };
    items.into_iter().map(|item| entry(command, item, lane)).collect()
}

/// One entry: its id and its flat fields, then perhaps more that later servers add.
fn entry(command: &'static str, item: Value, lane: Lane) -> Result<Entry, Error> {
    let Value::Array(parts) = item else { return Err(Error::contract(command, item)) };
    let id = parts.first().and_then(entry_id).ok_or_else(|| Error::contract(command, &parts))?;
    let envelope = match parts.get(1) {
        Some(Value::Array(fields)) => Some(envelope(fields)),
        Some(Value::Null) | None => None,
        Some(other) => return Err(Error::contract(command, other)),
    };
    Ok(Entry { id, lane, envelope })
}

/// Flat names and values.
pub(crate) fn envelope(flat: &[Value]) -> Envelope {
    Envelope::new(flat.chunks_exact(2).map(|pair| (data(&pair[0]), data(&pair[1]))))
}

/// A value's bytes; empty for what is not text.
pub(crate) fn data(value: &Value) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}

/// A value as text; empty for what is not text.
pub(crate) fn text(value: &Value) -> String {
    String::from_utf8_lossy(data(value)).into_owned()
}

/// A value as a number, whether Redis sent it as one or as text.
#[expect(clippy::wildcard_enum_match_arm, reason = "another crate's enum, of which this much matters")]
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Double(number) if *number >= 0.0 => Some(*number as u64),
        other => std::str::from_utf8(other.as_bytes()?).ok()?.parse::<f64>().ok().map(|number| number as u64),
    }
}

/// A value as an entry id.
pub(crate) fn entry_id(value: &Value) -> Option<EntryId> {
    std::str::from_utf8(value.as_bytes()?).ok()?.parse().ok()
}

fn pair(command: &'static str, value: Value) -> Result<[Value; 2], Error> {
    let Value::Array(items) = value else { return Err(Error::contract(command, value)) };
    items.try_into().map_err(|items: Vec<Value>| Error::contract(command, items))
}
