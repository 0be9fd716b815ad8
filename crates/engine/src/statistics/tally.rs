//! What a worker has counted since it last reported, and how it reports it: one script, see `tally.lua`.

use fred::types::Value;

use super::type_stats::{TypeFigures, Window};
use crate::Queue;
use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::Timestamp;

scripts! { TALLY "tally" }

/// The most types that a key of type statistics has besides the field for all others. A worker reports no more at once.
pub const MAX_TYPES: usize = 100;

/// The most types that one script adds. Each takes about 20 µs.
const TYPES_AT_ONCE: usize = 25;

/// What happened to the jobs of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Jobs that succeeded.
    pub done: u64,
    /// Attempts that failed or were lost.
    pub failed: u64,
    /// Jobs that will be tried again after a failure.
    pub retried: u64,
    /// Jobs that became dead letters.
    pub died: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
}

/// A part of what a worker has counted that one script adds. It is added once, however often it is sent.
#[derive(Debug, Clone)]
pub struct TallyReport {
    /// The name of the call that adds it.
    pub call: String,
    /// The counts of the queue.
    pub tally: Tally,
    /// The counts of its types.
    pub types: Vec<TypeFigures>,
}

impl TallyReport {
    /// Splits what a worker has counted into parts. `draw` returns a new name for each.
    pub fn split(tally: Tally, types: Vec<TypeFigures>, draw: impl Fn() -> String) -> Vec<Self> {
        let mut reports = vec![Self { call: draw(), tally, types: Vec::new() }];
        for figures in types {
            if reports.last().is_none_or(|last| last.types.len() == TYPES_AT_ONCE) {
                reports.push(Self { call: draw(), tally: Tally::default(), types: Vec::new() });
            }
            if let Some(last) = reports.last_mut() {
                last.types.push(figures);
            }
        }
        reports
    }
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tallied {
    /// It was added.
    Added(Timestamp),
    /// Nothing was added, because this is the time by the server's clock, and the sender believed another one.
    AnotherTime(Timestamp),
}

impl Queue {
    /// Adds what a worker has counted. `now` is what it believes to be the time of the server's clock.
    #[doc(hidden)]
    pub async fn tally(&self, report: &TallyReport, now: Timestamp) -> Result<Tallied, Error> {
        let windows = [Window::TenMinutes, Window::Hour];
        let [minutes, hour] = windows.map(|window| window.number_at(now));
        let own = &self.keys;
        let mut keys = vec![own.counts.clone()];
        keys.extend([own.type_stats(Window::TenMinutes, minutes), own.type_stats(Window::Hour, hour)]);
        keys.push(own.receipt(&report.call));
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (nth_minutes, nth_hour) = (number(minutes), number(hour));
        let mut args = Vec::from(args![TALLY; nth_minutes, nth_hour, most_types = MAX_TYPES as i64]);
        let Tally { done, failed, retried, died, cancelled } = report.tally;
        let [done, failed, retried, died, cancelled] = [done, failed, retried, died, cancelled].map(number);
        args.extend(args![TALLY; done, failed, retried, died, cancelled]);
        for figures in &report.types {
            let packed = Value::Bytes(figures.packed().into());
            args.extend(args![TALLY; job_type = figures.field(), packed]);
        }
        let answer = self.run_named(&TALLY, keys, args).await?;
        let now = answer.rest.first().and_then(decode::number).map(timestamp);
        match (answer.status, now) {
            (1, Some(now)) => Ok(Tallied::Added(now)),
            (0, Some(now)) => Ok(Tallied::AnotherTime(now)),
            _ => Err(Error::contract("tally", answer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_many_types_is_split_and_counts_its_ends_once() {
        let tally = Tally { done: 7, ..Tally::default() };
        let types = vec![TypeFigures::of_others(); TYPES_AT_ONCE * 2 + 1];
        let reports = TallyReport::split(tally, types, || "call".to_owned());
        let parts: Vec<_> = reports.iter().map(|report| (report.tally.done, report.types.len())).collect();
        assert_eq!(parts, [(7, TYPES_AT_ONCE), (0, TYPES_AT_ONCE), (0, 1)]);
        assert_eq!(TallyReport::split(tally, Vec::new(), || "call".to_owned()).len(), 1);
    }
}
