//! What stays of a job after its end.

use std::time::Duration;

use bytes::Bytes;
use fred::types::Value;

use crate::attempt::taken::TakenJob;
use crate::job::{Envelope, JobSpec, Tracking};

/// Whether and for how long a job's record is kept after its end, and with which result.
#[derive(Debug, Clone, Copy)]
pub struct KeepRecord<'a> {
    /// Whether the attempt may have a record, perhaps only because it reported its progress.
    pub record: bool,
    /// Whether the attempt began steps. Then the job has a record until it ends.
    pub has_steps: bool,
    /// Which jobs of the type have a record.
    pub tracking: Tracking,
    /// How long a record is kept after the end of its job.
    pub retention: Duration,
    /// What the handler returned.
    pub result: Option<&'a Bytes>,
    /// Whether the journal of the queue gets the fields of a job that did not fail.
    pub fields: bool,
}

impl KeepRecord<'_> {
    /// What the scripts call it.
    pub(super) fn mode(&self) -> &'static str {
        match (self.record, self.tracking) {
            (false, _) => "0",
            (true, Tracking::None) => "forget",
            (true, Tracking::Failures | Tracking::All) => "1",
        }
    }

    /// Its fields for the journal, packed; empty if it does not get them.
    pub(super) fn journaled(&self, taken: TakenJob<'_>) -> Value {
        let is_wanted = self.fields && self.mode() == "1" && taken.envelope.size() <= Envelope::LARGE_BYTES;
        if is_wanted { Value::Bytes(taken.envelope.pack(taken.job.own_lane).into()) } else { Value::from("") }
    }

    /// Whether this job must have a record from now on until it ends.
    pub(super) fn while_alive(&self, job: &JobSpec) -> bool {
        self.has_steps || self.record && job.has_record(self.tracking)
    }

    /// How long the record of a cancelled job is kept; zero if none is wanted.
    pub(super) fn retention_of_cancelled(&self) -> Duration {
        match self.tracking {
            Tracking::None => Duration::ZERO,
            Tracking::Failures | Tracking::All => self.retention,
        }
    }
}
