//! Which jobs somebody means: those that a filter matches and that existed when it was given. A plan says beforehand how
//! many that are. It changes nothing.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use crate::client::error::Error;
use crate::job::filter::Filter;
use crate::job::{Envelope, QueueName, State, Timestamp};
use crate::{FoundJob, JobPage, JobSearch, Queue};

/// How many jobs of a plan are shown as a sample.
const SAMPLE: usize = 5;

/// The most types of a plan that are counted apart.
const MAX_TYPES: usize = 1000;

/// What is done to jobs; see the [example](BulkJobs).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkAction {
    /// Cancel them, wherever they are. Those that run are asked to stop.
    Cancel,
    /// Make them due now. They must be in the delayed set.
    RunNow,
    /// Move those that wait or are due later to this queue, in the same namespace.
    Move(QueueName),
}

impl BulkAction {
    /// The states of the jobs to which this can be done.
    pub fn states(&self) -> &'static [State] {
        match self {
            Self::Cancel => &[State::Running, State::Waiting, State::Retrying, State::Scheduled],
            Self::RunNow => &[State::Retrying, State::Scheduled],
            Self::Move(_) => &[State::Waiting, State::Retrying, State::Scheduled],
        }
    }
}

/// Operations on many jobs of a queue. [`Queue::bulk`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use streamfleet::admin::{BulkAction, BulkCursor, BulkTally, BulkTerms, Filter};
///
/// let bulk = queue.bulk();
/// let filter = Filter::new().condition("payload.customer=9")?;
/// let selection = bulk.select(BulkAction::Cancel, filter, None).await?;
/// let plan = bulk.plan(&selection, |_| ()).await?;
/// println!("{} jobs match", plan.jobs);
///
/// let terms = BulkTerms::new("ann@ops").retention(Duration::from_secs(3600));
/// let (mut done, mut next) = (BulkTally::default(), Some(BulkCursor::default()));
/// while let Some(from) = next {
///     let page = bulk.advance(&selection, &terms, from).await?;
///     done.add(page.tally);
///     next = page.next;
/// }
/// println!("{} cancelled, {} asked to stop", done.changed, done.requested);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct BulkJobs<'a> {
    pub(super) queue: &'a Queue,
}

/// The jobs that somebody means, and what is done to them; see the [example](BulkJobs).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BulkSelection {
    /// What is done to them.
    pub action: BulkAction,
    /// The filter. Its conditions about ages are replaced by conditions about times.
    pub filter: Filter,
    /// Their states.
    pub states: Vec<State>,
    /// When it was made, by the server's clock. Younger jobs do not belong to it.
    pub now: Timestamp,
    /// Hashes of the jobs that were made due. They may fail or snooze at once, and be found in the delayed set again.
    hastened: Arc<Mutex<HashSet<u64>>>,
}

/// One round of the work.
pub(super) struct Round {
    pub(super) search: JobSearch,
    /// Whether no later round looks at these jobs. What is left alone then is counted.
    pub(super) is_last: bool,
}

/// What would happen to how many jobs; see the [example](BulkJobs).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BulkPlan {
    /// How many jobs match.
    pub jobs: u64,
    /// How many of them have each type, the most frequent first. All types beyond a thousand, and those that cannot be
    /// read, are counted under the empty name.
    pub types: Vec<(String, u64)>,
    /// How many of them are in each state.
    pub states: Vec<(State, u64)>,
    /// The first five of them.
    pub sample: Vec<FoundJob>,
    /// How many jobs nobody can judge, because their payload is too large or cannot be read. They are left alone.
    pub undecided: u64,
    /// Parts of the queue that cannot be read, and why.
    pub unread: Vec<String>,
}

impl Queue {
    /// Gives access to operations on many jobs.
    pub fn bulk(&self) -> BulkJobs<'_> {
        BulkJobs { queue: self }
    }
}

impl BulkSelection {
    fn search(&self, states: Vec<State>) -> JobSearch {
        JobSearch::new().states(states).filter(self.filter.clone())
    }

    /// One round of the work; `None` after the last one. Jobs move while they are looked for: one is taken just before it
    /// would be found waiting, another fails just before it would be found running. So those that wait are looked for again.
    pub(super) fn round(&self, nth: u8) -> Option<Round> {
        const IDLE: &[State] = &[State::Waiting, State::Retrying, State::Scheduled];
        const RUNNING: &[State] = &[State::Running];
        let (states, is_last) = match (&self.action, nth) {
            (BulkAction::Cancel, 0 | 2) => (IDLE, nth == 2),
            (BulkAction::Cancel, 1) => (RUNNING, true),
            (BulkAction::RunNow, 0) => (IDLE, true),
            (BulkAction::Move(_), 0 | 1) => (IDLE, nth == 1),
            (BulkAction::Cancel | BulkAction::RunNow | BulkAction::Move(_), _) => return None,
        };
        let states = states.iter().copied().filter(|state| self.states.contains(state)).collect();
        Some(Round { search: self.search(states), is_last })
    }

    /// Returns true if a job that was found belongs to the selection. A job that is due already needs no help.
    pub(super) fn has(&self, job: &FoundJob, now: Timestamp) -> bool {
        let is_known = job.created.is_none_or(|created| created <= self.now);
        let is_pointless = match self.action {
            BulkAction::RunNow => job.due.is_none_or(|due| due <= now),
            BulkAction::Cancel | BulkAction::Move(_) => false,
        };
        is_known && !is_pointless
    }

    /// Notes that a job was made due.
    pub(super) fn note_hastened(&self, job: &FoundJob, fields: Option<&Envelope>) {
        self.hastened.lock().unwrap_or_else(PoisonError::into_inner).insert(hash_of(job, fields));
    }

    /// Returns true if this job was made due before. Doing it again would spend all its attempts within moments.
    pub(super) fn was_hastened(&self, job: &FoundJob, fields: Option<&Envelope>) -> bool {
        self.hastened.lock().unwrap_or_else(PoisonError::into_inner).contains(&hash_of(job, fields))
    }
}

/// Returns a hash of a job's id and life. Beside another life, its member of the delayed set has a longer name than its id.
fn hash_of(job: &FoundJob, fields: Option<&Envelope>) -> u64 {
    let id = job.id.split(' ').next().unwrap_or_default();
    let life = fields.and_then(|fields| fields.get(b"life")).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (id, life).hash(&mut hasher);
    hasher.finish()
}

impl BulkJobs<'_> {
    /// Selects the jobs that exist now, that a filter matches, and that are in one of these states, or else in any to which
    /// this can be done ([`BulkAction::states`]); other states are ignored. An empty filter matches all of them: make sure
    /// that somebody wants that.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn select(
        self,
        action: BulkAction,
        filter: Filter,
        states: Option<&[State]>,
    ) -> Result<BulkSelection, Error> {
        let now = self.queue.clock().await?;
        let wanted = |state: &State| states.is_none_or(|states| states.contains(state));
        let states = action.states().iter().copied().filter(wanted).collect();
        Ok(BulkSelection { action, filter: filter.fixed_at(now), states, now, hastened: Arc::default() })
    }

    /// Reads all jobs of a selection, and changes nothing. `progress` is called with how many jobs were looked at so far.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer, or refuses everything.
    pub async fn plan(
        self,
        selection: &BulkSelection,
        mut progress: impl FnMut(u64),
    ) -> Result<BulkPlan, Error> {
        let (mut counts, mut read) = (Counts::default(), 0);
        let mut walk = self.queue.walk_jobs(&selection.search(selection.states.clone()), None);
        loop {
            let page = walk.page(usize::MAX).await?;
            let is_last = page.next.is_none();
            read += page.read;
            counts.take(selection, page);
            progress(read);
            if is_last {
                return Ok(counts.plan());
            }
        }
    }
}

/// The jobs of a plan, counted so far.
#[derive(Default)]
struct Counts {
    plan: BulkPlan,
    types: BTreeMap<String, u64>,
    states: Vec<(State, u64)>,
}

impl Counts {
    fn take(&mut self, selection: &BulkSelection, page: JobPage) {
        self.plan.undecided += page.too_large + page.unreadable;
        self.plan.unread.extend(page.unread);
        for job in page.jobs {
            if selection.has(&job, page.now) {
                self.add(job);
            }
        }
    }

    fn add(&mut self, job: FoundJob) {
        self.plan.jobs += 1;
        let is_apart = self.types.len() < MAX_TYPES || self.types.contains_key(&job.job_type);
        let name = if is_apart { job.job_type.clone() } else { String::new() };
        *self.types.entry(name).or_default() += 1;
        match self.states.iter_mut().find(|(state, _)| *state == job.state) {
            Some((_, count)) => *count += 1,
            None => self.states.push((job.state, 1)),
        }
        if self.plan.sample.len() < SAMPLE {
            self.plan.sample.push(job);
        }
    }

    fn plan(self) -> BulkPlan {
        let mut types: Vec<(String, u64)> = self.types.into_iter().collect();
        // Types of the same count stay in the order of their names.
        types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        BulkPlan { types, states: self.states, ..self.plan }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn job(job_type: &str, created: u64, due: Option<u64>) -> FoundJob {
        let time = |ms| Timestamp::from_ms(ms).unwrap();
        FoundJob::sample(job_type, time(created), due.map(time))
    }

    fn selection(action: BulkAction, now: u64) -> BulkSelection {
        let (states, now) = (action.states().to_vec(), Timestamp::from_ms(now).unwrap());
        BulkSelection { action, filter: Filter::new(), states, now, hastened: Arc::default() }
    }

    #[test]
    fn a_younger_job_and_one_that_is_due_do_not_belong_to_a_selection() {
        let now = Timestamp::from_ms(1000).unwrap();
        let cancel = selection(BulkAction::Cancel, 1000);
        assert!(cancel.has(&job("a", 1000, None), now) && !cancel.has(&job("a", 1001, None), now));
        let hasten = selection(BulkAction::RunNow, 1000);
        assert!(hasten.has(&job("a", 1, Some(1001)), now) && !hasten.has(&job("a", 1, Some(1000)), now));
        assert!(!hasten.has(&job("a", 1, None), now));
    }

    #[test]
    fn a_job_that_was_made_due_is_recognized_wherever_it_is_put_next() {
        let selection = selection(BulkAction::RunNow, 1000);
        let named = |id: &str| {
            let mut found = job("a", 1, Some(2000));
            found.id = id.to_owned();
            found
        };
        let fields = |life: &[u8]| Envelope::new([(b"life".as_slice(), life)].into_iter());
        selection.note_hastened(&named("j"), Some(&fields(b"5-1")));
        assert!(selection.was_hastened(&named("j 5-1"), Some(&fields(b"5-1"))));
        assert!(!selection.was_hastened(&named("j"), Some(&fields(b"6-1"))));
        for other in ["i", "j#5-1"] {
            assert!(!selection.was_hastened(&named(other), Some(&fields(b"5-1"))));
        }
    }

    #[test]
    fn the_rounds_look_at_every_state_and_last_once_at_each() {
        for action in [BulkAction::Cancel, BulkAction::RunNow, BulkAction::Move("b".parse().unwrap())] {
            let selection = selection(action.clone(), 1);
            let rounds: Vec<Round> = (0..).map_while(|nth| selection.round(nth)).collect();
            let last =
                rounds.iter().filter(|round| round.is_last).flat_map(|round| round.search.states.clone());
            let mut last: Vec<State> = last.collect();
            last.sort_by_key(|state| state.as_str());
            let mut all = action.states().to_vec();
            all.sort_by_key(|state| state.as_str());
            assert_eq!(last, all, "{action:?}");
        }
    }

    proptest! {
        #[test]
        fn a_plan_counts_every_job_once_and_shows_the_first(types in proptest::collection::vec("[a-d]", 0..50)) {
            let mut counts = Counts::default();
            types.iter().for_each(|job_type| counts.add(job(job_type, 1, None)));
            let plan = counts.plan();
            prop_assert_eq!(plan.jobs, types.len() as u64);
            prop_assert_eq!(plan.types.iter().map(|(_, count)| count).sum::<u64>(), plan.jobs);
            prop_assert_eq!(plan.states.iter().map(|(_, count)| count).sum::<u64>(), plan.jobs);
            prop_assert!(plan.types.windows(2).all(|pair| pair[0].1 >= pair[1].1));
            let sample: Vec<_> = plan.sample.iter().map(|job| job.job_type.clone()).collect();
            prop_assert_eq!(&sample[..], &types[..types.len().min(SAMPLE)]);
        }
    }

    #[test]
    fn too_many_types_are_counted_under_the_empty_name() {
        let mut counts = Counts::default();
        for nth in 0..MAX_TYPES + 5 {
            counts.add(job(&format!("t{nth}"), 1, None));
        }
        let plan = counts.plan();
        assert_eq!((plan.types.len(), plan.types[0].clone()), (MAX_TYPES + 1, (String::new(), 5)));
    }
}
