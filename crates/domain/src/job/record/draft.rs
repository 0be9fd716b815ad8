//! The fields of an entry, read one after another.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;

use super::{Encoding, Former, JobSpec};
use crate::job::followup::chain;
use crate::job::task::CampaignTag;
use crate::job::{
    EntryId, Envelope, FollowUps, Generation, JobId, JobType, Lane, Malformed, Timestamp, Tracking,
};

/// What the fields that were read so far say.
#[derive(Default)]
pub(super) struct Draft {
    job_type: Option<JobType>,
    id: Option<JobId>,
    payload: Bytes,
    encoding: Encoding,
    attempt: u32,
    lost: u32,
    replayed: bool,
    generation: Option<Generation>,
    own_lane: Option<Lane>,
    pub(super) former: Option<Box<Former>>,
    created: Option<Timestamp>,
    run_at: Option<Timestamp>,
    delay: Option<Duration>,
    expires_at: Option<Timestamp>,
    max_attempts: Option<u32>,
    timeout: Option<Duration>,
    tracking: Option<Tracking>,
    follow_ups: Option<Box<FollowUps>>,
}

impl Draft {
    pub(super) fn read(
        &mut self,
        name: &[u8],
        value: &[u8],
        bytes: impl FnOnce() -> Bytes,
    ) -> Result<(), Malformed> {
        match name {
            b"type" => self.job_type = Some(job_type(value)?),
            b"payload" => self.payload = bytes(),
            b"id" => self.id = Some(parsed("id", value)?),
            b"encoding" => {
                let known = std::str::from_utf8(value).ok().and_then(Encoding::parse);
                self.encoding = known.ok_or_else(|| wrong("encoding", value, "one of json, msgpack, raw"))?;
            }
            b"attempt" => self.attempt = counter("attempt", value)?,
            b"lost" => self.lost = counter("lost", value)?,
            b"life" => self.generation = Some(parsed("life", value)?),
            b"lane" => self.own_lane = known(value),
            b"replay_of" | b"dead_reason" => self.replayed = true,
            b"root" | b"dead_root" => self.former().root = known(value),
            b"dead_life" => self.former().generation = known(value),
            b"dead_at_ms" => self.former().dead_at = known(value),
            b"created_ms" => self.created = Some(instant("created_ms", value)?),
            b"run_at_ms" => self.run_at = Some(instant("run_at_ms", value)?),
            b"delay_ms" => self.delay = Some(Duration::from_millis(instant("delay_ms", value)?.as_ms())),
            b"expires_at_ms" => self.expires_at = Some(instant("expires_at_ms", value)?),
            b"max_attempts" => {
                self.max_attempts = Some(positive(counter("max_attempts", value)?, "max_attempts")?)
            }
            b"timeout_ms" => self.timeout = Some(timeout(value)?),
            b"tracking" => self.tracking = Some(tracking(value)?),
            b"once" => self.follow_ups().once = true,
            b"unique" => self.follow_ups().unique = Some(parsed("unique", value)?),
            b"unique_scope" => self.follow_ups().unique_waiting = value == b"waiting",
            b"batch" => self.follow_ups().batch = Some(parsed("batch", value)?),
            b"on_success" => self.follow_ups().on_success = Some(parsed("on_success", value)?),
            b"on_failure" => self.follow_ups().on_failure = Some(parsed("on_failure", value)?),
            b"then" => self.follow_ups().then = chain(value)?,
            b"campaign" => {
                if let Some(tag) = CampaignTag::read(value) {
                    self.follow_ups().campaign = Some(tag);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn former(&mut self) -> &mut Former {
        self.former.get_or_insert_default()
    }

    fn follow_ups(&mut self) -> &mut FollowUps {
        self.follow_ups.get_or_insert_default()
    }

    pub(super) fn finish(self, entry: EntryId, lane: Lane) -> Result<JobSpec, Malformed> {
        let created = self.created.or_else(|| Timestamp::from_ms(entry.ms)).unwrap_or(Timestamp::MAX);
        let delayed = self.delay.map(|delay| created.after(delay));
        // An id that names another entry comes from an earlier generation of the job.
        let inherited = self.created.is_none() && self.generation.is_none() && {
            self.id.as_ref().and_then(JobId::origin).is_some_and(|origin| origin != (entry, lane))
        };
        let begun = || self.created.map(|created| Generation::of_time(created.as_ms()));
        let generation =
            self.generation.clone().or_else(begun).unwrap_or_else(|| Generation::of_entry(entry, lane));
        Ok(JobSpec {
            generation,
            job_type: self.job_type.ok_or_else(|| Malformed::new("the field type is missing"))?,
            id: self.id.unwrap_or_else(|| JobId::derived(entry, lane)),
            lane,
            own_lane: self.own_lane.unwrap_or(lane),
            entry,
            created,
            attempt: self.attempt,
            lost: self.lost,
            replayed: self.replayed || inherited,
            former: self.former,
            encoding: self.encoding,
            payload: self.payload,
            not_before: self.run_at.max(delayed),
            expires_at: self.expires_at,
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            tracking: self.tracking,
            follow_ups: self.follow_ups,
        })
    }
}

/// Returns an error if an entry has too many fields, or lacks some.
pub(super) fn bound_fields(envelope: &Envelope) -> Result<(), Malformed> {
    if let Some(offloaded) = envelope.offloaded().filter(|_| !envelope.is_whole()) {
        let (token, bytes) = (offloaded.token, offloaded.bytes);
        return Err(Malformed::new(format!(
            "{bytes} bytes of its fields are missing: the key offloaded:{token} is gone, or the entry itself has some of them"
        )));
    }
    let (count, most) = (envelope.len(), Envelope::MAX_FIELDS);
    let is_fleets = || {
        [b"created_ms".as_slice(), b"dead_reason", b"replay_of"]
            .iter()
            .any(|name| envelope.get(name).is_some())
    };
    if count <= most || (count <= most + Envelope::FLEET_FIELDS && is_fleets()) {
        return Ok(());
    }
    Err(Malformed::new(format!("{count} fields, but at most {most} are allowed")))
}

/// Most jobs of a queue have one of a few types, so the last name is remembered: it is checked and allocated once.
fn job_type(value: &[u8]) -> Result<JobType, Malformed> {
    thread_local! {
        static LAST: RefCell<Option<JobType>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| match last {
        Some(last) if last.as_str().as_bytes() == value => Ok(last.clone()),
        _ => parsed("type", value).inspect(|job_type: &JobType| *last = Some(job_type.clone())),
    })
}

fn parsed<T: std::str::FromStr>(name: &str, value: &[u8]) -> Result<T, Malformed>
where
    T::Err: std::fmt::Display,
{
    let text = std::str::from_utf8(value).map_err(|_| wrong(name, value, "UTF-8 text"))?;
    text.parse().map_err(|error| Malformed::new(format!("the field {name} is invalid: {error}")))
}

/// Reads a field that only the fleet writes; `None` if it cannot be read. A producer that copies a dead letter may have
/// left out any of these fields.
fn known<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn number(name: &str, value: &[u8]) -> Result<u64, Malformed> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| wrong(name, value, "a whole number"))
}

fn counter(name: &str, value: &[u8]) -> Result<u32, Malformed> {
    u32::try_from(number(name, value)?).map_err(|_| wrong(name, value, "at most 4294967295"))
}

fn positive(count: u32, name: &str) -> Result<u32, Malformed> {
    (count > 0)
        .then_some(count)
        .ok_or_else(|| Malformed::new(format!("the field {name} is 0, but must be at least 1")))
}

fn instant(name: &str, value: &[u8]) -> Result<Timestamp, Malformed> {
    Timestamp::from_ms(number(name, value)?)
        .ok_or_else(|| wrong(name, value, "milliseconds before the year 10000"))
}

fn timeout(value: &[u8]) -> Result<Duration, Malformed> {
    let timeout = Duration::from_millis(number("timeout_ms", value)?);
    let fits = !timeout.is_zero() && timeout <= JobSpec::LONGEST_TIMEOUT;
    fits.then_some(timeout).ok_or_else(|| wrong("timeout_ms", value, "1 to 604800000 (7 days)"))
}

fn tracking(value: &[u8]) -> Result<Tracking, Malformed> {
    let known = std::str::from_utf8(value).ok().and_then(Tracking::parse);
    known.ok_or_else(|| wrong("tracking", value, "none, failures or all"))
}

fn wrong(name: &str, value: &[u8], want: &str) -> Malformed {
    let shown: String = String::from_utf8_lossy(value).chars().take(60).collect();
    Malformed::new(format!("the field {name} is {shown:?}, but must be {want}"))
}
