//! Gates: what a job must pass before it may start. A gate stands before a whole queue, a type, or a value of a field; its
//! rule may close it, limit how many jobs run or start, or open a breaker after failures. Scripts keep the state.

pub mod written_limits;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration::parse_duration;
use super::{InvalidName, JobType, OutOfBounds, Timestamp, format_duration};

/// The name of a gate: `queue`, `type:mail.send`, `key:h.tenant=9`, or `key:h.tenant` for each value of a field.
///
/// ```
/// # use streamfleet_domain as streamfleet;
/// use streamfleet::job::GateName;
///
/// let gate: GateName = "key:h.tenant=9".parse()?;
/// assert_eq!(gate.each(), Some("key:h.tenant".parse()?));
/// # Ok::<(), streamfleet::job::InvalidName>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateName(Arc<str>);

impl GateName {
    /// The longest value of a field that has a gate of its own, in bytes.
    pub const MAX_VALUE_BYTES: usize = 128;

    /// The longest name of a field that gates can depend on, in bytes.
    pub const MAX_FIELD_BYTES: usize = 64;

    /// The name of the gate of all jobs of a queue.
    #[doc(hidden)]
    pub const QUEUE: &str = "queue";

    /// Returns the gate of all jobs of a queue.
    pub fn queue() -> Self {
        Self(Self::QUEUE.into())
    }

    /// Returns the gate of a type.
    pub fn of_type(job_type: &JobType) -> Self {
        Self(format!("type:{job_type}").into())
    }

    /// Returns the gate of a field's value. Values that are too long, are not UTF-8 or have control characters share
    /// one gate, whose value is `?`.
    pub(crate) fn of_value(field: &str, value: &[u8]) -> Self {
        let value = std::str::from_utf8(value).ok().filter(|value| is_value(value)).unwrap_or("?");
        Self(format!("key:{field}={value}").into())
    }

    /// Returns the gate whose rule applies to each value of a field, if this is the gate of one value.
    pub fn each(&self) -> Option<Self> {
        let (each, _) = self.0.strip_prefix("key:")?.split_once('=')?;
        Some(Self(format!("key:{each}").into()))
    }

    /// Returns the field that the gate depends on, if it is one of a field.
    #[doc(hidden)]
    pub fn field(&self) -> Option<&str> {
        let key = self.0.strip_prefix("key:")?;
        Some(key.split_once('=').map_or(key, |(field, _)| field))
    }

    /// Returns true if its rule applies to each value of a field.
    #[doc(hidden)]
    pub fn is_for_each(&self) -> bool {
        self.field().is_some() && self.each().is_none()
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(super) fn is_value(value: &str) -> bool {
    (1..=GateName::MAX_VALUE_BYTES).contains(&value.len()) && !value.chars().any(char::is_control)
}

/// Why no rule depends on a field of the payload. Filters look into payloads, but scripts, gates and limits see only the fields of an
/// entry.
pub(super) const IN_PAYLOAD: &str =
    "no limit and no gate looks into payloads; send the value as a header of the job, and use h.<name>";

/// Returns true if this names the payload, or something in it as filters do.
pub(super) fn is_in_payload(field: &str) -> bool {
    field == "payload" || field.starts_with("payload.")
}

pub(super) fn is_field(field: &str) -> bool {
    if is_in_payload(field) {
        return false;
    }
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    (1..=GateName::MAX_FIELD_BYTES).contains(&field.len()) && field.bytes().all(fits)
}

impl fmt::Display for GateName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for GateName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = match text.split_once(':') {
            None => text == Self::QUEUE,
            Some(("type", job_type)) => JobType::is_valid(job_type),
            Some(("key", key)) => match key.split_once('=') {
                None => is_field(key),
                Some((field, value)) => is_field(field) && is_value(value),
            },
            Some(_) => false,
        };
        let gate = Self(text.into());
        if fits {
            return Ok(gate);
        }
        let rule = match gate.field().is_some_and(is_in_payload) {
            true => IN_PAYLOAD,
            false => "a gate must be queue, type:<type>, key:<field> or key:<field>=<value>",
        };
        Err(InvalidName::new("gate", text, rule))
    }
}

/// How many jobs may start in a period, by a token bucket on the server's clock.
///
/// ```
/// # use streamfleet_domain as streamfleet;
/// use streamfleet::job::Rate;
///
/// let rate: Rate = "100/s".parse()?;
/// assert_eq!((rate.jobs(), rate.burst()), (100, 25));
/// let rate = "600/10m".parse::<Rate>()?.with_burst(5)?;
/// assert_eq!(rate.to_string(), "600/10m burst 5");
/// # Ok::<(), streamfleet::job::InvalidLimit>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct Rate {
    n: u32,
    per_ms: u64,
    burst: u32,
}

/// Says why a limit of a gate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidLimit(String);

impl InvalidLimit {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl Rate {
    /// The most jobs per second: scripts count in steps that are not finer.
    pub const MAX_PER_SECOND: u32 = 10_000;

    /// What may start at once by default is what the rate allows in this time.
    const BURST_MS: u64 = 250;

    const DAY_MS: u64 = 24 * 3600 * 1000;

    /// Allows `jobs` starts in each `period`: at least 1, and at most [`Rate::MAX_PER_SECOND`] a second, in a period of
    /// 1 ms to 1 day. A quarter of a second's jobs, but at least one, may start at once.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit`] beyond these bounds.
    pub fn new(jobs: u32, period: Duration) -> Result<Self, InvalidLimit> {
        let per_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        let burst = u64::from(jobs).saturating_mul(Self::BURST_MS).div_ceil(per_ms.max(1)).max(1);
        let burst = u32::try_from(burst.min(u64::from(jobs))).unwrap_or(u32::MAX).max(1);
        Self { n: jobs, per_ms, burst }.checked()
    }

    /// Sets how many jobs may start at once after a pause: 1 to 1,000,000.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit`] beyond these bounds.
    pub fn with_burst(self, burst: u32) -> Result<Self, InvalidLimit> {
        Self { burst, ..self }.checked()
    }

    fn checked(self) -> Result<Self, InvalidLimit> {
        let Self { n, per_ms, burst } = self;
        if n == 0 || !(1..=Self::DAY_MS).contains(&per_ms) {
            return Err(InvalidLimit("a rate must be at least 1 job in 1 ms to 1 day".to_owned()));
        }
        if u64::from(n) * 1000 > u64::from(Self::MAX_PER_SECOND).saturating_mul(per_ms) {
            let most = Self::MAX_PER_SECOND;
            return Err(InvalidLimit(format!("a rate must be at most {most} jobs per second")));
        }
        if !(1..=1_000_000).contains(&burst) {
            return Err(InvalidLimit("a burst must be 1 to 1000000 jobs".to_owned()));
        }
        Ok(self)
    }

    /// Returns how many jobs may start in each period.
    pub fn jobs(self) -> u32 {
        self.n
    }

    /// Returns the period.
    pub fn period(self) -> Duration {
        Duration::from_millis(self.per_ms)
    }

    /// Returns how many jobs may start at once.
    pub fn burst(self) -> u32 {
        self.burst
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = format_duration(self.period());
        // 1s, 1m, 1h and 1d are written as in 100/s.
        let period = period.strip_prefix('1').filter(|unit| unit.len() == 1).unwrap_or(&period);
        write!(out, "{}/{period}", self.n)?;
        let usual = Self::new(self.n, self.period()).is_ok_and(|usual| usual.burst == self.burst);
        if usual { Ok(()) } else { write!(out, " burst {}", self.burst) }
    }
}

impl FromStr for Rate {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape = || {
            let shown: String = text.chars().take(60).collect();
            InvalidLimit(format!("{shown:?} is not a rate such as 100/s, 600/10m or 10/s burst 5"))
        };
        let (rate, burst) =
            text.split_once(" burst ").map_or((text, None), |(rate, burst)| (rate, Some(burst)));
        let (jobs, period) = rate.split_once('/').ok_or_else(shape)?;
        let jobs: u32 = jobs.trim().parse().map_err(|_| shape())?;
        let period = period.trim();
        let period = if period.starts_with(|c: char| c.is_ascii_digit()) {
            parse_duration(period)
        } else {
            parse_duration(&format!("1{period}"))
        };
        let rate = Self::new(jobs, period.ok_or_else(shape)?)?;
        match burst {
            Some(burst) => rate.with_burst(burst.trim().parse().map_err(|_| shape())?),
            None => Ok(rate),
        }
    }
}

/// Closes a gate after failures: if, of at least `min` attempts that ended within a window, this share failed, nothing
/// starts for the cooldown. Then one job is tried. Its success opens the gate; its failure doubles the cooldown.
///
/// ```
/// use std::time::Duration;
///
/// # use streamfleet_domain as streamfleet;
/// use streamfleet::job::Breaker;
///
/// let breaker = Breaker::new(0.5, 20, Duration::from_secs(60), Duration::from_secs(30))?;
/// assert_eq!(breaker.to_string(), "50% of 20 in 1m, then 30s");
/// # Ok::<(), streamfleet::job::InvalidLimit>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
pub struct Breaker {
    ratio: f64,
    min: u32,
    window_ms: u64,
    cooldown_ms: u64,
}

impl Breaker {
    /// Creates a breaker. `ratio`: above 0, at most 1. `min`: 1 to 1,000,000 attempts. `window` and `cooldown`: 1 s to
    /// 1 day. A cooldown that doubles stays below 64 times its first length.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit`] beyond these bounds.
    pub fn new(ratio: f64, min: u32, window: Duration, cooldown: Duration) -> Result<Self, InvalidLimit> {
        let times = Duration::from_secs(1)..=Duration::from_millis(Rate::DAY_MS);
        if !(ratio > 0.0 && ratio <= 1.0 && (1..=1_000_000).contains(&min)) {
            let why = "a breaker needs a ratio above 0 and at most 1, of 1 to 1000000 attempts";
            return Err(InvalidLimit(why.to_owned()));
        }
        if !times.contains(&window) || !times.contains(&cooldown) {
            return Err(InvalidLimit("a breaker's window and cooldown must be 1 s to 1 day".to_owned()));
        }
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(Self { ratio, min, window_ms: ms(window), cooldown_ms: ms(cooldown) })
    }
}

impl fmt::Display for Breaker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms| format_duration(Duration::from_millis(ms));
        let (window, cooldown) = (time(self.window_ms), time(self.cooldown_ms));
        let percent = (self.ratio * 1000.0).round() / 10.0;
        write!(out, "{percent}% of {} in {window}, then {cooldown}", self.min)
    }
}

/// What a gate lets through at most. Without any limit, everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Limits {
    /// How many jobs may run at once in the whole fleet, at least 1; `None` for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many jobs may start in a period; `None` for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// When failures close the gate for a while; `None` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Breaker>,
}

impl Limits {
    setters! {
        concurrency: impl Into<Option<u32>> => concurrency.into();
        rate: impl Into<Option<Rate>> => rate.into();
        breaker: impl Into<Option<Breaker>> => breaker.into();
    }

    /// Returns true if nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what is out of its bounds. A rate and a breaker never are.
    pub fn check(&self) -> Option<OutOfBounds> {
        let reason = "is 0, but must be at least 1; to stop all jobs, pause them";
        (self.concurrency == Some(0)).then(|| OutOfBounds::new("concurrency", reason))
    }
}

/// Who closed a gate, why, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Who closed it.
    pub by: String,
    /// Why, in their words; may be empty.
    pub reason: String,
    /// Since when, by the server's clock.
    pub since: Timestamp,
    /// When it opens by itself; `None` for never.
    pub until: Option<Timestamp>,
}

impl Closed {
    /// Reads what `gate.lua` wrote: since, until or 0, by, and the reason on further lines.
    #[doc(hidden)]
    pub fn read(text: &str) -> Option<Self> {
        let (head, reason) = text.split_once('\n')?;
        let mut parts = head.splitn(3, ' ');
        let mut time = || parts.next()?.parse::<u64>().ok();
        let (since, until) = (Timestamp::from_ms(time()?)?, time()?);
        let until = if until == 0 { None } else { Some(Timestamp::from_ms(until).unwrap_or(Timestamp::MAX)) };
        Some(Self { by: parts.next()?.to_owned(), reason: reason.to_owned(), since, until })
    }
}

/// The place where a job waits that may not start: the name of the waiting list, and the gates that the job has to pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parking {
    /// The name of the waiting list, after `room:` in its key.
    pub waitlist: String,
    /// The gates that the job has to pass.
    pub gates: Vec<GateName>,
}

impl Parking {
    /// The beginning of the name of a waiting list whose jobs wait for a worker that knows their type.
    const UNKNOWN: &str = "unknown:";

    /// The pattern that matches these names.
    #[doc(hidden)]
    pub const UNKNOWN_PATTERN: &str = "unknown:*";

    /// Returns the waiting list of the jobs of a type that some worker did not know. A worker that knows the type is all that they
    /// need.
    #[doc(hidden)]
    pub fn unknown(job_type: &JobType) -> Self {
        Self { waitlist: format!("{}{job_type}", Self::UNKNOWN), gates: Vec::new() }
    }

    /// Returns the type whose jobs wait in a waiting list because some worker did not know it.
    #[doc(hidden)]
    pub fn unknown_type(waitlist: &str) -> Option<JobType> {
        waitlist.strip_prefix(Self::UNKNOWN)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_four_kinds_of_gates_are_read_and_nothing_else() {
        for text in ["queue", "type:mail.send", "key:h.tenant", "key:h.tenant=9", "key:limit_key=a b=c:d"] {
            assert_eq!(text.parse::<GateName>().unwrap().as_str(), text);
        }
        let long = format!("key:a={}", "x".repeat(129));
        let wrong =
            ["", "queue:", "queues", "type:", "type:A", "key:", "key:=9", "key:a b=9", "key:a=", "key:a=\n"];
        for text in wrong.into_iter().chain([long.as_str()]) {
            assert!(text.parse::<GateName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_gate_of_something_in_the_payload_is_refused_with_the_way_that_works() {
        for text in ["key:payload", "key:payload.tenant", "key:payload.tenant=9"] {
            let error = text.parse::<GateName>().unwrap_err().to_string();
            assert!(error.contains("send the value as a header"), "{error}");
        }
        assert!("key:payload_kind=a".parse::<GateName>().is_ok());
    }

    #[test]
    fn values_that_cannot_be_in_a_name_share_one_gate() {
        let gate = |value: &[u8]| GateName::of_value("h.tenant", value).to_string();
        assert_eq!(gate("zoë".as_bytes()), "key:h.tenant=zoë");
        for value in [&b""[..], b"a\nb", b"\xff", &[b'x'; 129]] {
            assert_eq!(gate(value), "key:h.tenant=?");
        }
        let gate = GateName::of_value("h.tenant", b"9");
        assert_eq!((gate.field(), gate.each().unwrap().as_str()), (Some("h.tenant"), "key:h.tenant"));
        assert_eq!(GateName::queue().each(), None);
    }

    #[test]
    fn rates_are_written_as_people_write_them() {
        for text in ["100/s", "1/d", "600/10m", "5/1m 30s", "10/s burst 5", "40/500ms"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("7 / 1s".parse::<Rate>().unwrap().to_string(), "7/s");
        for text in
            ["", "5", "/s", "5/", "0/s", "5/0s", "5/2d", "10001/s", "5/s burst 0", "5/s burst", "-1/s"]
        {
            assert!(text.parse::<Rate>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn limits_keep_their_form_in_redis() {
        let breaker = Breaker::new(0.5, 20, Duration::from_secs(60), Duration::from_secs(30)).unwrap();
        let limits = Limits::default().concurrency(3).rate("100/s".parse::<Rate>().unwrap()).breaker(breaker);
        let json = serde_json::to_string(&limits).unwrap();
        let want = r#"{"concurrency":3,"rate":{"n":100,"per_ms":1000,"burst":25},"breaker":{"ratio":0.5,"min":20,"window_ms":60000,"cooldown_ms":30000}}"#;
        assert_eq!(json, want);
        assert_eq!(serde_json::from_str::<Limits>(&json).unwrap(), limits);
        assert_eq!(serde_json::from_str::<Limits>(r#"{"later":1}"#).unwrap(), Limits::default());
    }

    #[test]
    fn a_closed_gate_is_read_with_a_name_that_has_spaces() {
        let closed = Closed::read("5 0 ann b\nthe bank\nis down").unwrap();
        assert_eq!((closed.by.as_str(), closed.reason.as_str()), ("ann b", "the bank\nis down"));
        assert_eq!((closed.since.as_ms(), closed.until), (5, None));
        assert_eq!(Closed::read("5 9 ann\n").unwrap().until.unwrap().as_ms(), 9);
        for text in ["", "5", "5 0 ann", "x 0 ann\n", "5 0\n"] {
            assert_eq!(Closed::read(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_value_has_a_gate_with_a_valid_name(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let gate = GateName::of_value("h.tenant", &value);
            prop_assert_eq!(gate.as_str().parse::<GateName>(), Ok(gate));
        }

        #[test]
        fn a_rate_that_was_written_is_read_again(jobs in 1u32..1_000_000, ms in 1u64..86_400_000, burst in 1u32..1_000_000) {
            if let Ok(rate) = Rate::new(jobs, Duration::from_millis(ms)) {
                prop_assert!((1..=jobs).contains(&rate.burst()));
                let rate = rate.with_burst(burst).unwrap();
                prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
            }
        }
    }
}
