//! Everything but plain successes: attempts whose end a script settles, in groups first, and alone if a group was not
//! answered or refused; and entries that are not jobs.

use std::mem::discriminant;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{Settler, Single};
use crate::broker::{
    Applied, AttemptSummary, EndedAttempt, Entry, Error, GroupMember, KeepRecord, TakenJob, is_followed,
    settling_weight,
};
use crate::event::{Event, Finished, QueueEvent};
use crate::job::{Burial, DeadReason, Envelope, Failure, JobId, Outcome, Parking, Settlement, settle};
use crate::sabotage::{self, Sabotage};
use crate::worker::backoff::RedisBackoff;
use crate::worker::delivery::{FinishedAttempt, SettlerInput};
use crate::worker::lease::EntryKey;
use crate::worker::quarantine::Task;

/// An attempt that ended, with what is decided about it.
pub(super) struct Decided {
    pub(super) task: Task,
    pub(super) settlement: Settlement,
    /// Whether other jobs may depend on it.
    is_followed: bool,
}

impl Decided {
    /// What decides with which others it is settled.
    pub(super) fn member(&self) -> GroupMember {
        let weight = match &self.task.work {
            SettlerInput::Finished(finished) | SettlerInput::Settled(finished, _) => {
                let envelope = &finished.delivery.envelope;
                settling_weight(&self.settlement, envelope, finished.bytes(), self.is_followed)
            }
            SettlerInput::NotStarted(..) | SettlerInput::Malformed(..) => 0,
        };
        GroupMember { lane: self.task.key().0, kind: discriminant(&self.settlement), weight }
    }

    /// Returns the job if it is buried because a person must decide about a step.
    fn undecided(&self) -> Option<&JobId> {
        let Settlement::Bury(Burial { reason: DeadReason::NeedsDecision, .. }) = self.settlement else {
            return None;
        };
        match &self.task.work {
            SettlerInput::Finished(finished) | SettlerInput::Settled(finished, _) => {
                Some(&finished.delivery.job.id)
            }
            SettlerInput::NotStarted(..) | SettlerInput::Malformed(..) => None,
        }
    }
}

/// What became of a settlement.
pub(super) enum Fate {
    /// Redis has answered.
    Settled(EntryKey),
    /// Redis did not answer, or refused its group or this one: it must be sent alone.
    Alone(Decided),
    /// Redis refuses it for its own reasons: a person must fix that.
    Refused(Task, Error),
}

impl Settler {
    /// Decides about all attempts among this work. Returns separately what is settled alone: also large jobs, which may
    /// take long to send.
    pub(super) fn decide_all(&self, work: Vec<SettlerInput>) -> (Vec<Decided>, Vec<Single>) {
        let (mut decided, mut singles) = (Vec::new(), Vec::new());
        for work in work {
            match self.decide(Task::new(work)) {
                Single::Attempt(attempt) if attempt.task.bytes() <= Envelope::LARGE_BYTES => {
                    decided.push(attempt)
                }
                single @ (Single::Attempt(_) | Single::Other(_)) => singles.push(single),
            }
        }
        (decided, singles)
    }

    /// Decides what follows from an attempt, and reports its failure the first time.
    pub(super) fn decide(&self, task: Task) -> Single {
        let settlement = match &task.work {
            SettlerInput::Finished(finished) => self.settlement_of(finished, task.refused == 0),
            SettlerInput::Settled(..) => Settlement::Ack,
            SettlerInput::NotStarted(..) | SettlerInput::Malformed(..) => return Single::Other(task),
        };
        let is_followed = self.is_followed(&task, &settlement);
        Single::Attempt(Decided { task, settlement, is_followed })
    }

    /// Returns true if other jobs may depend on what is decided.
    fn is_followed(&self, task: &Task, settlement: &Settlement) -> bool {
        let (SettlerInput::Finished(finished) | SettlerInput::Settled(finished, _)) = &task.work else {
            return false;
        };
        let job = &finished.delivery.job;
        is_followed(job, self.policies.of(&job.job_type), settlement)
    }

    fn settlement_of(&self, finished: &FinishedAttempt, is_first: bool) -> Settlement {
        let job = &finished.delivery.job;
        let policy = self.policies.of(&job.job_type);
        if let (Outcome::Failed(Failure { kind, error, .. }), true) = (&finished.outcome, is_first) {
            let queue = self.queue.name();
            let (job_type, job) = (&job.job_type, &job.id);
            self.events.emit(&Event::Failed { queue, job_type, job, kind: *kind, error });
        }
        let settlement = settle(job, policy, &finished.outcome, rand::random());
        if sabotage::is(Sabotage::DrainAcksRunning) && settlement == Settlement::Release {
            return Settlement::Ack;
        }
        settlement
    }

    /// Settles a group with one script.
    pub(super) async fn settle_group(&self, group: Vec<Decided>) -> Vec<Fate> {
        let ended: Vec<_> = group.iter().filter_map(|decided| self.ended(decided)).collect();
        let sent = self.queue.apply_all(&self.consumer, &ended);
        match self.monitor.ask(Duration::ZERO, sent).await {
            Ok(results) => {
                let settled = group.iter().zip(&results).filter(|(_, result)| result.is_ok());
                let undecided: Vec<JobId> =
                    settled.filter_map(|(decided, _)| decided.undecided().cloned()).collect();
                let settled = group.into_iter().zip(results);
                let fates = settled.map(|(decided, result)| self.fate(decided, result)).collect();
                join_all(undecided.iter().map(|job| self.resume(job))).await;
                fates
            }
            Err(error) => {
                self.events.redis_error(error.kind(), &error);
                group.into_iter().map(Fate::Alone).collect()
            }
        }
    }

    fn fate(&self, decided: Decided, result: Result<Applied, Error>) -> Fate {
        match result {
            Ok(applied) => {
                self.report(&decided, applied);
                self.leave(&decided.task);
                Fate::Settled(decided.task.key())
            }
            Err(error) => {
                self.events.redis_error(error.kind(), &error);
                Fate::Alone(decided)
            }
        }
    }

    /// Settles one task, however often it must be sent.
    pub(super) async fn settle_alone(&self, single: Single) -> Fate {
        match single {
            Single::Attempt(decided) => {
                let Some(ended) = self.ended(&decided) else { return Fate::Settled(decided.task.key()) };
                match self.retry(|| self.queue.apply(&self.consumer, ended)).await {
                    Ok(applied) => {
                        let undecided = decided.undecided().cloned();
                        let fate = self.fate(decided, Ok(applied));
                        if let Some(job) = undecided {
                            self.resume(&job).await;
                        }
                        fate
                    }
                    Err(error) => Fate::Refused(decided.task, error),
                }
            }
            Single::Other(Task { work: SettlerInput::Malformed(entry, why), refused }) => {
                self.bury_malformed(entry, why, refused).await
            }
            // There is nothing to settle.
            Single::Other(Task { work: SettlerInput::NotStarted(delivery, error), refused }) => {
                let work = SettlerInput::NotStarted(delivery, error.clone());
                Fate::Refused(Task { work, refused }, error)
            }
            Single::Other(task) => Fate::Settled(task.key()),
        }
    }

    /// Resumes a job that was buried because a person must decide, if a step reported its end just before.
    async fn resume(&self, job: &JobId) {
        match self.queue.steps().resume_decided(job, self.retention).await {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(%job, "a step reported its end before its job became a dead letter for it; the job continues")
            }
            Err(error) => {
                tracing::warn!(%job, %error, "failed to check whether a dead job needs a decision")
            }
        }
    }

    /// The attempt in the form that the broker takes.
    fn ended<'a>(&'a self, Decided { task, settlement, .. }: &'a Decided) -> Option<EndedAttempt<'a>> {
        let (SettlerInput::Finished(finished) | SettlerInput::Settled(finished, _)) = &task.work else {
            return None;
        };
        let delivery = &finished.delivery;
        let taken = TakenJob { job: &delivery.job, envelope: &delivery.envelope, trace: delivery.trace() };
        let result = if let Outcome::Done(result) = &finished.outcome { result.as_ref() } else { None };
        let policy = self.policies.of(&taken.job.job_type);
        let tracking = taken.job.tracking(policy, self.tracking);
        let (record, has_steps) = (finished.tracked, finished.has_steps);
        let (retention, fields) = (self.retention, self.journal_fields);
        let keep = KeepRecord { record, has_steps, tracking, retention, result, fields };
        let ran = AttemptSummary {
            elapsed: finished.elapsed,
            outcome: outcome_name(&finished.outcome),
            worker: self.consumer.as_str(),
        };
        Some(EndedAttempt { taken, policy, settlement, keep, ran })
    }

    /// Has the places given back that a job held in gates, because no handler of it runs.
    pub(super) fn leave(&self, task: &Task) {
        match &task.work {
            SettlerInput::Finished(finished) | SettlerInput::Settled(finished, _) => {
                self.admission.leave(finished)
            }
            SettlerInput::NotStarted(delivery, _) => self.admission.leave_unstarted(delivery),
            SettlerInput::Malformed(..) => {}
        }
    }

    /// Reports what became of an attempt.
    fn report(&self, Decided { task, settlement, .. }: &Decided, applied: Applied) {
        match &task.work {
            SettlerInput::Finished(finished) => self.report_settled(finished, settlement, applied),
            SettlerInput::Settled(finished, ours) => self.report_late(finished, *ours, applied),
            SettlerInput::NotStarted(..) | SettlerInput::Malformed(..) => {}
        }
    }

    fn report_settled(&self, finished: &FinishedAttempt, settlement: &Settlement, applied: Applied) {
        let cancelled = Settlement::Cancel("cancelled".to_owned());
        let settlement = match applied {
            Applied::Moved => settlement,
            Applied::Late if *settlement == Settlement::Ack => settlement,
            Applied::Cancelled => &cancelled,
            // The success was reported when it came.
            Applied::Late => return,
            Applied::Stale | Applied::Untraced => return self.emit_fenced(),
        };
        if let Settlement::Park(parking) = settlement {
            let (queue, job) = (self.queue.name(), &finished.delivery.job);
            let Parking { waitlist, .. } = parking;
            return self
                .events
                .of_queue(queue, QueueEvent::Parked { job_type: &job.job_type, job: &job.id, waitlist });
        }
        self.emit_finished(finished, settlement, Instant::now());
    }

    /// Reports a plain success whose entry was already settled. It cancels a retry that has not started. If nothing is
    /// known about the job, and it was `ours`, our own first command settled it.
    fn report_late(&self, finished: &FinishedAttempt, ours: bool, applied: Applied) {
        match applied {
            Applied::Moved => self.emit_finished(finished, &Settlement::Ack, Instant::now()),
            Applied::Untraced if ours => self.emit_finished(finished, &Settlement::Ack, Instant::now()),
            Applied::Late => {
                tracing::info!(job = %finished.delivery.job.id, "a late success cancelled the retry");
                self.emit_finished(finished, &Settlement::Ack, Instant::now());
            }
            Applied::Stale | Applied::Untraced if sabotage::is(Sabotage::FencedSuccessCounted) => {
                self.emit_finished(finished, &Settlement::Ack, Instant::now());
            }
            Applied::Stale | Applied::Untraced | Applied::Cancelled => self.emit_fenced(),
        }
    }

    async fn bury_malformed(&self, entry: Entry, why: String, refused: u32) -> Fate {
        let ran =
            AttemptSummary { elapsed: Duration::ZERO, outcome: "malformed", worker: self.consumer.as_str() };
        match self.retry(|| self.queue.bury_malformed(&self.consumer, &entry, &why, &ran)).await {
            Ok(job) => {
                if let Some(job) = job {
                    self.events.emit(&Event::Finished(Finished::malformed(self.queue.name(), &job, &why)));
                }
                Fate::Settled((entry.lane, entry.id))
            }
            Err(error) => Fate::Refused(Task { work: SettlerInput::Malformed(entry, why), refused }, error),
        }
    }

    /// Sends until Redis has answered. It is an error if Redis refuses for its own reasons: a person must fix that.
    async fn retry<T, F: Future<Output = Result<T, Error>>>(&self, send: impl Fn() -> F) -> Result<T, Error> {
        let mut backoff = RedisBackoff::new();
        loop {
            match self.monitor.ask(Duration::ZERO, send()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.events.redis_error(error.kind(), &error);
                    if !error.is_transient() {
                        return Err(error);
                    }
                    backoff.wait(&error).await;
                }
            }
        }
    }

    fn emit_fenced(&self) {
        self.events.of_queue(self.queue.name(), QueueEvent::Fenced);
    }

    pub(super) fn emit_finished(&self, finished: &FinishedAttempt, settlement: &Settlement, now: Instant) {
        let job = &finished.delivery.job;
        let age = self.clock.since(job.created.as_ms(), now);
        let finished_event = Finished::new(self.queue.name(), job, settlement, (finished.elapsed, age));
        self.events.emit(&Event::Finished(finished_event));
    }
}

/// Returns in one word how an attempt ended, for the ring of attempts.
fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done(_) => "done",
        Outcome::Snoozed(_) => "snoozed",
        Outcome::Interrupted => "interrupted",
        Outcome::Cancelled => "cancelled",
        Outcome::Dropped(_) => "dropped",
        Outcome::NotDue(_) => "not_due",
        Outcome::Parked(_) => "parked",
        Outcome::Unroutable => "unroutable",
        Outcome::Expired => "expired",
        Outcome::Failed(failure) => failure.kind.as_str(),
        Outcome::Lost(_) => "lost",
        Outcome::Malformed(_) => "malformed",
        Outcome::Invalid(_) => "invalid",
    }
}
