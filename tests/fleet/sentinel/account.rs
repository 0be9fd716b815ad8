//! What happened to each job, and why.

use std::fmt;
use std::time::{Duration, Instant};

use streamfleet_engine::admin::QueueSnapshot;

use super::load::{Ran, Seen};

/// What happened to the primary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// When the old primary may have begun to accept data that no replica has: shortly before it was killed, frozen, or
    /// asked to hand over.
    pub(super) began: Instant,
    /// When a replica was first seen to be the primary.
    pub(super) promoted: Instant,
}

/// The most that asynchronous replication lags behind.
const LAG: Duration = Duration::from_millis(500);

/// The account of one run.
#[derive(Debug)]
pub(super) struct Account {
    title: &'static str,
    submitted: usize,
    done: usize,
    dead: u64,
    /// Jobs accepted during the change and lost, because no replica had them.
    pub(super) unreplicated: usize,
    /// Jobs missing for no good reason.
    pub(super) unexplained: Vec<u64>,
    /// Jobs run again because they were running during the change.
    pub(super) again_running: usize,
    /// Jobs run again because no replica knew of their end.
    pub(super) again_unreplicated: usize,
    /// Jobs run again for no good reason.
    pub(super) again_unexplained: Vec<u64>,
    refused: usize,
    unknown: usize,
    /// From the promotion to the next start of a job.
    pub(super) resumed: Duration,
    /// The longest time in which no job started.
    pause: Duration,
}

impl Account {
    pub(super) fn new(title: &'static str, seen: &Seen, snapshot: &QueueSnapshot, change: Change) -> Self {
        let (began, promoted) = (change.began - LAG, change.promoted);
        let missing: Vec<u64> =
            seen.accepted.keys().filter(|job| !seen.runs.contains_key(job)).copied().collect();
        // Jobs accepted before a process had moved to the new primary, which it has done when jobs start there.
        let resumed = resumed(seen, promoted);
        let moved = promoted + resumed;
        let while_changing = |at: Instant| (began..=moved).contains(&at);
        let (unreplicated, unexplained): (Vec<u64>, _) =
            missing.into_iter().partition(|job| while_changing(seen.accepted[job].1));
        let mut account = Self {
            title,
            submitted: seen.accepted.len(),
            done: seen.accepted.len() - unreplicated.len() - unexplained.len(),
            dead: snapshot.dead,
            unreplicated: unreplicated.len(),
            unexplained,
            again_running: 0,
            again_unreplicated: 0,
            again_unexplained: Vec::new(),
            refused: seen.refused.len(),
            unknown: seen.unknown.len(),
            resumed,
            pause: pause(seen),
        };
        for (job, runs) in seen.runs.iter().filter(|(_, runs)| runs.len() > 1) {
            match cause(runs, change.began, promoted, while_changing) {
                Cause::Running => account.again_running += 1,
                Cause::Unreplicated => account.again_unreplicated += 1,
                Cause::None => account.again_unexplained.push(*job),
            }
        }
        account
    }

    /// Panics unless the promises hold.
    #[track_caller]
    pub(super) fn assert_sound(&self) {
        let sound = self.unexplained.is_empty() && self.again_unexplained.is_empty() && self.dead == 0;
        assert!(sound, "{self}\nmissing {:?}, run again {:?}", self.unexplained, self.again_unexplained);
    }
}

enum Cause {
    Running,
    Unreplicated,
    None,
}

/// Returns why a job ran again.
fn cause(runs: &[Ran], began: Instant, promoted: Instant, while_changing: impl Fn(Instant) -> bool) -> Cause {
    let (from, until) = runs[0];
    let Some(until) = until else { return Cause::None };
    if from <= promoted && until >= began {
        Cause::Running
    } else if while_changing(until) {
        Cause::Unreplicated
    } else {
        Cause::None
    }
}

/// Returns the time from the promotion to the next start of a job.
fn resumed(seen: &Seen, promoted: Instant) -> Duration {
    let starts = seen.runs.values().flatten().map(|(from, _)| *from).filter(|from| *from > promoted);
    starts.min().map_or(Duration::MAX, |first| first - promoted)
}

/// Returns the longest time in which no job started.
fn pause(seen: &Seen) -> Duration {
    let mut starts: Vec<Instant> = seen.runs.values().flatten().map(|(from, _)| *from).collect();
    starts.sort_unstable();
    starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}: {} submitted, {} done, {} dead, 0 cancelled, {} missing (unreplicated), {} missing (unexplained), {} run \
             twice (running), {} run twice (end unreplicated), {} run twice (unexplained), {} refused, {} unknown; a job \
             started {:.2} s after the promotion, longest pause {:.2} s",
            self.title,
            self.submitted,
            self.done,
            self.dead,
            self.unreplicated,
            self.unexplained.len(),
            self.again_running,
            self.again_unreplicated,
            self.again_unexplained.len(),
            self.refused,
            self.unknown,
            self.resumed.as_secs_f64(),
            self.pause.as_secs_f64(),
        )
    }
}
