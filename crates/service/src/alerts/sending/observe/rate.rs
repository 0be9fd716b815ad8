//! How many jobs have died lately, by what the groups of dead letters count. A new process has to wait until it has seen enough.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// The deaths of one queue.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    /// How many each group had at the last check.
    groups: BTreeMap<String, u64>,
    /// How many there were at each check, the oldest first.
    samples: VecDeque<(Instant, u64)>,
    /// Since when they are counted.
    since: Option<Instant>,
}

/// What is known about the deaths within a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    pub(super) deaths: u64,
    pub(super) per_minute: f64,
    /// Whether the whole time was observed.
    pub(super) is_whole: bool,
}

impl Deaths {
    /// Notes what all groups count, each with whether it counts for the rate. Returns which group has grown most.
    pub(super) fn note(
        &mut self,
        now: Instant,
        groups: impl IntoIterator<Item = (String, u64, bool)>,
    ) -> Option<String> {
        let is_first = self.since.is_none();
        self.since.get_or_insert(now);
        let (mut sum, mut most, mut after) = (0_u64, (0, None), BTreeMap::new());
        for (name, deaths, counts) in groups {
            // One that has fewer was empty in between.
            let grown = match self.groups.get(&name) {
                Some(before) if *before <= deaths => deaths - before,
                Some(_) => deaths,
                None if is_first => 0,
                None => deaths,
            };
            if counts && !is_first {
                sum = sum.saturating_add(grown);
                if grown > most.0 {
                    most = (grown, Some(name.clone()));
                }
            }
            after.insert(name, deaths);
        }
        self.groups = after;
        if sum > 0 {
            self.samples.push_back((now, sum));
        }
        most.1
    }

    /// Returns the deaths within the last `window`.
    pub(super) fn rate(&mut self, now: Instant, window: Duration) -> Rate {
        while self.samples.front().is_some_and(|(at, _)| now.duration_since(*at) > window) {
            self.samples.pop_front();
        }
        let deaths = self.samples.iter().map(|(_, deaths)| *deaths).fold(0, u64::saturating_add);
        let is_whole = self.since.is_some_and(|since| now.duration_since(since) >= window);
        Rate { deaths, per_minute: deaths as f64 * 60.0 / window.as_secs_f64(), is_whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    #[test]
    fn only_deaths_that_were_seen_and_count_make_the_rate() {
        let (mut deaths, start) = (Deaths::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let groups = |a: u64, b: u64| [("a".to_owned(), a, true), ("b".to_owned(), b, false)];
        assert_eq!(deaths.note(at(0), groups(1000, 5)), None);
        assert_eq!(deaths.rate(at(0), WINDOW), Rate { deaths: 0, per_minute: 0.0, is_whole: false });
        assert_eq!(deaths.note(at(10), groups(1020, 50)), Some("a".to_owned()));
        assert_eq!(deaths.rate(at(10), WINDOW).deaths, 20);
        // Somebody replayed all, and some died again.
        deaths.note(at(30), groups(3, 50));
        assert_eq!(deaths.rate(at(60), WINDOW), Rate { deaths: 23, per_minute: 23.0, is_whole: true });
        assert_eq!(deaths.rate(at(71), WINDOW).deaths, 3);
        assert_eq!(deaths.rate(at(200), WINDOW).deaths, 0);
    }
}
