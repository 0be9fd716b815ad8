//! The waiting lists of unknown types that have jobs for this process. The heartbeat asks about the types that it knows, or, if these are
//! many, about those that have waiting lists, and the reader takes the jobs. Nothing here waits for Redis.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use tokio::sync::Notify;

use crate::broker::MAX_TYPES;
use crate::broker::mutex::lock;
use crate::job::JobType;

/// A tick that comes a little early counts too.
const EARLY: Duration = Duration::from_millis(20);

/// What the heartbeat and the reader of one queue share.
#[derive(Debug)]
pub(crate) struct TypeWaitlists {
    /// The types that this process knows, sorted.
    types: Vec<JobType>,
    found: Mutex<Found>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Found {
    asked: Option<Instant>,
    /// Where the next walk through the waiting lists continues.
    from: Option<String>,
    /// The types whose waiting lists have jobs, in the order in which they are served.
    waiting: VecDeque<JobType>,
    /// The types in `waiting`, to name each once.
    known: FxHashSet<JobType>,
}

/// What to ask Redis.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Whether the waiting lists of these types have jobs.
    Types(Vec<JobType>),
    /// Which types have waiting lists, and, of those, whether the waiting lists of the [known](TypeWaitlists::knows) ones have jobs. The
    /// walk begins here.
    Walk(Option<String>),
}

impl TypeWaitlists {
    /// Creates the state of a process that knows these types.
    pub(crate) fn new(mut types: Vec<JobType>) -> Self {
        types.sort_unstable();
        Self { types, found: Mutex::default(), arrived: Notify::new() }
    }

    /// Returns the next question if the last one was this long ago. A process that knows more than [`MAX_TYPES`] does not ask
    /// about each of them, because it could not do so often enough.
    pub(crate) fn question(&self, pause: Duration, now: Instant) -> Option<Question> {
        let mut found = lock(&self.found);
        if found.asked.is_some_and(|asked| now.saturating_duration_since(asked) + EARLY < pause) {
            return None;
        }
        found.asked = Some(now);
        Some(match self.types.len() <= MAX_TYPES {
            true => Question::Types(self.types.clone()),
            false => Question::Walk(found.from.take()),
        })
    }

    /// Notes where the next walk continues. If this is not called, it begins again.
    pub(crate) fn continue_at(&self, from: Option<String>) {
        lock(&self.found).from = from;
    }

    /// Returns true if this process knows the type.
    pub(crate) fn knows(&self, job_type: &JobType) -> bool {
        self.types.binary_search(job_type).is_ok()
    }

    /// Notes the types whose waiting lists have jobs, and wakes the reader.
    pub(crate) fn note(&self, types: Vec<JobType>) {
        let mut found = lock(&self.found);
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

    /// Returns the type whose waiting list is next, and forgets it: whatever takes from a waiting list [notes](Self::note) that it has
    /// more.
    pub(crate) fn next(&self) -> Option<JobType> {
        let mut found = lock(&self.found);
        let job_type = found.waiting.pop_front()?;
        found.known.remove(&job_type);
        Some(job_type)
    }

    /// Returns true if some waiting list has jobs.
    pub(crate) fn have_any(&self) -> bool {
        !lock(&self.found).waiting.is_empty()
    }

    /// Waits until a waiting list may have jobs. Nothing is lost if this future is dropped.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: impl IntoIterator<Item = usize>) -> Vec<JobType> {
        names.into_iter().map(|nth| format!("type-{nth:04}").parse().unwrap()).collect()
    }

    #[test]
    fn a_process_asks_about_all_types_or_walks_through_the_waiting_lists_if_there_are_many() {
        let (few, now) = (TypeWaitlists::new(types(0..1000)), Instant::now());
        assert_eq!(few.question(Duration::ZERO, now), Some(Question::Types(types(0..1000))));
        assert_eq!(few.question(Duration::ZERO, now), Some(Question::Types(types(0..1000))));
        assert_eq!(
            TypeWaitlists::new(Vec::new()).question(Duration::ZERO, now),
            Some(Question::Types(Vec::new()))
        );
        let many = TypeWaitlists::new(types((0..1001).rev()));
        let ask = || many.question(Duration::ZERO, now).unwrap();
        assert_eq!(ask(), Question::Walk(None));
        many.continue_at(Some("17".to_owned()));
        assert_eq!([ask(), ask()], [Question::Walk(Some("17".to_owned())), Question::Walk(None)]);
        assert!(types(0..1001).iter().all(|name| many.knows(name)) && !many.knows(&types([1001])[0]));
    }

    #[test]
    fn questions_keep_their_distance() {
        let (waitlists, now, pause) =
            (TypeWaitlists::new(types(0..1)), Instant::now(), Duration::from_millis(800));
        assert!(waitlists.question(pause, now).is_some());
        assert!(waitlists.question(pause, now + Duration::from_millis(400)).is_none());
        assert!(waitlists.question(pause, now + Duration::from_millis(790)).is_some());
    }

    #[test]
    fn waiting_lists_are_served_in_turn_and_named_once() {
        let waitlists = TypeWaitlists::new(types(0..3));
        waitlists.note(types([0, 1]));
        waitlists.note(types([1, 2]));
        assert_eq!(waitlists.next(), types([0]).pop());
        waitlists.note(types([0]));
        let order: Vec<_> = std::iter::from_fn(|| waitlists.next()).collect();
        assert_eq!(order, types([1, 2, 0]));
        assert!(!waitlists.have_any());
    }
}
