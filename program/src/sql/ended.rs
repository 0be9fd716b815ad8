//! The row of a job that ended, from what the journal says.

use streamfleet::job::{Encoding, Envelope, Generation, JobId, QueueName, State};
use streamfleet_engine::EndedJob;
use streamfleet_engine::admin::unpacked;
use streamfleet_operations::jobs::encoding;
use streamfleet_service::config::{HistorySection, Payloads};
use streamfleet_sql::history::{Attempt, Body, Ended, Ending, Key};

use super::worker_versions::WorkerVersions;

/// Returns the row of an end; `None` if the journal's entry does not name a job, which nobody but a person can have written.
pub(super) fn row(
    queue: &QueueName,
    job: &EndedJob,
    config: &HistorySection,
    versions: &WorkerVersions,
) -> Option<Ended> {
    let life: Generation = job.generation.parse().ok()?;
    // A dead letter that is not a job may have no usable id.
    let id: JobId = job.id.parse().or_else(|_| job.generation.parse()).ok()?;
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let state = match job.state? {
        State::Done => Ending::Done,
        State::Dead => Ending::Dead,
        State::Cancelled => Ending::Cancelled,
        State::Waiting | State::Running | State::Scheduled | State::Retrying => return None,
    };
    let fields = job.fields.as_ref().map(|(fields, _)| fields);
    let attempted = (1..).zip(&job.attempts).map(|(number, attempt)| Attempt {
        number,
        started_ms: Some(attempt.started.as_ms()),
        ended_ms: attempt.ended.as_ms(),
        outcome: attempt.outcome.clone(),
        worker: text(&attempt.worker),
        error: text(&attempt.error),
    });
    Some(Ended {
        queue: queue.clone(),
        life,
        id,
        job_type: job.job_type.clone(),
        lane: job.lane.parse().unwrap_or_default(),
        state,
        created_ms: job.created.as_ms(),
        ended_ms: job.ended.as_ms(),
        attempts: job.failures.map_or(job.attempts.len() as u64, u64::from),
        worker: text(&job.worker),
        worker_version: versions.of(&job.worker).map(str::to_owned),
        reason: text(&job.reason),
        fingerprint: text(&job.fingerprint),
        error: text(&job.error),
        result: job.result.as_ref().and_then(|result| String::from_utf8(result.to_vec()).ok()),
        root: job.root.parse().ok(),
        body: body(fields, state, config.payloads),
        attempted: attempted.collect(),
        keys: fields.map_or_else(Vec::new, |fields| keys(fields, &config.keys)),
    })
}

/// What is kept of the fields. The journal may have more than is wanted, because the keys are among them.
fn body(fields: Option<&Envelope>, state: Ending, payloads: Payloads) -> Body {
    let is_wanted = match payloads {
        Payloads::None => false,
        Payloads::Failed => state == Ending::Dead,
        Payloads::All => true,
    };
    match fields {
        _ if !is_wanted => Body::None,
        Some(fields) if fields.is_whole() => Body::Stored(fields.clone()),
        Some(_) => Body::TooLarge,
        None if state == Ending::Done => Body::TooLarge,
        None => Body::None,
    }
}

/// The values of these fields of the payload, and of these headers. A path such as `order.customer` goes into objects.
fn keys(fields: &Envelope, names: &[String]) -> Vec<Key> {
    let payload = names.iter().any(|name| !name.starts_with("h.")).then(|| payload(fields)).flatten();
    let value = |name: &String| {
        if name.starts_with("h.") {
            return fields.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned());
        }
        let found = name.split('.').try_fold(payload.as_ref()?, |value, part| value.get(part))?;
        match found {
            serde_json::Value::String(text) => Some(text.clone()),
            serde_json::Value::Number(_) | serde_json::Value::Bool(_) => Some(found.to_string()),
            serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
        }
    };
    names.iter().filter_map(|name| Some(Key { name: name.clone(), value: value(name)? })).collect()
}

fn payload(fields: &Envelope) -> Option<serde_json::Value> {
    let bytes = fields.get(b"payload")?;
    match encoding(fields)? {
        Encoding::Json => serde_json::from_slice(bytes).ok(),
        Encoding::Msgpack => unpacked(bytes),
        Encoding::Raw => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(payload: &[u8], encoding: &[u8]) -> Vec<Key> {
        let fields: [(&[u8], &[u8]); 3] =
            [(b"payload", payload), (b"encoding", encoding), (b"h.tenant", b"9")];
        let names = ["order.customer", "h.tenant", "none"].map(str::to_owned);
        keys(&Envelope::new(fields.into_iter()), &names)
    }

    #[test]
    fn keys_are_found_in_objects_and_headers() {
        let found = keys_of(br#"{"order": {"customer": 7}}"#, b"json");
        let found: Vec<_> = found.iter().map(|key| (key.name.as_str(), key.value.as_str())).collect();
        assert_eq!(found, [("order.customer", "7"), ("h.tenant", "9")]);
    }

    /// Anybody may submit it, and a decoder without a bound would end the process.
    #[test]
    fn a_payload_that_is_nested_too_deep_has_no_keys() {
        let (packed, written) = ([0x91].repeat(1 << 20), [b'['].repeat(1 << 20));
        for (payload, encoding) in [(&packed, &b"msgpack"[..]), (&written, b"json")] {
            assert_eq!(keys_of(payload, encoding).len(), 1);
        }
    }
}
