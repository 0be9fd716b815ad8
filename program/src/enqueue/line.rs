//! One line of `enqueue --bulk`: a JSON object that describes a job.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use streamfleet::job::{Encoding, InvalidName, Priority, Timestamp, UniqueKey};
use streamfleet::{Submission, UniqueMode, UniqueScope};

use super::draft::{Draft, Follow, When, chain, encode, mode, scope, timeout_in_bounds};
use crate::times;

/// The keys of a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    job_type: Cow<'a, str>,
    /// Kept as it was written: numbers of any size, keys in their order.
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    encoding: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    lane: Option<Cow<'a, str>>,
    priority: Option<serde_json::Number>,
    idempotent_for: Option<Length>,
    delay: Option<Length>,
    #[serde(borrow)]
    at: Option<Cow<'a, str>>,
    max_attempts: Option<NonZeroU32>,
    timeout: Option<Length>,
    #[serde(borrow)]
    expires_at: Option<Cow<'a, str>>,
    expires_in: Option<Length>,
    #[serde(borrow)]
    durability: Option<Cow<'a, str>>,
    #[serde(borrow)]
    unique: Option<Cow<'a, str>>,
    #[serde(borrow)]
    unique_scope: Option<Cow<'a, str>>,
    #[serde(borrow)]
    unique_mode: Option<Cow<'a, str>>,
    on_success: Option<String>,
    on_failure: Option<String>,
    #[serde(borrow)]
    then: Option<&'a RawValue>,
    #[serde(default)]
    track: bool,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// A duration: milliseconds as a number, or text with a unit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a duration must be a number of milliseconds, or text such as \"10s\"")]
enum Length {
    Ms(u64),
    Text(String),
}

impl Length {
    fn read(&self) -> Result<Duration, String> {
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
pub(super) fn parse(text: &[u8], max_payload: usize, now: Timestamp) -> Result<Submission, String> {
    let line: Line<'_> = serde_json::from_slice(text).map_err(|error| {
        // To the parser, every line is line 1; the caller knows its number.
        error.to_string().replace(" at line 1 column ", " at column ")
    })?;
    line.draft(now)?.submission(max_payload).map_err(|error| error.to_string())
}

impl Line<'_> {
    fn draft(self, now: Timestamp) -> Result<Draft, String> {
        let encoding = match self.encoding.as_deref() {
            None => Encoding::default(),
            Some(name) => Encoding::parse(name)
                .ok_or_else(|| format!("encoding {name:?} is not one of json, msgpack, raw"))?,
        };
        let when = match (&self.delay, &self.at) {
            (None, None) => When::Now,
            (Some(delay), None) => When::In(delay.read().map_err(|rule| format!("delay: {rule}"))?),
            (None, Some(at)) => When::At(times::instant(at).map_err(|rule| format!("at: {rule}"))?),
            (Some(_), Some(_)) => return Err("delay and at cannot be used together".to_owned()),
        };
        let timeout =
            self.timeout.as_ref().map(|timeout| timeout.read().and_then(timeout_in_bounds)).transpose();
        let unique = self.unique()?;
        let expires_at = self.expires(now)?;
        let window = self.idempotent_for.as_ref().map(Length::read).transpose();
        let durability = self.durability.as_deref().map(str::parse).transpose();
        let then = self.then.map(|then| chain(then.get())).transpose()?;
        let named = |error: InvalidName| error.to_string();
        if self.lane.is_some() && self.priority.is_some() {
            return Err("lane and priority cannot be used together".to_owned());
        }
        let priority = self.priority.map(|number| number.to_string().parse::<Priority>()).transpose();
        Ok(Draft {
            payload: self.payload.map(|payload| bytes(payload, encoding)).transpose()?,
            encoding,
            id: self.id.map(|id| id.parse()).transpose().map_err(named)?,
            window: window.map_err(|rule| format!("idempotent_for: {rule}"))?,
            lane: self.lane.map(|lane| lane.parse()).transpose().map_err(named)?.unwrap_or_default(),
            priority: priority.map_err(named)?,
            job_type: self.job_type.into_owned(),
            when,
            max_attempts: self.max_attempts,
            timeout: timeout.map_err(|rule| format!("timeout: {rule}"))?,
            expires_at,
            unique,
            durability: durability.map_err(|rule: &str| format!("durability: {rule}"))?.unwrap_or_default(),
            follow: Follow { on_success: self.on_success, on_failure: self.on_failure, then },
            track: self.track,
            headers: self.headers.into_iter().collect(),
        })
    }
}

impl Line<'_> {
    fn expires(&self, now: Timestamp) -> Result<Option<Timestamp>, String> {
        match (&self.expires_at, &self.expires_in) {
            (Some(_), Some(_)) => Err("expires_at and expires_in cannot be used together".to_owned()),
            (Some(time), None) => {
                times::instant(time).map(Some).map_err(|rule| format!("expires_at: {rule}"))
            }
            (None, Some(length)) => {
                let length = length.read().map_err(|rule| format!("expires_in: {rule}"))?;
                Ok(Some(now.after(length)))
            }
            (None, None) => Ok(None),
        }
    }

    fn unique(&self) -> Result<Option<(UniqueKey, UniqueScope, UniqueMode)>, String> {
        let scope = self.unique_scope.as_deref().map(scope).transpose();
        let mode = self.unique_mode.as_deref().map(mode).transpose();
        let scope = scope.map_err(|rule| format!("unique_scope: {rule}"))?;
        let mode = mode.map_err(|rule| format!("unique_mode: {rule}"))?;
        let Some(key) = &self.unique else {
            let alone = scope.is_some() || mode.is_some();
            return if alone { Err("unique_scope and unique_mode need unique".to_owned()) } else { Ok(None) };
        };
        let key = key.parse().map_err(|error: InvalidName| error.to_string())?;
        Ok(Some((key, scope.unwrap_or(UniqueScope::Running), mode.unwrap_or_default())))
    }
}

/// Returns the payload's bytes: JSON as it was written or, for `raw`, the text of a JSON string.
fn bytes(payload: &RawValue, encoding: Encoding) -> Result<Vec<u8>, String> {
    if encoding != Encoding::Raw {
        return encode(payload.get().as_bytes().to_vec(), encoding);
    }
    let text: String = serde_json::from_str(payload.get()).map_err(|_| {
        "payload: with the encoding raw, it must be a string, whose UTF-8 bytes are sent".to_owned()
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
            ("", "EOF"),
            ("[]", "invalid"),
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
            (r#"{"type":"a","max_attempts":0}"#, "nonzero"),
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
            let error = parse(line.as_bytes(), 100, NOW).unwrap_err();
            assert!(error.contains(want), "{line}: {error}");
        }
    }
}
