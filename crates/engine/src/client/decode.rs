//! Decodes the replies of Redis by hand: the client's own conversions fail on empty reads and on deleted entries, and
//! collapse arrays of one item. Bytes are copied, because a slice keeps the whole reply alive.

use fred::types::{Resp3Frame, Value};

use crate::client::error::Error;
use crate::job::{EntryId, Envelope, Lane, Timestamp};

/// One entry of a work stream.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// The lane whose stream has it.
    pub lane: Lane,
    /// `None` if the entry is pending but was deleted.
    pub envelope: Option<Envelope>,
}

impl Entry {
    /// The bytes of its names and values.
    pub fn size(&self) -> usize {
        self.envelope.as_ref().map_or(0, Envelope::size)
    }
}

/// A reply in either of the client's two forms: a raw frame, which is cheap and meant for large replies, or a value.
pub(crate) trait Reply: Sized + std::fmt::Debug {
    /// The items of an array.
    fn items(&self) -> Option<&[Self]>;
    /// The bytes of a text.
    fn bytes(&self) -> Option<&[u8]>;
    /// True for `nil`.
    fn is_nil(&self) -> bool;
}

impl Reply for Value {
    fn items(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.as_bytes()
    }

    fn is_nil(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl Reply for Resp3Frame {
    fn items(&self) -> Option<&[Self]> {
        if let Self::Array { data, .. } = self { Some(data) } else { None }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "another crate's enum; only these variants matter")]
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::BlobString { data, .. } | Self::SimpleString { data, .. } => Some(data),
            _ => None,
        }
    }

    fn is_nil(&self) -> bool {
        matches!(self, Self::Null)
    }
}

/// Reads the reply of XREADGROUP: `nil`, or for each stream its name and entries.
pub(crate) fn streams<R: Reply>(
    command: &'static str,
    reply: &R,
    lane_of: impl Fn(&[u8]) -> Option<Lane>,
) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    if reply.is_nil() {
        return Ok(entries);
    }
    for stream in reply.items().ok_or_else(|| Error::contract(command, reply))? {
        let Some([name, list]) = stream.items() else { return Err(Error::contract(command, stream)) };
        let lane = name.bytes().and_then(&lane_of).ok_or_else(|| Error::contract(command, name))?;
        let items = list.items().ok_or_else(|| Error::contract(command, "a stream without entries"))?;
        entries.reserve(items.len());
        for item in items {
            entries.push(entry(command, item, lane)?);
        }
    }
    Ok(entries)
}

/// Reads a list of entries, as XRANGE and XAUTOCLAIM return it.
pub(crate) fn entries<R: Reply>(command: &'static str, reply: &R, lane: Lane) -> Result<Vec<Entry>, Error> {
    let items = reply.items().ok_or_else(|| Error::contract(command, reply))?;
    items.iter().map(|item| entry(command, item, lane)).collect()
}

/// Reads one entry: its id and its flat fields, then perhaps more that later servers add.
fn entry<R: Reply>(command: &'static str, item: &R, lane: Lane) -> Result<Entry, Error> {
    let parts = item.items().ok_or_else(|| Error::contract(command, item))?;
    let id = parts.first().and_then(entry_id).ok_or_else(|| Error::contract(command, item))?;
    let envelope = match parts.get(1) {
        Some(fields) if fields.is_nil() => None,
        Some(fields) => Some(envelope(fields.items().ok_or_else(|| Error::contract(command, fields))?)),
        None => None,
    };
    Ok(Entry { id, lane, envelope })
}

/// Reads flat names and values.
pub(crate) fn envelope<R: Reply>(flat: &[R]) -> Envelope {
    Envelope::new(
        flat.chunks_exact(2)
            .map(|pair| (pair[0].bytes().unwrap_or_default(), pair[1].bytes().unwrap_or_default())),
    )
}

/// A value's bytes; empty if it is not text.
pub(crate) fn data(value: &Value) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}

/// A value as text; empty if it is not text.
pub(crate) fn text(value: &Value) -> String {
    String::from_utf8_lossy(data(value)).into_owned()
}

/// A value as a number, whether Redis sent it as one or as text.
#[expect(clippy::wildcard_enum_match_arm, reason = "another crate's enum; only these variants matter")]
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Double(number) if *number >= 0.0 => Some(*number as u64),
        other => std::str::from_utf8(other.as_bytes()?).ok()?.parse::<f64>().ok().map(|number| number as u64),
    }
}

/// A value as an entry id.
pub(crate) fn entry_id<R: Reply>(value: &R) -> Option<EntryId> {
    std::str::from_utf8(value.bytes()?).ok()?.parse().ok()
}

/// Converts a time from Redis; one beyond the calendar becomes the calendar's end.
pub(crate) fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap_or(Timestamp::MAX)
}
