//! A job as JSON: what the API takes, and one line of `enqueue --bulk`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use streamfleet::job::{
    Encoding, HandOver, InvalidName, JobType, Lane, Priority, Timestamp, TraceContext, TraceState, UniqueKey,
};
use streamfleet::{Submission, SubmitError, UniqueMode, UniqueScope};

use super::draft::{Draft, Follow, When, chain, encode, mode, scope, timeout_in_bounds};
use crate::times;

/// A job to be submitted: a line of `enqueue --bulk`, and what the API takes.
pub type NewJob = Line<'static>;

/// A job as JSON.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object with a type, as in {\"type\":\"mail.send\"}")]
#[schema(as = NewJob, examples(json!({"type": "mail.send", "payload": {"to": "ann@example.com"}, "id": "order-7"})))]
pub struct Line<'a> {
    /// The job's type, which selects the handler.
    #[serde(rename = "type", borrow)]
    job_type: Cow<'a, str>,
    /// The payload, sent as it is written: numbers of any size, keys in their order. With the encoding `raw`, a string whose
    /// UTF-8 bytes are sent. At most 8 MiB.
    #[serde(borrow)]
    #[schema(value_type = Option<Value>)]
    payload: Option<&'a RawValue>,
    /// `json` (the default), `msgpack` (the JSON is converted) or `raw`.
    #[serde(borrow)]
    encoding: Option<Cow<'a, str>>,
    /// An id of your choice. A job with an id is accepted once.
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    /// `high`, `normal` (the default) or `low`.
    #[serde(borrow)]
    lane: Option<Cow<'a, str>>,
    /// In place of a lane, a number from 1 to 10.
    #[schema(value_type = Option<u8>, minimum = 1, maximum = 10)]
    priority: Option<serde_json::Number>,
    /// For how long another job with this id is not accepted, even if the first one ends sooner: 24 hours by default, at most a
    /// year.
    idempotent_for: Option<Length>,
    /// The job runs after this long.
    delay: Option<Length>,
    /// The job runs at this instant, such as `2026-12-01T10:00:00Z`.
    #[serde(borrow)]
    at: Option<Cow<'a, str>>,
    /// After how many failures the job becomes a dead letter, instead of its type's limit.
    #[schema(value_type = Option<u32>, minimum = 1)]
    max_attempts: Option<NonZeroU32>,
    /// How long one attempt may run, instead of its type's limit.
    timeout: Option<Length>,
    /// The job does not start at or after this instant.
    #[serde(borrow)]
    expires_at: Option<Cow<'a, str>>,
    /// The job does not start later than this long from now.
    expires_in: Option<Length>,
    /// Where the job must be stored before it counts as submitted: `memory` (the default), `replicas:N` or `aof`.
    #[serde(borrow)]
    durability: Option<Cow<'a, str>>,
    /// A unique key: while a job holds it, others with the same key are not accepted.
    #[serde(borrow)]
    unique: Option<Cow<'a, str>>,
    /// How long the job holds its key: `waiting`, `running` (the default) or a length.
    #[serde(borrow)]
    unique_scope: Option<Cow<'a, str>>,
    /// What happens to this job if another one holds the key: `reject` (the default), `replace` or `debounce`.
    #[serde(borrow)]
    unique_mode: Option<Cow<'a, str>>,
    /// The type of a job to submit if this one succeeds.
    on_success: Option<String>,
    /// The type of a job to submit if this one dies.
    on_failure: Option<String>,
    /// Jobs to run one after the other if this one succeeds, each with a `type` and a `payload`.
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    then: Option<&'a RawValue>,
    /// Keeps a record of the job even if it never fails.
    #[serde(default)]
    track: bool,
    /// Headers for the handler.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The W3C trace context that the job belongs to. A value that breaks the standard is ignored.
    #[serde(borrow)]
    traceparent: Option<Cow<'a, str>>,
    /// What belongs to it, as the W3C standard says. It reaches the handler as the header `tracestate`; a value that breaks the
    /// standard is ignored.
    #[serde(borrow)]
    tracestate: Option<Cow<'a, str>>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct Invalid {
    /// The key; none if the line as a whole is wrong.
    pub key: Option<String>,
    /// What is wrong. It also names the key.
    pub why: String,
    /// False if it cannot be read as JSON at all.
    pub is_json: bool,
}

impl Invalid {
    /// This key is wrong; `why` says what about it.
    fn key(key: &str, why: impl ToString) -> Self {
        Self { key: Some(key.to_owned()), why: why.to_string(), is_json: true }
    }

    /// The value of this key breaks this rule.
    fn rule(key: &str, rule: impl std::fmt::Display) -> Self {
        Self::key(key, format!("{key}: {rule}"))
    }

    /// The line is not a JSON object with these keys.
    fn shape(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        let path = error.path().to_string();
        let key = path.split('.').next().filter(|key| !matches!(*key, "" | "." | "?")).map(str::to_owned);
        let error = error.into_inner();
        if !error.is_data() {
            return Self::no_json(&error);
        }
        let why = plain(&error).replace("a nonzero u32", "a whole number of at least 1");
        // The key alone does not say which header is wrong.
        let why = if key.as_deref() == Some("headers") { format!("{path}: {why}") } else { why };
        Self { key, why, is_json: true }
    }

    /// The line is not JSON.
    fn no_json(error: &serde_json::Error) -> Self {
        Self { key: None, why: format!("not JSON: {}", plain(error)), is_json: false }
    }

    /// The job cannot be submitted.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other error is about the job as a whole")]
    fn job(error: &SubmitError) -> Self {
        let key = match error {
            SubmitError::Payload(_) | SubmitError::TooLarge { .. } => Some("payload"),
            SubmitError::TooManyFields { .. } | SubmitError::Header(_) => Some("headers"),
            SubmitError::DerivedId { .. } => Some("id"),
            SubmitError::Chain { .. } | SubmitError::ChainTooLarge { .. } => Some("then"),
            _ => None,
        };
        Self { key: key.map(str::to_owned), why: error.to_string(), is_json: true }
    }
}

/// What the parser says. To it, every line is line 1; the caller knows its number.
fn plain(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// A duration: milliseconds as a number, or text with a unit.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = Length)]
#[serde(untagged, expecting = "a duration must be a number of milliseconds, or text such as \"10s\"")]
pub enum Length {
    /// Milliseconds.
    Ms(u64),
    /// A number with a unit, such as `10s` or `1h30m`.
    Text(String),
}

impl Length {
    /// Returns the duration.
    ///
    /// # Errors
    ///
    /// Says what a valid text looks like.
    pub fn read(&self) -> Result<Duration, String> {
        match self {
            Self::Ms(ms) => Ok(Duration::from_millis(*ms)),
            Self::Text(text) => times::duration(text),
        }
    }
}

/// Parses one line. Its payload may have at most `max_payload` bytes; `now` is the time of the server.
///
/// # Errors
///
/// If the line is not a valid job; the error names the key.
pub fn parse(text: &[u8], max_payload: usize, now: Timestamp) -> Result<(JobType, Submission), Invalid> {
    let draft = read_draft(text, now)?;
    let job_type = draft.job_type.parse().map_err(|error: InvalidName| Invalid::key("type", error))?;
    let submission = draft.submission(max_payload).map_err(|error| Invalid::job(&error))?;
    Ok((job_type, submission))
}

/// Reads one line. `now` is the time of the server.
///
/// # Errors
///
/// [`Invalid`] says which key is wrong, or that the line is not JSON.
pub fn read_draft(text: &[u8], now: Timestamp) -> Result<Draft, Invalid> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let line: Line<'_> = serde_path_to_error::deserialize(&mut json).map_err(Invalid::shape)?;
    json.end().map_err(|error| Invalid::no_json(&error))?;
    line.draft(now)
}

impl Line<'_> {
    fn draft(self, now: Timestamp) -> Result<Draft, Invalid> {
        for (key, name) in [
            ("type", Some(&*self.job_type)),
            ("on_success", self.on_success.as_deref()),
            ("on_failure", self.on_failure.as_deref()),
        ] {
            name.map(str::parse::<JobType>).transpose().map_err(|error| Invalid::key(key, error))?;
        }
        // It would take a job to any queue, without the right to submit there.
        if self.job_type == HandOver::TYPE {
            return Err(Invalid::key(
                "type",
                format!("the type {} is reserved: use then with a queue", HandOver::TYPE),
            ));
        }
        let encoding = match self.encoding.as_deref() {
            None => Encoding::default(),
            Some(name) => Encoding::parse(name).ok_or_else(|| {
                Invalid::key("encoding", format!("encoding {name:?} is not one of json, msgpack, raw"))
            })?,
        };
        let (when, unique, expires_at) = (self.when()?, self.unique()?, self.expires(now)?);
        let timeout = read("timeout", self.timeout.as_ref())?;
        let timeout = timeout.map(timeout_in_bounds).transpose();
        let durability = self.durability.as_deref().map(str::parse).transpose();
        let then = self.then.map(|then| chain(then.get())).transpose();
        let (lane, priority) = self.lane()?;
        Ok(Draft {
            payload: self.payload.map(|payload| bytes(payload, encoding)).transpose()?,
            encoding,
            id: named("id", self.id)?,
            window: read("idempotent_for", self.idempotent_for.as_ref())?,
            lane,
            priority,
            job_type: self.job_type.into_owned(),
            when,
            max_attempts: self.max_attempts,
            timeout: timeout.map_err(|rule| Invalid::rule("timeout", rule))?,
            expires_at,
            unique,
            durability: durability
                .map_err(|rule: &str| Invalid::rule("durability", rule))?
                .unwrap_or_default(),
            follow: Follow {
                on_success: self.on_success,
                on_failure: self.on_failure,
                then: then.map_err(|why| Invalid::key("then", why))?,
            },
            track: self.track,
            headers: self.headers.into_iter().collect(),
            trace: self.traceparent.and_then(|text| TraceContext::parse(text.as_bytes())),
            trace_state: self.tracestate.and_then(|text| TraceState::parse(text.as_bytes())),
        })
    }

    fn when(&self) -> Result<When, Invalid> {
        match (&self.delay, &self.at) {
            (None, None) => Ok(When::Now),
            (Some(delay), None) => delay.read().map(When::In).map_err(|rule| Invalid::rule("delay", rule)),
            (None, Some(at)) => times::instant(at).map(When::At).map_err(|rule| Invalid::rule("at", rule)),
            (Some(_), Some(_)) => Err(Invalid::key("at", "delay and at cannot be used together")),
        }
    }

    fn lane(&self) -> Result<(Lane, Option<Priority>), Invalid> {
        if self.lane.is_some() && self.priority.is_some() {
            return Err(Invalid::key("priority", "lane and priority cannot be used together"));
        }
        let priority =
            self.priority.as_ref().map(|number| number.to_string().parse::<Priority>()).transpose();
        let priority = priority.map_err(|error| Invalid::key("priority", error))?;
        Ok((named("lane", self.lane.as_deref())?.unwrap_or_default(), priority))
    }

    fn expires(&self, now: Timestamp) -> Result<Option<Timestamp>, Invalid> {
        match (&self.expires_at, &self.expires_in) {
            (Some(_), Some(_)) => {
                Err(Invalid::key("expires_in", "expires_at and expires_in cannot be used together"))
            }
            (Some(time), None) => {
                times::instant(time).map(Some).map_err(|rule| Invalid::rule("expires_at", rule))
            }
            (None, length) => Ok(read("expires_in", length.as_ref())?.map(|length| now.after(length))),
        }
    }

    fn unique(&self) -> Result<Option<(UniqueKey, UniqueScope, UniqueMode)>, Invalid> {
        let scope = self.unique_scope.as_deref().map(scope).transpose();
        let mode = self.unique_mode.as_deref().map(mode).transpose();
        let scope = scope.map_err(|rule| Invalid::rule("unique_scope", rule))?;
        let mode = mode.map_err(|rule| Invalid::rule("unique_mode", rule))?;
        let Some(key) = named("unique", self.unique.as_deref())? else {
            let alone = scope.is_some() || mode.is_some();
            let why = || Invalid::key("unique", "unique_scope and unique_mode need unique");
            return if alone { Err(why()) } else { Ok(None) };
        };
        Ok(Some((key, scope.unwrap_or(UniqueScope::Running), mode.unwrap_or_default())))
    }
}

/// Reads the duration that a key has.
fn read(key: &str, length: Option<&Length>) -> Result<Option<Duration>, Invalid> {
    length.map(Length::read).transpose().map_err(|rule| Invalid::rule(key, rule))
}

/// Reads the name that a key has.
fn named<T>(key: &str, name: Option<impl AsRef<str>>) -> Result<Option<T>, Invalid>
where
    T: FromStr<Err = InvalidName>,
{
    let name = name.map(|name| name.as_ref().parse::<T>()).transpose();
    name.map_err(|error| Invalid::key(key, error))
}

/// Returns the payload's bytes: JSON as it was written or, for `raw`, the text of a JSON string.
fn bytes(payload: &RawValue, encoding: Encoding) -> Result<Vec<u8>, Invalid> {
    if encoding != Encoding::Raw {
        let encoded = encode(payload.get().as_bytes().to_vec(), encoding);
        return encoded.map_err(|why| Invalid::key("payload", why));
    }
    let text: String = serde_json::from_str(payload.get()).map_err(|_| {
        Invalid::rule("payload", "with the encoding raw, it must be a string, whose UTF-8 bytes are sent")
    })?;
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::MAX;

    #[test]
    fn a_line_may_set_every_property_of_a_job() {
        let full = br#"{"type":"a.b","payload":{"z":1,"a":123456789012345678901234567890},"encoding":"json","id":"x-1",
            "lane":"high","delay":"10s","max_attempts":3,"timeout":500,"expires_at":"2100-01-01T00:00:00Z","track":true,"unique":"ann","unique_scope":"1h","unique_mode":"replace",
            "headers":{"tenant":"acme"}}"#;
        let shown = format!("{:?}", parse(full, 100, NOW).unwrap());
        for part in [
            "a.b",
            "123456789012345678901234567890",
            "x-1",
            "High",
            "10s",
            "h.tenant",
            "acme",
            "4102444800000",
            "tracking",
        ] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        assert!(shown.contains(r#"{\"z\":1,\"a\""#), "the keys keep their order: {shown}");
    }

    #[test]
    fn a_line_may_have_a_priority_in_place_of_a_lane() {
        let shown = |priority: u8| {
            let line = format!(r#"{{"type":"a","priority":{priority},"delay":"10s"}}"#);
            format!("{:?}", parse(line.as_bytes(), 100, NOW).unwrap())
        };
        for (priority, lane) in [(1, "Low"), (4, "Normal"), (10, "High")] {
            let shown = shown(priority);
            assert!(shown.contains(lane) && shown.contains(&format!("Priority({priority})")), "{shown}");
        }
    }

    #[test]
    fn the_error_of_an_invalid_line_names_the_key() {
        let wrong = [
            ("", "not JSON: EOF"),
            ("nope", "not JSON: expected ident"),
            (r#"{"type":"a"} {}"#, "not JSON: trailing characters"),
            ("[]", "expected a JSON object with a type"),
            ("{}", "missing field `type`"),
            (r#"{"type":"A"}"#, "job type \"A\""),
            (r#"{"type":"a","colour":1}"#, "unknown field `colour`"),
            (r#"{"type":"a","lane":"fast"}"#, "lane \"fast\""),
            (r#"{"type":"a","priority":11}"#, "priority \"11\" is not valid: a priority must be"),
            (r#"{"type":"a","priority":2.5}"#, "priority \"2.5\" is not valid: a priority must be"),
            (r#"{"type":"a","priority":9,"lane":"high"}"#, "lane and priority cannot be used together"),
            (r#"{"type":"a","encoding":"xml"}"#, "encoding \"xml\""),
            (r#"{"type":"a","delay":"soon"}"#, "delay: a duration must be"),
            (r#"{"type":"a","delay":1,"at":"2026-12-01T10:00:00Z"}"#, "cannot be used together"),
            (r#"{"type":"a","at":"noon"}"#, "at: an instant"),
            (r#"{"type":"a","max_attempts":0}"#, "expected a whole number of at least 1"),
            (r#"{"type":"a","max_attempts":"3"}"#, "expected a whole number of at least 1"),
            (r#"{"type":"a","headers":{"tenant":9}}"#, "headers.tenant: invalid type: integer `9`"),
            (r#"{"type":"a","timeout":0}"#, "timeout: a timeout must be between"),
            (r#"{"type":"a","payload":{},"encoding":"raw"}"#, "it must be a string"),
            (r#"{"type":"a","expires_at":"soon"}"#, "expires_at: an instant"),
            (r#"{"type":"a","id":"1700-3"}"#, "looks like one that the fleet gives"),
            (&format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(99)), "101 bytes, but at most 100"),
            (r#"{"type":"a","unique":"k","unique_scope":"always"}"#, "unique_scope: a scope must be"),
            (r#"{"type":"a","unique":"k","unique_mode":"merge"}"#, "unique_mode: a mode must be"),
            (r#"{"type":"a","durability":"disk"}"#, "durability: a durability must be"),
            (r#"{"type":"a","unique_mode":"reject"}"#, "need unique"),
            (
                r#"{"type":"a","expires_in":"1h","expires_at":"2100-01-01T00:00:00Z"}"#,
                "cannot be used together",
            ),
            (r#"{"type":"a","id":"two words"}"#, "job id \"two words\""),
        ];
        for (line, want) in wrong {
            let error = parse(line.as_bytes(), 100, NOW).unwrap_err().to_string();
            assert!(error.contains(want), "{line}: {error}");
        }
    }
}
