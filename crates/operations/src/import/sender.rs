//! Sends the jobs of a group. A queue without room, or a Redis that cannot serve now, is waited for.

use std::time::{Duration, Instant};

use streamfleet::{RedisError, Shutdown, Submission, SubmitError};
use streamfleet_engine::admin::{Departed, Filed};
use streamfleet_engine::job::doubled;
use streamfleet_sql::foreign::Key;

use super::job::Job;
use super::report::{Failure, TableReport};
use super::{Refusal, Watch};
use crate::submit::{Target, is_about_job};

/// The pauses between attempts.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// How long it waits before it says again that it waits.
const SILENCE: Duration = Duration::from_secs(60);

/// After how long without an accepted job it gives up.
const PATIENCE: Duration = Duration::from_secs(600);

/// Jobs that are still to be sent, each with the key of its row.
#[derive(Default)]
pub(super) struct Load {
    pub(super) waiting: Vec<(Key, Submission)>,
    pub(super) dead: Vec<(Key, Departed)>,
}

impl Load {
    fn len(&self) -> usize {
        self.waiting.len() + self.dead.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the job of a row.
    pub(super) fn add(&mut self, key: Key, job: Job) {
        match job {
            Job::Waiting(submission) => self.waiting.push((key, submission)),
            Job::Dead(departed) => self.dead.push((key, departed)),
        }
    }
}

/// Where the jobs of a table go.
pub(super) struct Sender<'a> {
    pub(super) target: &'a Target,
    pub(super) stop: &'a Shutdown,
    pub(super) rate: Option<f64>,
    pub(super) started: Instant,
    /// When it last said that it waits.
    pub(super) told: Option<Instant>,
}

impl Sender<'_> {
    /// Waits until the rate allows further jobs, after this many. Returns false if it was stopped.
    pub(super) async fn keep_rate(&self, sent: u64) -> bool {
        let Some(rate) = self.rate else { return !self.stop.is_requested() };
        let due = self.started + Duration::from_secs_f64(sent as f64 / rate);
        self.pause(due.saturating_duration_since(Instant::now())).await
    }

    /// Sends all of it. Returns false if it was stopped before.
    ///
    /// # Errors
    ///
    /// [`Failure`] if waiting does not help, or has not helped for long.
    pub(super) async fn send(
        &mut self,
        mut load: Load,
        report: &mut TableReport,
        watch: &mut dyn Watch,
    ) -> Result<bool, Failure> {
        let (mut failures, mut since, mut most) = (0, Instant::now(), usize::MAX);
        while !load.is_empty() {
            let left = load.len();
            let sent = self.try_send(&mut load, most, report, watch).await;
            if load.len() < left {
                (failures, since) = (0, Instant::now());
            }
            let Err(failure) = sent else {
                most = usize::MAX;
                continue;
            };
            // Jobs that do not fit together are refused together.
            if let Some(room) = failure.room().filter(|room| (1..most).contains(room)) {
                most = room;
                continue;
            }
            if !failure.is_transient() || since.elapsed() >= PATIENCE {
                return Err(failure);
            }
            if self.told.is_none_or(|told| told.elapsed() >= SILENCE) {
                self.told = Some(Instant::now());
                watch.waits(&failure);
            }
            if !self.pause(doubled(PAUSES[0], failures, PAUSES[1])).await {
                return Ok(false);
            }
            (failures, most) = (failures + 1, usize::MAX);
        }
        Ok(true)
    }

    async fn try_send(
        &self,
        load: &mut Load,
        most: usize,
        report: &mut TableReport,
        watch: &mut dyn Watch,
    ) -> Result<(), Failure> {
        let mut refused = Vec::new();
        let submitted = self.submit(&mut load.waiting, most, report, &mut refused).await;
        refused.iter().try_for_each(|refusal| watch.refused(refusal)).map_err(Failure::Watch)?;
        submitted?;
        self.file(&mut load.dead, report, watch).await
    }

    /// Submits the first jobs, at most this many, and leaves those in the list that were not answered.
    async fn submit(
        &self,
        jobs: &mut Vec<(Key, Submission)>,
        most: usize,
        report: &mut TableReport,
        refused: &mut Vec<Refusal>,
    ) -> Result<(), Failure> {
        let mut is_left = vec![true; jobs.len()];
        let mut failed = None;
        let first: Vec<Submission> = jobs.iter().take(most).map(|(_, job)| job.clone()).collect();
        let sent = self.target.producer.submit_each(first, |place, answer| match answer {
            Ok(submitted) => {
                is_left[place] = false;
                let is_new = submitted.existing().is_none();
                *(if is_new { &mut report.submitted } else { &mut report.existing }) += 1;
            }
            Err(error) if is_about_job(&error) || matches!(error, SubmitError::Refused { .. }) => {
                is_left[place] = false;
                refused.push(report.refuse(&jobs[place].0, error.to_string()));
            }
            Err(error) => failed = failed.take().or(Some(error)),
        });
        let sent = sent.await;
        let mut is_left = is_left.into_iter();
        jobs.retain(|_| is_left.next().unwrap_or(true));
        match failed.or(sent.err()) {
            Some(error) if !jobs.is_empty() => Err(Failure::Submission(error)),
            Some(_) | None => Ok(()),
        }
    }

    async fn file(
        &self,
        jobs: &mut Vec<(Key, Departed)>,
        report: &mut TableReport,
        watch: &mut dyn Watch,
    ) -> Result<(), Failure> {
        if jobs.is_empty() {
            return Ok(());
        }
        let (keys, departed): (Vec<Key>, Vec<Departed>) = jobs.iter().cloned().unzip();
        let filed = self.target.queue.dead_letters().file(&departed).await.map_err(Failure::Redis)?;
        jobs.clear();
        for (key, filed) in keys.iter().zip(filed) {
            match filed {
                Filed::As(_) => report.filed += 1,
                Filed::Exists => report.existing += 1,
                Filed::Refused(why) => watch.refused(&report.refuse(key, why)).map_err(Failure::Watch)?,
            }
        }
        Ok(())
    }

    /// Waits. Returns false if it was stopped.
    async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.stop.requested() => false,
            () = tokio::time::sleep(time) => true,
        }
    }
}

impl Failure {
    /// How many jobs a full queue still has room for.
    fn room(&self) -> Option<usize> {
        match self {
            Self::Submission(SubmitError::Full { depth, limit }) => {
                usize::try_from(limit.saturating_sub(*depth)).ok()
            }
            Self::Submission(_) | Self::Redis(_) | Self::Foreign(_) | Self::Database(_) | Self::Watch(_) => {
                None
            }
        }
    }

    /// Whether waiting helps.
    fn is_transient(&self) -> bool {
        match self {
            Self::Submission(SubmitError::Full { .. }) => true,
            Self::Submission(SubmitError::Broker(error)) | Self::Redis(error) => {
                RedisError::is_transient(error)
            }
            Self::Submission(_) | Self::Foreign(_) | Self::Database(_) | Self::Watch(_) => false,
        }
    }
}
