//! A job from a row of the outbox, as an application has written it. What the wire contract forbids makes the row refused.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use streamfleet::Submission;
use streamfleet::job::{Encoding, QueueName, Timestamp};
use streamfleet::producer::MAX_PAYLOAD_BYTES;
use streamfleet_operations::submit::{Draft, When, chain, encode, timeout_in_bounds};
use streamfleet_sql::outbox::Row;

/// Returns the queue of a row, and its job, whose id is accepted only once for this long.
///
/// # Errors
///
/// Says which column is wrong, and what is expected there.
pub(super) fn submission(row: Row, accepted_once: Duration) -> Result<(QueueName, Submission), String> {
    let queue = row.queue.parse().map_err(|error| format!("queue: {error}"))?;
    let in_options = |error: String| format!("options: {error}");
    let mut options = texts(row.options.as_deref()).map_err(in_options)?;
    let traceparent = options.remove("traceparent");
    let mut draft = draft(&row, accepted_once)?;
    set(&mut draft, options).map_err(in_options)?;
    draft.payload = Some(encode(row.payload, draft.encoding).map_err(|error| format!("payload: {error}"))?);
    let submission = draft.submission(MAX_PAYLOAD_BYTES).map_err(|error| error.to_string())?;
    let submission = traceparent.iter().fold(submission, |submission, trace| submission.traceparent(trace));
    // A producer would refuse all jobs of a round trip, and not say which of them is wrong.
    submission.fits().map_err(|error| error.to_string())?;
    Ok((queue, submission))
}

fn draft(row: &Row, accepted_once: Duration) -> Result<Draft, String> {
    let when = match row.run_at_ms {
        None => When::Now,
        Some(ms) => {
            let time = u64::try_from(ms).ok().and_then(Timestamp::from_ms);
            When::At(time.ok_or_else(|| format!("run_at_ms: {ms} is not a time in ms since 1970"))?)
        }
    };
    let lane = row.lane.as_deref().filter(|lane| !lane.is_empty()).map(str::parse).transpose();
    let encoding = match row.encoding.as_deref().filter(|name| !name.is_empty()) {
        None => Encoding::Json,
        Some(name) => Encoding::parse(name).ok_or("encoding: must be json, msgpack or raw")?,
    };
    Ok(Draft {
        encoding,
        id: Some(row.job_id.parse().map_err(|error| format!("job_id: {error}"))?),
        window: Some(accepted_once),
        lane: lane.map_err(|_| "lane: must be high, normal or low".to_owned())?.unwrap_or_default(),
        when,
        headers: texts(row.headers.as_deref())
            .map_err(|error| format!("headers: {error}"))?
            .into_iter()
            .collect(),
        ..Draft::new(&row.job_type)
    })
}

/// Reads a JSON object of texts. Numbers and truth values count as the texts that JSON writes for them.
fn texts(json: Option<&str>) -> Result<BTreeMap<String, String>, String> {
    let Some(json) = json.filter(|json| !json.trim().is_empty()) else { return Ok(BTreeMap::new()) };
    let wrong = || "must be a JSON object of texts".to_owned();
    let values: BTreeMap<String, Value> = serde_json::from_str(json).map_err(|_| wrong())?;
    let text = |(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(_) | Value::Bool(_) => Ok((name, value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(wrong()),
    };
    values.into_iter().map(text).collect()
}

/// Sets what the further fields of the wire contract say.
fn set(draft: &mut Draft, options: BTreeMap<String, String>) -> Result<(), String> {
    let number = |name: &str, text: &str| {
        text.parse::<u64>().map_err(|_| format!("{name} is {text:?}, but must be a whole number"))
    };
    for (name, value) in options {
        match name.as_str() {
            "max_attempts" => {
                let attempts = u32::try_from(number(&name, &value)?).ok().and_then(std::num::NonZeroU32::new);
                draft.max_attempts = Some(attempts.ok_or("max_attempts must be at least 1")?);
            }
            "timeout_ms" => {
                draft.timeout = Some(timeout_in_bounds(Duration::from_millis(number(&name, &value)?))?);
            }
            "expires_at_ms" => {
                let time = Timestamp::from_ms(number(&name, &value)?);
                draft.expires_at = Some(time.ok_or("expires_at_ms is not a time in ms since 1970")?);
            }
            "priority" => {
                draft.priority = Some(value.parse().map_err(|_| "priority must be 1 to 10".to_owned())?);
            }
            "tracking" => draft.track = value == "all",
            "on_success" => draft.follow.on_success = Some(value),
            "on_failure" => draft.follow.on_failure = Some(value),
            "then" => draft.follow.then = Some(chain(&value)?),
            "unique" => {
                return Err("a unique key is a lock, which a row of the outbox cannot take".to_owned());
            }
            _ => return Err(format!("{name} is not a field that a row of the outbox can have")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn row(change: impl FnOnce(&mut Row)) -> Result<(QueueName, Submission), String> {
        let mut row = Row::new("order-7", "default", "mail.send", b"{}");
        change(&mut row);
        submission(row, DAY)
    }

    #[test]
    fn a_row_of_four_columns_is_a_job() {
        assert_eq!(row(|_| ()).unwrap().0.as_str(), "default");
    }

    #[test]
    fn every_option_is_read() {
        let options = r#"{"max_attempts": 3, "timeout_ms": "5000", "expires_at_ms": 1900000000000, "priority": "7",
            "tracking": "all", "on_success": "a", "on_failure": "b", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#;
        assert!(row(|row| row.options = Some(options.to_owned())).is_ok());
        let chain = r#"{"then": "[{\"type\": \"a\", \"payload\": {}}]"}"#;
        assert!(row(|row| row.options = Some(chain.to_owned())).is_ok());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |change: fn(&mut Row)| row(change).unwrap_err();
        assert_eq!(
            wrong(|row| row.options = Some(r#"{"color": "red"}"#.into())),
            "options: color is not a field that a row of the outbox can have"
        );
        assert_eq!(wrong(|row| row.headers = Some("[]".into())), "headers: must be a JSON object of texts");
        assert_eq!(wrong(|row| row.lane = Some("fast".into())), "lane: must be high, normal or low");
        assert!(wrong(|row| row.payload = b"{".to_vec()).starts_with("payload: "));
        assert!(wrong(|row| row.queue = "no queue".into()).starts_with("queue: "));
        assert!(wrong(|row| row.job_id = String::new()).starts_with("job_id: "));
        assert!(wrong(|row| row.run_at_ms = Some(-1)).starts_with("run_at_ms: "));
        let headers: BTreeMap<String, String> =
            (0..2000).map(|nth| (nth.to_string(), String::new())).collect();
        let headers = serde_json::to_string(&headers).unwrap();
        let many = row(|row| row.headers = Some(headers)).unwrap_err();
        assert!(many.contains("order-7") && many.contains("fields"), "{many}");
    }
}
