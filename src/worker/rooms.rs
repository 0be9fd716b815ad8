//! The rooms of unknown types that have jobs for this process. The heartbeat asks about the types that it knows, and the
//! reader takes the jobs. Nothing here waits for Redis.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use tokio::sync::Notify;

use crate::broker::MAX_TYPES;
use crate::job::JobType;

/// A tick that comes a little early counts too.
const EARLY: Duration = Duration::from_millis(20);

/// What the heartbeat and the reader of one queue share.
#[derive(Debug)]
pub(crate) struct Rooms {
    /// The types that this process knows.
    types: Vec<JobType>,
    found: Mutex<Found>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Found {
    asked: Option<Instant>,
    /// The first type of the next question.
    next: usize,
    /// The types whose rooms have jobs, in the order in which they are served.
    waiting: VecDeque<JobType>,
    /// The same types.
    known: FxHashSet<JobType>,
}

impl Rooms {
    /// Creates the state of a process that knows these types.
    pub(crate) fn new(types: Vec<JobType>) -> Self {
        Self { types, found: Mutex::default(), arrived: Notify::new() }
    }

    /// Returns the types of the next question if the last one was this long ago: a process that knows more than
    /// [`MAX_TYPES`] asks about some of them at a time.
    pub(crate) fn question(&self, pause: Duration, now: Instant) -> Option<Vec<JobType>> {
        let mut found = self.lock();
        if found.asked.is_some_and(|asked| now.saturating_duration_since(asked) + EARLY < pause) {
            return None;
        }
        found.asked = Some(now);
        let (count, from) = (self.types.len().min(MAX_TYPES), found.next);
        found.next = (from + count) % self.types.len().max(1);
        Some(self.types.iter().cycle().skip(from).take(count).cloned().collect())
    }

    /// Notes the types whose rooms have jobs, and wakes the reader.
    pub(crate) fn note(&self, types: Vec<JobType>) {
        let mut found = self.lock();
        for job_type in types {
            if found.known.insert(job_type.clone()) {
                found.waiting.push_back(job_type);
            }
        }
        let has_any = !found.waiting.is_empty();
        drop(found);
        if has_any {
            self.arrived.notify_one();
        }
    }

    /// Returns the type whose room is next, and forgets it: whatever takes from a room [notes](Self::note) that it has more.
    pub(crate) fn next(&self) -> Option<JobType> {
        let mut found = self.lock();
        let job_type = found.waiting.pop_front()?;
        found.known.remove(&job_type);
        Some(job_type)
    }

    /// Returns true if some room has jobs.
    pub(crate) fn have_any(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Waits until a room may have jobs. Nothing is lost if this future is dropped.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: impl IntoIterator<Item = usize>) -> Vec<JobType> {
        names.into_iter().map(|nth| format!("type-{nth:04}").parse().unwrap()).collect()
    }

    #[test]
    fn every_type_is_asked_about_in_turn() {
        let (rooms, now) = (Rooms::new(types(0..2500)), Instant::now());
        let ask = || rooms.question(Duration::ZERO, now).unwrap();
        assert_eq!(ask(), types(0..1000));
        assert_eq!(ask(), types(1000..2000));
        assert_eq!(ask(), types((2000..2500).chain(0..500)));
        let few = Rooms::new(types(0..2));
        assert_eq!(few.question(Duration::ZERO, now).unwrap(), types(0..2));
        assert_eq!(few.question(Duration::ZERO, now).unwrap(), types(0..2));
        assert_eq!(Rooms::new(Vec::new()).question(Duration::ZERO, now), Some(Vec::new()));
    }

    #[test]
    fn questions_keep_their_distance() {
        let (rooms, now, pause) = (Rooms::new(types(0..1)), Instant::now(), Duration::from_millis(800));
        assert!(rooms.question(pause, now).is_some());
        assert!(rooms.question(pause, now + Duration::from_millis(400)).is_none());
        assert!(rooms.question(pause, now + Duration::from_millis(790)).is_some());
    }

    #[test]
    fn rooms_are_served_in_turn_and_named_once() {
        let rooms = Rooms::new(types(0..3));
        rooms.note(types([0, 1]));
        rooms.note(types([1, 2]));
        assert_eq!(rooms.next(), types([0]).pop());
        rooms.note(types([0]));
        let order: Vec<_> = std::iter::from_fn(|| rooms.next()).collect();
        assert_eq!(order, types([1, 2, 0]));
        assert!(!rooms.have_any());
    }
}
