//! A life, as the history has it.

use streamfleet_domain::job::{Generation, JobId, Lane, QueueName};

use super::{Cursor, LifeKey};
use crate::Error;
use crate::database::Row as Answer;
use crate::history::{Ending, PayloadState};

/// The columns of `sf_jobs` after `day`.
pub(in crate::history) const JOB_COLUMNS: &str = "queue, life, id, type, lane, state, created_ms, ended_ms, attempts, worker, worker_version, reason, \
     fingerprint, error, result, root, payload_state";

/// Returns them as columns of the table that a statement calls so.
pub(super) fn columns_of(table: &str) -> String {
    JOB_COLUMNS.split(", ").map(|column| format!("{table}.{column}")).collect::<Vec<_>>().join(", ")
}

/// How many they are.
pub(super) const WIDTH: usize = 17;

/// A life that has ended. The fields are those of [`Ended`](crate::history::Ended).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The queue.
    pub queue: QueueName,
    /// The life.
    pub life: Generation,
    /// The job's id.
    pub id: JobId,
    /// The job's type; empty if the entry was not a job.
    pub job_type: String,
    /// The lane.
    pub lane: Lane,
    /// How the life ended.
    pub state: Ending,
    /// When the life began, in milliseconds since 1970.
    pub created_ms: u64,
    /// When the life ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// How many attempts there were.
    pub attempts: u64,
    /// The consumer that ran the last attempt.
    pub worker: Option<String>,
    /// The version of the user's program that ran the last attempt.
    pub worker_version: Option<String>,
    /// Why the job is dead.
    pub reason: Option<String>,
    /// The fingerprint of the error.
    pub fingerprint: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// The result as JSON.
    pub result: Option<String>,
    /// The first life in the series of replays, if that is another one.
    pub root: Option<Generation>,
    /// Which fields of the job the history has.
    pub payload_state: PayloadState,
}

impl Row {
    /// Returns the place after this row in a search that is not by a field of the payload.
    pub fn cursor(&self) -> Cursor {
        Cursor { ms: self.ended_ms, life: self.life.clone() }
    }
}

impl Row {
    /// Returns what finds this life.
    pub fn key(&self) -> LifeKey {
        LifeKey::new(self.queue.clone(), self.life.clone(), self.created_ms)
    }

    /// Reads the columns of [`JOB_COLUMNS`].
    pub(super) fn read(row: &Answer) -> Result<Self, Error> {
        let strange = |what: &str, text: &str| Error::Broken {
            doing: "read a row",
            why: format!("column {what} has a value that streamfleet has not written: {text:?}"),
        };
        let state = row.text(5)?.unwrap_or_default();
        let payload_state = row.text(16)?.unwrap_or_default();
        Ok(Self {
            queue: row.parsed(0, "queue")?,
            life: row.parsed(1, "life")?,
            id: row.parsed(2, "id")?,
            job_type: row.text(3)?.unwrap_or_default(),
            lane: row.parsed(4, "lane")?,
            state: Ending::named(&state).ok_or_else(|| strange("state", &state))?,
            created_ms: row.number(6)?,
            ended_ms: row.number(7)?,
            attempts: row.number(8)?,
            worker: row.text(9)?,
            worker_version: row.text(10)?,
            reason: row.text(11)?,
            fingerprint: row.text(12)?,
            error: row.text(13)?,
            result: row.text(14)?,
            root: row.text(15)?.map(|_| row.parsed(15, "root")).transpose()?,
            payload_state: PayloadState::named(&payload_state)
                .ok_or_else(|| strange("payload_state", &payload_state))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_columns_is_right() {
        assert_eq!(JOB_COLUMNS.split(", ").count(), WIDTH);
    }
}
