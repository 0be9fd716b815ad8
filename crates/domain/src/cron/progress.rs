//! How far a recurring job has come, so that each tick is submitted once, even if its clock is set back.

use std::time::Duration;

use super::{Due, IN_TIME, Missed, Schedule};
use crate::job::Timestamp;

/// A clock that shows a little less than before was only corrected, and will soon catch up.
const TOLERANCE: Duration = Duration::from_secs(5);

/// The most spans that are kept. Each one stands for one time that the clock was ahead.
const SPANS_MAX: usize = 8;

/// The ticks after the first instant, up to and including the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span(Timestamp, Timestamp);

/// How far a recurring job has come.
///
/// Every tick up to `handled` has been handled. The ticks after `run` were all submitted. Those after `from`, up to
/// `run`, were not submitted, because they were missed. If a clock that was ahead is set back, it comes to these again.
/// Then the job continues from `from`, and remembers what was already submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    handled: Timestamp,
    /// `None` if nothing is known: then no tick was submitted.
    run: Option<Timestamp>,
    /// `None` if there was nothing before.
    from: Option<Timestamp>,
    /// What was submitted beyond `handled`, or may have been submitted.
    done: Vec<Span>,
    /// Pauses, whose ticks are passed over; see `cron_pause.lua`.
    off: Vec<Span>,
}

impl Span {
    fn has(self, tick: Timestamp) -> bool {
        tick > self.0 && tick <= self.1
    }
}

impl Progress {
    /// Creates the progress of a recurring job that begins at this time.
    pub fn begun(handled: Timestamp) -> Self {
        Self { handled, run: None, from: None, done: Vec::new(), off: Vec::new() }
    }

    /// Returns the time up to which ticks have been handled.
    pub fn handled(&self) -> Timestamp {
        self.handled
    }

    /// Returns the first tick that has not been handled.
    pub fn first_unhandled(&self, schedule: &Schedule) -> Option<Timestamp> {
        self.next(schedule, self.handled)
    }

    /// Returns the first tick after an instant that has not been submitted.
    pub fn next(&self, schedule: &Schedule, after: Timestamp) -> Option<Timestamp> {
        let mut tick = schedule.next(after)?;
        while let Some(span) = self.spans().find(|span| span.has(tick)) {
            tick = schedule.next(span.1)?;
        }
        Some(tick)
    }

    /// Returns what is due at `now`; `None` if nothing is.
    pub fn due(&self, missed: Missed, schedule: &Schedule, now: Timestamp) -> Option<Due> {
        self.due_with(missed, schedule, now, IN_TIME)
    }

    /// Returns what is due at `now` in a fleet whose ticks may be this late and not be missed; see [`in_time`](super::in_time).
    #[doc(hidden)]
    pub fn due_with(
        &self,
        missed: Missed,
        schedule: &Schedule,
        now: Timestamp,
        in_time: Duration,
    ) -> Option<Due> {
        // Each stretch between these spans is due by itself, so that they do not count as missed.
        let mut from = self.handled;
        loop {
            while let Some(span) = self.spans().find(|span| span.0 <= from && from < span.1) {
                from = span.1;
            }
            let next = self.spans().map(|span| span.0).filter(|begin| *begin > from && *begin < now).min();
            let until = next.unwrap_or(now);
            if let Some(due) = missed.due_with(schedule, (from, until), now, in_time) {
                return Some(due);
            }
            from = next?;
        }
    }

    /// Returns how many jobs are submitted until `soon` after `now`.
    #[doc(hidden)]
    pub fn due_within(&self, missed: Missed, schedule: &Schedule, now: Timestamp, soon: Duration) -> usize {
        let (mut owed, mut at) = (0, self.clone());
        while let Some(due) = at.due(missed, schedule, now) {
            owed += due.ticks.len();
            at.handled = due.handled;
        }
        owed + missed.due_within(schedule, (at.handled.max(now), now), soon)
    }

    /// Returns the progress after these ticks have been handled, up to `handled`. `skipped` ticks were not submitted,
    /// and came before all of `ticks`.
    #[must_use]
    pub fn moved(&self, ticks: &[Timestamp], handled: Timestamp, skipped: usize) -> Self {
        let mut next = self.clone();
        next.handled = handled;
        next.run = Some(self.run.unwrap_or(self.handled));
        if skipped > 0 {
            next.from = Some(self.handled);
            next.run = Some(ticks.first().map_or(handled, |tick| before(*tick)));
        }
        // What lies in between is covered by `run` and `handled`, or by `from`.
        let (from, run) = (next.from, next.run.unwrap_or(handled));
        let is_needed = |span: &Span| from.is_some_and(|from| span.1 > from) && span.0 < run;
        next.done.retain(|span| span.1 > handled || is_needed(span));
        next.off.retain(|span| span.1 > handled || is_needed(span));
        next
    }

    /// The ticks that are not due, whatever the clock shows.
    fn spans(&self) -> impl Iterator<Item = Span> {
        self.done.iter().chain(&self.off).copied()
    }

    /// Returns where the job continues if the clock shows less than what has been handled, and comes again to ticks that
    /// were not submitted, or less than when a pause ended. `None` if the job need not move, because every tick that the clock
    /// comes to was submitted.
    #[must_use]
    pub fn rewound(&self, now: Timestamp) -> Option<Self> {
        let run = self.run.unwrap_or(self.handled);
        let latest = now.after(TOLERANCE);
        let off: Vec<_> =
            self.off.iter().filter(|span| span.0 < now).map(|span| Span(span.0, span.1.min(now))).collect();
        if self.handled <= latest || run <= latest {
            let is_cut = self.off.iter().any(|span| span.1 > latest);
            return is_cut.then(|| Self { off, ..self.clone() });
        }
        let mut done = self.done.clone();
        if run < self.handled {
            done.push(Span(run, self.handled));
        }
        if done.len() > SPANS_MAX {
            // Better one tick too few than one twice.
            let first = done.remove(0);
            done[0] = Span(first.0.min(done[0].0), first.1.max(done[0].1));
        }
        Some(match self.from {
            // Whatever was before has been handled.
            Some(from) => Self { handled: from, run: Some(beginning()), from: None, done, off },
            None => Self { handled: now, run: None, from: None, done, off },
        })
    }

    /// Returns what Redis keeps beside `handled`: words that each begin with a space.
    #[doc(hidden)]
    pub fn words(&self) -> String {
        let word = |name: &str, time: Option<Timestamp>| {
            time.map_or_else(String::new, |time| format!(" {name}={}", time.as_ms()))
        };
        let span = |name: &str, Span(begin, end): Span| format!(" {name}={}-{}", begin.as_ms(), end.as_ms());
        let done = self.done.iter().map(|done| span("done", *done));
        let off = self.off.iter().map(|off| span("off", *off));
        [word("run", self.run), word("from", self.from)].into_iter().chain(done).chain(off).collect()
    }

    /// Reads the progress from these words. Those of other versions are ignored.
    #[doc(hidden)]
    pub fn read(handled: Timestamp, words: &str) -> Self {
        let mut read = Self::begun(handled);
        let time = |text: &str| text.parse().ok().and_then(Timestamp::from_ms);
        let span = |text: &str| text.split_once('-').and_then(|(a, b)| Some(Span(time(a)?, time(b)?)));
        for (name, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
            match name {
                // If `handled` was set back by hand, nothing lies after it.
                "run" => read.run = time(value).map(|run| run.min(handled)),
                "from" => read.from = time(value).map(|from| from.min(handled)),
                "done" => read.done.extend(span(value)),
                "off" => read.off.extend(span(value)),
                _ => {}
            }
        }
        read
    }
}

fn beginning() -> Timestamp {
    Timestamp::from_ms(0).expect("1970 is before the year 10000")
}

/// Returns the last instant before a tick.
fn before(tick: Timestamp) -> Timestamp {
    Timestamp::from_ms(tick.as_ms().saturating_sub(1)).unwrap_or(tick)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const START: u64 = 1_800_000_000_000;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_ms(START + 1000 * seconds).unwrap()
    }

    fn schedule(expression: &str) -> Schedule {
        Schedule::new(expression, "UTC").unwrap()
    }

    /// A recurring job, and what was submitted for it.
    struct JobSpec {
        schedule: Schedule,
        missed: Missed,
        progress: Progress,
        submitted: BTreeMap<u64, u32>,
    }

    impl JobSpec {
        fn new(expression: &str, missed: Missed, begun: u64) -> Self {
            let (schedule, progress) = (schedule(expression), Progress::begun(at(begun)));
            Self { schedule, missed, progress, submitted: BTreeMap::new() }
        }

        /// One look at the job while the clock shows this time.
        fn look(&mut self, seconds: u64) {
            let now = at(seconds);
            if let Some(progress) = self.progress.rewound(now) {
                self.progress = progress;
            }
            let Some(due) = self.progress.due(self.missed, &self.schedule, now) else { return };
            let next = self.progress.moved(&due.ticks, due.handled, due.skipped);
            self.progress = Progress::read(next.handled(), &next.words());
            assert_eq!(self.progress, next, "what is written is read again");
            for tick in due.ticks {
                *self.submitted.entry((tick.as_ms() - START) / 1000).or_default() += 1;
            }
        }

        /// Looks at the job in every second while the clock shows these times.
        fn run(&mut self, from: u64, to: u64) {
            (from..=to).for_each(|seconds| self.look(seconds));
        }

        fn ticks(&self) -> Vec<u64> {
            assert!(self.submitted.values().all(|times| *times == 1), "{:?}", self.submitted);
            self.submitted.keys().copied().collect()
        }
    }

    fn minutes(from: u64, to: u64) -> Vec<u64> {
        (from..=to).map(|minute| 60 * minute).collect()
    }

    #[test]
    fn a_clock_that_was_an_hour_ahead_skips_and_repeats_nothing() {
        let mut job = JobSpec::new("* * * * *", Missed::Skip, 0);
        job.run(1, 130);
        job.run(3_730, 3_850);
        assert_eq!(job.ticks(), [minutes(1, 2), minutes(62, 64)].concat());
        job.run(250, 3_600);
        assert_eq!(job.ticks(), [minutes(1, 2), minutes(4, 60), minutes(62, 64)].concat());
        job.run(3_601, 4_000);
        assert_eq!(job.ticks(), [minutes(1, 2), minutes(4, 66)].concat());
    }

    #[test]
    fn a_tick_missed_while_the_clock_was_ahead_follows_the_policy() {
        for (missed, want) in [(Missed::Skip, 2..=5), (Missed::One, 1..=5), (Missed::All, 1..=5)] {
            let mut job = JobSpec::new("0 * * * *", missed, 100);
            job.run(3_590, 3_595);
            // Four hours ahead for two minutes, past the full hour.
            job.run(18_005, 18_010);
            assert!(job.ticks().contains(&18_000), "{missed}");
            job.run(3_720, 18_100);
            assert_eq!(job.ticks(), want.map(|hour| 3_600 * hour).collect::<Vec<_>>(), "{missed}");
        }
    }

    #[test]
    fn ticks_submitted_before_a_set_back_are_not_submitted_again() {
        let mut job = JobSpec::new("* * * * *", Missed::Skip, 0);
        job.run(1, 900);
        job.run(300, 1_000);
        assert_eq!(job.ticks(), minutes(1, 16));
    }

    #[test]
    fn a_job_added_while_the_clock_was_ahead_starts_when_it_is_set_back() {
        let mut job = JobSpec::new("* * * * *", Missed::Skip, 3_600);
        job.run(3_601, 3_730);
        job.run(130, 4_000);
        assert_eq!(job.ticks(), minutes(3, 66));
    }

    #[test]
    fn a_clock_may_be_ahead_again_and_again() {
        let mut job = JobSpec::new("* * * * *", Missed::Skip, 0);
        for round in 0..4 {
            let now = 10 * round;
            job.look(now + 600 * (4 - round));
            job.look(now + 5);
        }
        assert_eq!(job.ticks(), [600, 1_200, 1_800, 2_400]);
        job.run(40, 2_500);
        assert_eq!(job.ticks(), minutes(1, 41));
    }

    #[test]
    fn a_small_correction_of_the_clock_changes_nothing() {
        let mut job = JobSpec::new("0 * * * *", Missed::One, 0);
        job.look(18_001);
        job.run(17_999, 18_003);
        assert_eq!(job.ticks(), [18_000]);
    }

    #[test]
    fn words_of_other_versions_are_ignored() {
        let begun = Progress::begun(at(7));
        for words in ["", " ", " paused", " x=1 run= from=a done=1 done=-"] {
            let read = Progress::read(at(7), words);
            assert_eq!((read.handled(), read.done.len(), read.from), (at(7), 0, None), "{words:?}");
        }
        assert_eq!(Progress::read(at(7), ""), begun);
    }

    /// The progress after a pause between these times, of which nobody has seen the end.
    fn resumed(handled: u64, pause: (u64, u64)) -> Progress {
        let span =
            format!(" run={} off={}-{}", at(handled).as_ms(), at(pause.0).as_ms(), at(pause.1).as_ms());
        Progress::read(at(handled), &span)
    }

    #[test]
    fn ticks_that_were_due_before_a_pause_follow_the_policy_and_those_in_it_do_not() {
        for (missed, want) in [
            (Missed::Skip, minutes(101, 102)),
            (Missed::One, [minutes(3, 3), minutes(101, 102)].concat()),
            (Missed::All, [minutes(2, 3), minutes(101, 102)].concat()),
        ] {
            let mut job = JobSpec::new("* * * * *", missed, 0);
            job.progress = resumed(60, (190, 6_000));
            let soon = job.progress.due_within(missed, &job.schedule, at(6_001), Duration::from_secs(60));
            assert_eq!(soon, want.len() - 1, "{missed}");
            job.run(6_001, 6_130);
            assert_eq!(job.ticks(), want, "{missed}");
        }
    }

    #[test]
    fn a_pause_of_a_moment_costs_no_tick() {
        for missed in Missed::ALL {
            let mut job = JobSpec::new("* * * * * *", missed, 0);
            job.run(1, 9);
            let words =
                format!("{} off={}-{}", job.progress.words(), at(10).as_ms() + 200, at(10).as_ms() + 700);
            job.progress = Progress::read(job.progress.handled(), &words);
            job.run(11, 12);
            assert_eq!(job.ticks(), (1..=12).collect::<Vec<_>>(), "{missed}");
        }
    }

    #[test]
    fn a_pause_that_ended_while_the_clock_was_ahead_ends_when_it_is_set_back() {
        for missed in Missed::ALL {
            let mut job = JobSpec::new("* * * * *", missed, 0);
            job.progress = resumed(60, (90, 3_690));
            job.run(200, 400);
            assert_eq!(job.ticks(), minutes(4, 6), "{missed}");
            // Once more, without anybody who looked before the clock was right again.
            job.progress = resumed(60, (90, 3_690));
            job.submitted.clear();
            job.run(3_700, 3_790);
            assert_eq!(job.ticks(), minutes(62, 63), "{missed}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn however_the_clock_steps_no_tick_comes_twice(
            looks in prop::collection::vec(0..20_000_u64, 1..40),
            expression in prop::sample::select(vec!["* * * * *", "*/7 * * * *", "0 * * * *"]),
            missed in prop::sample::select(Missed::ALL.to_vec()),
        ) {
            let mut job = JobSpec::new(expression, missed, 5_000);
            looks.into_iter().for_each(|look| job.look(look));
            job.ticks();
        }
    }
}
