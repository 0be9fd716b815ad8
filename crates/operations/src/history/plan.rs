//! What a restore would bring back.

use std::collections::BTreeMap;

use serde::Serialize;
use streamfleet::job::QueueName;
use streamfleet_sql::Database;

use super::report::{PastCount, time};
use super::restore::Restore;
use super::walk::Walk;
use crate::{Control, Error};

/// What would come back.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct RestorePlan {
    /// The queue.
    pub queue: String,
    /// How many jobs the filter matches, up to the limit.
    pub looked: u64,
    /// How many of them can come back, unless Redis knows them.
    pub planned: u64,
    /// How many of these are of each type and ended in each way; the most first.
    pub counts: Vec<PastCount>,
    /// How many cannot come back, by the reason.
    pub kept: BTreeMap<&'static str, u64>,
    /// The earliest end of those that can.
    pub first: Option<String>,
    /// The earliest end, in milliseconds since 1970.
    pub first_ms: Option<u64>,
    /// The latest end of those that can.
    pub last: Option<String>,
    /// The latest end, in milliseconds since 1970.
    pub last_ms: Option<u64>,
    /// Where the rest begins, if the limit leaves some.
    pub next: Option<String>,
}

/// Counts what [`restore`](super::restore) would bring back. Nobody asks Redis which of these it knows.
///
/// # Errors
///
/// [`Error::Invalid`] as for [`restore`](super::restore); [`Error::Stopped`]; [`Error::Database`] if the database does not answer or refuses.
pub async fn plan_restore(
    database: &Database,
    queue: &QueueName,
    input: &Restore,
    control: Control<'_>,
) -> Result<RestorePlan, Error> {
    let mut walk = Walk::begin(database, queue, input)?;
    let mut plan = RestorePlan { queue: queue.to_string(), ..RestorePlan::default() };
    let mut counts: BTreeMap<(String, &str), u64> = BTreeMap::new();
    while let Some(rows) = walk.next_page().await? {
        if control.stop.is_requested() {
            return Err(Error::Stopped);
        }
        plan.looked += rows.len() as u64;
        for row in walk.sort_out(rows, &mut plan.kept).await? {
            plan.planned += 1;
            *counts.entry((row.job_type.clone(), row.state.as_str())).or_default() += 1;
            plan.first_ms = Some(plan.first_ms.map_or(row.ended_ms, |first| first.min(row.ended_ms)));
            plan.last_ms = plan.last_ms.max(Some(row.ended_ms));
        }
        (control.progress)(plan.looked);
    }
    (plan.first, plan.last) = (plan.first_ms.map(time), plan.last_ms.map(time));
    plan.counts =
        counts.into_iter().map(|((job_type, state), jobs)| PastCount { job_type, state, jobs }).collect();
    plan.counts.sort_by_key(|count| std::cmp::Reverse(count.jobs));
    plan.next = walk.after.map(|next| next.to_string());
    Ok(plan)
}
