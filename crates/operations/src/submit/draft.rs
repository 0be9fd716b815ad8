//! A job as described by flags or by a line of a file, before it becomes a submission.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::IgnoredAny;
use streamfleet::job::{
    ChainedJob, Encoding, JobId, JobSpec, Lane, Priority, QueueName, State, Timestamp, TraceContext,
    TraceState, Tracking, UniqueKey,
};
use streamfleet::{Durability, Submission, SubmitError, UniqueMode, UniqueScope};
use streamfleet_engine::admin::unpacked;

use crate::times;

/// When a job is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// As soon as a worker is free.
    Now,
    /// After this long.
    In(Duration),
    /// Not before this instant.
    At(Timestamp),
}

/// The jobs that follow when a job ends.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// The type of a job to submit if this one succeeds.
    pub on_success: Option<String>,
    /// The type of a job to submit if this one dies.
    pub on_failure: Option<String>,
    /// Jobs to run one after the other if this one succeeds.
    pub then: Option<Chain>,
}

/// Jobs that run one after the other.
#[derive(Debug, Clone)]
pub struct Chain(Vec<ChainedJob>);

/// Parses a chain of jobs: a JSON array of objects with a `type` and a `payload`.
///
/// # Errors
///
/// Says what is wrong with the text.
pub fn chain(text: &str) -> Result<Chain, String> {
    ChainedJob::list(text.as_bytes()).map(Chain).map_err(|error| error.to_string())
}

impl Follow {
    /// Returns the queues to which jobs of the chain are sent.
    pub fn queues(&self) -> impl Iterator<Item = &QueueName> {
        self.then.iter().flat_map(|Chain(links)| links.iter().filter_map(ChainedJob::other_queue))
    }

    fn of(self, mut submission: Submission) -> Result<Submission, SubmitError> {
        if let Some(job_type) = self.on_success {
            submission = submission.on_success(&job_type)?;
        }
        if let Some(job_type) = self.on_failure {
            submission = submission.on_failure(&job_type)?;
        }
        match self.then {
            Some(Chain(links)) => submission.then(&links),
            None => Ok(submission),
        }
    }
}

/// A job to be submitted.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The job's type.
    pub job_type: String,
    /// The payload's bytes in their encoding.
    pub payload: Option<Vec<u8>>,
    /// The encoding of the payload.
    pub encoding: Encoding,
    /// An id of somebody's choice.
    pub id: Option<JobId>,
    /// For how long the id is remembered.
    pub window: Option<Duration>,
    /// The lane.
    pub lane: Lane,
    /// Replaces the lane.
    pub priority: Option<Priority>,
    /// When it is to run.
    pub when: When,
    /// After how many failures it dies, in place of its type's limit.
    pub max_attempts: Option<NonZeroU32>,
    /// How long one attempt may run, in place of its type's limit.
    pub timeout: Option<Duration>,
    /// It does not start at or after this time.
    pub expires_at: Option<Timestamp>,
    /// Its unique key, for how long it holds it, and what happens if another job has it.
    pub unique: Option<(UniqueKey, UniqueScope, UniqueMode)>,
    /// Where it must be stored before it counts as submitted.
    pub durability: Durability,
    /// The jobs that follow it.
    pub follow: Follow,
    /// Whether it leaves a record even if it never fails.
    pub track: bool,
    /// The headers, by name.
    pub headers: Vec<(String, String)>,
    /// The trace that it belongs to, if it names one.
    pub trace: Option<TraceContext>,
    /// The `tracestate` of that trace.
    pub trace_state: Option<TraceState>,
}

impl Draft {
    /// Returns a job of this type that is due at once, with everything else as it is by default.
    pub fn new(job_type: impl Into<String>) -> Self {
        Self {
            job_type: job_type.into(),
            payload: None,
            encoding: Encoding::default(),
            id: None,
            window: None,
            lane: Lane::default(),
            priority: None,
            when: When::Now,
            max_attempts: None,
            timeout: None,
            expires_at: None,
            unique: None,
            durability: Durability::default(),
            follow: Follow::default(),
            track: false,
            headers: Vec::new(),
            trace: None,
            trace_state: None,
        }
    }

    /// The lane of the job, and its state once it is accepted.
    pub fn place(&self) -> (Lane, State) {
        let state = if self.when == When::Now { State::Waiting } else { State::Scheduled };
        (self.priority.map_or(self.lane, Priority::lane), state)
    }

    /// Returns the submission of this job. Its payload may have at most `max_payload` bytes.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] that says what about the job is not valid.
    pub fn submission(self, max_payload: usize) -> Result<Submission, SubmitError> {
        let mut submission = Submission::new(&self.job_type)?.lane(self.lane);
        if let Some(priority) = self.priority {
            submission = submission.priority(priority);
        }
        if let Some(payload) = self.payload {
            submission = submission.payload(payload, self.encoding)?;
        }
        if submission.payload_bytes() > max_payload {
            return Err(SubmitError::TooLarge { bytes: submission.payload_bytes(), limit: max_payload });
        }
        if let Some(id) = self.id {
            if !id.is_own() {
                return Err(SubmitError::DerivedId { id });
            }
            submission = submission.id(id);
        }
        if let Some(window) = self.window {
            submission = submission.idempotent_for(window);
        }
        submission = match self.when {
            When::Now => submission,
            When::In(delay) => submission.delay(delay),
            When::At(time) => submission.at(time),
        };
        if let Some(attempts) = self.max_attempts {
            submission = submission.max_attempts(attempts);
        }
        if let Some(timeout) = self.timeout {
            submission = submission.timeout(timeout);
        }
        if let Some(time) = self.expires_at {
            submission = submission.expires_at(time);
        }
        if let Some((key, scope, mode)) = self.unique {
            submission = submission.unique(key, scope, mode);
        }
        submission = self.follow.of(submission.durability(self.durability))?;
        if self.track {
            submission = submission.tracking(Tracking::All);
        }
        if let Some(trace) = self.trace {
            submission = submission.traceparent(trace.as_str());
        }
        let mut submission = self
            .headers
            .iter()
            .try_fold(submission, |submission, (name, value)| submission.header(name, value))?;
        if let Some(state) = self.trace_state.filter(|_| self.trace.is_some()) {
            submission = submission.tracestate(state.as_str());
        }
        submission.fits()?;
        Ok(submission)
    }
}

/// Returns a payload's bytes as they are sent: JSON is checked and, for MessagePack, converted. Bytes that are already
/// MessagePack are sent as they are.
///
/// # Errors
///
/// Says how the bytes break the encoding.
pub fn encode(bytes: Vec<u8>, encoding: Encoding) -> Result<Vec<u8>, String> {
    match encoding {
        Encoding::Raw => Ok(bytes),
        Encoding::Json => match serde_json::from_slice::<IgnoredAny>(&bytes) {
            Ok(IgnoredAny) => Ok(bytes),
            Err(error) => {
                Err(format!("the payload is not JSON: {error} (to send other bytes, use --encoding raw)"))
            }
        },
        Encoding::Msgpack => match serde_json::from_slice::<serde_json::Value>(&bytes) {
            Ok(value) => rmp_serde::to_vec_named(&value).map_err(|error| error.to_string()),
            Err(_) if unpacked::<IgnoredAny>(&bytes).is_some() => Ok(bytes),
            Err(error) => Err(format!("the payload is neither JSON ({error}) nor MessagePack")),
        },
    }
}

/// Reads how long a unique key excludes other jobs: `waiting`, `running` or the length of a window.
///
/// # Errors
///
/// Says what a valid text looks like.
pub fn scope(text: &str) -> Result<UniqueScope, String> {
    match text {
        "waiting" => Ok(UniqueScope::Waiting),
        "running" => Ok(UniqueScope::Running),
        length => times::duration(length).map(UniqueScope::Window).map_err(|_| {
            "a scope must be waiting, running or the length of a window, such as 30s or 1h".to_owned()
        }),
    }
}

/// Reads what happens to a job whose key another job holds: `reject`, `replace` or `debounce`.
///
/// # Errors
///
/// Says what a valid text looks like.
pub fn mode(text: &str) -> Result<UniqueMode, String> {
    match text {
        "reject" => Ok(UniqueMode::Reject),
        "replace" => Ok(UniqueMode::Replace),
        "debounce" => Ok(UniqueMode::Debounce),
        _ => Err("a mode must be reject, replace or debounce".to_owned()),
    }
}

/// Checks that a job may have this timeout.
///
/// # Errors
///
/// Says what the bounds are.
pub fn timeout_in_bounds(timeout: Duration) -> Result<Duration, String> {
    let fits = (Duration::from_millis(1)..=JobSpec::LONGEST_TIMEOUT).contains(&timeout);
    fits.then_some(timeout).ok_or_else(|| "a timeout must be between 1ms and 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_checked_and_converted_to_messagepack() {
        let json = br#"{"a":[1,2]}"#.to_vec();
        assert_eq!(encode(json.clone(), Encoding::Json), Ok(json.clone()));
        let packed = encode(json, Encoding::Msgpack).unwrap();
        assert_eq!(packed, [0x81, 0xa1, b'a', 0x92, 1, 2]);
        assert_eq!(encode(packed.clone(), Encoding::Msgpack), Ok(packed));
    }

    #[test]
    fn bytes_that_do_not_match_their_encoding_are_refused() {
        assert!(encode(b"{oops".to_vec(), Encoding::Json).unwrap_err().contains("not JSON"));
        assert!(encode(vec![0x92, 1], Encoding::Msgpack).unwrap_err().contains("neither JSON"));
        assert_eq!(encode(vec![0xff], Encoding::Raw), Ok(vec![0xff]));
    }
}
