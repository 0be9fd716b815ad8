//! How soon work resumed: the jobs of a killed worker, and all work once Redis was back.

use serde::Serialize;

use super::diary::Span;
use super::view::View;

/// Some times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    pub count: usize,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Times {
    /// Of times in nanoseconds.
    fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let Some(last) = times.len().checked_sub(1) else { return Self::default() };
        let seconds = |at: usize| times[at] as f64 / 1e9;
        let percentile = |percent: usize| seconds((last * percent).div_ceil(100));
        Self { count: times.len(), p50: percentile(50), p99: percentile(99), max: seconds(last) }
    }
}

/// Measures the time from a kill until each job that the worker was running started again on another one. Jobs that were given
/// up as lost, or that had been taken over before, do not count.
pub(crate) fn of_killed(view: &View) -> Times {
    let mut times = Vec::new();
    for spans in view.runs.values() {
        for (at, span) in spans.iter().enumerate() {
            let Some(killed) = view.case.causes.killed(span.pid) else { continue };
            let was_cut = span.from <= killed && span.end.is_none_or(|(t, _)| t > killed);
            let next = |next: &&&Span| next.fence > span.fence;
            if was_cut && let Some(next) = spans[at + 1..].iter().find(next).filter(|next| next.from > killed)
            {
                times.push(next.from - killed);
            }
        }
    }
    Times::of(times)
}

/// Measures the time from the moment when Redis answered again until a job started.
pub(crate) fn of_redis(view: &View) -> Times {
    let went_on = view.case.diary.plain.went_on.iter();
    Times::of(went_on.filter_map(|(back, first)| Some((*first)? - back)).collect())
}
