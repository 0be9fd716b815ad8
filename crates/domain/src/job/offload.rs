//! Large fields, kept outside of their entry. Redis hands each byte of an entry that a script touches to Lua, which
//! copies and hashes it. That takes about a millisecond per MiB. So the entries that scripts move carry only the name
//! of a key that holds the large fields (the claim check pattern).
//!
//! The value of the field `offloaded` is `<token> <bytes>`: the last part of that key's name, and the total bytes of the names and
//! values of all fields that the fleet does not read in a light entry. Those that are not in the entry are in the key, packed
//! like a delayed job.

use std::hash::Hasher;

use super::envelope::{OFFLOADED, pack_texts};
use super::{Envelope, Generation};

/// The encoding of a light entry, so that a worker that does not know about offloaded fields rejects it loudly. The
/// real encoding is among the large fields.
const MARK: (&[u8], &[u8]) = (b"encoding", b"offloaded");

/// A longer value of a producer is offloaded, whatever its field is called.
const MAX_VALUE_BYTES: usize = 4096;

/// A longer value that only scripts write is offloaded, too. The longest is `dead_steps`, with the names and states of 64 steps.
const MAX_WRITTEN_BYTES: usize = 16 * 1024;

/// The most bytes of a producer's other short fields that stay in a light entry: a header may decide where a job waits, by
/// `fair_by` or as the key of a gate.
const MAX_HEADERS_BYTES: usize = 4096;

/// The longest name and value of such a field.
const MAX_HEADER_BYTES: usize = 512;

/// The longest valid token. The fleet writes no longer ones.
const MAX_TOKEN_BYTES: usize = 160;

/// The most digits that follow it.
const MAX_DIGITS: usize = 20;

/// What an entry says about fields that are kept outside of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offloaded {
    /// The last part of the key's name.
    pub token: String,
    /// The total bytes of the names and values of all fields that a light entry may lack.
    pub bytes: usize,
}

/// An envelope whose large fields are kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LightEnvelope {
    /// What is left in the entry.
    pub envelope: Envelope,
    /// What the entry says about the large fields.
    pub offloaded: Offloaded,
    /// The large fields, as the key holds them.
    pub fields: Vec<u8>,
}

impl Offloaded {
    fn read(value: &[u8]) -> Option<Self> {
        let (token, bytes) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let is_token = !token.is_empty()
            && token.len() <= MAX_TOKEN_BYTES
            && token.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}'));
        (is_token && bytes.len() <= MAX_DIGITS).then_some(())?;
        Some(Self { token: token.to_owned(), bytes: bytes.parse().ok()? })
    }

    fn value(&self) -> String {
        format!("{} {}", self.token, self.bytes)
    }
}

impl Envelope {
    /// Before a script moves an entry with more bytes than this, its large fields are offloaded.
    pub const LARGE_BYTES: usize = 128 * 1024;

    /// Returns where this entry's large fields are kept, if they are offloaded.
    #[doc(hidden)]
    pub fn offloaded(&self) -> Option<Offloaded> {
        self.is_offloaded().then(|| Offloaded::read(self.get(OFFLOADED)?)).flatten()
    }

    /// Returns false if fields of this entry are kept elsewhere and have not been put back.
    #[doc(hidden)]
    pub fn is_whole(&self) -> bool {
        self.offloaded().is_none_or(|offloaded| offloaded.bytes == self.large_bytes())
    }

    /// Returns this entry without its large fields; `None` if it is small or they are already elsewhere.
    #[doc(hidden)]
    pub fn without_large_fields(&self, generation: &Generation) -> Option<LightEnvelope> {
        self.lighter_than(Self::LARGE_BYTES, generation)
    }

    /// Returns the entry without its large fields if it has more than `most` bytes.
    #[doc(hidden)]
    pub fn lighter_than(&self, most: usize, generation: &Generation) -> Option<LightEnvelope> {
        if self.size() <= most {
            return None;
        }
        let mut headers = Headers::default();
        let (mut inline, mut kept, mut large) = (InlineFields::new(), Vec::new(), Vec::new());
        for field in self.fields().filter(|field| *field != MARK) {
            if inline.names_key(field) {
                continue;
            }
            if inline.keep(field) || headers.keep(field) { kept.push(field) } else { large.push(field) }
        }
        if large.is_empty() {
            return None;
        }
        let fields = pack_texts(large.into_iter().flat_map(|(name, value)| [name, value]));
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write(&fields);
        let offloaded =
            Offloaded { token: format!("{generation}-{:016x}", hasher.finish()), bytes: self.large_bytes() };
        let value = offloaded.value();
        // The second place: scripts expect the generation in the first field.
        let second = kept.len().min(1);
        kept.splice(second..second, [(OFFLOADED, value.as_bytes()), MARK]);
        Some(LightEnvelope { envelope: Self::new(kept.into_iter()), offloaded, fields })
    }

    /// Returns this entry with its large fields, as the key held them, after the others; `None` if these bytes are something else.
    #[doc(hidden)]
    pub fn with_large_fields(&self, packed: &[u8]) -> Option<Self> {
        let texts = super::envelope::unpack_texts(packed)?;
        let large = texts.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let all: Vec<_> = self.fields().filter(|field| *field != MARK).chain(large).collect();
        Some(Self::new(all.into_iter())).filter(Self::is_whole)
    }

    /// The bytes of all fields that a light entry may lack. No script adds or removes such a field, so an entry has all of them if and
    /// only if it has as many bytes of them as it was written with. Short headers count, though they stay in the entry: workers that
    /// keep none there count them, too.
    fn large_bytes(&self) -> usize {
        let mut inline = InlineFields::new();
        let large =
            self.fields().filter(|field| *field != MARK && !inline.names_key(*field) && !inline.keep(*field));
        large.map(|(name, value)| name.len() + value.len()).sum()
    }
}

/// The fields that the fleet or one of its scripts reads in a light entry, beside [`OFFLOADED`]. Those of producers may have any
/// other name.
const INLINE: [&[u8]; 53] = [
    b"type",
    b"id",
    b"attempt",
    b"lost",
    b"life",
    b"replay_of",
    b"replays",
    b"root",
    b"created_ms",
    b"unroutable_ms",
    b"run_at_ms",
    b"delay_ms",
    b"was_run_at_ms",
    b"was_delay_ms",
    b"expires_at_ms",
    b"timeout_ms",
    b"max_attempts",
    b"tracking",
    b"once",
    b"unique",
    b"unique_scope",
    b"batch",
    b"on_success",
    b"on_failure",
    b"parent",
    b"parent_queue",
    b"campaign",
    b"lane",
    b"room_gates",
    b"room_moves",
    b"traceparent",
    b"h.tracestate",
    b"trace_link",
    b"dead_reason",
    b"dead_kind",
    b"dead_error",
    b"dead_attempts",
    b"dead_at_ms",
    b"dead_first_failed_ms",
    b"dead_worker",
    b"dead_origin",
    b"dead_fingerprint",
    b"dead_group",
    b"dead_campaign",
    b"dead_campaigns",
    b"dead_before",
    b"dead_life",
    b"dead_root",
    b"dead_steps",
    b"dead_created_ms",
    b"dead_delay_ms",
    b"dead_run_at_ms",
    b"dead_job",
];

/// Selects the fields that stay in a light entry: each short one that the fleet reads there, once. An entry may repeat a name.
#[derive(Debug, Clone)]
struct InlineFields {
    seen: [bool; INLINE.len()],
    has_offloaded: bool,
}

impl InlineFields {
    fn new() -> Self {
        Self { seen: [false; INLINE.len()], has_offloaded: false }
    }

    /// Returns true if this field, the next one of its entry, says where the large fields are. Only the first one of this name can, and
    /// any producer may have sent something else under it.
    fn names_key(&mut self, (name, value): (&[u8], &[u8])) -> bool {
        name == OFFLOADED
            && !std::mem::replace(&mut self.has_offloaded, true)
            && Offloaded::read(value).is_some()
    }

    /// Returns true if this field, the next one of its entry that does not name the key, stays.
    fn keep(&mut self, (name, value): (&[u8], &[u8])) -> bool {
        let most = if name.starts_with(b"dead_") { MAX_WRITTEN_BYTES } else { MAX_VALUE_BYTES };
        let known = INLINE.iter().position(|inline| *inline == name);
        let Some(nth) = known.filter(|_| value.len() <= most) else { return false };
        !std::mem::replace(&mut self.seen[nth], true)
    }
}

/// Selects the fields of a producer that stay in a light entry, too.
#[derive(Debug, Default)]
struct Headers<'a> {
    bytes: usize,
    /// The names of those that do not stay. What follows under such a name must not come before it.
    large: rustc_hash::FxHashSet<&'a [u8]>,
}

impl<'a> Headers<'a> {
    /// Returns true if this field, the next one that scripts do not read, stays.
    fn keep(&mut self, (name, value): (&'a [u8], &[u8])) -> bool {
        let bytes = name.len() + value.len();
        let is_short = bytes <= MAX_HEADER_BYTES && self.bytes + bytes <= MAX_HEADERS_BYTES;
        if name == b"payload" || name == OFFLOADED || !is_short || self.large.contains(name) {
            self.large.insert(name);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EntryId, JobSpec, Lane};
    use proptest::prelude::*;

    fn generation() -> Generation {
        Generation::of_entry(EntryId::new(5, 1), Lane::High)
    }

    fn envelope(fields: &[(&str, &[u8])]) -> Envelope {
        Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), *value)))
    }

    fn large(bytes: usize) -> Envelope {
        let payload = vec![b'x'; bytes];
        envelope(&[
            ("life", b"5-1-high"),
            ("payload", &payload),
            ("type", b"mail"),
            ("h.tenant", b"9"),
            ("attempt", b"2"),
        ])
    }

    #[test]
    fn small_entries_stay_as_they_are() {
        assert_eq!(large(1000).without_large_fields(&generation()), None);
        assert!(large(1000).is_whole());
    }

    #[test]
    fn large_fields_are_offloaded_and_restored_byte_for_byte() {
        let whole = large(300_000);
        let light = whole.without_large_fields(&generation()).unwrap();
        let names: Vec<_> = light.envelope.fields().map(|(name, _)| name).collect();
        assert_eq!(names, [b"life".as_slice(), OFFLOADED, b"encoding", b"type", b"h.tenant", b"attempt"]);
        assert!(light.envelope.size() < 200 && !light.envelope.is_whole());
        let restored = light.envelope.with_large_fields(&light.fields).unwrap();
        for (name, value) in whole.fields() {
            assert_eq!(restored.get(name), Some(value));
        }
        assert_eq!((restored.len(), restored.is_whole()), (6, true));
        let job = JobSpec::parse(&restored, EntryId::new(7, 0), Lane::Low).unwrap();
        assert_eq!((job.payload.len(), job.attempt), (300_000, 2));
        // A key is named by its fields and their generation, so that every process that offloads them knows the name.
        assert_eq!(restored.without_large_fields(&generation()).unwrap(), light);
        assert!(light.offloaded.token.starts_with("5-1-high-"));
    }

    #[test]
    fn a_large_entry_in_a_waiting_list_says_where_it_goes_and_may_go_to_another_lane() {
        let payload = vec![b'x'; 300_000];
        let parked = envelope(&[
            ("life", b"5-1"),
            ("type", b"mail"),
            ("payload", &payload),
            ("lane", b"low"),
            ("room_gates", b"type:mail\nkey:h.tenant=9"),
        ]);
        let light = parked.without_large_fields(&generation()).unwrap();
        assert_eq!(light.envelope.get(b"room_gates"), Some(b"type:mail\nkey:h.tenant=9".as_slice()));
        assert_eq!(light.envelope.get(b"lane"), Some(b"low".as_slice()));
        for lane in [None, Some((b"lane".as_slice(), b"normal".as_slice()))] {
            let out = light.envelope.edited(
                |name| matches!(name, b"lane" | b"room_gates"),
                &lane.into_iter().collect::<Vec<_>>(),
            );
            let restored = out.with_large_fields(&light.fields).unwrap();
            assert_eq!(restored.get(b"payload"), Some(payload.as_slice()));
            assert_eq!(restored.get(b"lane"), lane.map(|(_, value)| value));
        }
    }

    #[test]
    fn an_entry_without_its_large_fields_is_malformed() {
        let light = large(300_000).without_large_fields(&generation()).unwrap();
        let error = JobSpec::parse(&light.envelope, EntryId::new(7, 0), Lane::Low).unwrap_err().to_string();
        assert!(error.contains(&light.offloaded.token), "{error}");
        assert_eq!(light.envelope.with_large_fields(b"other"), None);
        assert_eq!(light.envelope.with_large_fields(&pack_texts([b"a".as_slice(), b"b"].into_iter())), None);
    }

    #[test]
    fn a_token_that_could_name_another_key_is_none() {
        let long = format!("5-1-00ff {:030}", 7);
        for value in ["", "x", "a b", "{b} 7", " 7", "a\n 7", "é 7", long.as_str()] {
            let entry = envelope(&[("type", b"mail"), ("offloaded", value.as_bytes())]);
            assert_eq!(entry.offloaded(), None, "{value:?}");
        }
        assert!(envelope(&[("offloaded", b"5-1-high-00ff 7")]).offloaded().is_some());
    }

    #[test]
    fn a_producers_fields_are_offloaded_whatever_their_names_begin_with_and_repeated_ones_too() {
        let value = vec![b'x'; 4000];
        let fields = ["was_1", "dead_1", "trace_1", "tracestate", "type", "type", "dead_error", "dead_error"];
        let fields = ["life"].into_iter().chain(fields.into_iter().cycle().take(200));
        let whole = Envelope::new(fields.map(|name| (name.as_bytes(), value.as_slice())));
        let light = whole.without_large_fields(&generation()).unwrap();
        let names: Vec<_> = light.envelope.fields().map(|(name, _)| name).collect();
        assert_eq!(names, [b"life".as_slice(), OFFLOADED, b"encoding", b"type", b"dead_error"]);
        let restored = light.envelope.with_large_fields(&light.fields).unwrap();
        assert_eq!((restored.len(), restored.is_whole()), (202, true));
        let count = |envelope: &Envelope, wanted: &[u8]| {
            envelope.fields().filter(|(name, _)| *name == wanted).count()
        };
        for name in [b"was_1".as_slice(), b"type", b"dead_error"] {
            assert_eq!(count(&restored, name), count(&whole, name));
        }
        assert_eq!(restored.without_large_fields(&generation()).unwrap(), light);
    }

    #[test]
    fn long_values_of_any_name_are_offloaded() {
        let long = vec![b'x'; 200_000];
        let entry = envelope(&[("type", &long), ("id", b"a")]);
        let light = entry.without_large_fields(&generation()).unwrap();
        assert_eq!(light.envelope.get(b"type"), None);
        assert_eq!(
            light.envelope.with_large_fields(&light.fields).unwrap().get(b"type"),
            Some(long.as_slice())
        );
    }

    #[test]
    fn short_headers_stay_where_scripts_look_for_them_up_to_a_bound() {
        let (payload, long) = (vec![b'x'; 300_000], vec![b'y'; MAX_HEADER_BYTES]);
        let names: Vec<String> = (0..20).map(|nth| format!("h.{nth}")).collect();
        let mut fields = vec![("h.long", long.as_slice()), ("payload", &payload), ("h.long", b"short")];
        fields.extend(names.iter().map(|name| (name.as_str(), &long[..400])));
        let whole = envelope(&fields);
        let light = whole.without_large_fields(&generation()).unwrap();
        assert_eq!(light.envelope.get(b"h.long"), None, "what is short would come before what is long");
        assert_eq!(light.envelope.get(b"h.0"), Some(&long[..400]));
        assert!(light.envelope.get(b"h.19").is_none() && light.envelope.size() < 2 * MAX_HEADERS_BYTES);
        let restored = light.envelope.with_large_fields(&light.fields).unwrap();
        assert_eq!((restored.len(), restored.get(b"h.long")), (24, Some(long.as_slice())));
        assert_eq!(restored.without_large_fields(&generation()).unwrap(), light);
    }

    const NAMES: [&[u8]; 8] =
        [OFFLOADED, b"payload", b"type", b"dead_error", b"h.a", b"h.b", b"life", b"encoding"];

    fn any_value() -> impl Strategy<Value = Vec<u8>> {
        let sizes = vec![0, 7, 400, MAX_HEADER_BYTES + 1, MAX_VALUE_BYTES + 1, MAX_WRITTEN_BYTES + 1];
        prop_oneof![
            proptest::sample::select(sizes).prop_map(|size| vec![b'x'; size]),
            Just(b"5-1-00ff 7".to_vec()),
            Just(b"offloaded".to_vec()),
        ]
    }

    proptest! {
        #[test]
        fn nothing_large_stays_whatever_a_producer_sends_and_nothing_is_lost(
            fields in proptest::collection::vec((proptest::sample::select(NAMES.to_vec()), any_value()), 0..40),
        ) {
            let whole = Envelope::new(fields.iter().map(|(name, value)| (*name, value.as_slice())));
            let Some(light) = whole.lighter_than(0, &generation()) else { return Ok(()) };
            let named = light.envelope.fields().filter(|(name, _)| *name == OFFLOADED).count();
            // One of each name that stays is as long as may be.
            let most = MAX_WRITTEN_BYTES + 3 * MAX_VALUE_BYTES + MAX_HEADERS_BYTES + 1000;
            prop_assert!(named == 1 && light.envelope.size() <= most);
            let restored = light.envelope.with_large_fields(&light.fields).unwrap();
            let sent = |envelope: &Envelope| {
                let mut inline = InlineFields::new();
                let all = envelope.fields().filter(|field| *field != MARK && !inline.names_key(*field));
                let mut all: Vec<_> = all.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                all.sort();
                all
            };
            prop_assert_eq!(sent(&restored), sent(&whole));
            prop_assert_eq!(restored.lighter_than(0, &generation()).unwrap(), light);
        }
    }

    #[test]
    fn what_scripts_write_leaves_an_entry_as_whole_as_it_was() {
        let light = large(300_000).without_large_fields(&generation()).unwrap();
        let steps = vec![b's'; 5000];
        for added in [(b"room_moves".as_slice(), b"3".as_slice()), (b"dead_steps", &steps)] {
            let moved = light.envelope.edited(|_| false, &[added]);
            assert!(!moved.is_whole());
            assert_eq!(moved.with_large_fields(&light.fields).unwrap().get(added.0), Some(added.1));
        }
    }
}
