//! The meaning of an entry's fields: the wire contract, version 1.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::followup::chain;
use super::task::CampaignTag;
use super::{
    EntryId, Envelope, FollowUps, JobId, JobType, Lane, Life, Malformed, Policy, Timestamp, Tracking,
};

/// How a payload is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// JSON, the default of the wire contract.
    #[default]
    Json,
    /// MessagePack with field names, which this crate's producer writes.
    Msgpack,
    /// Bytes that only the handler understands.
    Raw,
}

impl Encoding {
    /// Returns the encoding's name, as the field `encoding` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
            Self::Raw => "raw",
        }
    }

    /// Returns the encoding with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Json, Self::Msgpack, Self::Raw].into_iter().find(|encoding| encoding.as_str() == name)
    }
}

/// A job, as one of its entries describes it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct JobSpec {
    /// Its identity, the same in all attempts.
    pub id: JobId,
    /// Which life of this id it is.
    pub life: Life,
    /// Its type, which selects the handler.
    pub job_type: JobType,
    /// The lane that this entry is in.
    pub lane: Lane,
    /// The lane that the job belongs to. Its retries and replays go there. Another lane may have it for once.
    pub home: Lane,
    /// The entry of this attempt.
    pub entry: EntryId,
    /// When its life began. This never changes.
    pub created: Timestamp,
    /// The number of failures before this attempt.
    pub attempt: u32,
    /// The number of workers lost before this attempt.
    pub lost: u32,
    /// Whether the job was replayed from the dead stream.
    pub replayed: bool,
    /// The previous life, if this is a replay.
    pub former: Option<Box<Former>>,
    /// How the payload is encoded.
    pub encoding: Encoding,
    /// What the handler gets.
    pub payload: Bytes,
    /// The job must not start before this time, if the entry sets it.
    pub not_before: Option<Timestamp>,
    /// The job must not start after this time, if the entry sets it.
    pub expires_at: Option<Timestamp>,
    /// Overrides the type's limit on failures.
    pub max_attempts: Option<u32>,
    /// Overrides the type's timeout of an attempt.
    pub timeout: Option<Duration>,
    /// Overrides the type's tracking.
    pub tracking: Option<Tracking>,
    /// What ties it to other jobs, if anything does.
    pub follow_ups: Option<Box<FollowUps>>,
}

/// What a replayed job's entry says about the life that ended in the dead stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Former {
    /// The first life in a series of replays. Follow-ups that were already called are recorded for it.
    pub root: Option<Life>,
    /// The life that ended in the dead letter whose fields a producer appended.
    #[doc(hidden)]
    pub life: Option<Life>,
    /// When that dead letter was written, according to its own fields.
    #[doc(hidden)]
    pub dead_at: Option<u64>,
    /// The token of the key that has the large fields of the job, if they are elsewhere.
    #[doc(hidden)]
    pub offloaded: Option<String>,
}

impl Former {
    /// True if the entry is a copy of a dead letter that a producer appended, and so the letter may still be there.
    #[doc(hidden)]
    pub fn names_letter(&self) -> bool {
        self.life.is_some() || self.dead_at.is_some()
    }
}

impl JobSpec {
    /// The longest timeout of an attempt: 7 days.
    pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Reads an entry's fields. Unknown fields are left to others, and stay in the envelope.
    ///
    /// # Errors
    ///
    /// [`Malformed`], naming the field and the rule, if the fields break the wire contract.
    pub fn parse(envelope: &Envelope, entry: EntryId, lane: Lane) -> Result<Self, Malformed> {
        bound_fields(envelope)?;
        let mut draft = Draft::default();
        for (index, (name, value)) in envelope.fields().enumerate() {
            draft.read(name, value, || envelope.value_at(index))?;
        }
        if let Some(former) = &mut draft.former {
            former.offloaded = envelope.offloaded().map(|offloaded| offloaded.token);
        }
        draft.finish(entry, lane)
    }

    /// Returns when this entry was made, by the server's clock.
    pub fn entry_created(&self) -> Timestamp {
        Timestamp::from_ms(self.entry.ms).unwrap_or(Timestamp::MAX)
    }

    /// Returns how old the job was when this entry was made, by the server's clock.
    pub fn age(&self) -> Duration {
        self.entry_created().since(self.created)
    }

    /// Returns true if this is not the job's first attempt.
    pub fn is_repeated(&self) -> bool {
        self.attempt > 0 || self.lost > 0
    }

    /// Returns the life for which called follow-ups are recorded. Across all replays of a job, each follow-up is called once.
    #[doc(hidden)]
    pub fn root(&self) -> &Life {
        let root = self.former.as_deref().and_then(|former| former.root.as_ref().or(former.life.as_ref()));
        root.unwrap_or(&self.life)
    }

    /// Decides which record the job leaves. The job's own setting wins over its type's, and that over its queue's.
    pub fn tracking(&self, policy: &Policy, queue: Tracking) -> Tracking {
        self.tracking.or(policy.tracking).unwrap_or(queue)
    }

    /// Returns true if this entry alone shows that the job runs: its id names it, nothing happened before, and nothing
    /// else depends on the job. Such a job needs no record before it ends.
    #[doc(hidden)]
    pub fn is_named_by_entry(&self) -> bool {
        let is_first = !self.is_repeated() && !self.replayed;
        is_first && self.follow_ups.is_none() && self.id.origin() == Some((self.entry, self.lane))
    }

    /// Returns true if the script that accepted the job's id noted this entry in the job's record, nothing happened before,
    /// and nothing else depends on the job. Its record and its entry show that it runs, so that the record need not change
    /// before the attempt has ended. Of all entries of such a job, only the first has a life and no time of acceptance.
    #[doc(hidden)]
    pub fn is_noted(&self, envelope: &Envelope) -> bool {
        let is_first = !self.is_repeated() && !self.replayed && self.former.is_none();
        let only_once = self.follow_ups.as_deref().is_some_and(FollowUps::is_only_once);
        is_first && only_once && envelope.get(b"life").is_some() && envelope.get(b"created_ms").is_none()
    }

    /// Returns true if the job has a record while it lives. A job that is repeated, replayed or tied to others always
    /// has one, whatever its tracking. An id that its producer chose asks for one, too.
    pub fn has_record(&self, tracking: Tracking) -> bool {
        let needed = self.is_repeated() || self.replayed || self.follow_ups.is_some();
        match tracking {
            Tracking::All => true,
            Tracking::Failures => needed || (self.id.is_own() && !self.life.gave(&self.id)),
            Tracking::None => needed,
        }
    }
}

#[derive(Default)]
struct Draft {
    job_type: Option<JobType>,
    id: Option<JobId>,
    payload: Bytes,
    encoding: Encoding,
    attempt: u32,
    lost: u32,
    replayed: bool,
    life: Option<Life>,
    home: Option<Lane>,
    former: Option<Box<Former>>,
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
    fn read(&mut self, name: &[u8], value: &[u8], bytes: impl FnOnce() -> Bytes) -> Result<(), Malformed> {
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
            b"life" => self.life = Some(parsed("life", value)?),
            b"lane" => self.home = known(value),
            b"replay_of" | b"dead_reason" => self.replayed = true,
            b"root" | b"dead_root" => self.former().root = known(value),
            b"dead_life" => self.former().life = known(value),
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

    fn finish(self, entry: EntryId, lane: Lane) -> Result<JobSpec, Malformed> {
        let created = self.created.or_else(|| Timestamp::from_ms(entry.ms)).unwrap_or(Timestamp::MAX);
        let delayed = self.delay.map(|delay| created.after(delay));
        // An id that names another entry comes from an earlier life of the job.
        let inherited = self.created.is_none() && self.life.is_none() && {
            self.id.as_ref().and_then(JobId::origin).is_some_and(|origin| origin != (entry, lane))
        };
        let begun = || self.created.map(|created| Life::of_time(created.as_ms()));
        let life = self.life.clone().or_else(begun).unwrap_or_else(|| Life::of_entry(entry, lane));
        Ok(JobSpec {
            life,
            job_type: self.job_type.ok_or_else(|| Malformed::new("the field type is missing"))?,
            id: self.id.unwrap_or_else(|| JobId::derived(entry, lane)),
            lane,
            home: self.home.unwrap_or(lane),
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

fn bound_fields(envelope: &Envelope) -> Result<(), Malformed> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENTRY: EntryId = EntryId { ms: 5_000, seq: 1 };

    fn parse(fields: &[(&str, &str)]) -> Result<JobSpec, Malformed> {
        let envelope = Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        JobSpec::parse(&envelope, ENTRY, Lane::Normal)
    }

    #[test]
    fn a_type_alone_is_a_job() {
        let job = parse(&[("type", "mail.send")]).unwrap();
        assert_eq!(job.id.to_string(), "5000-1");
        assert_eq!((job.attempt, job.lost, job.payload.len()), (0, 0, 0));
        assert_eq!(job.encoding, Encoding::Json);
        assert_eq!(job.created.as_ms(), 5_000);
    }

    #[test]
    fn a_job_that_another_lane_has_for_once_knows_its_own() {
        let job = parse(&[("type", "a"), ("lane", "low")]).unwrap();
        assert_eq!((job.lane, job.home), (Lane::Normal, Lane::Low));
        for lane in ["", "fast"] {
            assert_eq!(parse(&[("type", "a"), ("lane", lane)]).unwrap().home, Lane::Normal);
        }
    }

    #[test]
    fn every_broken_field_is_named_with_its_rule() {
        let broken = [
            ("type", "Mail"),
            ("id", "a b"),
            ("encoding", "xml"),
            ("attempt", "-1"),
            ("attempt", "+1"),
            ("attempt", "4294967296"),
            ("lost", "x"),
            ("run_at_ms", "99999999999999999"),
            ("delay_ms", "1e3"),
            ("expires_at_ms", ""),
            ("max_attempts", "0"),
            ("timeout_ms", "0"),
            ("timeout_ms", "604800001"),
            ("tracking", "some"),
        ];
        for (name, value) in broken {
            let mut fields = vec![("type", "mail.send")];
            fields.push((name, value));
            let error = parse(&fields).unwrap_err().to_string();
            assert!(error.contains(name), "{name}={value}: {error}");
        }
        assert!(parse(&[("payload", "{}")]).unwrap_err().to_string().contains("type is missing"));
    }

    #[test]
    fn a_delay_counts_from_the_first_entry() {
        let job = parse(&[("type", "a"), ("delay_ms", "700"), ("created_ms", "1000")]).unwrap();
        assert_eq!(job.not_before.unwrap().as_ms(), 1_700);
        let both = parse(&[("type", "a"), ("delay_ms", "700"), ("run_at_ms", "9000")]).unwrap();
        assert_eq!(both.not_before.unwrap().as_ms(), 9_000);
    }

    #[test]
    fn fields_of_later_versions_and_dead_letters_are_left_alone() {
        let job = parse(&[("type", "a"), ("dead_reason", "fatal"), ("wire_v9", "?"), ("h.tenant", "acme")])
            .unwrap();
        assert_eq!(job.job_type.as_str(), "a");
    }

    #[test]
    fn tracking_of_the_job_beats_the_type_and_that_the_queue() {
        let policy = |tracking| Policy { tracking, ..Policy::default() };
        let plain = parse(&[("type", "a")]).unwrap();
        assert_eq!(plain.tracking(&policy(None), Tracking::All), Tracking::All);
        assert_eq!(plain.tracking(&policy(Some(Tracking::None)), Tracking::All), Tracking::None);
        let own = parse(&[("type", "a"), ("tracking", "failures")]).unwrap();
        assert_eq!(own.tracking(&policy(Some(Tracking::None)), Tracking::All), Tracking::Failures);
    }

    #[test]
    fn a_repeated_job_has_a_record_whatever_its_tracking() {
        let (plain, named) =
            (parse(&[("type", "a")]).unwrap(), parse(&[("type", "a"), ("id", "x")]).unwrap());
        let repeated = parse(&[("type", "a"), ("lost", "1")]).unwrap();
        let of = |job: &JobSpec| {
            [Tracking::None, Tracking::Failures, Tracking::All].map(|tracking| job.has_record(tracking))
        };
        let drawn = parse(&[("type", "a"), ("id", "1f"), ("life", "1f")]).unwrap();
        assert_eq!(of(&plain), [false, false, true]);
        assert_eq!(of(&named), [false, true, true]);
        assert_eq!(of(&drawn), [false, false, true]);
        assert_eq!(of(&repeated), [true, true, true]);
    }

    #[test]
    fn only_the_first_entry_of_an_id_that_was_accepted_once_is_noted() {
        let is_noted = |more: &[(&str, &str)]| {
            let fields = [&[("type", "a"), ("id", "x")][..], more].concat();
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let envelope = Envelope::new(fields);
            JobSpec::parse(&envelope, ENTRY, Lane::High).unwrap().is_noted(&envelope)
        };
        let noted = [("life", "1f"), ("once", "1")];
        assert!(is_noted(&noted));
        assert!(is_noted(&[&noted[..], &[("unique_scope", "window")]].concat()));
        assert!(!is_noted(&noted[..1]) && !is_noted(&noted[1..]));
        let others = [
            ("created_ms", "5000"),
            ("attempt", "1"),
            ("lost", "1"),
            ("replay_of", "4-1"),
            ("dead_life", "1e"),
            ("dead_at_ms", "4000"),
            ("unique", "k"),
            ("unique_scope", "waiting"),
            ("batch", "b"),
            ("on_success", "b"),
        ];
        for other in others {
            assert!(!is_noted(&[&noted[..], &[other]].concat()), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_any_fields_never_panics(fields in prop::collection::vec((
            prop_oneof![Just(b"type".to_vec()), Just(b"delay_ms".to_vec()), Just(b"id".to_vec()), any::<Vec<u8>>()],
            any::<Vec<u8>>(),
        ), 0..8)) {
            let envelope = Envelope::new(fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice())));
            let _ignored = JobSpec::parse(&envelope, ENTRY, Lane::High).is_ok();
        }
    }
}
