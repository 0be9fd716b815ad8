//! The recurring jobs of a storm, and what must hold of their ticks.

use std::collections::BTreeSet;

use streamfleet::broker::Queue;
use streamfleet::cron::{Entry, Missed, Schedule};
use streamfleet::job::Encoding;

use super::judge::Case;
use crate::cron::{named, status};

/// A recurring job, with its first and last tick.
#[derive(Clone, Debug)]
pub(super) struct Recurring {
    pub(super) name: &'static str,
    pub(super) every_ms: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    /// Whether missed ticks are made up for.
    pub(super) all: bool,
    /// The wall clock, less the monotonic one.
    pub(super) offset_ms: u64,
}

const MISSED: [(&str, &str, u64, bool); 2] =
    [("all", "* * * * * *", 1000, true), ("skip", "*/4 * * * * *", 4000, false)];

/// Begins.
pub(super) async fn begin(queue: &Queue, offset_ms: u64) -> Vec<Recurring> {
    let mut begun = Vec::new();
    for (name, expression, every_ms, all) in MISSED {
        let entry = Entry::new(name, Schedule::new(expression, "UTC").unwrap(), "storm").unwrap();
        let entry = entry.when_missed(if all { Missed::All } else { Missed::Skip });
        let entry = entry.payload(b"@cron ok", Encoding::Raw).unwrap();
        queue.put_cron(&entry).await.unwrap();
        let first = (status(queue, name).await.unwrap().handled.as_ms() / every_ms + 1) * every_ms;
        begun.push(Recurring { name, every_ms, first, last: 0, all, offset_ms });
    }
    begun
}

/// Ends, and notes the last ticks. What was due by then is submitted.
pub(super) async fn end(queue: &Queue, recurring: &mut [Recurring]) {
    for one in recurring {
        one.last = status(queue, one.name).await.unwrap().handled.as_ms() / one.every_ms * one.every_ms;
        queue.remove_cron(&named(one.name)).await.unwrap();
    }
}

/// Each tick is submitted, unless nobody could do that in time and it need not be made up for. That none comes twice is
/// seen by what runs.
pub(super) fn judge(case: &Case) -> Vec<String> {
    let ran: BTreeSet<&str> = case.diary.spans.iter().map(|span| span.id.as_str()).collect();
    let mut offences = Vec::new();
    for one in &case.ticks {
        let mut tick = one.first;
        while tick <= one.last {
            let id = format!("cron.{}.{tick}", one.name);
            let is_excused = !one.all && nobody_could(case, one, tick);
            if !ran.contains(id.as_str()) && !is_excused {
                offences.push(format!("{id} never ran"));
            }
            tick += one.every_ms;
        }
    }
    offences
}

/// A tick is in time until the next one is due. Where Redis was away at some time until then, or nobody was well, it may be
/// missed.
fn nobody_could(case: &Case, one: &Recurring, tick: u64) -> bool {
    let ns = |ms: u64| (ms - one.offset_ms) * 1_000_000;
    let (from, until) = (ns(tick).saturating_sub(case.lease), ns(tick + one.every_ms));
    let is_well = |(pid, since): &(u32, u64)| *since < from && !case.causes.explain(*pid, from, until);
    case.causes.is_redis_away(from, until) || !case.processes.iter().any(is_well)
}
