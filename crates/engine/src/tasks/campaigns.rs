//! Tasks that replay dead letters, under the name and in the form that the doors know. It goes when they speak of tasks.

use std::collections::BTreeMap;

use super::registry::{TaskError, Tasks};
use super::task::{Task, TaskAction};
use crate::client::error::Error;
use crate::inspect::audit::{Action, Noted};
use crate::job::task::{ReplayCounts, ReplayRules, TaskState};
use crate::job::{EntryId, Timestamp};
use crate::{Queue, Selection};

/// A task that replays dead letters; see the [example](Campaigns).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Campaign {
    /// Its id: 8 hexadecimal digits.
    pub id: String,
    /// Where it is.
    pub state: TaskState,
    /// Why it is there, if it was stopped or paused.
    pub why: String,
    /// The letters that it replays.
    pub selection: Selection,
    /// How many letters matched when it began, if they were counted.
    pub planned: Option<u64>,
    /// How it goes about them.
    pub rules: ReplayRules,
    /// How its jobs have ended so far.
    pub counts: ReplayCounts,
    /// The last letter that it has dealt with.
    pub cursor: EntryId,
    /// Who began it.
    pub who: String,
    /// When it began.
    pub created: Timestamp,
    /// When its state last changed.
    pub changed: Timestamp,
}

impl Campaign {
    /// Returns true if it has come to the end of its letters.
    pub fn is_read(&self) -> bool {
        self.selection.last.is_none_or(|last| self.cursor >= last)
    }

    fn of(task: Task) -> Option<Self> {
        let (TaskAction::Replay(rules), Some(counts)) = (&task.action, task.replay) else {
            return None;
        };
        Some(Self {
            state: task.state,
            selection: task.letters(),
            planned: task.planned,
            rules: *rules,
            counts,
            cursor: task.letter(),
            created: task.begun,
            changed: task.changed,
            id: task.id,
            why: task.state_why,
            who: task.who,
        })
    }
}

/// The tasks of a queue that replay dead letters. [`Queue::campaigns`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::admin::{Action, CampaignRules, Filter};
///
/// let selection = queue.dead_letters().select(Filter::new().job_type("mail.*")?).await?;
/// let rules = CampaignRules::default().rate(50.0).canary(5).stop_at(5.0);
/// let ann = Action::new("campaign", "ann").why("the mail server is back");
/// let id = queue.campaigns().start(&selection, rules, &ann).await?.value;
/// let campaign = queue.campaigns().get(&id).await?.ok_or("it was just begun")?;
/// println!("{} of {} replayed", campaign.counts.replayed, campaign.selection.total);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct Campaigns<'a> {
    tasks: Tasks<'a>,
}

impl Queue {
    /// Gives access to the tasks that replay dead letters.
    pub fn campaigns(&self) -> Campaigns<'_> {
        Campaigns { tasks: self.tasks() }
    }
}

impl Campaigns<'_> {
    /// Does what [`Tasks::start_replay`] does.
    ///
    /// # Errors
    ///
    /// As [`Tasks::start_replay`].
    pub async fn start(
        self,
        selection: &Selection,
        rules: ReplayRules,
        action: &Action,
    ) -> Result<Noted<String>, TaskError> {
        self.tasks.start_replay(selection, rules, action).await
    }

    /// Returns the ids of all that are known, each with whether it may still replay.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn ids(self) -> Result<BTreeMap<String, bool>, Error> {
        let known = self.tasks.known().await?.into_iter().filter(|task| task.is_replay);
        Ok(known.map(|task| (task.id, task.is_active)).collect())
    }

    /// Returns one; `None` if there is none with this id, or it was over 30 days ago.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or this version cannot read it.
    pub async fn get(self, id: &str) -> Result<Option<Campaign>, Error> {
        Ok(self.tasks.get(id).await?.and_then(Campaign::of))
    }

    /// Does what [`Tasks::pause`] does.
    ///
    /// # Errors
    ///
    /// As [`Tasks::pause`].
    pub async fn pause(self, id: &str, action: &Action) -> Result<Noted<()>, TaskError> {
        self.tasks.pause(id, action).await
    }

    /// Does what [`Tasks::resume`] does.
    ///
    /// # Errors
    ///
    /// As [`Tasks::resume`].
    pub async fn resume(self, id: &str, action: &Action) -> Result<Noted<()>, TaskError> {
        self.tasks.resume(id, action).await
    }

    /// Does what [`Tasks::stop`] does.
    ///
    /// # Errors
    ///
    /// As [`Tasks::stop`].
    pub async fn stop(self, id: &str, action: &Action) -> Result<Noted<()>, TaskError> {
        self.tasks.stop(id, action).await
    }
}
