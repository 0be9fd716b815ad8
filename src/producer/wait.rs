//! Waiting for a job's end by polling: quickly at first, then four times a second, so that no connection is blocked.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::{Producer, Submission, SubmitError};
use crate::broker::{self, Status};
use crate::job::{JobId, State, Tracking};

/// The pause before the second poll.
const SHORTEST: Duration = Duration::from_millis(5);

/// The longest pause between two polls.
const LONGEST: Duration = Duration::from_millis(250);

/// A job that was known and is missing for this long is searched for. It may wait or run without anything that points to it.
const MISSING: Duration = Duration::from_secs(5);

/// How many entries of each lane are searched.
const SEARCHED: u64 = 100_000;

/// How a job ended; see the [example](Producer::submit_and_wait).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// The job.
    pub job: JobId,
    /// Done, dead or cancelled.
    pub state: State,
    /// The result of a success as JSON; `None` if there is none.
    pub result: Option<String>,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

impl Ended {
    fn of(status: Status) -> Self {
        let Status { id, state, result, error, .. } = status;
        Self { job: id, state, result: result.filter(|_| state == State::Done), error }
    }

    /// Decodes the result; without a result, it decodes JSON's null.
    ///
    /// # Errors
    ///
    /// The error of `serde` if the result has another shape.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.result.as_deref().unwrap_or("null"))
    }
}

/// Why the end of a job was not seen; see the [example](Producer::submit_and_wait). The job itself still runs, unless
/// it was not submitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The job was not submitted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// Redis refuses the lookup, or could not be reached when the time was up.
    #[error("the job {job} cannot be looked up")]
    Broker {
        /// The job.
        job: JobId,
        /// Why.
        source: broker::Error,
    },
    /// The job did not end within the timeout.
    #[error("the job {job} has not ended within {waited:?}")]
    TimedOut {
        /// The job.
        job: JobId,
        /// Its state, if known. A job with an id of its own is unknown while it waits.
        state: Option<State>,
        /// How long the call waited.
        waited: Duration,
    },
    /// The job was known and is no longer: it left no record, or it was dropped.
    #[error("the job {job} is no longer known; it left no record")]
    Gone {
        /// The job.
        job: JobId,
    },
}

impl Producer {
    /// Submits one job and waits for its end, at most `timeout`.
    ///
    /// The job leaves a record, whatever its type's tracking. If its id is already known, the call waits for the end of
    /// the existing job.
    ///
    /// ```no_run
    /// # async fn example(producer: streamfleet::Producer) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use streamfleet::{Submission, WaitError};
    ///
    /// let resize = Submission::new("picture.resize")?.json(&"a.png")?;
    /// match producer.submit_and_wait(resize, Duration::from_secs(10)).await {
    ///     Ok(ended) => println!("{}: {:?}", ended.state, ended.result),
    ///     Err(WaitError::TimedOut { job, .. }) => println!("{job} still runs"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError`]. With every variant except [`WaitError::Submit`] the job was submitted, and it runs whether or not
    /// the caller waits.
    pub async fn submit_and_wait(
        &self,
        submission: Submission,
        timeout: Duration,
    ) -> Result<Ended, WaitError> {
        let submission = submission.tracking(Tracking::All);
        let job = self.submit(submission).await?;
        self.wait(&job, timeout).await
    }

    /// Waits for the end of a job that leaves a record, at most `timeout`; [`Duration::MAX`] waits as long as it takes.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    pub async fn wait(&self, job: &JobId, timeout: Duration) -> Result<Ended, WaitError> {
        self.wait_telling(job, timeout, |_| {}).await
    }

    /// Waits as [`Self::wait`] does, and reports each lookup that Redis did not answer.
    #[doc(hidden)]
    pub async fn wait_telling(
        &self,
        job: &JobId,
        timeout: Duration,
        mut unanswered: impl FnMut(&broker::Error),
    ) -> Result<Ended, WaitError> {
        let begun = Instant::now();
        let (mut pause, mut seen) = (SHORTEST, LastSeen::default());
        loop {
            let unreached = match self.look(job, &mut seen).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => None,
                Err(WaitError::Broker { source, .. }) if source.is_transient() => Some(source),
                Err(error) => return Err(error),
            };
            if let Some(error) = &unreached {
                unanswered(error);
            }
            let Some(left) = timeout.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else {
                return Err(match unreached {
                    Some(source) => WaitError::Broker { job: job.clone(), source },
                    None => WaitError::TimedOut { job: job.clone(), state: seen.state, waited: timeout },
                });
            };
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 3 / 2).min(LONGEST);
        }
    }

    /// Looks a job up, and searches for one that was known and has been missing for a while. Returns how it ended, if it has.
    async fn look(&self, job: &JobId, seen: &mut LastSeen) -> Result<Option<Ended>, WaitError> {
        let broken = |source| WaitError::Broker { job: job.clone(), source };
        match self.queue.status_without_log(job).await.map_err(broken)? {
            Some(status) if status.state.is_final() => return Ok(Some(Ended::of(status))),
            found => seen.note(found.map(|status| status.state)),
        }
        if seen.is_missing() {
            let found = self.queue.seek(job, SEARCHED).await.map_err(broken)?;
            let Some(status) = found else { return Err(WaitError::Gone { job: job.clone() }) };
            seen.note(Some(status.state));
        }
        Ok(None)
    }
}

/// What is known of a job so far.
#[derive(Debug, Default)]
struct LastSeen {
    state: Option<State>,
    missing_since: Option<Instant>,
}

impl LastSeen {
    fn note(&mut self, state: Option<State>) {
        match state {
            Some(_) => *self = Self { state, missing_since: None },
            None => {
                self.missing_since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// True if the job was known and has been missing for a while. A job that waits under an id of its own is not known
    /// before it runs.
    fn is_missing(&self) -> bool {
        self.state.is_some() && self.missing_since.is_some_and(|since| since.elapsed() >= MISSING)
    }
}
