//! Payloads that are compressed, encrypted or stored apart, in a format that all packages share: see `docs/codecs.md`.
//!
//! [`Codecs`] encodes for a [`Producer`](crate::Producer::codecs) and decodes for the handlers of a
//! [`Fleet`](crate::Builder::codecs). `gzip` compresses, `keys` encrypts, `claims` stores apart; which of them a payload went through
//! is in the header that [`Codec`] reads.

mod claims;
mod error;
mod gzip;
mod keys;

use std::sync::Arc;

use bytes::Bytes;

pub use self::claims::{ClaimStore, Directory, StoreError};
pub use self::error::CodecError;
pub use self::keys::Keys;
pub use crate::job::Codec;

use self::claims::{ErasedStore, sha256};
use crate::job::{Encoding, Envelope, JobType};
use crate::schema::blocking;

/// So few bytes of gzip are decompressed at once, whatever they become: that takes no longer than a few milliseconds.
const SHORT_GZIP: usize = 4 * 1024;

/// What a ciphertext has besides the text.
const SEAL_BYTES: usize = keys::NONCE_BYTES + keys::TAG_BYTES;

/// What is done to payloads: they are compressed, then encrypted, then stored apart, as far as this says so. Clones share it.
///
/// Everything that is configured is decoded, and so is what was only compressed. A payload without the header `codec` is left as it is.
///
/// ```no_run
/// # async fn example(handler: impl streamfleet::Handler) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::codecs::{Codecs, Directory, Keys};
/// use streamfleet::{Fleet, FleetConfig, Producer};
///
/// let codecs = Codecs::new().keys(Keys::from_env("APP_KEYS")?).compress(true).claims(Directory::new("/srv/payloads"));
/// let producer = Producer::connect("redis://127.0.0.1:6379", "default").await?.codecs(codecs.clone());
/// let fleet = Fleet::builder(FleetConfig::default()).codecs(codecs).handler_for("mail.send", handler)?.build();
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Codecs {
    keys: Option<Keys>,
    claims: Option<Arc<dyn ErasedStore>>,
    compresses: bool,
    compress_above: usize,
    claim_above: usize,
    max_bytes: usize,
}

impl Default for Codecs {
    fn default() -> Self {
        Self {
            keys: None,
            claims: None,
            compresses: false,
            compress_above: 1024,
            claim_above: 256 * 1024,
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

impl Codecs {
    /// Does nothing to payloads, and decodes what was only compressed.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Encrypts every payload with the first of these keys.
        keys: Keys => Some(keys);
        /// Compresses payloads of more bytes than this, if they are compressed at all; 1 KiB by default.
        compress_above: usize => compress_above;
        /// Stores payloads of more bytes than this apart, after the others; 256 KiB by default.
        claim_above: usize => claim_above;
        /// The most bytes that a payload may have, stored apart or decompressed; 64 MiB by default.
        max_bytes: usize => max_bytes;
    }

    /// Compresses payloads, if that makes them smaller.
    #[must_use]
    pub fn compress(self, compresses: bool) -> Self {
        Self { compresses, ..self }
    }

    /// Stores large payloads in this store.
    #[must_use]
    pub fn claims(self, store: impl ClaimStore) -> Self {
        Self { claims: Some(Arc::new(store)), ..self }
    }

    /// Encodes a payload. Returns what was done, and the bytes to send with the encoding `raw`; `None` if nothing was done.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if the payload is too large, or the store does not take it.
    pub async fn encode(
        &self,
        job_type: &JobType,
        encoding: Encoding,
        payload: Bytes,
    ) -> Result<Option<(Codec, Bytes)>, CodecError> {
        let size = payload.len();
        if size > self.max_bytes {
            return Err(CodecError(format!("the payload has {size} bytes; the most is {}", self.max_bytes)));
        }
        let (codecs, own_type) = (self.clone(), job_type.clone());
        let (mut codec, mut bytes) =
            blocking(size, move || codecs.sealed(&own_type, encoding, &payload)).await?;
        if let Some(store) = self.claims.as_ref().filter(|_| bytes.len() > self.claim_above) {
            let hash = sha256(&bytes);
            let stored = store.put(&hash, bytes).await;
            stored.map_err(|error| {
                CodecError(format!(
                    "the store does not take the payload sha256 {hash}, so nothing was sent: {error}"
                ))
            })?;
            (codec.claim, bytes) = (Some(hash), Bytes::new());
        }
        Ok((codec != Codec::plain(encoding)).then_some((codec, bytes)))
    }

    /// Decodes the payload of a job that has the header `codec` with this text, and names this encoding itself. Returns the
    /// encoding of the plain payload, and its bytes.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if that is not possible, or not yet: a key or an object may arrive.
    pub async fn decode(
        &self,
        job_type: &JobType,
        header: &str,
        encoding: Encoding,
        payload: Bytes,
    ) -> Result<(Encoding, Bytes), CodecError> {
        let Some(codec) = Codec::parse(header) else {
            let text: String = header.chars().take(100).collect();
            return Err(CodecError(format!("the header codec is not one that this version reads: {text:?}")));
        };
        if encoding != Encoding::Raw {
            let text = format!(
                "the job has the header codec, so its encoding must be raw, not {}",
                encoding.as_str()
            );
            return Err(CodecError(text));
        }
        let bytes = match &codec.claim {
            Some(hash) => self.claimed(hash, &payload).await?,
            None => payload,
        };
        let (codecs, own_type, plain) = (self.clone(), job_type.clone(), codec.encoding);
        let size = if codec.is_gzip { self.max_bytes.max(bytes.len()) } else { bytes.len() };
        let size = if bytes.len() <= SHORT_GZIP { bytes.len() } else { size };
        Ok((plain, blocking(size, move || codecs.opened(&own_type, &codec, &bytes)).await?))
    }

    /// Compresses and encrypts.
    fn sealed(
        &self,
        job_type: &JobType,
        encoding: Encoding,
        plain: &Bytes,
    ) -> Result<(Codec, Bytes), CodecError> {
        let (mut codec, mut bytes) = (Codec::plain(encoding), plain.clone());
        if self.compresses && bytes.len() > self.compress_above {
            let smaller = gzip::deflated(&bytes)?;
            codec.is_gzip = smaller.len() < bytes.len();
            bytes = if codec.is_gzip { smaller.into() } else { bytes };
        }
        if let Some(keys) = &self.keys {
            codec.key = Some(keys.first().to_owned());
            bytes = keys.seal(&bound(job_type, &codec), &bytes)?.into();
        }
        Ok((codec, bytes))
    }

    /// Decrypts and decompresses.
    fn opened(&self, job_type: &JobType, codec: &Codec, bytes: &Bytes) -> Result<Bytes, CodecError> {
        let mut bytes = bytes.clone();
        if let Some(name) = &codec.key {
            let key = self.keys.as_ref().and_then(|keys| keys.get(name)).ok_or_else(|| {
                CodecError(format!(
                    "the payload is encrypted with the key {name}, which this program does not have"
                ))
            })?;
            if bytes.len() < SEAL_BYTES {
                return Err(CodecError("the encrypted payload is too short".to_owned()));
            }
            let opened = keys::open(key, &bound(job_type, codec), &bytes).ok_or_else(|| {
                let why = "it was changed or moved";
                CodecError(format!(
                    "the payload does not fit the key {name}, the type {job_type} and the header: {why}"
                ))
            })?;
            bytes = opened.into();
        }
        if codec.is_gzip { gzip::inflated(&bytes, self.max_bytes).map(Bytes::from) } else { Ok(bytes) }
    }

    /// Reads bytes that are stored apart.
    async fn claimed(&self, hash: &str, payload: &[u8]) -> Result<Bytes, CodecError> {
        let wrong = |what: String| Err(CodecError(what));
        if !payload.is_empty() {
            return wrong("the payload is stored apart, but the job has bytes of its own".to_owned());
        }
        let Some(store) = &self.claims else {
            return wrong(format!(
                "the payload is stored apart, sha256 {hash}, and this program has no store: Codecs::claims"
            ));
        };
        let most = self.max_bytes.saturating_add(SEAL_BYTES);
        let bytes = match store.get(hash, most).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                return wrong(format!(
                    "the store has no payload sha256 {hash}: it was deleted, or is not there yet"
                ));
            }
            Err(error) => {
                return wrong(format!("the store cannot be read for the payload sha256 {hash}: {error}"));
            }
        };
        if bytes.len() > most {
            return wrong(format!("the stored payload sha256 {hash} has more than {most} bytes"));
        }
        if sha256(&bytes) != hash {
            return wrong(format!("the stored payload sha256 {hash} has other bytes: it was changed"));
        }
        Ok(bytes)
    }
}

/// A payload of a job as anybody can see it, without keys and stores. What was only compressed is decompressed, within a bound; `None`
/// if nothing was done to it. An error says in words what cannot be seen.
#[doc(hidden)]
pub fn visible(fields: &Envelope, most: usize) -> Option<Result<(Encoding, Bytes), String>> {
    let codec = Codec::of(fields)?;
    let payload = fields.get(b"payload").unwrap_or_default();
    Some(match codec.unseen(payload.len()) {
        Some(why) => Err(why),
        None => match gzip::inflated(payload, most) {
            Ok(plain) => Ok((codec.encoding, plain.into())),
            Err(error) => Err(format!("compressed, {} bytes, and {error}", payload.len())),
        },
    })
}

/// What a ciphertext is bound to: it fits no job of another type, and no other header.
fn bound(job_type: &JobType, codec: &Codec) -> String {
    format!("{job_type}\n{}", codec.sealed())
}

#[cfg(test)]
mod tests;
