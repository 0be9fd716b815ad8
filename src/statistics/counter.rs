//! Counts what happens to the jobs of each queue and type, between two reports.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::broker::{MAX_TALLIED_TYPES, Tally, TypeFigures};
use crate::event::{Ending, Event, Finished};
use crate::job::distribution::Distribution;
use crate::job::{JobType, QueueName};

/// Counts what happens in this process. Clones share the counts.
#[derive(Clone)]
pub(crate) struct Counter {
    shared: Arc<Shared>,
}

struct Shared {
    /// The place of each type that has a handler in this process.
    places: FxHashMap<JobType, usize>,
    queues: FxHashMap<QueueName, QueueCounts>,
}

/// The counts of one queue.
#[derive(Default)]
struct QueueCounts {
    done: AtomicU64,
    failed: AtomicU64,
    retried: AtomicU64,
    died: AtomicU64,
    cancelled: AtomicU64,
    /// The counts of each type, from its first job on.
    types: Box<[OnceLock<Box<TypeCounts>>]>,
    /// Those of all types without a handler, and of entries that are not jobs.
    others: OnceLock<Box<TypeCounts>>,
}

/// The counts of one queue and type.
struct TypeCounts {
    /// Whether anything was counted since the last look.
    changed: AtomicBool,
    done: AtomicU64,
    failed: AtomicU64,
    dead: AtomicU64,
    wait: [AtomicU64; Distribution::CELLS],
    run: [AtomicU64; Distribution::CELLS],
}

impl Counter {
    /// Creates the counts of these queues, and of these types in each of them.
    pub(crate) fn new<'a>(queues: impl IntoIterator<Item = &'a QueueName>, types: &[JobType]) -> Self {
        let counts = || QueueCounts {
            types: types.iter().map(|_| OnceLock::new()).collect(),
            ..QueueCounts::default()
        };
        let queues = queues.into_iter().map(|queue| (queue.clone(), counts())).collect();
        let places = types.iter().cloned().zip(0..).collect();
        Self { shared: Arc::new(Shared { places, queues }) }
    }

    /// Returns a listener that counts every event here.
    pub(crate) fn listener(&self) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let counter = self.clone();
        Arc::new(move |event| counter.count(event))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "of all events, only these are counted")]
    fn count(&self, event: &Event<'_>) {
        match *event {
            Event::Started { queue, job_type, wait, .. } => {
                self.of(queue, Some(job_type), |_, counts| record(&counts.wait, wait));
            }
            Event::Ran { queue, job_type, elapsed } => {
                self.of(queue, Some(job_type), |_, counts| record(&counts.run, elapsed));
            }
            Event::Failed { queue, job_type, .. } | Event::Lost { queue, job_type } => {
                self.of(queue, Some(job_type), |queue, counts| {
                    increment(&queue.failed);
                    increment(&counts.failed);
                });
            }
            Event::Finished(ref end) => self.finish(end),
            _ => {}
        }
    }

    fn finish(&self, end: &Finished<'_>) {
        self.of(end.queue, end.job_type, |queue, counts| match end.ending {
            Ending::Succeeded => {
                increment(&queue.done);
                increment(&counts.done);
            }
            Ending::Dead(_) => {
                increment(&queue.died);
                increment(&counts.dead);
            }
            Ending::Retried => increment(&queue.retried),
            Ending::Cancelled => increment(&queue.cancelled),
            Ending::Snoozed | Ending::Interrupted => {}
        });
    }

    /// Counts about a type in a queue. Ignores queues that this process does not serve.
    fn of(
        &self,
        queue: &QueueName,
        job_type: Option<&JobType>,
        count: impl FnOnce(&QueueCounts, &TypeCounts),
    ) {
        let Some(own) = self.shared.queues.get(queue) else { return };
        let place = job_type.and_then(|job_type| self.shared.places.get(job_type));
        let counts = place.and_then(|place| own.types.get(*place)).unwrap_or(&own.others);
        let counts = counts.get_or_init(Box::default);
        count(own, counts);
        counts.changed.store(true, Ordering::Release);
    }

    /// Takes what was counted about the ends of a queue's jobs.
    pub(super) fn take_ends(&self, queue: &QueueName) -> Tally {
        let Some(own) = self.shared.queues.get(queue) else { return Tally::default() };
        Tally {
            done: take(&own.done),
            failed: take(&own.failed),
            retried: take(&own.retried),
            died: take(&own.died),
            cancelled: take(&own.cancelled),
        }
    }

    /// Takes what was counted about the types of a queue. If they are more than one report may have, those with the fewest
    /// jobs are among the others.
    pub(super) fn take_types(&self, queue: &QueueName) -> Vec<TypeFigures> {
        let Some(own) = self.shared.queues.get(queue) else { return Vec::new() };
        let types = self.shared.places.iter().filter_map(|(job_type, place)| {
            own.types.get(*place)?.get()?.take(TypeFigures::of(job_type.clone()))
        });
        let mut types: Vec<TypeFigures> = types.collect();
        types.sort_by_key(|figures| std::cmp::Reverse(figures.weight()));
        let rest = types.split_off(types.len().min(MAX_TALLIED_TYPES));
        let others = own.others.get().and_then(|counts| counts.take(TypeFigures::of_others()));
        let others = rest.into_iter().chain(others).reduce(|mut sum, figures| {
            sum.merge(&figures);
            sum
        });
        types.extend(others.map(|mut figures| {
            figures.job_type = None;
            figures
        }));
        types
    }
}

impl TypeCounts {
    /// Adds what was counted to these figures; `None` if nothing was.
    fn take(&self, mut figures: TypeFigures) -> Option<TypeFigures> {
        if !self.changed.swap(false, Ordering::Acquire) {
            return None;
        }
        figures.done += take(&self.done);
        figures.failed += take(&self.failed);
        figures.dead += take(&self.dead);
        for (own, to) in [(&self.wait, &mut figures.wait), (&self.run, &mut figures.run)] {
            own.iter().enumerate().for_each(|(cell, count)| to.add(cell, take(count)));
        }
        // What is counted here is never zero, unless only a count that types do not have has changed.
        (figures.weight() > 0).then_some(figures)
    }
}

impl Default for TypeCounts {
    fn default() -> Self {
        let cells = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            changed: AtomicBool::new(false),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            dead: AtomicU64::new(0),
            wait: cells(),
            run: cells(),
        }
    }
}

fn record(cells: &[AtomicU64; Distribution::CELLS], duration: Duration) {
    increment(&cells[Distribution::cell_of(duration)]);
}

fn increment(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn take(count: &AtomicU64) -> u64 {
    // Most cells are empty, and reading them does not disturb those who count.
    if count.load(Ordering::Relaxed) == 0 { 0 } else { count.swap(0, Ordering::Relaxed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{DeadReason, FailureKind, JobId};

    fn queue() -> QueueName {
        "mail".parse().unwrap()
    }

    fn types(count: usize) -> Vec<JobType> {
        (0..count).map(|nth| format!("t{nth}").parse().unwrap()).collect()
    }

    fn end(counter: &Counter, job_type: Option<&JobType>, ending: Ending) {
        let (queue, job): (QueueName, JobId) = (queue(), "j".parse().unwrap());
        let end = Finished { job_type, ending, ..Finished::malformed(&queue, &job, "") };
        counter.count(&Event::Finished(end));
    }

    #[test]
    fn every_ending_is_counted_where_it_belongs() {
        let (types, queue) = (types(1), queue());
        let counter = Counter::new([&queue], &types);
        let endings = [
            (Ending::Succeeded, 3),
            (Ending::Retried, 2),
            (Ending::Dead(DeadReason::Exhausted), 4),
            (Ending::Cancelled, 5),
            (Ending::Snoozed, 6),
            (Ending::Interrupted, 7),
        ];
        for (ending, times) in endings {
            (0..times).for_each(|_| end(&counter, Some(&types[0]), ending));
        }
        let job: JobId = "j".parse().unwrap();
        let (kind, job_type) = (FailureKind::Error, &types[0]);
        counter.count(&Event::Failed { queue: &queue, job_type, job: &job, kind, error: "" });
        counter.count(&Event::Lost { queue: &queue, job_type });
        let want = Tally { done: 3, failed: 2, retried: 2, died: 4, cancelled: 5 };
        assert_eq!(counter.take_ends(&queue), want);
        let figures = counter.take_types(&queue);
        assert_eq!([figures[0].done, figures[0].failed, figures[0].dead], [3, 2, 4]);
        // What was taken is gone.
        assert_eq!(counter.take_ends(&queue), Tally::default());
        assert_eq!(counter.take_types(&queue), []);
    }

    #[test]
    fn waits_and_runs_are_counted_apart() {
        let (types, queue, job): (_, _, JobId) = (types(1), queue(), "j".parse().unwrap());
        let (counter, job_type) = (Counter::new([&queue], &types), &types[0]);
        let wait = Duration::from_secs(10);
        counter.count(&Event::Started { queue: &queue, job_type, job: &job, attempt: 1, wait });
        counter.count(&Event::Ran { queue: &queue, job_type, elapsed: Duration::from_millis(10) });
        let figures = counter.take_types(&queue).remove(0);
        assert!(figures.wait.percentile(0.5).unwrap() > Duration::from_secs(8));
        assert!(figures.run.percentile(0.5).unwrap() < Duration::from_millis(12));
        assert_eq!((figures.wait.count(), figures.run.count()), (1, 1));
    }

    #[test]
    fn the_types_with_the_fewest_jobs_and_unknown_ones_are_the_others() {
        let (types, queue) = (types(MAX_TALLIED_TYPES + 2), queue());
        let counter = Counter::new([&queue], &types);
        let busy = types.len() - 1;
        end(&counter, Some(&types[busy]), Ending::Succeeded);
        types.iter().for_each(|job_type| end(&counter, Some(job_type), Ending::Succeeded));
        end(&counter, None, Ending::Dead(DeadReason::Malformed));
        end(&counter, Some(&"stranger".parse().unwrap()), Ending::Dead(DeadReason::Lost));
        let figures = counter.take_types(&queue);
        assert_eq!(figures.len(), MAX_TALLIED_TYPES + 1);
        assert_eq!((figures[0].job_type.as_ref(), figures[0].done), (Some(&types[busy]), 2));
        let others = &figures[MAX_TALLIED_TYPES];
        assert_eq!((others.job_type.as_ref(), others.done, others.dead), (None, 2, 2));
        assert_eq!(figures.iter().map(|figures| figures.done).sum::<u64>(), types.len() as u64 + 1);
    }

    #[test]
    fn a_queue_that_this_process_does_not_serve_is_ignored() {
        let counter = Counter::new([], &types(1));
        end(&counter, None, Ending::Succeeded);
        assert_eq!((counter.take_ends(&queue()), counter.take_types(&queue())), (Tally::default(), vec![]));
    }
}
