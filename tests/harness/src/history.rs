//! The ledger of a run, sorted into one history per job.

use std::collections::BTreeMap;

use super::ledger::{How, Record, Run};
use super::weather::Weather;

/// All jobs of a run.
pub struct History {
    pub(super) jobs: BTreeMap<String, JobHistory>,
}

/// The records of one job.
#[derive(Default)]
pub(super) struct JobHistory {
    pub(super) submitted: bool,
    /// Whether the reply to its submission was lost.
    pub(super) unknown: bool,
    /// Its runs, in the order of their starts.
    pub(super) spans: Vec<Span>,
    /// Ends without a start.
    pub(super) strays: Vec<Run>,
}

/// One run with its times.
pub(super) struct Span {
    pub(super) run: Run,
    pub(super) from: u64,
    pub(super) end: Option<(u64, How)>,
}

impl History {
    /// Sorts records, which may come in any order.
    pub fn new(mut records: Vec<Record>) -> Self {
        records.sort_by_key(time);
        let mut jobs: BTreeMap<String, JobHistory> = BTreeMap::new();
        for record in records {
            match record {
                Record::Submit { job, .. } => jobs.entry(job).or_default().submitted = true,
                Record::Unknown { job, .. } => jobs.entry(job).or_default().unknown = true,
                Record::Start { run, t } => {
                    let job = jobs.entry(run.job.clone()).or_default();
                    job.spans.push(Span { run, from: t, end: None });
                }
                Record::End { run, t, how } => jobs.entry(run.job.clone()).or_default().end(run, t, how),
            }
        }
        Self { jobs }
    }
}

fn time(record: &Record) -> u64 {
    match record {
        Record::Submit { t, .. } | Record::Unknown { t, .. } => *t,
        Record::Start { t, .. } | Record::End { t, .. } => *t,
    }
}

impl JobHistory {
    fn end(&mut self, run: Run, t: u64, how: How) {
        match self.spans.iter_mut().find(|span| span.end.is_none() && span.run == run) {
            Some(span) => span.end = Some((t, how)),
            None => self.strays.push(run),
        }
    }

    pub(super) fn has_succeeded(&self) -> bool {
        self.count(How::Ok) > 0
    }

    pub(super) fn count(&self, how: How) -> usize {
        self.spans.iter().filter(|span| span.end.is_some_and(|(_t, end)| end == how)).count()
    }

    /// Describes everything that is known about the job, one event per line, with seconds since its first start.
    pub(super) fn timeline(&self, weather: &Weather) -> Vec<String> {
        let Some(origin) = self.spans.first().map(|span| span.from) else { return Vec::new() };
        let mut lines = Vec::new();
        let mut pids: Vec<u32> = self.spans.iter().map(|span| span.run.pid).collect();
        for Span { run, from, end } in &self.spans {
            let name =
                format!("attempt {} fence {}-{} pid {}", run.attempt, run.fence.0, run.fence.1, run.pid);
            lines.push((*from, format!("start {name}")));
            lines.extend(end.map(|(t, how)| (t, format!("end   {name} {}", how.name()))));
        }
        pids.sort_unstable();
        pids.dedup();
        for event in pids.iter().flat_map(|pid| weather.of(*pid)) {
            let seconds = (event.until - event.from) as f64 / 1e9;
            let whom = event.pid.map_or("all".to_owned(), |pid| format!("pid {pid}"));
            lines.push((event.from, format!("{:?} of {whom} for {seconds:.3} s", event.cause)));
        }
        lines.sort();
        lines.dedup();
        let relative = |t: u64| (t as f64 - origin as f64) / 1e9;
        lines.into_iter().map(|(t, line)| format!("{:+10.3} s  {line}", relative(t))).collect()
    }
}
