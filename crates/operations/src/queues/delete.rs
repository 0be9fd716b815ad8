//! Deleting a queue with everything that Redis has of it.

use serde::Serialize;
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{KeyCursor, Noted, QueueUse};

use crate::control::outcome;
use crate::{Actor, Control, Error, QUEUES_DELETE, counted};

/// How often the keys are looked through. Only a queue that is in use has new ones each time.
const MAX_ROUNDS: u32 = 5;

/// How to delete a queue.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delete {
    /// Count what would be deleted, and change nothing.
    pub dry_run: bool,
    /// Delete it even if somebody uses it, or it gets new jobs meanwhile. These jobs are lost, and workers and producers create
    /// some keys again.
    pub force: bool,
    /// How many jobs and letters somebody has confirmed to delete. If there are more now, nothing is deleted.
    pub confirmed: Option<u64>,
}

/// What became of the queue.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = QueueDeleted)]
#[non_exhaustive]
pub struct Deleted {
    /// The queue.
    pub queue: String,
    /// Whether nothing was to be changed.
    pub dry_run: bool,
    /// The live workers that serve it.
    pub workers: Vec<String>,
    /// How many of its jobs run.
    pub running: u64,
    /// How many of its jobs wait.
    pub waiting: u64,
    /// How many of its jobs are delayed.
    pub delayed: u64,
    /// How many dead letters it has.
    pub dead: u64,
    /// How many keys were deleted.
    pub keys: u64,
    /// True if keys were made again while it was deleted.
    pub in_use: bool,
    /// True if it was stopped before its end.
    pub interrupted: bool,
    /// What ended it early.
    #[serde(skip)]
    pub failure: Option<Error>,
}

impl Deleted {
    /// How many jobs and letters the queue had that no worker held.
    pub fn idle_jobs(&self) -> u64 {
        self.waiting + self.delayed + self.dead
    }

    /// Refuses to delete a queue that somebody uses.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] that says who.
    pub fn must_be_idle(&self) -> Result<(), Error> {
        if self.workers.is_empty() && self.running == 0 {
            return Ok(());
        }
        let workers = match &self.workers[..] {
            [] => "no live worker serves it".to_owned(),
            workers => format!("live workers serve it ({})", workers.join(", ")),
        };
        Err(Error::Conflict(format!(
            "the queue {} is in use: {workers}, {}; stop its workers first, or force it",
            self.queue,
            counted(self.running, "job runs", "jobs run")
        )))
    }

    /// Refuses to delete more than somebody has confirmed.
    fn must_not_exceed(&self, confirmed: u64) -> Result<(), Error> {
        let Some(more) = self.idle_jobs().checked_sub(confirmed).filter(|more| *more > 0) else {
            return Ok(());
        };
        Err(Error::Conflict(format!(
            "the queue {} has {more} more jobs and dead letters than before the confirmation: stop its producers first, or force it",
            self.queue
        )))
    }
}

/// Deletes a queue with all its keys. It is noted outside of the queue, whose own audit is gone. If something ends it early, the
/// report says what was done, and why it ended.
///
/// # Errors
///
/// [`Error::Conflict`] if somebody uses the queue, or it has more jobs than were confirmed; [`Error::Redis`] if that cannot be
/// found out.
pub async fn delete(
    broker: &Broker,
    queue: &Queue,
    actor: &Actor,
    input: Delete,
    control: Control<'_>,
) -> Result<Noted<Deleted>, Error> {
    let mut deleted = plan(broker, queue, input.dry_run).await?;
    if input.dry_run {
        return Ok(Noted::of_nothing(deleted));
    }
    if !input.force {
        deleted.must_be_idle()?;
        input.confirmed.map_or(Ok(()), |confirmed| deleted.must_not_exceed(confirmed))?;
    }
    deleted.failure = delete_keys(queue, control, &mut deleted).await.err();
    if deleted.keys == 0 && !deleted.failure.as_ref().is_some_and(Error::may_have_run) {
        return Ok(Noted::of_nothing(deleted));
    }
    let jobs = deleted.idle_jobs() + deleted.running;
    let action = actor.action(&QUEUES_DELETE).target(queue.name().as_str()).count(jobs);
    let action = action.outcome(outcome(deleted.failure.as_ref(), deleted.interrupted));
    Ok(broker.deletions().noted(&action, deleted).await)
}

/// Counts what would be deleted.
async fn plan(broker: &Broker, queue: &Queue, dry_run: bool) -> Result<Deleted, Error> {
    let asked = broker.use_of(queue).await;
    let QueueUse { workers, running, .. } =
        asked.map_err(Error::redis("failed to ask who uses the queue"))?;
    let snapshot = queue.snapshot().await.map_err(Error::redis("failed to count the jobs"))?;
    let (waiting, delayed, dead) = (snapshot.waiting(), snapshot.delayed, snapshot.dead);
    let queue = queue.name().to_string();
    Ok(Deleted { queue, dry_run, workers, running, waiting, delayed, dead, ..Deleted::default() })
}

/// Looks through all keys until none of the queue is left.
async fn delete_keys(queue: &Queue, control: Control<'_>, deleted: &mut Deleted) -> Result<(), Error> {
    for _ in 0..MAX_ROUNDS {
        let (before, mut next) = (deleted.keys, Some(KeyCursor::default()));
        while let Some(from) = next {
            deleted.interrupted = control.stop.is_requested();
            if deleted.interrupted {
                return Ok(());
            }
            let page = queue.bulk().delete_page(&from).await;
            let page = page.map_err(Error::redis("failed to delete the keys"))?;
            deleted.keys += page.deleted;
            (control.progress)(deleted.keys);
            next = page.next;
        }
        if deleted.keys == before {
            return Ok(());
        }
    }
    deleted.in_use = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_used_or_has_more_jobs_than_confirmed_is_kept() {
        let idle = Deleted { queue: "mail".to_owned(), waiting: 2, dead: 1, ..Deleted::default() };
        assert!(idle.must_be_idle().is_ok() && idle.must_not_exceed(3).is_ok());
        let refused = idle.must_not_exceed(1).unwrap_err().to_string();
        assert!(refused.starts_with("the queue mail has 2 more jobs"), "{refused}");
        let used = Deleted { workers: vec!["a".to_owned(), "b".to_owned()], running: 4, ..idle };
        let refused = used.must_be_idle().unwrap_err().to_string();
        assert!(refused.contains("live workers serve it (a, b), 4 jobs run"), "{refused}");
    }
}
