//! Tasks: work on many jobs that the fleet carries out at a rate. A task that replays dead letters also watches its own success:
//! what follows from how the replayed jobs have ended so far is decided here.

use serde::{Deserialize, Serialize};

/// How many jobs must have ended before a replay stops itself for their deaths.
const FEWEST_ENDS: u64 = 20;

variants! {
    /// Where a task is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum TaskState {
        /// The first jobs of a replay run, and all of them must succeed.
        Canary = "canary",
        /// It is carried out.
        Running = "running",
        /// A person paused it.
        Paused = "paused",
        /// A person stopped it, or a replay stopped itself.
        Stopped = "stopped",
        /// It cannot be carried out.
        Failed = "failed",
        /// Nothing is left to do. If it replays dead letters, all these jobs have ended.
        Done = "done",
    }
}

impl TaskState {
    /// Returns true if it never changes anything again.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed | Self::Done)
    }
}

with_defaults! {
    /// How a replay goes about its letters.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[non_exhaustive]
    pub struct ReplayRules {
        /// How many jobs it replays per second, at most 10,000; `None` if as many as it can.
        pub rate: Option<f64> = None,
        /// How many jobs must succeed before the others are replayed.
        pub canary: u64 = 0,
        /// The share of jobs that may die again, with the same fingerprint, in percent; at least 20 must have ended. `None` if it
        /// does not stop itself.
        pub stop_at: Option<f64> = None,
        /// How often tasks replay a job, at most.
        pub max_replays: u64 = 3,
        /// Whether all steps of a job run again, also those that are done and those of the kind `once`.
        #[serde(default)]
        pub all_steps: bool = false,
    }
}

impl ReplayRules {
    setters! {
        /// Sets how many jobs it replays per second, at least one per hour, and at most 10,000; `None` for as many as it can.
        rate: impl Into<Option<f64>> => rate.into();
        /// Sets how many jobs must succeed before the others are replayed.
        canary: u64;
        /// Sets the share of jobs that may die again, in percent.
        stop_at: impl Into<Option<f64>> => stop_at.into();
        /// Sets how often tasks replay a job.
        max_replays: u64;
        /// Sets whether all steps of a job run again.
        all_steps: bool;
    }

    /// Whether what it does next depends on how its jobs end.
    #[doc(hidden)]
    pub fn watches(&self) -> bool {
        self.canary > 0 || self.stop_at.is_some()
    }

    /// Says what is wrong with the numbers, if something is.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), &'static str> {
        self.rate.map_or(Ok(()), check_rate)?;
        if self.stop_at.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
            return Err("the share of deaths must be from 0 to 100 percent");
        }
        if self.max_replays == 0 {
            return Err("a job must be replayed at least once");
        }
        Ok(())
    }
}

/// Says what is wrong with a rate per second, if something is.
#[doc(hidden)]
pub fn check_rate(rate: f64) -> Result<(), &'static str> {
    // The slowest rate is one per hour.
    if (1.0 / 3601.0..=10_000.0).contains(&rate) {
        Ok(())
    } else {
        Err("the rate must be from one per hour to 10,000 per second")
    }
}

/// How the jobs of a replay have ended so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// How many letters it replayed.
    pub replayed: u64,
    /// How many of these jobs succeeded.
    pub succeeded: u64,
    /// How many died again, with the fingerprint that their letter had.
    pub died: u64,
    /// How many died of something else.
    pub died_otherwise: u64,
    /// How many died of a `once` step that was started earlier: a person must decide what became of it.
    pub needs_decision: u64,
    /// How many were cancelled.
    pub cancelled: u64,
    /// How many letters it left alone: somebody was faster, or tasks have replayed them too often.
    pub skipped: u64,
}

impl ReplayCounts {
    /// Returns how many of its jobs have ended.
    pub fn ended(&self) -> u64 {
        self.succeeded + self.died + self.died_otherwise + self.needs_decision + self.cancelled
    }

    /// Returns how many of its jobs have not ended yet.
    pub fn alive(&self) -> u64 {
        self.replayed.saturating_sub(self.ended())
    }
}

/// What a replay does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayStep {
    /// Nothing for now.
    Rest,
    /// Replays at most this number of letters.
    Replay(u64),
    /// Its canary has succeeded: it replays the rest.
    Release,
    /// Stops itself, for this reason.
    Stop(String),
    /// It is done.
    Finish,
}

/// Decides what a replay does next. `is_read`: it has come to the end of its letters.
pub fn next_step(state: TaskState, rules: &ReplayRules, counts: &ReplayCounts, is_read: bool) -> ReplayStep {
    match state {
        TaskState::Paused | TaskState::Stopped | TaskState::Failed | TaskState::Done => ReplayStep::Rest,
        TaskState::Canary => {
            let failed = counts.ended() - counts.succeeded;
            if failed > 0 {
                return ReplayStep::Stop(format!(
                    "{failed} of the first {} jobs did not succeed",
                    counts.replayed
                ));
            }
            let is_complete = counts.replayed >= rules.canary || is_read;
            match (is_complete, counts.alive()) {
                (true, 0) => ReplayStep::Release,
                (true, _) => ReplayStep::Rest,
                (false, _) => ReplayStep::Replay(rules.canary - counts.replayed),
            }
        }
        TaskState::Running => {
            // To replay more jobs whose steps wait for a person helps nobody.
            let (ended, died) = (counts.ended(), counts.died + counts.needs_decision);
            let share = if ended == 0 { 0.0 } else { died as f64 * 100.0 / ended as f64 };
            if ended >= FEWEST_ENDS && rules.stop_at.is_some_and(|most| share > most) {
                let waiting = match counts.needs_decision {
                    0 => String::new(),
                    count => format!(", or wait for a decision ({count})"),
                };
                return ReplayStep::Stop(format!(
                    "{died} of {ended} jobs died again of the same error{waiting}"
                ));
            }
            match (is_read, counts.alive()) {
                (true, 0) => ReplayStep::Finish,
                (true, _) => ReplayStep::Rest,
                (false, _) => ReplayStep::Replay(u64::MAX),
            }
        }
    }
}

/// Returns how many jobs or letters a task may change by now; its scripts count them and note when the next one is due. `due_ms`:
/// that time; `None` before the first one. A task that was slow catches up by a second at most. A due time that no rate explains is
/// that of a clock that was set back, and does not count.
pub fn allowed(due_ms: Option<f64>, now_ms: u64, rate: f64) -> u64 {
    let (now, step) = (now_ms as f64, 1000.0 / rate);
    let due = due_ms.filter(|due| due.is_finite() && *due <= now + 2000.0 + 2.0 * step).unwrap_or(now);
    if due > now { 0 } else { ((now - due.max(now - 1000.0)) / step) as u64 + 1 }
}

/// What the field `campaign` of a replayed job says: which task replayed it, the fingerprint of its letter, and how often tasks have
/// replayed it. Anybody may copy it: only the task itself knows which generations it has replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignTag {
    /// The task.
    pub id: String,
    /// The fingerprint of the letter.
    pub fingerprint: String,
    /// How often tasks have replayed it.
    pub count: u64,
}

impl CampaignTag {
    /// Reads the field; `None` if no task wrote it.
    pub fn read(value: &[u8]) -> Option<Self> {
        const MAX_BYTES: usize = 64;
        let is_word = |word: &str| {
            (1..=MAX_BYTES).contains(&word.len())
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let mut words = std::str::from_utf8(value).ok()?.split(' ');
        let (id, fingerprint, count) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
        let is_tag = is_word(id) && is_word(fingerprint) && words.next().is_none();
        is_tag.then(|| Self { id: id.to_owned(), fingerprint: fingerprint.to_owned(), count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(replayed: u64, succeeded: u64, died: u64) -> ReplayCounts {
        ReplayCounts { replayed, succeeded, died, ..ReplayCounts::default() }
    }

    #[test]
    fn the_rest_waits_until_the_whole_canary_has_succeeded() {
        let rules = ReplayRules::default().canary(5);
        let next = |counts| next_step(TaskState::Canary, &rules, &counts, false);
        assert_eq!(next(counts(0, 0, 0)), ReplayStep::Replay(5));
        assert_eq!(next(counts(3, 2, 0)), ReplayStep::Replay(2));
        assert_eq!(next(counts(5, 4, 0)), ReplayStep::Rest);
        assert_eq!(next(counts(5, 5, 0)), ReplayStep::Release);
        assert!(matches!(next(counts(3, 1, 1)), ReplayStep::Stop(_)));
        let cancelled = ReplayCounts { cancelled: 1, ..counts(5, 4, 0) };
        assert!(matches!(next(cancelled), ReplayStep::Stop(_)));
        assert_eq!(next_step(TaskState::Canary, &rules, &counts(2, 2, 0), true), ReplayStep::Release);
    }

    #[test]
    fn too_many_deaths_of_the_same_error_stop_it() {
        let rules = ReplayRules::default().stop_at(5.0);
        let next = |counts, is_read| next_step(TaskState::Running, &rules, &counts, is_read);
        assert_eq!(next(counts(19, 0, 19), false), ReplayStep::Replay(u64::MAX), "too few to judge");
        assert_eq!(next(counts(20, 19, 1), false), ReplayStep::Replay(u64::MAX));
        assert!(matches!(next(counts(20, 18, 2), true), ReplayStep::Stop(_)));
        let undecided = ReplayCounts { needs_decision: 2, ..counts(20, 18, 0) };
        assert!(matches!(next(undecided, false), ReplayStep::Stop(why) if why.contains("decision (2)")));
        let otherwise = ReplayCounts { died_otherwise: 10, ..counts(20, 10, 0) };
        assert_eq!(next(otherwise, true), ReplayStep::Finish);
        assert_eq!(next(counts(20, 19, 0), true), ReplayStep::Rest);
    }

    #[test]
    fn rules_without_usable_numbers_are_refused() {
        let usual = ReplayRules::default();
        for rate in [None, Some(1.0 / 3600.0), Some(10_000.0)] {
            assert_eq!(usual.rate(rate).check(), Ok(()));
        }
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 10_001.0] {
            assert!(usual.rate(rate).check().is_err(), "{rate}");
        }
        for share in [-1.0, 101.0, f64::NAN, f64::INFINITY] {
            assert!(usual.stop_at(share).check().is_err(), "{share}");
        }
        assert_eq!(usual.stop_at(0.0).check(), Ok(()));
        assert!(usual.max_replays(0).check().is_err());
    }

    #[test]
    fn a_rate_allows_a_second_at_most_and_ignores_a_clock_that_was_set_back() {
        assert_eq!(allowed(None, 5_000, 100.0), 1);
        assert_eq!(allowed(Some(5_000.5), 5_000, 100.0), 0);
        assert_eq!(allowed(Some(4_990.0), 5_000, 100.0), 2);
        assert_eq!(allowed(Some(0.0), 5_000, 100.0), 101);
        assert_eq!(allowed(Some(0.0), 5_000, 1.0 / 3600.0), 1);
        assert_eq!(allowed(Some(6_990.0), 5_000, 100.0), 0);
        // The clock was a day ahead.
        assert_eq!(allowed(Some(86_400_000.0), 5_000, 100.0), 1);
    }

    #[test]
    fn a_tag_of_somebody_else_is_ignored() {
        let tag = CampaignTag::read(b"00ff 0b5ff10951f305e7 2").unwrap();
        assert_eq!((tag.id.as_str(), tag.count), ("00ff", 2));
        for value in
            [&b""[..], b"a", b"a b", b"a b c", b"a b 1 2", b"a:b c 1", b"{a} b 1", b"\xff b 1", b" b 1"]
        {
            assert_eq!(CampaignTag::read(value), None, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn a_rate_never_allows_more_than_it_says(
            due in prop::option::of(0.0..1e15), now in 0u64..1_000_000_000_000_000, rate in 0.0003..10_000.0,
        ) {
            prop_assert!(allowed(due, now, rate) as f64 <= rate + 2.0);
        }

        #[test]
        fn a_task_that_is_paused_or_over_never_replays(
            numbers in any::<[u16; 7]>(), is_read in any::<bool>(),
        ) {
            let [replayed, succeeded, died, died_otherwise, needs_decision, cancelled, skipped] =
                numbers.map(u64::from);
            let counts =
                ReplayCounts { replayed, succeeded, died, died_otherwise, needs_decision, cancelled, skipped };
            let rules = ReplayRules::default().canary(3).stop_at(10.0);
            for state in TaskState::ALL {
                let step = next_step(state, &rules, &counts, is_read);
                let replays = matches!(step, ReplayStep::Replay(_));
                prop_assert!(!replays || !is_read && matches!(state, TaskState::Canary | TaskState::Running));
            }
        }
    }
}
