//! Large fields, kept in keys of their own. They are written before the script that needs them, and read before anybody
//! looks at an entry. See `job/offload.rs`.
//!
//! Such a key lives as long as an entry, a delayed job or a dead letter names it. It is written with a TTL of one day.
//! The script that moves the job removes the TTL, so a process that dies in between leaves nothing for ever. The script
//! that ends the job, or does not accept it, deletes the key.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use fred::interfaces::KeysInterface;
use fred::types::{Expiration, Key, SetOptions, Value};

use crate::attempt::taken::TakenJob;
use crate::client::error::{Class, Error};
use crate::client::link::Link;
use crate::job::{Envelope, Generation, LightEnvelope};
use crate::submit::enqueue::NewJob;
use crate::{Entry, Queue};

/// How long a key is kept that no script has confirmed.
const UNCONFIRMED: Duration = Duration::from_secs(24 * 3600);

/// The most bytes of one argument of a command. Redis cuts the connection of a client that sends more than its
/// `proto-max-bulk-len`, which must be at least this much.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 16 * 1024 * 1024;

/// A script carries at most so many bytes of large fields: what stays in the entry is packed into the same argument.
const MAX_CARRIED_BYTES: usize = MAX_ARGUMENT_BYTES - 1024 * 1024;

/// How many bytes at once are written of fields that are too large for one argument.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// Fields in the form that scripts carry.
#[derive(Debug)]
pub(crate) struct ScriptFields {
    pub envelope: Envelope,
    /// The key of the offloaded fields, which stays if the script confirms it. If nothing was offloaded, a key that
    /// never exists.
    pub offloaded: Key,
}

impl Queue {
    /// Offloads the large fields of an entry, if it has any. If Redis has no room for a copy or refuses it, the script
    /// carries them, unless they are too large for it: that takes longer, but needs no extra memory.
    pub(crate) async fn offload_large(
        &self,
        envelope: Envelope,
        generation: &Generation,
    ) -> Result<ScriptFields, Error> {
        self.offload_beyond(Envelope::LARGE_BYTES, envelope, generation).await
    }

    /// Offloads the large fields of an entry with more than `most` bytes.
    pub(crate) async fn offload_beyond(
        &self,
        most: usize,
        envelope: Envelope,
        generation: &Generation,
    ) -> Result<ScriptFields, Error> {
        let offloaded = self.keys.offloaded("");
        let Some(light) = envelope.lighter_than(most, generation) else {
            return Ok(ScriptFields { envelope, offloaded });
        };
        let is_carriable = light.fields.len() <= MAX_CARRIED_BYTES;
        match self.offload(light).await {
            Err(Error::Refused { class: Class::Full | Class::Configuration, .. }) if is_carriable => {
                Ok(ScriptFields { envelope, offloaded })
            }
            carried => carried,
        }
    }

    /// Writes the large fields of an entry into their key.
    pub(crate) async fn offload(&self, light: LightEnvelope) -> Result<ScriptFields, Error> {
        let LightEnvelope { envelope, offloaded, fields } = light;
        let (offloaded, fields) = (self.keys.offloaded(&offloaded.token), Bytes::from(fields));
        let is_one_argument = fields.len() <= MAX_ARGUMENT_BYTES;
        let first = if is_one_argument { fields.clone() } else { fields.slice(..1) };
        let (client, day) = (self.link.client(), i64::try_from(UNCONFIRMED.as_secs()).unwrap_or(i64::MAX));
        // An existing key has the same fields, and may have lost its TTL.
        let set = client.set::<Value, _, _>(
            offloaded.clone(),
            Value::Bytes(first),
            Some(Expiration::EX(day)),
            Some(SetOptions::NX),
            false,
        );
        self.link.ask("set", set).await?;
        if !is_one_argument {
            self.write_parts(&offloaded, &fields).await.map_err(|error| error.of_key(&offloaded))?;
        }
        Ok(ScriptFields { envelope, offloaded })
    }

    /// Writes fields into their existing key in parts. The last part comes first: Redis refuses it if the whole value is
    /// longer than its `proto-max-bulk-len`. Another process that writes this key writes the same bytes.
    async fn write_parts(&self, key: &Key, fields: &Bytes) -> Result<(), Error> {
        for at in (0..fields.len()).step_by(PART_BYTES).rev() {
            let part = fields.slice(at..fields.len().min(at + PART_BYTES));
            let client = self.link.client();
            let offset = u32::try_from(at).unwrap_or(u32::MAX);
            let set = client.setrange::<u64, _, _>(key.clone(), offset, Value::Bytes(part));
            let written = self.link.ask("setrange", set).await?;
            if usize::try_from(written).ok() != Some(fields.len()) {
                let why = "TRYAGAIN the key was deleted while it was written".to_owned();
                return Err(Error::refused("setrange", why));
            }
        }
        Ok(())
    }

    /// Offloads the large fields of a job that is being submitted. Returns the rest of the job, and the token of the
    /// offloaded fields, or '' if nothing was offloaded.
    pub(crate) async fn offload_new<'a>(&self, job: &'a NewJob) -> Result<(Cow<'a, NewJob>, String), Error> {
        if job.size() <= Envelope::LARGE_BYTES {
            return Ok((Cow::Borrowed(job), String::new()));
        }
        let generation: Generation =
            job.generation_text().parse().map_err(|error| Error::contract("set", error))?;
        let fields = job.fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let ScriptFields { envelope, .. } = self.offload_large(Envelope::new(fields), &generation).await?;
        let token = envelope.offloaded().map(|offloaded| offloaded.token).unwrap_or_default();
        let fields = envelope.fields().map(|(name, value)| [name, value].map(Bytes::copy_from_slice).into());
        Ok((Cow::Owned(NewJob { fields: fields.collect(), ..job.clone() }), token))
    }

    /// Restores the large fields of these entries. If they are gone, the entry stays as it is, and reading it as a job
    /// reports that.
    #[doc(hidden)]
    pub async fn restore(&self, link: &Link, entries: &mut [Entry]) -> Result<(), Error> {
        for entry in entries {
            if let Some(envelope) = &mut entry.envelope {
                self.restore_fields(link, envelope).await?;
            }
        }
        Ok(())
    }

    /// Restores the large fields of entries that were just delivered. An entry whose fields Redis refuses to return is
    /// left out. It stays pending, and the process that claims it handles it alone.
    pub(crate) async fn restore_delivered(&self, link: &Link, entries: &mut Vec<Entry>) -> Result<(), Error> {
        if entries.iter().all(|entry| entry.envelope.as_ref().is_none_or(Envelope::is_whole)) {
            return Ok(());
        }
        let mut kept = Vec::with_capacity(entries.len());
        for mut entry in entries.drain(..) {
            let restored = match &mut entry.envelope {
                Some(envelope) => self.restore_fields(link, envelope).await,
                None => Ok(()),
            };
            match restored {
                Err(error @ Error::Refused { .. }) if !error.is_transient() => {
                    tracing::warn!(entry = %entry.id, %error, "the large fields of a job cannot be read; the job waits until they can");
                }
                Err(error) => return Err(error),
                Ok(()) => kept.push(entry),
            }
        }
        *entries = kept;
        Ok(())
    }

    /// Restores the large fields of one entry.
    pub(crate) async fn restore_fields(&self, link: &Link, envelope: &mut Envelope) -> Result<(), Error> {
        if envelope.is_whole() {
            return Ok(());
        }
        let Some(offloaded) = envelope.offloaded() else { return Ok(()) };
        let client = link.client();
        let get = client.get::<Value, _>(self.keys.offloaded(&offloaded.token));
        match link.ask("get", get).await {
            Ok(fields) => {
                if let Some(whole) = fields.as_bytes().and_then(|packed| envelope.with_large_fields(packed)) {
                    *envelope = whole;
                }
                Ok(())
            }
            // The key holds something else than what was stored there.
            Err(Error::Refused { detail, .. }) if detail.starts_with("WRONGTYPE") => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The key with the offloaded fields of a job whose generation ends or that moves with new fields. They were offloaded by
    /// the entry itself, or by the process that took the job over from this attempt. If there are none, a key that
    /// never exists.
    pub(crate) fn offloaded_of(&self, TakenJob { job, envelope, .. }: TakenJob<'_>) -> Key {
        let by_another = || envelope.without_large_fields(&job.generation).map(|light| light.offloaded);
        let offloaded = envelope.offloaded().or_else(by_another);
        self.keys.offloaded(offloaded.as_ref().map_or("", |offloaded| &offloaded.token))
    }
}
