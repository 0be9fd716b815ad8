//! Large fields, kept outside of the entry that has them. Redis hands each byte of an entry that a script touches to Lua, which
//! copies and hashes it, about a millisecond per MiB. So what scripts move carries only the name of a key that has the
//! large fields: the pattern that is known as claim check.
//!
//! The field `offloaded` says `<token> <bytes>`: the last part of that key's name, and the bytes of the names and values that
//! are kept there, packed like a delayed job.

use std::hash::Hasher;

use super::envelope::pack_texts;
use super::{Envelope, Life};

/// What a light entry has for an encoding, so that a worker which knows nothing of offloaded fields refuses it loudly: the real
/// one is among the large fields.
const MARK: (&[u8], &[u8]) = (b"encoding", b"offloaded");

/// The field that names the key.
pub(super) const FIELD: &[u8] = b"offloaded";

/// A longer value is offloaded, whatever its name.
const MAX_VALUE_BYTES: usize = 4096;

/// A longer token is none of ours.
const MAX_TOKEN_BYTES: usize = 160;

/// What an entry says of fields that are kept outside of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offloaded {
    /// The last part of the key's name.
    pub(crate) token: String,
    /// The bytes of the names and values that are kept there.
    pub(crate) bytes: usize,
}

/// An envelope whose large fields are elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Light {
    pub(crate) envelope: Envelope,
    pub(crate) offloaded: Offloaded,
    /// The large fields, as the key has them.
    pub(crate) fields: Vec<u8>,
}

impl Offloaded {
    fn read(value: &[u8]) -> Option<Self> {
        let (token, bytes) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let is_token = !token.is_empty()
            && token.len() <= MAX_TOKEN_BYTES
            && token.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}'));
        is_token.then_some(())?;
        Some(Self { token: token.to_owned(), bytes: bytes.parse().ok()? })
    }

    fn value(&self) -> String {
        format!("{} {}", self.token, self.bytes)
    }
}

impl Envelope {
    /// An entry with more bytes than this has its large fields offloaded before a script moves it.
    pub const LARGE_BYTES: usize = 128 * 1024;

    /// Where fields of this entry are kept, if they are.
    pub(crate) fn offloaded(&self) -> Option<Offloaded> {
        self.is_offloaded().then(|| Offloaded::read(self.get(FIELD)?)).flatten()
    }

    /// False where fields of this entry are kept elsewhere, and have not been put back.
    pub(crate) fn is_whole(&self) -> bool {
        self.offloaded().is_none_or(|offloaded| offloaded.bytes == self.large_bytes())
    }

    /// The same without its large fields; `None` where it is small, or they are elsewhere already.
    pub(crate) fn lightened(&self, life: &Life) -> Option<Light> {
        let bytes = if self.size() > Self::LARGE_BYTES { self.large_bytes() } else { 0 };
        if bytes == 0 {
            return None;
        }
        let large = self.fields().filter(|field| is_large(*field));
        let fields = pack_texts(large.flat_map(|(name, value)| [name, value]));
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write(&fields);
        let offloaded = Offloaded { token: format!("{life}-{:016x}", hasher.finish()), bytes };
        let value = offloaded.value();
        let mut kept: Vec<_> =
            self.fields().filter(|(name, value)| *name != FIELD && stays(name, value)).collect();
        // Behind the first, which is the life where scripts look for it there.
        let second = kept.len().min(1);
        kept.splice(second..second, [(FIELD, value.as_bytes()), MARK]);
        Some(Light { envelope: Self::new(kept.into_iter()), offloaded, fields })
    }

    /// The same with its large fields, as the key had them, behind the others; `None` where these bytes are something else.
    pub(crate) fn restored(&self, packed: &[u8]) -> Option<Self> {
        let texts = super::envelope::unpack_texts(packed)?;
        let large = texts.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let all: Vec<_> = self.fields().filter(|field| *field != MARK).chain(large).collect();
        Some(Self::new(all.into_iter())).filter(Self::is_whole)
    }

    fn large_bytes(&self) -> usize {
        let large = self.fields().filter(|field| is_large(*field));
        large.map(|(name, value)| name.len() + value.len()).sum()
    }
}

fn is_large(field: (&[u8], &[u8])) -> bool {
    field != MARK && !stays(field.0, field.1)
}

/// True for what the fleet itself, its scripts included, reads of an entry without its large fields.
fn stays(name: &[u8], value: &[u8]) -> bool {
    value.len() <= MAX_VALUE_BYTES
        && (name.starts_with(b"dead_")
            || name.starts_with(b"was_")
            || name.starts_with(b"trace")
            || matches!(
                name,
                b"type" | b"id" | b"attempt" | b"lost" | b"life" | b"replay_of" | b"replays" | b"root"
            )
            || matches!(
                name,
                b"created_ms"
                    | b"unroutable_ms"
                    | b"run_at_ms"
                    | b"delay_ms"
                    | b"expires_at_ms"
                    | b"timeout_ms"
            )
            || matches!(
                name,
                b"max_attempts" | b"tracking" | b"once" | b"unique" | b"unique_scope" | b"batch"
            )
            || matches!(name, b"on_success" | b"on_failure" | b"parent" | FIELD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EntryId, Job, Lane};

    fn life() -> Life {
        Life::of_entry(EntryId::new(5, 1), Lane::High)
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
        assert_eq!(large(1000).lightened(&life()), None);
        assert!(large(1000).is_whole());
    }

    #[test]
    fn an_entry_without_its_large_fields_is_small_and_gets_them_back_byte_for_byte() {
        let whole = large(300_000);
        let light = whole.lightened(&life()).unwrap();
        let names: Vec<_> = light.envelope.fields().map(|(name, _)| name).collect();
        assert_eq!(names, [b"life".as_slice(), FIELD, b"encoding", b"type", b"attempt"]);
        assert!(light.envelope.size() < 200 && !light.envelope.is_whole());
        let restored = light.envelope.restored(&light.fields).unwrap();
        for (name, value) in whole.fields() {
            assert_eq!(restored.get(name), Some(value));
        }
        assert_eq!((restored.len(), restored.is_whole()), (6, true));
        let job = Job::parse(&restored, EntryId::new(7, 0), Lane::Low).unwrap();
        assert_eq!((job.payload.len(), job.attempt), (300_000, 2));
        // The same fields of the same life have the same key, so that whoever offloads them knows its name.
        assert_eq!(restored.lightened(&life()).unwrap(), light);
        assert!(light.offloaded.token.starts_with("5-1-high-"));
    }

    #[test]
    fn an_entry_whose_large_fields_are_gone_is_no_job_and_says_why() {
        let light = large(300_000).lightened(&life()).unwrap();
        let error = Job::parse(&light.envelope, EntryId::new(7, 0), Lane::Low).unwrap_err().to_string();
        assert!(error.contains(&light.offloaded.token), "{error}");
        assert_eq!(light.envelope.restored(b"other"), None);
        assert_eq!(light.envelope.restored(&pack_texts([b"a".as_slice(), b"b"].into_iter())), None);
    }

    #[test]
    fn a_token_that_could_name_another_key_is_none() {
        for value in ["", "x", "a b", "{b} 7", " 7", "a\n 7", "é 7"] {
            let entry = envelope(&[("type", b"mail"), ("offloaded", value.as_bytes())]);
            assert_eq!(entry.offloaded(), None, "{value:?}");
        }
        assert!(envelope(&[("offloaded", b"5-1-high-00ff 7")]).offloaded().is_some());
    }

    #[test]
    fn long_values_of_any_name_are_offloaded() {
        let long = vec![b'x'; 200_000];
        let entry = envelope(&[("type", &long), ("id", b"a")]);
        let light = entry.lightened(&life()).unwrap();
        assert_eq!(light.envelope.get(b"type"), None);
        assert_eq!(light.envelope.restored(&light.fields).unwrap().get(b"type"), Some(long.as_slice()));
    }
}
