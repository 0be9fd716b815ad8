//! Submits the rows of the outbox. A row's id is accepted once, so a row that was submitted and not deleted is submitted again and found.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use streamfleet::chore::Chore;
use streamfleet::event::Events;
use streamfleet::job::{EntryId, QueueName};
use streamfleet::nudges::Nudges;
use streamfleet::{Broker, Producer, RedisError, Submission, SubmitError};
use streamfleet_engine::job::doubled;
use streamfleet_operations::submit::is_about_job;
use streamfleet_service::config::OutboxSection;
use streamfleet_sql::{Error, LazyDatabase, outbox};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::outbox_report::Report;
use super::row::submission;
use super::stuck_queues::StuckQueues;

/// How long the lease lasts without renewal.
const LEASE: Duration = Duration::from_secs(5);

/// The most rows of a turn, and about the most bytes.
const ROWS: usize = 1000;
const BYTES: u64 = 16 << 20;

/// The pauses after an error of the database.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Moves rows of one outbox to their queues.
pub(super) struct Relay {
    pub(super) broker: Broker,
    pub(super) database: LazyDatabase,
    pub(super) config: OutboxSection,
    /// What tells this process apart.
    pub(super) own: String,
    pub(super) events: Events,
}

/// What became of the rows of one queue.
struct Told {
    queue: QueueName,
    /// Those that Redis has.
    submitted: Vec<i64>,
    /// Those that can never be jobs, with the reasons.
    refused: Vec<(i64, String)>,
    /// Why the others were not submitted; the first reason.
    failed: Option<SubmitError>,
}

/// Why rows wait.
pub(super) struct Trouble {
    /// The class of the error, as metrics have it.
    pub(super) class: &'static str,
    pub(super) why: String,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self { class: error.class(), why: error.to_string() }
    }
}

impl Relay {
    /// Relays while this process has the lease, until it is stopped.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut chore = Chore::every(self.config.poll, &self.events, &stop);
        let mut report = Report::new(&self.broker, &self.events);
        let (mut failures, mut stuck) = (0_u32, StuckQueues::default());
        let (nudged, mut listening) = (Arc::new(Notify::new()), JoinSet::new());
        while chore.tick_or(nudged.notified()).await {
            if chore.note(self.broker.lead_outbox(&self.own, LEASE).await) != Some(true) {
                report.leave();
                listening.shutdown().await;
                chore.next_about(LEASE / 5);
                continue;
            }
            if listening.is_empty() {
                let (nudges, notify, stop) = (
                    Nudges::Outbox(self.broker.clone(), EntryId::new(0, 0)),
                    Arc::clone(&nudged),
                    stop.clone(),
                );
                listening.spawn(async move { nudges.listen(&notify, &stop).await });
            }
            match self.reported_turn(&mut report, &mut stuck).await {
                Ok((is_more, noted)) => {
                    chore.note(noted);
                    if failures > 0 {
                        tracing::info!("the outbox is relayed again");
                    }
                    failures = 0;
                    if is_more {
                        chore.next_in(Duration::ZERO);
                    }
                }
                Err(trouble) => {
                    if failures == 0 {
                        tracing::error!(why = trouble.why, "the outbox cannot be relayed; its rows wait");
                    }
                    let [first, longest] = PAUSES;
                    chore.next_about(doubled(first, failures, longest));
                    failures = failures.saturating_add(1);
                    chore.note(report.failed(&trouble).await);
                }
            }
        }
        listening.shutdown().await;
        if let Err(error) = self.broker.lead_outbox(&self.own, Duration::ZERO).await {
            tracing::debug!(%error, "failed to release the lease of the outbox's relay; it will expire");
        }
        self.database.close().await;
    }

    /// Relays the oldest rows, and now and then counts those that are left. Returns whether there may be more that can be relayed now, and
    /// whether Redis was told how many wait.
    async fn reported_turn(
        &self,
        report: &mut Report<'_>,
        stuck: &mut StuckQueues,
    ) -> Result<(bool, Result<(), RedisError>), Trouble> {
        let is_more = self.turn(report, stuck).await?;
        if !report.is_due() {
            return Ok((is_more, Ok(())));
        }
        let waiting = outbox::waiting(self.database.get().await?).await?;
        Ok((is_more, report.waiting(waiting, stuck.why()).await))
    }

    /// Relays the oldest rows of queues that take any.
    async fn turn(&self, report: &Report<'_>, stuck: &mut StuckQueues) -> Result<bool, Trouble> {
        let database = self.database.get().await?;
        let rows = outbox::take(database, &stuck.names(), ROWS, BYTES).await?;
        if rows.is_empty() {
            stuck.forget_due();
            return Ok(false);
        }
        let (mut submitted, mut refused) = (Vec::new(), Vec::new());
        let mut by_queue: BTreeMap<QueueName, Vec<(i64, Submission)>> = BTreeMap::new();
        for row in rows {
            let seq = row.seq;
            match submission(row, self.config.accepted_once) {
                Ok((queue, job)) => by_queue.entry(queue).or_default().push((seq, job)),
                Err(why) => refused.push((seq, why)),
            }
        }
        let mut sending: FuturesUnordered<_> =
            by_queue.into_iter().map(|(queue, jobs)| self.submit(queue, jobs)).collect();
        while let Some(told) = sending.next().await {
            stuck.note(told.queue, !told.submitted.is_empty(), told.failed);
            submitted.extend(told.submitted);
            refused.extend(told.refused);
        }
        outbox::delete(database, &submitted).await?;
        report.relayed(submitted.len(), refused.len());
        for (seq, why) in refused {
            tracing::error!(
                seq,
                why,
                "a row of the outbox cannot be a job; it stays, with this text in its column `refused`"
            );
            outbox::refuse(database, seq, &why).await?;
        }
        // The rows of a queue that is stuck are left out of the next turn.
        Ok(stuck.has_room())
    }

    async fn submit(&self, queue: QueueName, mut jobs: Vec<(i64, Submission)>) -> Told {
        let producer = Producer::new(self.broker.queue(queue.clone()));
        let mut told = Told { queue, submitted: Vec::new(), refused: Vec::new(), failed: None };
        send(&producer, &jobs, &mut told).await;
        let Some(SubmitError::Full { depth, limit }) = told.failed else { return told };
        // A round trip that does not fit is refused as a whole, so the queue may have room for some of its jobs.
        let room = usize::try_from(limit.saturating_sub(depth)).unwrap_or(usize::MAX);
        let done: HashSet<i64> =
            told.submitted.iter().copied().chain(told.refused.iter().map(|(seq, _)| *seq)).collect();
        jobs.retain(|(seq, _)| !done.contains(seq));
        jobs.truncate(room);
        if !jobs.is_empty() {
            send(&producer, &jobs, &mut told).await;
        }
        told
    }
}

/// Submits jobs, and notes what became of each.
async fn send(producer: &Producer, jobs: &[(i64, Submission)], told: &mut Told) {
    let Told { submitted, refused, failed, .. } = told;
    let each: Vec<Submission> = jobs.iter().map(|(_, job)| job.clone()).collect();
    let sent = producer.submit_each(each, |place, answer| match answer {
        Ok(_) => submitted.push(jobs[place].0),
        Err(error) if is_about_job(&error) => refused.push((jobs[place].0, error.to_string())),
        Err(error) => *failed = failed.take().or(Some(error)),
    });
    let sent = sent.await;
    let is_told = |error: &SubmitError| is_about_job(error) && !told.refused.is_empty();
    told.failed = told.failed.take().or(sent.err().filter(|error| !is_told(error)));
}
