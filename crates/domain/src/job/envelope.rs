//! The fields of a stream entry, kept byte for byte and in order, so that everything a producer sent survives retries,
//! burial and replay. Each entry has one buffer; nothing here keeps Redis's reply alive.
//!
//! In the delayed set, an envelope is one MessagePack array: the lane, then name, value, name, value, … all binary.

use bytes::{BufMut, Bytes, BytesMut};

use super::Lane;

/// The field that names the key.
pub(super) const OFFLOADED: &[u8] = b"offloaded";

/// The flat fields of one stream entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope {
    bytes: Bytes,
    spans: Vec<Span>,
    is_offloaded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    name: u32,
    value: u32,
    end: u32,
}

/// Why an entry is not a job, worded for the person who reads the dead letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

impl Malformed {
    #[doc(hidden)]
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl Envelope {
    /// An entry with more fields than this is malformed: Lua's stack limits how many values a script can append at once.
    pub const MAX_FIELDS: usize = 1000;

    /// The number of extra fields allowed in entries that the fleet writes, because it adds its own fields.
    pub const FLEET_FIELDS: usize = 24;

    /// Copies fields into one buffer.
    pub fn new<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> Self {
        let size = fields.clone().map(|(name, value)| name.len() + value.len()).sum();
        let mut bytes = BytesMut::with_capacity(size);
        let mut spans = Vec::with_capacity(fields.size_hint().0);
        let mut is_offloaded = false;
        let at = |bytes: &BytesMut| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        for (name, value) in fields {
            let start = at(&bytes);
            is_offloaded |= name == OFFLOADED;
            bytes.put_slice(name);
            let middle = at(&bytes);
            bytes.put_slice(value);
            spans.push(Span { name: start, value: middle, end: at(&bytes) });
        }
        Self { bytes: bytes.freeze(), spans, is_offloaded }
    }

    /// Returns the fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.spans.iter().map(|span| (self.slice(span.name, span.value), self.slice(span.value, span.end)))
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the total size of all names and values in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if a field says that other fields are kept outside of the entry.
    #[doc(hidden)]
    pub fn is_offloaded(&self) -> bool {
        self.is_offloaded
    }

    /// Returns the value of the first field with this name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.fields().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// Returns the value at `index`, sharing this envelope's buffer.
    pub(crate) fn value_at(&self, index: usize) -> Bytes {
        let span = self.spans[index];
        self.bytes.slice(span.value as usize..span.end as usize)
    }

    /// Returns these fields without those that `drop` selects, followed by `add`.
    #[must_use]
    pub fn edited(&self, drop: impl Fn(&[u8]) -> bool, add: &[(&[u8], &[u8])]) -> Self {
        let kept = self.fields().filter(|(name, _)| !drop(name));
        let kept: Vec<_> = kept.chain(add.iter().copied()).collect();
        Self::new(kept.into_iter())
    }

    /// Returns these fields with one more in front of them.
    #[must_use]
    pub fn after(&self, name: &[u8], value: &[u8]) -> Self {
        let all: Vec<_> = std::iter::once((name, value)).chain(self.fields()).collect();
        Self::new(all.into_iter())
    }

    /// Packs a job as the delayed set keeps it.
    pub fn pack(&self, lane: Lane) -> Vec<u8> {
        let items = self.fields().flat_map(|(name, value)| [name, value]);
        pack_texts(std::iter::once(lane.as_str().as_bytes()).chain(items))
    }

    /// Unpacks what [`Envelope::pack`] wrote.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes are something else.
    pub fn unpack(packed: &[u8]) -> Result<(Self, Lane), Malformed> {
        let broken = || {
            Malformed::new("the packed fields are not a flat MessagePack array of a lane, names and values")
        };
        let items = unpack_texts(packed).ok_or_else(broken)?;
        let (lane, fields) = items.split_first().ok_or_else(broken)?;
        let lane = std::str::from_utf8(lane).ok().and_then(|text| text.parse().ok()).ok_or_else(broken)?;
        if fields.len() % 2 != 0 {
            return Err(broken());
        }
        Ok((Self::new(fields.chunks_exact(2).map(|pair| (pair[0], pair[1]))), lane))
    }

    fn slice(&self, from: u32, to: u32) -> &[u8] {
        &self.bytes[from as usize..to as usize]
    }
}

fn length(count: usize) -> u32 {
    u32::try_from(count).expect("no Redis value has 4 GiB")
}

/// Packs texts as a flat MessagePack array, which scripts can read.
pub fn pack_texts<'a>(items: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    const HEADER_BYTES: usize = 5;
    let (count, size) = items.clone().fold((0, 0), |(count, size), item| (count + 1, size + item.len()));
    let mut out = Vec::with_capacity(size + HEADER_BYTES * (count + 1));
    rmp::encode::write_array_len(&mut out, length(count)).expect("writing to a Vec cannot fail");
    for item in items {
        // Redis's cmsgpack knows only the string family of markers, not the binary one. The bytes may be anything.
        rmp::encode::write_str_len(&mut out, length(item.len())).expect("writing to a Vec cannot fail");
        out.extend_from_slice(item);
    }
    out
}

/// Unpacks what [`pack_texts`] wrote; `None` if the bytes are something else.
pub fn unpack_texts(mut packed: &[u8]) -> Option<Vec<&[u8]>> {
    let count = rmp::decode::read_array_len(&mut packed).ok()?;
    let mut items = Vec::new();
    for _ in 0..count {
        let size = rmp::decode::read_str_len(&mut packed).ok()?;
        let (item, rest) = packed.split_at_checked(size as usize)?;
        items.push(item);
        packed = rest;
    }
    packed.is_empty().then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn any_fields() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
        vec((vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..300)), 0..20)
    }

    fn envelope(fields: &[(Vec<u8>, Vec<u8>)]) -> Envelope {
        Envelope::new(fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice())))
    }

    proptest! {
        #[test]
        fn packed_fields_come_back_byte_for_byte(fields in any_fields()) {
            let before = envelope(&fields);
            let (after, lane) = Envelope::unpack(&before.pack(Lane::Low)).unwrap();
            prop_assert_eq!(lane, Lane::Low);
            prop_assert_eq!(after, before);
        }

        #[test]
        fn unpacking_any_bytes_never_panics(bytes in vec(any::<u8>(), 0..200)) {
            let _ignored = Envelope::unpack(&bytes).is_ok();
        }

        #[test]
        fn editing_keeps_every_other_field_in_its_order(fields in any_fields()) {
            let before = envelope(&fields);
            let edited = before.edited(|name| name == b"attempt", &[(b"attempt", b"7")]);
            let kept: Vec<_> = before.fields().filter(|(name, _)| *name != b"attempt").collect();
            prop_assert_eq!(edited.fields().take(kept.len()).collect::<Vec<_>>(), kept);
            prop_assert_eq!(edited.get(b"attempt"), Some(b"7".as_slice()));
        }
    }
}
