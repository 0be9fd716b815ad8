//! A row of the outbox, as somebody has written it: nothing was checked yet.

use crate::Error;
use crate::database::Row as Answer;

/// The columns of a row.
pub(super) const COLUMNS: &str =
    "seq, job_id, queue, lane, type, payload, encoding, headers, run_at_ms, options";

/// A job that waits in the outbox. No field was checked: the relay refuses what the wire contract forbids.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The number of the row, by which it is deleted or refused.
    pub seq: i64,
    /// The job's id, which Redis accepts once.
    pub job_id: String,
    /// The queue.
    pub queue: String,
    /// The lane; absent for `normal`.
    pub lane: Option<String>,
    /// The job's type.
    pub job_type: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// How the payload is encoded: `json` if it is absent, or `msgpack`.
    pub encoding: Option<String>,
    /// The headers: a JSON object of texts.
    pub headers: Option<String>,
    /// When the job is due, in milliseconds since 1970; at once if it is absent.
    pub run_at_ms: Option<i64>,
    /// Further fields of the wire contract: a JSON object of texts.
    pub options: Option<String>,
}

impl Row {
    /// Returns a row of the columns that every row has, as the oldest one.
    pub fn new(job_id: &str, queue: &str, job_type: &str, payload: &[u8]) -> Self {
        Self {
            seq: 1,
            job_id: job_id.to_owned(),
            queue: queue.to_owned(),
            lane: None,
            job_type: job_type.to_owned(),
            payload: payload.to_vec(),
            encoding: None,
            headers: None,
            run_at_ms: None,
            options: None,
        }
    }

    pub(super) fn read(row: &Answer) -> Result<Self, Error> {
        Ok(Self {
            seq: row.int(0)?.unwrap_or_default(),
            job_id: row.text(1)?.unwrap_or_default(),
            queue: row.text(2)?.unwrap_or_default(),
            lane: row.text(3)?,
            job_type: row.text(4)?.unwrap_or_default(),
            payload: row.bytes(5)?.unwrap_or_default(),
            encoding: row.text(6)?,
            headers: row.text(7)?,
            run_at_ms: row.int(8)?,
            options: row.text(9)?,
        })
    }
}
