//! The recurring jobs of an audit, and the rule about their ticks.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::cron::{Entry, Missed, Schedule};
use streamfleet::job::Encoding;
use streamfleet_engine::admin::CronStatus;

use super::judge::Case;
use super::view::{Found, View};
use harness::wait::until_async;

/// How long an operation may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A recurring job, with its first and last tick.
#[derive(Clone, Debug)]
pub struct Recurring {
    pub name: &'static str,
    pub every_ms: u64,
    pub first: u64,
    pub last: u64,
    /// Whether missed ticks are submitted later.
    pub all: bool,
    /// The wall clock minus the monotonic one.
    pub offset_ms: u64,
}

const MISSED: [(&str, &str, u64, bool); 2] =
    [("all", "* * * * * *", 1000, true), ("skip", "*/4 * * * * *", 4000, false)];

/// Adds the recurring jobs and notes their first ticks.
pub async fn begin(queue: &Queue, offset_ms: u64) -> Vec<Recurring> {
    let mut begun = Vec::new();
    for (name, expression, every_ms, all) in MISSED {
        let entry = Entry::new(name, Schedule::new(expression, "UTC").unwrap(), "storm").unwrap();
        let entry = entry.when_missed(if all { Missed::All } else { Missed::Skip });
        let entry = entry.payload(b"@cron ok", Encoding::Raw).unwrap();
        queue.cron().put(&entry).await.unwrap();
        let first = (status(queue, name).await.unwrap().handled.as_ms() / every_ms + 1) * every_ms;
        begun.push(Recurring { name, every_ms, first, last: 0, all, offset_ms });
    }
    begun
}

/// Removes the recurring jobs and notes their last ticks. All ticks due by then are submitted.
pub async fn end(queue: &Queue, recurring: &mut [Recurring]) {
    for one in recurring {
        one.last = status(queue, one.name).await.unwrap().handled.as_ms() / one.every_ms * one.every_ms;
        let name = one.name.parse().unwrap();
        until_async("a recurring job to be removed", SOON, async || queue.cron().remove(&name).await.ok())
            .await;
    }
}

async fn status(queue: &Queue, name: &str) -> Option<CronStatus> {
    let table = until_async("the recurring jobs", SOON, async || queue.cron().table().await.ok()).await;
    table.entries.into_iter().find(|status| status.name.to_string() == name)
}

/// Finds ticks that were not submitted, except those that no worker could have submitted in time and that need not be submitted
/// later. Other rules find ticks that were submitted twice, by their runs.
pub fn judge(view: &View) -> Found {
    let mut found = Found::default();
    for one in &view.case.ticks {
        let mut tick = one.first;
        while tick <= one.last {
            let id = format!("cron.{}.{tick}", one.name);
            let is_excused = !one.all && nobody_could(view.case, one, tick);
            if view.of_id(&id).is_empty() && !is_excused {
                found.add(|| format!("{id} never ran"));
            }
            tick += one.every_ms;
        }
    }
    found
}

/// Whether no worker could submit a tick in time, that is, before the next one is due. A tick may be missed if Redis was away at
/// some point until then, if its clock was set, or if no worker was healthy.
fn nobody_could(case: &Case, one: &Recurring, tick: u64) -> bool {
    let every = one.every_ms * 1_000_000;
    let moments = case.offsets.when(tick, one.offset_ms);
    let is_missed = |moment: &u64| {
        let (from, until) = (moment.saturating_sub(case.lease), moment + every);
        let is_well = |(pid, since): &(u32, u64)| *since < from && !case.causes.explain(*pid, from, until);
        case.causes.is_redis_away(from, until)
            || case.offsets.is_set_within(from.saturating_sub(every), until)
            || !case.processes.iter().any(is_well)
    };
    moments.is_empty() || moments.iter().any(is_missed)
}
