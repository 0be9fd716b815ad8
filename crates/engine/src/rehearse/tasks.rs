//! The part of a rehearsal in which tasks replay a dead letter and drop none.

use super::super::{Action, Advance, BulkAction, BulkTerms, TaskError};
use super::{Error, Rehearsal, burial, expect_same};
use crate::job::Settlement;
use crate::job::filter::Filter;
use crate::job::task::{ReplayRules, TaskState};

impl Rehearsal<'_> {
    /// Buries a job, and lets a task replay it. It succeeds, and so the task is done. Then another task drops all letters.
    pub(super) async fn tasks(&self) -> Result<(), Error> {
        self.enqueue().await?;
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &burial()).await?;
        let selection = self.queue.dead_letters().select(Filter::new()).await?;
        let (tasks, by) = (self.queue.tasks(), Action::new("rehearsal", "the rehearsal"));
        let id = tasks.start_replay(&selection, ReplayRules::default(), &by).await.map_err(redis)?.value;
        self.note_key(self.queue.keys.campaign(&id));
        expect_same("task_replay", tasks.advance(&id).await?.0, Advance::Again)?;
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &Settlement::Ack).await?;
        expect_same("task_set", tasks.advance(&id).await?.0, Advance::Again)?;
        let found = tasks.get(&id).await?.map(|task| (task.state, task.counts.done));
        expect_same("task_read", found, Some((TaskState::Done, 1)))?;

        let selection = self.queue.bulk().select(BulkAction::Drop, Filter::new(), None).await?;
        let terms = BulkTerms::new("the rehearsal");
        let id = tasks.start(&selection, &terms, &by).await.map_err(redis)?.value;
        self.note_key(self.queue.keys.task(&id));
        expect_same("task_turn", tasks.advance(&id).await?.0, Advance::Again)?;
        expect_same("task_set", tasks.advance(&id).await?.0, Advance::Again)?;
        let states = tasks.page(None, 10).await?.tasks.into_iter().map(|task| task.state);
        expect_same("tasks", states.collect::<Vec<_>>(), vec![TaskState::Done; 2])
    }
}

fn redis(error: TaskError) -> Error {
    let TaskError::Redis(error) = error else { return Error::contract("task_put", error.to_string()) };
    error
}
