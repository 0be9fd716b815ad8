//! A life that has ended, as a writer gives it to the history. Texts that are too long are cut when they are written, and NUL
//! becomes U+FFFD.

use streamfleet_domain::job::{Generation, JobId, Lane, QueueName};

use super::{Body, Day};

/// How a life has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The job succeeded.
    Done,
    /// The job became a dead letter.
    Dead,
    /// Somebody cancelled the job, or its handler dropped it.
    Cancelled,
}

streamfleet_domain::variants! {
    /// Returns the text of the column `state`.
    Ending: Display {
        Done = "done",
        Dead = "dead",
        Cancelled = "cancelled",
    }
}

/// A life that has ended. Times are milliseconds since 1970, by the clock of Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The queue.
    pub queue: QueueName,
    /// The life. With the queue and its day, it is the primary key.
    pub life: Generation,
    /// The job's id, which several lives may share.
    pub id: JobId,
    /// The job's type; empty if the entry was not a job.
    pub job_type: String,
    /// The lane.
    pub lane: Lane,
    /// How the life ended.
    pub state: Ending,
    /// When the life began. It must be what every event of the life says, because it may decide which day the life has.
    pub created_ms: u64,
    /// When the life ended.
    pub ended_ms: u64,
    /// How many attempts failed or were lost, and 1 more if the last one succeeded.
    pub attempts: u64,
    /// The consumer that ran the last attempt; at most 128 bytes.
    pub worker: Option<String>,
    /// The version of the user's program that ran the last attempt; at most 64 bytes.
    pub worker_version: Option<String>,
    /// Why the job is dead, as `dead_reason` says; at most 32 bytes.
    pub reason: Option<String>,
    /// The fingerprint of the error; at most 32 bytes.
    pub fingerprint: Option<String>,
    /// The last error, or why the job was cancelled; at most 16 KiB.
    pub error: Option<String>,
    /// The result as JSON. One of more than 64 KiB is not stored, because a part of it would not be JSON.
    pub result: Option<String>,
    /// The first life in the series of replays, if that is another one.
    pub root: Option<Generation>,
    /// The job's fields.
    pub body: Body,
    /// Its attempts in order. The last 100 are stored.
    pub attempted: Vec<Attempt>,
    /// Chosen fields of the payload, by which the job is found. The first 16 are stored.
    pub keys: Vec<Key>,
}

/// One attempt of a life. Together, number and end are unique in a life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1 on.
    pub number: u64,
    /// When it started, if that is known.
    pub started_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: u64,
    /// How it ended, such as `done`, `error` or `lost`; at most 32 bytes.
    pub outcome: String,
    /// The consumer that ran it; at most 128 bytes.
    pub worker: Option<String>,
    /// Its error; at most 16 KiB.
    pub error: Option<String>,
}

/// A field of a payload, by which jobs are found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The name, such as `customer`; at most 64 bytes.
    pub name: String,
    /// The value, as text; at most 190 characters. A longer one is cut, also in a question.
    pub value: String,
}

impl Ended {
    /// Returns the day whose partition has the rows of this life.
    pub fn day(&self) -> Day {
        Day::of_life(&self.life, self.created_ms)
    }
}
