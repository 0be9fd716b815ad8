//! What a task does next. A page is work that its script counts, and then one script that ends the page. If a process dies between
//! the two, the page is read again, and what was done is not found again.

use fred::types::Value;

use super::registry::{Tasks, noted, unreadable};
use super::stored::{Unreadable, kept_field};
use super::task::{END, Task, TaskAction};
use crate::bulk::carry_out::{Reached, Worked};
use crate::bulk::fence::Fence;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::inspect::audit::Action;
use crate::job::cut;
use crate::job::task::{ReplayCounts, TaskState};
use crate::{BulkAction, BulkCursor, BulkError, BulkTally, bytes};

scripts! { TASK_TURN "task_turn" }

/// The most bytes of an error that a task keeps.
const MAX_ERROR_BYTES: usize = 500;

/// What a step of a task led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advance {
    /// There may be more to do at once.
    Again,
    /// There is more to do later.
    Later,
    /// There is nothing to do until a person resumes it, or ever again.
    Idle,
    /// A replay has stopped itself, for this reason.
    Stopped(String),
    /// It cannot be carried out, for this reason.
    Failed(String),
}

impl Tasks<'_> {
    /// Does what a task is to do next: changes a page of its jobs, replays some letters, or ends it. Also returns how the jobs of a
    /// replay had ended before.
    ///
    /// The leader of the queue does this. Anybody else may do it, too, for a queue that has no leader, say: whatever is changed is
    /// counted once. Begin again while the answer is [`Advance::Again`], and after a moment while it is [`Advance::Later`].
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or this version cannot read the task.
    pub async fn advance(self, id: &str) -> Result<(Advance, Option<ReplayCounts>), Error> {
        let task = match self.find(id).await? {
            Some(Ok(task)) => task,
            None | Some(Err(Unreadable::OtherKind)) => return Ok((Advance::Idle, None)),
            Some(Err(Unreadable::Broken)) => return Err(unreadable()),
        };
        let led_to = match (&task.action, &task.replay) {
            (TaskAction::Replay(rules), Some(counts)) => self.replay_step(&task, rules, counts).await?,
            (TaskAction::Change(action), _) => self.change_step(&task, action).await?,
            (TaskAction::Replay(_), None) => Advance::Idle,
        };
        Ok((led_to, task.replay))
    }

    async fn change_step(self, task: &Task, action: &BulkAction) -> Result<Advance, Error> {
        if task.state != TaskState::Running {
            return Ok(Advance::Idle);
        }
        let Some(cursor) = task.position() else { return self.finish(task).await };
        if task.allowed == 0 {
            return Ok(Advance::Later);
        }
        let fence = Fence::new(self.queue.keys.task(&task.id), task.page);
        let (from, selection) = (self.queue.beside(&task.from), task.selection(action));
        let worked = from.bulk().work(&selection, &task.terms(), (cursor, task.allowed), &fence).await;
        match worked {
            Err(BulkError::Redis(error)) => Err(error),
            Err(error) => self.fail(task, error.to_string()).await,
            Ok(Worked { reached: Reached::Hopeless(why), .. }) => self.fail(task, why).await,
            Ok(Worked { reached: Reached::Again, .. }) => Ok(Advance::Again),
            Ok(Worked { reached: Reached::Passed, .. }) => Ok(Advance::Later),
            Ok(Worked { reached: Reached::End(next), tally, looked }) => {
                self.turn((&fence, task.counts.done), next, (&tally, looked)).await
            }
        }
    }

    /// Ends a page, and counts what was left alone in it. `done`: how many jobs the task had changed before. See `task_turn.lua`.
    async fn turn(
        self,
        (fence, done): (&Fence, u64),
        next: Option<BulkCursor>,
        (tally, looked): (&BulkTally, u64),
    ) -> Result<Advance, Error> {
        let cursor = next.map_or_else(|| END.to_owned(), |next| next.to_string());
        let problem = tally.errors.first().or(tally.unread.first()).cloned().unwrap_or_default();
        let problem = cut(problem, MAX_ERROR_BYTES);
        let mut args = Vec::from(args![TASK_TURN;
            page = fence.page(),
            done = (done + tally.changed).to_string(),
            cursor,
            problem = bytes(problem.as_bytes()),
        ]);
        let counts = [("looked", looked), ("failed", tally.failed), ("undecided", tally.undecided)];
        let counts = counts.map(|(name, count)| (name.to_owned(), count)).into_iter();
        let kept = tally.kept.iter().map(|(why, count)| (kept_field(*why), *count));
        for (name, count) in counts.chain(kept).filter(|(_, count)| *count > 0) {
            args.extend([Value::from(name), Value::from(count.to_string())]);
        }
        // If the answer is lost, the number of the page says what was done.
        let answer = self.queue.run(&TASK_TURN, vec![fence.task.clone()], args).await?;
        match answer.status {
            // Another process was faster, or a person: the next step finds out.
            0 | 1 => Ok(Advance::Again),
            _ => Err(Error::contract("task_turn", answer)),
        }
    }

    /// Ends a task that has nothing left to do.
    pub(super) async fn finish(self, task: &Task) -> Result<Advance, Error> {
        let from = [TaskState::Canary, TaskState::Running];
        let note = task.outcome(Action::new(format!("{} done", task.word()), &task.who));
        let done = self.set((task.word(), &task.id), &from, (TaskState::Done, ""), Some(&note)).await;
        noted(&task.id, done, Advance::Again)
    }

    /// Ends a task that cannot be carried out.
    async fn fail(self, task: &Task, why: String) -> Result<Advance, Error> {
        let why = cut(why, MAX_ERROR_BYTES);
        let note = task.outcome(Action::new("task failed", &task.who).why(&why));
        let state = (TaskState::Failed, why.as_str());
        let failed = self.set((task.word(), &task.id), &[TaskState::Running], state, Some(&note)).await;
        noted(&task.id, failed, Advance::Failed(why))
    }
}
