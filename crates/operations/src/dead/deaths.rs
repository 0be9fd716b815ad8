//! When the jobs of each group died, as far as the newest dead letters tell.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{EntryId, Timestamp};

use super::OTHER;
use crate::{Error, List};

/// How many letters are read at once, …
const READ: u64 = 500;

/// … at most in all, …
const MOST: u64 = 20_000;

/// … and for how long.
const LONGEST: Duration = Duration::from_secs(1);

/// How many parts a span of time has.
pub(super) const PARTS: usize = 24;

/// When the jobs of each group died; groups whose jobs did not are left out.
pub type DeathList = List<GroupDeaths, DeathFacts>;

/// When the jobs of one group died.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct GroupDeaths {
    /// The fingerprint of its letters, or `other`.
    pub group: String,
    /// How many of its jobs died in each of 24 parts of the time, the oldest part first.
    pub deaths: Vec<u64>,
}

/// Which time the deaths are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct DeathSpan {
    /// When the first part begins, in milliseconds since 1970.
    pub from_ms: u64,
    /// How long each part is.
    pub part_ms: u64,
    /// False if there are more letters than were looked at: the older parts then lack some deaths.
    pub complete: bool,
}

/// What is known about the deaths of all groups.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct DeathFacts {
    /// The queue.
    pub queue: String,
    /// Which time they are counted in.
    #[serde(flatten)]
    pub span: DeathSpan,
}

/// Counts when the jobs of each group died within this time.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn deaths(queue: &Queue, since: Duration) -> Result<DeathList, Error> {
    let now = queue.clock().await.map_err(Error::redis("failed to read the clock of Redis"))?;
    let (span, groups) = count(queue, since, now).await?;
    let mut items: Vec<GroupDeaths> =
        groups.into_iter().map(|(group, deaths)| GroupDeaths { group, deaths: deaths.to_vec() }).collect();
    items.sort_by(|one, other| one.group.cmp(&other.group));
    let facts = DeathFacts { queue: queue.name().to_string(), span };
    Ok(DeathList { items, next: None, facts, former: None })
}

/// The deaths of each group, in each part of the time.
pub(super) type Counted = HashMap<String, [u64; PARTS]>;

/// Reads the newest letters of a queue, and counts them. `now` is the server's time.
pub(super) async fn count(
    queue: &Queue,
    since: Duration,
    now: Timestamp,
) -> Result<(DeathSpan, Counted), Error> {
    let part_ms = (u64::try_from(since.as_millis()).unwrap_or(u64::MAX) / PARTS as u64).max(1);
    let from_ms = now.as_ms().saturating_sub(part_ms.saturating_mul(PARTS as u64));
    let mut span = DeathSpan { from_ms, part_ms, complete: false };
    let (mut counted, mut before, begun, mut read) = (Counted::new(), None::<EntryId>, Instant::now(), 0);
    while read < MOST && begun.elapsed() < LONGEST {
        let page = queue.dead_letters().bare().recent(before, READ).await;
        let page = page.map_err(Error::redis("failed to read the dead letters"))?;
        // An edited letter is newer than its job's death.
        let is_last = page.last().is_none_or(|letter| letter.entry.ms < from_ms);
        for letter in &page {
            let group = letter.text("dead_group");
            let group = if group.is_empty() { letter.text("dead_fingerprint") } else { group };
            add(&mut counted, span, group, letter.died());
        }
        if is_last {
            span.complete = true;
            break;
        }
        read += page.len() as u64;
        before = page.last().map(|letter| letter.entry);
    }
    Ok((span, counted))
}

/// Counts a letter of a group.
fn add(counted: &mut Counted, span: DeathSpan, group: String, died: Timestamp) {
    let Some(age) = died.as_ms().checked_sub(span.from_ms) else { return };
    let part = usize::try_from(age / span.part_ms).unwrap_or(usize::MAX).min(PARTS - 1);
    let group = if group.is_empty() { OTHER.to_owned() } else { group };
    counted.entry(group).or_default()[part] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_death_counts_in_its_part() {
        let span = DeathSpan { from_ms: 1000, part_ms: 10, complete: true };
        let mut counted = Counted::new();
        for (group, at) in [("a", 1000), ("a", 1009), ("a", 1010), ("", 1239), ("b", 5000), ("a", 999)] {
            add(&mut counted, span, group.to_owned(), Timestamp::from_ms(at).unwrap());
        }
        assert_eq!((counted["a"][0], counted["a"][1], counted["a"].iter().sum::<u64>()), (2, 1, 3));
        assert_eq!((counted[OTHER][PARTS - 1], counted["b"][PARTS - 1]), (1, 1));
    }
}
