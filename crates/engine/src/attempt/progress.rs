//! Writes what running attempts report to their records.

use std::time::Duration;

use fred::types::Value;

use crate::attempt::args::{created, text};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{ConsumerName, JobSpec};
use crate::{Queue, bytes, millis};

scripts! { REPORT "report" }

/// The most log lines that a record keeps, and that one report carries.
pub const LOG_LINES: usize = 100;

/// What one attempt has reported. Everything has an increasing number, so that nothing is written twice.
#[derive(Debug, Clone)]
pub struct UnsentReport<'a> {
    /// The job.
    pub job: &'a JobSpec,
    /// Its number, percentage and note.
    pub progress: Option<(u64, u8, String)>,
    /// At most [`LOG_LINES`].
    pub lines: Vec<UnsentLine>,
}

/// One log line of an attempt.
#[derive(Debug, Clone)]
pub struct UnsentLine {
    /// Its number, which increases within the attempt.
    pub nth: u64,
    /// The age of the line.
    pub age: Duration,
    /// What the handler wrote.
    pub text: String,
}

impl Queue {
    /// Writes what attempts of this consumer report, except for attempts whose entries it no longer holds. A record
    /// that is created for this expires after `keep`. See `report.lua`.
    #[doc(hidden)]
    pub async fn report(
        &self,
        consumer: &ConsumerName,
        reports: &[UnsentReport<'_>],
        keep: Duration,
    ) -> Result<(), Error> {
        let mut keys = Vec::with_capacity(2 * reports.len());
        let mut args = Vec::from(args![REPORT; consumer = consumer.as_str(), keep_ms = millis(keep)]);
        for UnsentReport { job, progress, lines } in reports {
            keys.extend([self.keys.stream(job.lane).clone(), self.keys.record(&job.id)]);
            let (nth, percent, note) =
                progress.as_ref().map_or((0, 0, ""), |(nth, percent, note)| (*nth, *percent, note));
            args.extend(args![REPORT;
                entry = job.entry.to_string(),
                created_ms = created(job),
                job_type = job.job_type.as_str(),
                lane = job.lane.as_str(),
                generation = text(&job.generation),
                nth = nth.cast_signed(),
                percent = i64::from(percent),
                remark = bytes(note.as_bytes()),
                lines = lines.len() as i64,
            ]);
            for UnsentLine { nth, age, text } in lines {
                args.extend([Value::Integer(nth.cast_signed()), millis(*age), bytes(text.as_bytes())]);
            }
        }
        self.run(&REPORT, keys, args).await.map(drop)
    }
}
