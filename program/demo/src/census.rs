//! Where every job is at one point in time, read through the public API of the library, as any program could.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt, TryStreamExt};
use streamfleet::Queue;
use streamfleet::job::{JobId, State, Timestamp};
use streamfleet_engine::admin::{Attempt, QueueSnapshot, Status};

/// How many look-ups are in flight at once.
const AT_ONCE: usize = 32;

/// All jobs at one point in time.
pub(super) struct Census {
    pub(super) snapshot: QueueSnapshot,
    /// What is known about each job that has its own id; `None` if no worker has handled it yet.
    statuses: HashMap<JobId, Option<Status>>,
}

impl Census {
    /// Looks up every job, except those that were done in `before`: their state is final.
    pub(super) async fn take(queue: &Queue, ids: &[JobId], before: Option<Self>) -> Result<Self> {
        // Before the jobs: if none is open here, what is found below is how each of them ended.
        let snapshot = queue.snapshot().await.context("failed to count the jobs")?;
        let mut statuses = before.map(|before| before.statuses).unwrap_or_default();
        statuses.retain(|_, status| status.as_ref().is_some_and(|status| status.state == State::Done));
        let open = ids.iter().filter(|id| !statuses.contains_key(*id)).cloned();
        let asked = open.map(|id| async {
            let status = queue.status(&id).await.context("failed to look up a job")?;
            anyhow::Ok((id, status))
        });
        let found: Vec<_> = futures_util::stream::iter(asked).buffer_unordered(AT_ONCE).try_collect().await?;
        statuses.extend(found);
        Ok(Self { snapshot, statuses })
    }

    /// The number of jobs that have not ended.
    pub(super) fn open(&self) -> u64 {
        self.snapshot.waiting() + self.snapshot.running() + self.snapshot.delayed
    }

    /// The jobs that are done.
    pub(super) fn done(&self) -> impl Iterator<Item = &JobId> {
        self.known().filter(|status| status.state == State::Done).map(|status| &status.id)
    }

    /// The number of attempts that followed another one.
    pub(super) fn retries(&self) -> usize {
        let started = |status: &Status| status.attempts.len() + usize::from(status.state == State::Running);
        self.known().map(|status| started(status).saturating_sub(1)).sum()
    }

    /// The number of jobs that this worker has finished.
    pub(super) fn done_by(&self, consumer: &str) -> usize {
        let attempts = self.known().flat_map(|status| &status.attempts);
        attempts.filter(|attempt| attempt.worker == consumer && attempt.outcome == "done").count()
    }

    /// The jobs that Redis has delivered to this worker.
    pub(super) fn running_on(&self, consumer: &str) -> Vec<JobId> {
        let held = |status: &&Status| status.worker.as_deref() == Some(consumer);
        self.known().filter(held).map(|status| status.id.clone()).collect()
    }

    /// What became of these jobs, whose worker was killed, except those that had ended before, although Redis had not
    /// processed that yet.
    pub(super) fn restarts(&self, jobs: &[JobId], killed_at: Timestamp) -> Vec<Restart> {
        let of = |id: &JobId| match self.statuses.get(id).and_then(Option::as_ref) {
            Some(status) => restart(&status.attempts, status.state, killed_at),
            None => Some(Restart::default()),
        };
        jobs.iter().filter_map(of).collect()
    }

    fn known(&self) -> impl Iterator<Item = &Status> {
        self.statuses.values().flatten()
    }
}

/// How long after its worker was killed a job was taken over by another one, and started again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Restart {
    pub(super) taken_over: Option<Duration>,
    pub(super) restarted: Option<Duration>,
}

fn restart(attempts: &[Attempt], state: State, killed_at: Timestamp) -> Option<Restart> {
    let mut attempts = attempts.iter().skip_while(|attempt| attempt.outcome != "lost");
    let (lost, next) = (attempts.next(), attempts.next());
    if lost.is_none() && state.is_final() {
        return None;
    }
    let taken_over = lost.map(|lost| lost.ended.since(killed_at));
    let restarted = next.map(|next| next.started.since(killed_at));
    Some(Restart { taken_over, restarted })
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
        let ms = |ms| Some(Duration::from_millis(ms));
        let mut attempts = vec![attempt(900, "error"), attempt(2990, "lost")];
        let taken_over = Restart { taken_over: ms(2000), restarted: None };
        assert_eq!(restart(&attempts, State::Retrying, killed_at), Some(taken_over));
        attempts.push(attempt(3600, "done"));
        let restarted = Restart { taken_over: ms(2000), restarted: ms(2600) };
        assert_eq!(restart(&attempts, State::Done, killed_at), Some(restarted));
        assert_eq!(restart(&attempts[..1], State::Running, killed_at), Some(Restart::default()));
        assert_eq!(restart(&attempts[2..], State::Done, killed_at), None);
    }
}
