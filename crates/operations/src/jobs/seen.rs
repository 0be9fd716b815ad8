//! A payload that codecs have encoded, as far as anybody can see it without keys and stores.

use streamfleet::codecs::visible;
use streamfleet::job::Envelope;
use streamfleet_engine::admin::Filter;

/// The fields of a job whose payload was encoded, as people see them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Seen {
    /// The fields. A payload that was only compressed is decompressed, and has its own encoding; any other is empty.
    pub fields: Envelope,
    /// Why the payload is not shown, if it is not.
    pub unseen: Option<String>,
}

/// The fields as people see them; `None` if the payload was not encoded. What would be too large decompressed is not shown.
pub fn seen(fields: &Envelope) -> Option<Seen> {
    let (payload, encoding, unseen) = match visible(fields, Filter::MAX_PAYLOAD_BYTES)? {
        Ok((encoding, plain)) => (Some(plain), Some(encoding), None),
        Err(why) => (None, None, Some(format!("{why}: not shown"))),
    };
    let replaced = fields.fields().map(|(name, value)| match (name, encoding) {
        (b"payload", _) => (name, payload.as_deref().unwrap_or_default()),
        (b"encoding", Some(encoding)) => (name, encoding.as_str().as_bytes()),
        (_, _) => (name, value),
    });
    let replaced: Vec<(&[u8], &[u8])> = replaced.collect();
    Some(Seen { fields: Envelope::new(replaced.into_iter()), unseen })
}
