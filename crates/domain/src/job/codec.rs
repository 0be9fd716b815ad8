//! The header `codec` of a job: what was done to the bytes of its payload, in order. `docs/wire.md` has the grammar. Nothing here
//! knows a key, or reads bytes.

use std::fmt;

use super::{Encoding, Envelope};

/// What was done to the bytes of a payload: compressed, then encrypted, then stored apart, each or none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Codec {
    /// How the plain payload is encoded.
    pub encoding: Encoding,
    /// Whether it was compressed.
    pub is_gzip: bool,
    /// The name of the key with which it was encrypted.
    pub key: Option<String>,
    /// The SHA-256 of the bytes that are stored apart, in hexadecimal.
    pub claim: Option<String>,
}

impl Codec {
    /// The name of the header.
    pub const HEADER: &str = "codec";

    /// The field of that header.
    pub const FIELD: &str = "h.codec";

    /// The most bytes that a header has.
    pub const MAX_BYTES: usize = 256;

    const CIPHER: &str = "aes-256-gcm;key=";
    const CLAIM: &str = "claim;sha256=";

    /// A payload to which nothing was done yet.
    pub fn plain(encoding: Encoding) -> Self {
        Self { encoding, is_gzip: false, key: None, claim: None }
    }

    /// Reads a header; `None` if it breaks the grammar.
    ///
    /// ```
    /// use streamfleet_domain::job::Codec;
    ///
    /// let codec = Codec::parse("json gzip aes-256-gcm;key=2026-11").unwrap();
    /// assert_eq!((codec.is_gzip, codec.key.as_deref()), (true, Some("2026-11")));
    /// assert!(Codec::parse("json zstd").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ').peekable();
        let mut codec = Self::plain(Encoding::parse(words.next()?)?);
        codec.is_gzip = words.next_if_eq(&"gzip").is_some();
        let mut next = |prefix: &str, is_valid: fn(&str) -> bool| {
            let word = words.next_if(|word| word.strip_prefix(prefix).is_some_and(is_valid))?;
            word.strip_prefix(prefix).map(str::to_owned)
        };
        codec.key = next(Self::CIPHER, is_key_name);
        codec.claim = next(Self::CLAIM, is_sha256);
        let is_known = words.next().is_none() && text.len() <= Self::MAX_BYTES;
        (is_known && codec != Self::plain(codec.encoding)).then_some(codec)
    }

    /// What was done to the payload of a job with these fields; `None` if nothing was, as far as anybody can tell.
    pub fn of(fields: &Envelope) -> Option<Self> {
        let header = std::str::from_utf8(fields.get(Self::FIELD.as_bytes())?).ok()?;
        let is_raw = fields.get(b"encoding") == Some(Encoding::Raw.as_str().as_bytes());
        is_raw.then(|| Self::parse(header)).flatten()
    }

    /// The header up to the encryption, which the ciphertext is bound to.
    pub fn sealed(&self) -> String {
        Self { claim: None, ..self.clone() }.to_string()
    }

    /// Why nobody without keys and stores can see a payload of this many bytes; `None` if it was only compressed.
    pub fn unseen(&self, bytes: usize) -> Option<String> {
        let encrypted = self.key.as_ref().map(|key| format!("encrypted with the key {key}"));
        Some(match (encrypted, &self.claim) {
            (None, None) => return None,
            (Some(encrypted), None) => format!("{encrypted}, {}", size(bytes)),
            (None, Some(sha256)) => format!("stored apart, sha256 {sha256}"),
            (Some(encrypted), Some(sha256)) => {
                format!("{encrypted} and stored apart, sha256 {sha256}")
            }
        })
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.encoding.as_str())?;
        if self.is_gzip {
            out.write_str(" gzip")?;
        }
        if let Some(key) = &self.key {
            write!(out, " {}{key}", Self::CIPHER)?;
        }
        self.claim.iter().try_for_each(|sha256| write!(out, " {}{sha256}", Self::CLAIM))
    }
}

/// Returns true if a key may have this name: 1 to 64 letters, digits, `.`, `_` and `-`, of which the first is a letter or digit.
#[doc(hidden)]
pub fn is_key_name(name: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.len() <= 64
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && name.bytes().all(is_inside)
}

/// Returns true if this is a SHA-256 in lower hexadecimal, which alone may choose a place in a store.
#[doc(hidden)]
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A size as people read it.
fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vectors() -> serde_json::Value {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/codecs/vectors.json");
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }

    fn texts(name: &str) -> Vec<String> {
        vectors()[name].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    fn fields(header: &str, encoding: &str) -> Envelope {
        let fields = [("payload", "x"), ("encoding", encoding), ("h.codec", header)];
        Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }

    #[test]
    fn a_header_is_read_only_if_it_follows_the_grammar() {
        for text in texts("headers") {
            assert_eq!(Codec::parse(&text).map(|codec| codec.to_string()), Some(text));
        }
        for text in texts("no_headers") {
            assert_eq!(Codec::parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn only_a_raw_payload_with_such_a_header_is_encoded() {
        assert!(Codec::of(&fields("json gzip", "raw")).is_some());
        assert_eq!(Codec::of(&fields("json gzip", "json")), None);
        assert_eq!(Codec::of(&fields("h264", "raw")), None);
        assert_eq!(Codec::of(&Envelope::new([].into_iter())), None);
    }

    #[test]
    fn what_cannot_be_seen_is_said_in_words() {
        let unseen = |header: &str, bytes| Codec::parse(header).unwrap().unseen(bytes);
        let hash = "9f".repeat(32);
        assert_eq!(unseen("json gzip", 9), None);
        let encrypted = unseen("json gzip aes-256-gcm;key=2026-11", 1229).unwrap();
        assert_eq!(encrypted, "encrypted with the key 2026-11, 1.2 KiB");
        assert_eq!(
            unseen(&format!("json claim;sha256={hash}"), 0).unwrap(),
            format!("stored apart, sha256 {hash}")
        );
        let both = unseen(&format!("raw aes-256-gcm;key=a claim;sha256={hash}"), 0).unwrap();
        assert_eq!(both, format!("encrypted with the key a and stored apart, sha256 {hash}"));
        assert_eq!([size(0), size(1023), size(3 << 20)], ["0 bytes", "1023 bytes", "3.0 MiB"]);
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_again_and_nothing_else_is_read(text in "(json|raw|[a-z]{0,5})?( gzip| ?claim;sha256=[0-9a-f]{62,65}| ?aes-256-gcm;key=[a-zA-Z0-9./_-]{0,66}|[ -~]{0,9}|\\PC{0,9}){0,4}") {
            if let Some(codec) = Codec::parse(&text) {
                prop_assert_eq!(codec.to_string(), text);
                prop_assert!(codec.key.is_none_or(|key| is_key_name(&key) && !key.contains('/')));
                prop_assert!(codec.claim.is_none_or(|claim| is_sha256(&claim)));
            }
        }

        #[test]
        fn any_bytes_are_a_header_or_not(header: Vec<u8>) {
            let fields = [(&b"encoding"[..], &b"raw"[..]), (b"h.codec", &header)];
            let read = Codec::of(&Envelope::new(fields.into_iter()));
            prop_assert!(read.is_none_or(|codec| codec.to_string().as_bytes() == header));
        }

        #[test]
        fn every_header_is_read(encoding in 0_usize..3, gzip: bool, key in prop::option::of("[A-Za-z0-9][A-Za-z0-9._-]{0,63}"), claim in prop::option::of("[0-9a-f]{64}")) {
            let encoding = [Encoding::Json, Encoding::Msgpack, Encoding::Raw][encoding];
            let codec = Codec { encoding, is_gzip: gzip, key, claim };
            let read = Codec::parse(&codec.to_string());
            prop_assert_eq!(read, (codec != Codec::plain(encoding)).then_some(codec.clone()));
            prop_assert!(codec.to_string().len() <= Codec::MAX_BYTES);
        }
    }
}
