//! A recurring job, and how Redis keeps it: as the fields of the jobs that it submits, packed like those of a delayed
//! job. Before them come fields of its own, whose names begin with `cron.`.

use bytes::Bytes;
use serde::Serialize;

use super::{Invalid, Missed, Schedule};
use crate::job::{CronName, Encoding, Envelope, JobId, JobType, Lane, QueueName, Timestamp, weight};

/// The largest payload in bytes. Every process of the fleet reads all entries.
pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024;

/// The prefix of fields that do not belong to the job.
const OWN: &[u8] = b"cron.";

variants! {
    /// Where an entry comes from.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Source {
        /// A worker's configuration or code.
        Config = "config",
        /// The command line or another program.
        Command = "command",
    }
}

/// A recurring job.
///
/// ```
/// # use streamfleet_domain as streamfleet;
/// use streamfleet::cron::{Entry, Missed, Schedule};
///
/// let schedule = Schedule::new("0 3 * * *", "Europe/Berlin")?;
/// let entry = Entry::new("report.nightly", schedule, "report.generate")?
///     .json(&serde_json::json!({ "month": "last" }))?
///     .when_missed(Missed::One);
/// assert_eq!(entry.queue().as_str(), "default");
/// # Ok::<(), streamfleet::cron::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    name: CronName,
    queue: QueueName,
    schedule: Schedule,
    missed: Missed,
    source: Source,
    lane: Lane,
    job_type: JobType,
    /// The fields of its jobs, except those that differ from job to job.
    fields: Envelope,
}

impl Entry {
    /// Creates an entry that submits jobs of this type, without a payload, to the queue `default`.
    ///
    /// # Errors
    ///
    /// [`Invalid::Name`] if a name breaks its rule.
    pub fn new(name: &str, schedule: Schedule, job_type: &str) -> Result<Self, Invalid> {
        let job_type: JobType = job_type.parse()?;
        let fields = Envelope::new(std::iter::once((b"type".as_slice(), job_type.as_str().as_bytes())));
        Ok(Self {
            name: name.parse()?,
            queue: "default".parse()?,
            schedule,
            missed: Missed::default(),
            source: Source::Command,
            lane: Lane::default(),
            job_type,
            fields,
        })
    }

    /// Sets the queue to submit to.
    #[must_use]
    pub fn in_queue(self, queue: QueueName) -> Self {
        Self { queue, ..self }
    }

    /// Sets the lane to submit to.
    #[must_use]
    pub fn by_lane(self, lane: Lane) -> Self {
        Self { lane, ..self }
    }

    /// Sets what happens to missed ticks.
    #[must_use]
    pub fn when_missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// Sets where the entry comes from.
    #[must_use]
    pub fn from_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// Sets the payload, as JSON.
    ///
    /// # Errors
    ///
    /// [`Invalid::Payload`] if `serde` cannot write it, or it is larger than [`MAX_PAYLOAD_BYTES`].
    pub fn json(self, payload: &impl Serialize) -> Result<Self, Invalid> {
        let bytes = serde_json::to_vec(payload).map_err(|error| Invalid::Payload(error.to_string()))?;
        self.payload(&bytes, Encoding::Json)
    }

    /// Sets a payload that is already encoded.
    ///
    /// # Errors
    ///
    /// [`Invalid::Payload`] if it is larger than [`MAX_PAYLOAD_BYTES`].
    pub fn payload(mut self, payload: &[u8], encoding: Encoding) -> Result<Self, Invalid> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            let bytes = payload.len();
            let why = format!(
                "the payload has {bytes} bytes, but a recurring job's may have at most {MAX_PAYLOAD_BYTES}"
            );
            return Err(Invalid::Payload(why));
        }
        let is_replaced = |name: &[u8]| name == b"payload" || name == b"encoding";
        let add: [(&[u8], &[u8]); 2] = [(b"payload", payload), (b"encoding", encoding.as_str().as_bytes())];
        // The wire contract assumes JSON.
        let count = if encoding == Encoding::Json { 1 } else { 2 };
        self.fields = self.fields.edited(is_replaced, &add[..count]);
        Ok(self)
    }

    /// Returns the entry's name, which is unique in its queue.
    pub fn name(&self) -> &CronName {
        &self.name
    }

    /// Returns the queue of its jobs.
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// Returns when it submits jobs.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns what happens to missed ticks.
    pub fn missed(&self) -> Missed {
        self.missed
    }

    /// Returns where the entry comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the lane of its jobs.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Returns the type of its jobs.
    pub fn job_type(&self) -> &JobType {
        &self.job_type
    }

    /// Returns the payload of its jobs.
    pub fn payload_bytes(&self) -> &[u8] {
        self.fields.get(b"payload").unwrap_or_default()
    }

    /// Returns how the payload of its jobs is encoded.
    pub fn encoding(&self) -> Encoding {
        let name = self.fields.get(b"encoding").and_then(|name| std::str::from_utf8(name).ok());
        name.and_then(Encoding::parse).unwrap_or_default()
    }

    /// Returns the id of a tick's job, which is the same no matter which process submits it.
    pub fn job_id(&self, tick: Timestamp) -> JobId {
        self.id(&tick.as_ms().to_string())
    }

    /// Returns the id of an extra job; `unique` distinguishes it from others.
    #[doc(hidden)]
    pub fn extra_id(&self, unique: u64) -> JobId {
        self.id(&format!("run-{unique:016x}"))
    }

    fn id(&self, last: &str) -> JobId {
        format!("cron.{}.{last}", self.name)
            .parse()
            .expect("a name of at most 100 bytes leaves room for 28 more")
    }

    /// Returns the fields of a tick's job, without its id.
    #[doc(hidden)]
    pub fn job_fields(&self, tick: Timestamp) -> Vec<(Bytes, Bytes)> {
        let copy = Bytes::copy_from_slice;
        let mut fields: Vec<_> =
            self.fields.fields().map(|(name, value)| (copy(name), copy(value))).collect();
        fields.push((Bytes::from_static(b"h.cron"), copy(self.name.as_str().as_bytes())));
        fields.push((Bytes::from_static(b"h.cron-tick-ms"), tick.as_ms().to_string().into()));
        fields
    }

    /// Returns about what one of its jobs weighs.
    #[doc(hidden)]
    pub fn job_weight(&self) -> usize {
        weight(self.fields.size() + 2 * self.name.as_str().len() + 64, self.fields.len())
    }

    /// Packs the entry as Redis keeps it.
    #[doc(hidden)]
    pub fn pack(&self) -> Vec<u8> {
        let (expression, zone) = (self.schedule.expression.to_string(), self.schedule.zone.to_string());
        let own: [(&[u8], &[u8]); 4] = [
            (b"cron.schedule", expression.as_bytes()),
            (b"cron.timezone", zone.as_bytes()),
            (b"cron.missed", self.missed.as_str().as_bytes()),
            (b"cron.source", self.source.as_str().as_bytes()),
        ];
        let all: Vec<_> = own.into_iter().chain(self.fields.fields()).collect();
        Envelope::new(all.into_iter()).pack(self.lane)
    }

    /// Unpacks what [`Entry::pack`] wrote.
    #[doc(hidden)]
    pub fn unpack(name: CronName, queue: QueueName, packed: &[u8]) -> Result<Self, Invalid> {
        let (all, lane) = Envelope::unpack(packed).map_err(|error| Invalid::Stored(error.to_string()))?;
        let text = |name: &str| {
            let value = all.get(name.as_bytes()).and_then(|value| std::str::from_utf8(value).ok());
            value.ok_or_else(|| Invalid::Stored(format!("the field {name} is missing")))
        };
        let schedule = Schedule::new(text("cron.schedule")?, text("cron.timezone")?)?;
        // A policy of a later version is read as the one that does the least.
        let missed = text("cron.missed")?.parse().unwrap_or_default();
        let source = if text("cron.source")? == "config" { Source::Config } else { Source::Command };
        let job_type = text("type")?.parse()?;
        let fields = all.edited(|name| name.starts_with(OWN) || name == b"id", &[]);
        // Its jobs have three more fields: an id and two headers.
        let most = Envelope::MAX_FIELDS - 3;
        if fields.len() > most {
            let why = format!("{} fields, but at most {most} are allowed", fields.len());
            return Err(Invalid::Stored(why));
        }
        Ok(Self { name, queue, schedule, missed, source, lane, job_type, fields })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(name: &str) -> Entry {
        Entry::new(name, Schedule::new("0 3 * * *", "Europe/Berlin").unwrap(), "report.generate").unwrap()
    }

    fn unpacked(packed: &[u8]) -> Result<Entry, Invalid> {
        Entry::unpack("nightly".parse().unwrap(), "default".parse().unwrap(), packed)
    }

    #[test]
    fn an_entry_survives_being_kept() {
        let before = entry("nightly")
            .payload(b"\xff\x00", Encoding::Raw)
            .unwrap()
            .by_lane(Lane::Low)
            .when_missed(Missed::All)
            .from_source(Source::Config);
        let after = unpacked(&before.pack()).unwrap();
        assert_eq!(after, before);
        assert_eq!(after.payload_bytes(), b"\xff\x00");
    }

    #[test]
    fn a_later_payload_replaces_an_earlier_one() {
        let entry = entry("nightly").payload(b"x", Encoding::Raw).unwrap().json(&7).unwrap();
        let fields = entry.job_fields(Timestamp::from_ms(5000).unwrap());
        let names: Vec<_> = fields.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, [&b"type"[..], b"payload", b"h.cron", b"h.cron-tick-ms"]);
        assert!(entry.payload(&vec![b'x'; MAX_PAYLOAD_BYTES + 1], Encoding::Raw).is_err());
    }

    #[test]
    fn the_longest_name_and_the_last_tick_still_make_an_id() {
        let entry = entry(&"x".repeat(100));
        assert!(entry.job_id(Timestamp::MAX).is_own());
        assert!(entry.extra_id(u64::MAX).is_own());
        assert!(Entry::new(&"x".repeat(101), entry.schedule().clone(), "a").is_err());
    }

    #[test]
    fn stored_data_that_cannot_be_read_is_an_error() {
        let mut packed = entry("nightly").pack();
        let place = packed.windows(6).position(|part| part == b"Berlin").unwrap();
        packed[place + 5] = b'm';
        assert!(unpacked(&packed).unwrap_err().to_string().contains("Europe/Berlim"));
    }

    proptest! {
        #[test]
        fn reading_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ignored = unpacked(&bytes).is_ok();
        }
    }
}
