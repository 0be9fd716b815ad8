//! Submissions that wait until replicas or the disk have their jobs.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::batches::is_repeatable;
use super::{Answers, PAUSES, Producer, Submission, SubmitError, graver, is_retryable, may_be_executed};
use crate::broker::mutex::lock;
use crate::broker::{self, Durability, Link, Queue, RESEND_WITHIN, Turn};
use crate::job::JobId;

/// The connections for durable jobs that nobody uses now. Clones of a producer share them. Each is used by one
/// submission at a time: while it waits, Redis runs nothing else over it. After a failure none is kept, because the others
/// may have broken too.
pub(super) type Shared = Arc<Mutex<Vec<Link>>>;

/// How many connections are kept for the next submissions.
const KEPT: usize = 8;

/// The strictest durability that the jobs of a batch ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Need {
    replicas: u32,
    aof: bool,
}

impl Need {
    fn of(batch: &[Submission]) -> Self {
        batch.iter().fold(Self::default(), |need, submission| match submission.durability {
            Durability::Memory => need,
            Durability::Replicas(count) => Self { replicas: need.replicas.max(count), ..need },
            Durability::Aof => Self { aof: true, ..need },
        })
    }
}

impl Producer {
    /// Sets how long to wait for replicas or the disk to confirm a durable job: 5 s by default, at most 60 s.
    #[must_use]
    pub fn confirm_within(self, longest: Duration) -> Self {
        Self { confirm_within: longest.min(Duration::from_secs(60)), ..self }
    }

    /// Sends one batch, and waits until it is as durable as its jobs ask for. Notes the answer about each job, also after an
    /// error.
    pub(super) async fn send(
        &self,
        batch: Vec<Submission>,
        turn: Option<Turn>,
        answers: &mut Answers,
    ) -> Result<(), SubmitError> {
        let need = Need::of(&batch);
        if need == Need::default() {
            return self.deliver(batch, turn, answers).await;
        }
        // A job without an id of its own would become a second job if it were sent again.
        let (mut pauses, begun) = (PAUSES.iter().filter(|_| is_repeatable(&batch)), Instant::now());
        let mut before = None;
        loop {
            let error = match self.send_durable(need, batch.clone(), answers).await {
                Err(SubmitError::Broker(error)) => error,
                Err(error @ SubmitError::NotOffered(_)) => {
                    return Err(before.filter(may_be_executed).map_or(error, Into::into));
                }
                answer => return answer,
            };
            let is_away = matches!(error, broker::Error::Unreachable(_));
            let pause = pauses.next().filter(|_| is_away || is_retryable(&error));
            let error = graver(before, error);
            let Some(pause) = pause else { return Err(error.into()) };
            tokio::time::sleep(*pause).await;
            if begun.elapsed() > RESEND_WITHIN {
                return Err(error.into());
            }
            before = Some(error);
        }
    }

    /// Sends one batch over a connection that nobody else uses, and waits until it is as durable as needed.
    async fn send_durable(
        &self,
        need: Need,
        batch: Vec<Submission>,
        answers: &mut Answers,
    ) -> Result<(), SubmitError> {
        let link = self.confirming_link(need).await?;
        let there = Self { queue: self.queue.over(&link), retries: false, ..self.clone() };
        let sent = there.deliver(batch, None, answers).await;
        if let Err(SubmitError::Broker(error)) = &sent
            && is_retryable(error)
        {
            lock(&self.confirming).clear();
            unconfirm(answers, &error.to_string());
            return sent;
        }
        // Even if a job is refused, others may be accepted.
        let has_accepted = answers.iter().flatten().any(Result::is_ok);
        if has_accepted && let Err(why) = confirm(&there.queue, need, self.confirm_within).await {
            lock(&self.confirming).clear();
            return Err(SubmitError::Unconfirmed { accepted: unconfirm(answers, &why), why });
        }
        self.keep(link);
        sent
    }

    /// Returns a connection that nobody else uses, after checking that Redis can confirm what the jobs need.
    async fn confirming_link(&self, need: Need) -> Result<Link, SubmitError> {
        while let Some(link) = self.take_kept() {
            // It may have broken while nobody used it.
            if !link.is_broken() && self.check_confirming(&link, need).await.is_ok() {
                return Ok(link);
            }
        }
        let link = self.queue.open_confirming().await.map_err(not_offered)?;
        self.check_confirming(&link, need).await.map_err(not_offered)?;
        Ok(link)
    }

    async fn check_confirming(&self, link: &Link, need: Need) -> Result<(), broker::Error> {
        if need.aof {
            self.queue.over(link).await_aof(Duration::from_millis(1)).await?;
        }
        Ok(())
    }

    /// Keeps a connection for the next submission.
    fn keep(&self, link: Link) {
        let mut kept = lock(&self.confirming);
        if kept.len() < KEPT {
            kept.push(link);
        }
    }

    fn take_kept(&self) -> Option<Link> {
        lock(&self.confirming).pop()
    }
}

/// Notes that the accepted jobs are not confirmed to be durable, and returns them.
fn unconfirm(answers: &mut Answers, why: &str) -> Vec<JobId> {
    let mut accepted = Vec::new();
    for answer in answers.iter_mut().flatten() {
        if let Ok(submitted) = answer {
            accepted.push(submitted.id.clone());
            let alone = vec![submitted.id.clone()];
            *answer = Err(SubmitError::Unconfirmed { accepted: alone, why: why.to_owned() });
        }
    }
    accepted
}

/// Waits until everything written so far is kept as needed, or returns why that is unknown.
async fn confirm(queue: &Queue, need: Need, within: Duration) -> Result<(), String> {
    let unknown = |error: broker::Error| error.to_string();
    // Known jobs were written over other connections, and from 7.2 on, Redis waits only for what this one has written.
    queue.write_mark().await.map_err(unknown)?;
    if need.replicas > 0 {
        let replicas = queue.await_replicas(need.replicas, within).await.map_err(unknown)?;
        if replicas < need.replicas.into() {
            return Err(format!("after {within:?}, {replicas} of {} replicas have it", need.replicas));
        }
    }
    if need.aof && !queue.await_aof(within).await.map_err(unknown)? {
        return Err(format!("after {within:?}, it is not on the server's disk"));
    }
    Ok(())
}

fn not_offered(error: broker::Error) -> SubmitError {
    let broker::Error::Refused { class, detail, .. } = &error else { return error.into() };
    if detail.contains("unknown command") {
        return SubmitError::NotOffered(
            "this server does not support WAITAOF, which needs Redis 7.2 or later".to_owned(),
        );
    }
    if *class == broker::Class::Busy { error.into() } else { SubmitError::NotOffered(detail.clone()) }
}
