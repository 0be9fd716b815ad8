//! Follows a measured fleet by its events: when its work began, and when Redis had recorded the last of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use streamfleet::event::{Event, QueueEvent};

/// The longest wait for the goal.
const LONGEST: Duration = Duration::from_secs(120);

/// What must happen to the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// They are done or dead.
    Ended,
    /// They are done or dead, measured from the end of the first handler: programs that are still being started do not count.
    EndedAfterFirst,
    /// They have left the delayed set.
    Promoted,
}

/// How far a fleet is from its goal.
#[derive(Debug)]
pub(super) struct Tally {
    goal: Goal,
    jobs: u64,
    counted: AtomicU64,
    begun: OnceLock<Instant>,
    reached: OnceLock<Instant>,
}

impl Tally {
    /// Creates a tally that is complete when this many jobs have reached the goal.
    pub(super) fn new(goal: Goal, jobs: usize) -> Arc<Self> {
        let (counted, begun, reached) = (AtomicU64::new(0), OnceLock::new(), OnceLock::new());
        Arc::new(Self { goal, jobs: jobs as u64, counted, begun, reached })
    }

    /// Returns a listener that counts the fleet's events.
    pub(super) fn listener(self: &Arc<Self>) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let tally = Arc::clone(self);
        Arc::new(move |event| tally.note(event))
    }

    /// Waits for the goal. Returns how long it took since the fleet had work; connecting does not count.
    pub(super) async fn took(&self) -> Result<Duration> {
        let deadline = Instant::now() + LONGEST;
        loop {
            if let (Some(begun), Some(reached)) = (self.begun.get(), self.reached.get()) {
                return Ok(reached.duration_since(*begun));
            }
            if Instant::now() > deadline {
                let counted = self.counted.load(Ordering::Relaxed);
                bail!("timed out: only {counted} of {} jobs were done within {LONGEST:?}", self.jobs);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn note(&self, event: &Event<'_>) {
        // Waiting jobs are work for a reader, and delayed ones for the leader.
        let is_work = match self.goal {
            Goal::Ended | Goal::Promoted => {
                matches!(
                    event,
                    Event::Queue {
                        event: QueueEvent::Read { entries: 1.. } | QueueEvent::Leading { leading: true },
                        ..
                    }
                )
            }
            Goal::EndedAfterFirst => matches!(event, Event::Ran { .. }),
        };
        if is_work {
            self.begun.get_or_init(Instant::now);
        }
        let jobs = match self.goal {
            Goal::Ended | Goal::EndedAfterFirst => {
                u64::from(matches!(event, Event::Finished(end) if end.ending.is_final()))
            }
            Goal::Promoted => {
                if let Event::Queue { event: QueueEvent::Promoted { jobs, .. }, .. } = event {
                    *jobs
                } else {
                    0
                }
            }
        };
        if jobs > 0 && self.counted.fetch_add(jobs, Ordering::Relaxed) + jobs >= self.jobs {
            self.reached.get_or_init(Instant::now);
        }
    }
}
