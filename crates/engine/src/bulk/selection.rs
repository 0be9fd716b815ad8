//! Which jobs somebody means: those that a filter matches and that existed when it was given. A plan says beforehand how
//! many that are. It changes nothing.

use std::collections::BTreeMap;

use super::fence::has_mark;
use crate::client::error::Error;
use crate::job::filter::Filter;
use crate::job::{EntryId, Envelope, QueueName, State, Timestamp};
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
    /// Drop dead letters.
    Drop,
    /// Cancel jobs that wait or are due later, and drop dead letters.
    Purge,
}

impl BulkAction {
    /// The states of the jobs to which this can be done.
    pub fn states(&self) -> &'static [State] {
        match self {
            Self::Cancel => &[State::Running, State::Waiting, State::Retrying, State::Scheduled],
            Self::RunNow => &[State::Retrying, State::Scheduled],
            Self::Move(_) => &[State::Waiting, State::Retrying, State::Scheduled],
            Self::Drop => &[State::Dead],
            Self::Purge => &[State::Waiting, State::Retrying, State::Scheduled, State::Dead],
        }
    }

    /// Returns its name, as the command line and tasks have it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::RunNow => "run-now",
            Self::Move(_) => "move",
            Self::Drop => "drop",
            Self::Purge => "purge",
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
    /// The newest dead letter at that time; later ones do not belong to it. `None` if there was none, or letters are not meant.
    pub last: Option<EntryId>,
    /// How many dead letters were wanted at most, the oldest ones.
    pub limit: Option<u64>,
    /// Its id, eight hexadecimal digits, which jobs that are moved or made due keep as a mark. It is the id of the task that
    /// carries it out, too.
    pub id: String,
    /// The task whose mark the jobs have, if only these are meant.
    pub(crate) marked_by: Option<String>,
}

/// One round of the work.
pub(super) struct Round {
    pub(super) search: JobSearch,
    /// Whether no earlier round has looked at these jobs.
    pub(super) is_first: bool,
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
        const DEAD: &[State] = &[State::Dead];
        let (states, is_last) = match (&self.action, nth) {
            (BulkAction::Cancel, 0 | 2) => (IDLE, nth == 2),
            (BulkAction::Cancel, 1) => (RUNNING, true),
            (BulkAction::RunNow, 0) => (IDLE, true),
            (BulkAction::Move(_) | BulkAction::Purge, 0 | 1) => (IDLE, nth == 1),
            (BulkAction::Drop, 0) | (BulkAction::Purge, 2) => (DEAD, true),
            (
                BulkAction::Cancel
                | BulkAction::RunNow
                | BulkAction::Move(_)
                | BulkAction::Drop
                | BulkAction::Purge,
                _,
            ) => return None,
        };
        // Those that wait are looked for first.
        let is_first = nth == 0 || states != IDLE;
        let states = states.iter().copied().filter(|state| self.states.contains(state)).collect();
        Some(Round { search: self.search(states), is_first, is_last })
    }

    /// Returns true if a job or a letter that was found belongs to the selection. A job that is due already needs no help, and to make
    /// one due again that was made due before would spend all its attempts within moments.
    pub(super) fn has(&self, job: &FoundJob, fields: Option<&Envelope>, now: Timestamp) -> bool {
        let is_known = match job.state {
            State::Dead => job.entry <= self.last,
            State::Waiting
            | State::Running
            | State::Scheduled
            | State::Retrying
            | State::Done
            | State::Cancelled => job.created.is_none_or(|created| created <= self.now),
        };
        let is_pointless = self.action == BulkAction::RunNow
            && (job.due.is_none_or(|due| due <= now) || has_mark(fields, &self.id));
        let is_meant = self.marked_by.as_ref().is_none_or(|task| has_mark(fields, task));
        is_known && is_meant && !is_pointless
    }
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
        let states: Vec<State> = action.states().iter().copied().filter(wanted).collect();
        let last = if states.contains(&State::Dead) {
            self.queue.dead_letters().bare().recent(None, 1).await?.pop().map(|letter| letter.entry)
        } else {
            None
        };
        let id = format!("{:08x}", rand::random::<u32>());
        let (filter, limit, marked_by) = (filter.fixed_at(now), None, None);
        Ok(BulkSelection { action, filter, states, now, last, limit, id, marked_by })
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
            let (page, fields) = walk.page_with_fields(usize::MAX).await?;
            let is_last = page.next.is_none();
            read += page.read;
            counts.take(selection, page, &fields);
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
    fn take(&mut self, selection: &BulkSelection, page: JobPage, fields: &[Option<Envelope>]) {
        self.plan.undecided += page.too_large + page.unreadable;
        self.plan.unread.extend(page.unread);
        for (job, fields) in page.jobs.into_iter().zip(fields) {
            if selection.has(&job, fields.as_ref(), page.now) {
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

    use super::super::fence::MARK;
    use super::*;

    fn job(job_type: &str, created: u64, due: Option<u64>) -> FoundJob {
        let time = |ms| Timestamp::from_ms(ms).unwrap();
        FoundJob::sample(job_type, time(created), due.map(time))
    }

    fn selection(action: BulkAction, now: u64) -> BulkSelection {
        let (states, now) = (action.states().to_vec(), Timestamp::from_ms(now).unwrap());
        let (last, id) = (Some(EntryId::new(7, 0)), "00ff00ff".to_owned());
        BulkSelection { action, filter: Filter::new(), states, now, last, limit: None, id, marked_by: None }
    }

    #[test]
    fn a_younger_job_and_one_that_is_due_do_not_belong_to_a_selection() {
        let now = Timestamp::from_ms(1000).unwrap();
        let has = |selection: &BulkSelection, created, due| selection.has(&job("a", created, due), None, now);
        let cancel = selection(BulkAction::Cancel, 1000);
        assert!(has(&cancel, 1000, None) && !has(&cancel, 1001, None));
        let run_now = selection(BulkAction::RunNow, 1000);
        assert!(has(&run_now, 1, Some(1001)) && !has(&run_now, 1, Some(1000)) && !has(&run_now, 1, None));
    }

    #[test]
    fn a_letter_that_is_newer_than_the_selection_does_not_belong_to_it() {
        let letter = |ms| {
            let mut found = job("a", 1, None);
            (found.state, found.entry) = (State::Dead, Some(EntryId::new(ms, 0)));
            found
        };
        let now = Timestamp::from_ms(1000).unwrap();
        let drop = selection(BulkAction::Drop, 1000);
        assert!(drop.has(&letter(7), None, now) && !drop.has(&letter(8), None, now));
        let none = BulkSelection { last: None, ..drop };
        assert!(!none.has(&letter(7), None, now));
    }

    #[test]
    fn a_job_is_recognized_by_the_mark_of_a_task() {
        let fields = |task: &[u8]| Envelope::new([(MARK, task)].into_iter());
        let (own, other) = (fields(b"00ff00ff"), fields(b"00000000"));
        let (now, found) = (Timestamp::from_ms(1000).unwrap(), job("a", 1, Some(2000)));
        let run_now = selection(BulkAction::RunNow, 1000);
        assert!(!run_now.has(&found, Some(&own), now), "it was made due before");
        assert!(run_now.has(&found, Some(&other), now) && run_now.has(&found, None, now));
        let marked_by = Some("00000000".to_owned());
        let back = BulkSelection { marked_by, ..selection(BulkAction::Move("a".parse().unwrap()), 1000) };
        assert!(back.has(&found, Some(&other), now));
        assert!(!back.has(&found, Some(&own), now) && !back.has(&found, None, now));
    }

    #[test]
    fn the_rounds_look_at_every_state_and_last_once_at_each() {
        let to = BulkAction::Move("b".parse().unwrap());
        for action in [BulkAction::Cancel, BulkAction::RunNow, to, BulkAction::Drop, BulkAction::Purge] {
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
