//! The job that takes the next one of a chain to another queue. The script that ends a job may only touch the keys of its own
//! queue, so it appends this job there, and the worker that runs it submits the other.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ChainedJob, JobId, Malformed, QueueName};

/// What a job of the type [`HandOver::TYPE`] has as its payload. Fields that are unknown come from later versions.
#[doc(hidden)]
#[derive(Debug, Clone, Deserialize)]
pub struct HandOver {
    /// The queue that the job goes to.
    pub queue: QueueName,
    /// The type of the job.
    #[serde(rename = "type")]
    pub job_type: String,
    /// What its handler gets.
    pub payload: Box<RawValue>,
    /// The jobs that follow its success.
    #[serde(default)]
    pub then: Vec<ChainedJob>,
    /// The type of the job that follows its death.
    pub on_failure: Option<String>,
    /// The job whose end submits it.
    pub parent: String,
}

#[derive(Serialize)]
struct Text<'a> {
    queue: &'a str,
    #[serde(rename = "type")]
    job_type: &'a str,
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    then: &'a [ChainedJob],
    #[serde(skip_serializing_if = "Option::is_none")]
    on_failure: Option<&'a str>,
    parent: &'a str,
}

impl HandOver {
    /// The type of these jobs. No handler can have it, and workers that are too old to know it set its jobs aside.
    pub const TYPE: &str = "streamfleet.handover";

    /// Reads the payload.
    ///
    /// # Errors
    ///
    /// [`Malformed`] says what is wrong with it.
    pub fn read(payload: &[u8]) -> Result<Self, Malformed> {
        let wrong = |why: String| Malformed::new(format!("the payload of a hand-over is invalid: {why}"));
        let order: Self = serde_json::from_slice(payload).map_err(|error| wrong(error.to_string()))?;
        order.parent.parse::<JobId>().map_err(|error| wrong(error.to_string()))?;
        Ok(order)
    }

    /// Returns the id under which the job is accepted once: the same each time that this hand-over runs.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if somebody gave the hand-over an id that is too long for this.
    pub fn accepted_as(queue: &QueueName, own: &JobId) -> Result<JobId, Malformed> {
        let id = format!("{queue}.{own}");
        id.parse().map_err(|error| Malformed::new(format!("a hand-over has an unusable id: {error}")))
    }

    /// Writes the payload. `payload` is JSON.
    pub(super) fn text(
        queue: &str,
        job: &ChainedJob,
        payload: &str,
        (parent, then): (&str, &[ChainedJob]),
    ) -> String {
        let payload = serde_json::from_str(payload).expect("facts and payloads of a chain are JSON");
        let (job_type, on_failure) = (job.parts().0, job.failure());
        let text = Text { queue, job_type, payload, then, on_failure, parent };
        serde_json::to_string(&text).expect("texts and JSON can be written as JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (text, want) in [
            ("{}", "missing field"),
            (r#"{"queue":"Q","type":"a","payload":1,"parent":"p"}"#, "queue"),
            (r#"{"queue":"q","type":"a","payload":1,"parent":"a b"}"#, "job id"),
            ("no json", "expected"),
        ] {
            let error = HandOver::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("hand-over") && error.contains(want), "{error}");
        }
        let later = r#"{"queue":"q","type":"a","payload":1e400,"parent":"p","later":true}"#;
        assert_eq!(HandOver::read(later.as_bytes()).unwrap().payload.get(), "1e400");
    }

    #[test]
    fn the_id_of_the_job_is_its_own_and_does_not_change() {
        let (queue, own) = ("orders".parse().unwrap(), "1700000000000-0-high".parse().unwrap());
        let id = HandOver::accepted_as(&queue, &own).unwrap();
        assert_eq!((id.to_string().as_str(), id.is_own()), ("orders.1700000000000-0-high", true));
        let long = "x".repeat(128).parse().unwrap();
        assert!(HandOver::accepted_as(&queue, &long).is_err());
    }
}
