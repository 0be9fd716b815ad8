//! Where every job is at one point in time, read through the public API of the library, as any program could.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt, TryStreamExt};
use streamfleet::Queue;
use streamfleet::admin::{Attempt, DeadLetter, QueueSnapshot, Status};
use streamfleet::job::{EntryId, JobId, State, Timestamp};

/// How many look-ups are in flight at once.
const AT_ONCE: usize = 32;

/// How many letters are read at once.
const PAGE: u64 = 200;

/// All jobs at one point in time.
#[derive(Clone)]
pub(super) struct Census {
    pub(super) depths: QueueSnapshot,
    /// What is known about each job that has its own id; `None` if no worker has handled it yet.
    statuses: HashMap<JobId, Option<Status>>,
    submitted: u64,
}

/// What became of one worker's jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) running: usize,
    pub(super) done: usize,
    pub(super) failed: usize,
}

impl Census {
    /// Looks up every job, except those that were done in `before`: their state is final.
    pub(super) async fn take(
        queue: &Queue,
        ids: &[JobId],
        submitted: u64,
        before: Option<Self>,
    ) -> Result<Self> {
        let mut statuses = before.map(|before| before.statuses).unwrap_or_default();
        statuses.retain(|_, status| status.as_ref().is_some_and(|status| status.state == State::Done));
        let open = ids.iter().filter(|id| !statuses.contains_key(*id)).cloned();
        let asked = open.map(|id| async {
            let status = queue.status(&id).await.context("failed to look up a job")?;
            anyhow::Ok((id, status))
        });
        let found: Vec<_> = futures_util::stream::iter(asked).buffer_unordered(AT_ONCE).try_collect().await?;
        statuses.extend(found);
        let depths = queue.snapshot().await.context("failed to count the jobs")?;
        Ok(Self { depths, statuses, submitted })
    }

    /// The number of jobs that succeeded: all that are nowhere else.
    pub(super) fn done(&self) -> u64 {
        self.submitted.saturating_sub(self.open() + self.depths.dead)
    }

    /// The number of jobs that have not ended.
    pub(super) fn open(&self) -> u64 {
        self.depths.waiting() + self.depths.running() + self.depths.delayed
    }

    /// The jobs that are done according to their records.
    pub(super) fn recorded_done(&self) -> impl Iterator<Item = &JobId> {
        self.known().filter(|status| status.state == State::Done).map(|status| &status.id)
    }

    /// The number of attempts that followed another one.
    pub(super) fn retries(&self) -> usize {
        let started = |status: &Status| status.attempts.len() + usize::from(status.state == State::Running);
        self.known().map(|status| started(status).saturating_sub(1)).sum()
    }

    /// What one worker is running and has run.
    pub(super) fn share(&self, consumer: &str) -> Share {
        let attempts =
            || self.known().flat_map(|status| &status.attempts).filter(|attempt| attempt.worker == consumer);
        let done = attempts().filter(|attempt| attempt.outcome == "done").count();
        Share { running: self.running_on(consumer).len(), done, failed: attempts().count() - done }
    }

    /// The jobs that Redis has delivered to this worker.
    pub(super) fn running_on(&self, consumer: &str) -> Vec<JobId> {
        let held = |status: &&Status| status.worker.as_deref() == Some(consumer);
        self.known().filter(held).map(|status| status.id.clone()).collect()
    }

    /// What became of a job whose worker was killed at this time.
    pub(super) fn comeback(&self, id: &JobId, killed_at: Timestamp) -> Comeback {
        let status = self.statuses.get(id).and_then(Option::as_ref);
        status.map_or(Comeback::Held, |status| comeback(&status.attempts, status.state, killed_at))
    }

    fn known(&self) -> impl Iterator<Item = &Status> {
        self.statuses.values().flatten()
    }
}

/// What became of a job whose worker was killed; durations are since the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comeback {
    /// It is still attributed to the dead worker.
    Held,
    /// It had ended before the kill, but Redis had not processed that yet.
    Over,
    /// Another worker has taken it over.
    TakenOver { after: Duration },
    /// It has started again.
    Restarted { taken_over: Duration, after: Duration },
}

fn comeback(attempts: &[Attempt], state: State, killed_at: Timestamp) -> Comeback {
    let mut attempts = attempts.iter().skip_while(|attempt| attempt.outcome != "lost");
    match (attempts.next(), attempts.next()) {
        (None, _) if state.is_final() => Comeback::Over,
        (None, _) => Comeback::Held,
        (Some(lost), None) => Comeback::TakenOver { after: lost.ended.since(killed_at) },
        (Some(lost), Some(next)) => {
            let (taken_over, after) = (lost.ended.since(killed_at), next.started.since(killed_at));
            Comeback::Restarted { taken_over, after }
        }
    }
}

/// All dead letters, oldest first.
pub(super) async fn letters(queue: &Queue) -> Result<Vec<DeadLetter>> {
    let (mut letters, mut from) = (Vec::new(), None);
    loop {
        // The client's future is large.
        let page = Box::pin(queue.dead_letters().page(from, PAGE))
            .await
            .context("failed to read the dead letters")?;
        let is_last = page.is_empty();
        from = page.last().map(|letter| EntryId::new(letter.entry.ms, letter.entry.seq.saturating_add(1)));
        letters.extend(page);
        if is_last {
            return Ok(letters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(started: u64, outcome: &str) -> Attempt {
        let at = |ms| Timestamp::from_ms(ms).unwrap();
        let (worker, error) = ("a".to_owned(), String::new());
        Attempt { started: at(started), ended: at(started + 10), outcome: outcome.to_owned(), worker, error }
    }

    #[test]
    fn a_lost_job_has_restarted_once_its_next_attempt_is_known() {
        let killed_at = Timestamp::from_ms(1000).unwrap();
        let ms = Duration::from_millis;
        let mut attempts = vec![attempt(900, "error"), attempt(2990, "lost")];
        assert_eq!(comeback(&attempts, State::Retrying, killed_at), Comeback::TakenOver { after: ms(2000) });
        attempts.push(attempt(3600, "done"));
        let restarted = Comeback::Restarted { taken_over: ms(2000), after: ms(2600) };
        assert_eq!(comeback(&attempts, State::Done, killed_at), restarted);
        assert_eq!(comeback(&attempts[..1], State::Running, killed_at), Comeback::Held);
        assert_eq!(comeback(&attempts[2..], State::Done, killed_at), Comeback::Over);
    }
}
