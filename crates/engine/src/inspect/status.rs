//! Everything known about one job.

use crate::inspect::history::{Attempt, LogLine, Progress};
use crate::job::{EntryId, JobId, Lane, State, Timestamp};

/// Everything known about one job; see the [example](crate::Queue::status).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The time of the server's clock.
    pub now: Timestamp,
    /// The job.
    pub id: JobId,
    /// Its state.
    pub state: State,
    /// The generation that its record describes, if it has a record.
    pub generation: Option<String>,
    /// The type of handler it needs; empty for bytes that are not a job.
    pub job_type: String,
    /// Its lane.
    pub lane: Lane,
    /// When it was accepted, if known, also if it was replayed since.
    pub created: Option<Timestamp>,
    /// When it is due, if it is in the delayed set.
    pub due: Option<Timestamp>,
    /// Its entry, if it is in a stream.
    pub entry: Option<EntryId>,
    /// The lane that has this entry, which is not always its own.
    #[doc(hidden)]
    pub stream: Lane,
    /// The gate in whose waiting list it waits, if it does.
    pub waitlist: Option<String>,
    /// The consumer that runs it, if any.
    pub worker: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// The result of a success, as JSON.
    pub result: Option<String>,
    /// When its cancellation was requested, until it has ended.
    pub cancelling: Option<Timestamp>,
    /// Who requested its cancellation, if its record has it.
    pub cancelled_by: Option<String>,
    /// Its dead letter.
    pub dead: Option<EntryId>,
    /// The jobs that followed its last end, such as that of `Submission::on_success`. Empty
    /// if it has no record.
    pub children: Vec<JobId>,
    /// The last attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Its progress, if its handler reported any.
    pub progress: Option<Progress>,
    /// The last lines that its handler logged, oldest first.
    pub log: Vec<LogLine>,
    /// How many lines it has logged in total.
    pub logged: u64,
}
