//! When the jobs of each group of dead letters died in the last hour, as far as the newest letters tell.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use streamfleet::job::{EntryId, Timestamp};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::DeadGroup;

use super::chart::Chart;
use super::frame::{Frame, grouped};

/// How far back a trend goes, and how many parts it has.
const SINCE_MS: u64 = 60 * 60 * 1000;
const PARTS: usize = 12;
const PART_MS: u64 = SINCE_MS / PARTS as u64;

/// How many letters are read at once …
const READ: u64 = 250;

/// … at most in all …
const MOST: u64 = 1000;

/// … and for how long.
const LONGEST: Duration = Duration::from_millis(40);

/// The group that the letters of all further groups name.
const OTHERS: &str = "other";

/// How many jobs of each group died in each part of the last hour.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Trend {
    groups: HashMap<String, [u64; PARTS]>,
    /// Whether all letters of the hour were read.
    is_complete: bool,
}

impl Trend {
    /// Reads the newest letters of a queue. `now` is the server's time.
    ///
    /// # Errors
    ///
    /// [`RedisError`] if Redis does not answer or refuses.
    pub(super) async fn read(queue: &Queue, now: Timestamp) -> Result<Self, RedisError> {
        let (mut trend, begun, mut read) = (Self::default(), Instant::now(), 0);
        let from = now.as_ms().saturating_sub(SINCE_MS);
        let mut before: Option<EntryId> = None;
        while read < MOST && begun.elapsed() < LONGEST {
            let page = queue.dead_letters().bare().recent(before, READ).await?;
            let is_last = page.last().is_none_or(|letter| letter.entry.ms < from);
            page.iter().for_each(|letter| trend.count(letter.text("dead_group"), letter.entry, now));
            if is_last {
                trend.is_complete = true;
                break;
            }
            read += page.len() as u64;
            before = page.last().map(|letter| letter.entry);
        }
        Ok(trend)
    }

    /// Counts a letter of a group.
    fn count(&mut self, group: String, letter: EntryId, now: Timestamp) {
        let age = now.as_ms().saturating_sub(letter.ms);
        if age >= SINCE_MS {
            return;
        }
        let part = PARTS - 1 - usize::try_from(age / PART_MS).unwrap_or(0).min(PARTS - 1);
        self.groups.entry(group).or_default()[part] += 1;
    }

    /// The chart of a group; `None` if none of its jobs died in the last hour, as far as is known.
    pub(super) fn chart(&self, frame: &Frame, group: &DeadGroup) -> Option<Chart> {
        let parts = self.groups.get(group.fingerprint.as_deref().unwrap_or(OTHERS))?;
        let total = grouped(parts.iter().sum());
        let key = if self.is_complete { "chart.deaths" } else { "chart.deaths_at_least" };
        Some(Chart::bars(frame.fill(key, &[("count", &total)]), parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_counts_in_the_part_of_the_hour_in_which_its_job_died() {
        let now = Timestamp::from_ms(10 * SINCE_MS).unwrap();
        let mut trend = Trend::default();
        for age in [0, PART_MS - 1, PART_MS, SINCE_MS - 1, SINCE_MS, 5 * SINCE_MS] {
            trend.count("f1".to_owned(), EntryId::new(now.as_ms() - age, 0), now);
        }
        let mut parts = [0; PARTS];
        (parts[PARTS - 1], parts[PARTS - 2], parts[0]) = (2, 1, 1);
        assert_eq!(trend.groups, HashMap::from([("f1".to_owned(), parts)]));
    }
}
