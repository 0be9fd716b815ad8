//! What another system says of a job becomes a submission, or a dead letter that is filed.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use streamfleet::Submission;
use streamfleet::job::{
    DeadReason, Encoding, Envelope, Failure, FailureKind, JobId, JobType, Lane, Retry, Timestamp,
};
use streamfleet::schema::Schemas;
use streamfleet_engine::admin::Departed;

use crate::submit::{Draft, When};

/// For how long the id of a submitted job is accepted only once, whatever becomes of the job.
const ACCEPTED_ONCE: Duration = Duration::from_secs(7 * 86_400);

/// A job as another system has it.
pub(super) struct Found {
    pub(super) id: JobId,
    pub(super) job_type: JobType,
    pub(super) payload: Vec<u8>,
    pub(super) encoding: Encoding,
    /// When it is due, if it waits for a time.
    pub(super) run_at: Option<Timestamp>,
    /// How it ended, if it has failed for good.
    pub(super) death: Option<Death>,
}

/// How a job ended that has failed for good.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Death {
    pub(super) error: String,
    pub(super) attempts: u32,
    /// Without it: now.
    pub(super) died: Option<Timestamp>,
}

/// What it becomes.
#[derive(Debug)]
pub(super) enum Job {
    Waiting(Submission),
    Dead(Departed),
}

/// What jobs must fit.
pub(super) struct Maker<'a> {
    /// The most bytes that a payload may have.
    pub(super) max_payload: usize,
    pub(super) schemas: &'a Schemas,
    /// The time of the server.
    pub(super) now: Timestamp,
}

impl Maker<'_> {
    /// Makes the job.
    ///
    /// # Errors
    ///
    /// Says why it cannot be a job.
    pub(super) fn job(&self, found: Found) -> Result<Job, String> {
        let draft = Draft {
            payload: Some(found.payload.clone()),
            encoding: found.encoding,
            id: Some(found.id.clone()),
            window: Some(ACCEPTED_ONCE),
            when: found.run_at.filter(|time| *time > self.now).map_or(When::Now, When::At),
            ..Draft::new(found.job_type.as_str())
        };
        let submission = draft.submission(self.max_payload).map_err(|error| error.to_string())?;
        if found.death.is_some() {
            return Ok(Job::Dead(self.departed(found)));
        }
        submission.fits_schema(self.schemas).map_err(|error| error.to_string())?;
        Ok(Job::Waiting(submission))
    }

    fn departed(&self, found: Found) -> Departed {
        let Death { error, attempts, died } = found.death.unwrap_or_default();
        let died = died.unwrap_or(self.now).min(self.now);
        let all = [
            (&b"type"[..], found.job_type.as_str().as_bytes()),
            (b"payload", &found.payload),
            (b"encoding", found.encoding.as_str().as_bytes()),
        ];
        Departed {
            id: found.id,
            life: None,
            lane: Lane::Normal,
            fields: Envelope::new(all.into_iter()),
            reason: DeadReason::Exhausted,
            error: Failure::new(FailureKind::Error, error, Retry::Policy).error,
            attempts,
            created: died,
            died,
            group: None,
            job_type: found.job_type,
        }
    }
}

/// The id of a job, which is the same each time. One that cannot be an id becomes a hash.
pub(super) fn id(source: &str, key: &str) -> JobId {
    let plain = format!("{source}-{key}");
    let hashed = || {
        let digest = Sha256::digest(plain.as_bytes());
        let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("row-{digits}").parse().expect("letters, digits and a hyphen are a valid id")
    };
    plain.parse().ok().filter(JobId::is_own).unwrap_or_else(hashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_source_and_the_key_or_a_hash() {
        assert_eq!(id("jobs", "7").to_string(), "jobs-7");
        assert_eq!(id("shop.jobs", "a-b").to_string(), "shop.jobs-a-b");
        // These would be no id, too long, and an id that the fleet gives.
        for (source, key) in [("jobs", "a b"), ("jobs", &*"x".repeat(200)), ("17", "3")] {
            let hashed = id(source, key);
            assert!(hashed.to_string().starts_with("row-") && hashed.is_own(), "{hashed}");
            assert_eq!(hashed, id(source, key));
        }
    }
}
