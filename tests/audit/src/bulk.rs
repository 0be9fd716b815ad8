//! Plain jobs in bulk, by pipelines of `XADD` and by a producer. A job is known by a number; only the reply to it is kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use streamfleet::Producer;
use streamfleet::job::Lane;
use tokio::sync::Semaphore;

use super::payload::{fields, job};
use super::register::Reply;
use super::send::reply_of;
use harness::redis_server::RedisServer;

/// How many jobs are in one batch, and in one step.
const BATCH: u64 = 200;
const STEP: u64 = 2_000;

/// How long to pause after Redis has refused.
const REFUSED: Duration = Duration::from_millis(200);

/// The first character of the marks of plain jobs in bulk.
pub(crate) const MARK: char = 'p';

/// The reply to each plain job.
#[derive(Default)]
pub(crate) struct Bulk {
    replies: Mutex<Vec<Reply>>,
    /// Under way or accepted.
    submitted: AtomicU64,
}

/// Jobs that are submitted together.
pub(crate) struct Batch {
    first: usize,
    count: usize,
    lane: Lane,
}

impl Bulk {
    /// Returns batches of at most this many new jobs in total.
    pub(crate) fn take(&self, count: u64) -> Vec<Batch> {
        let mut replies = self.replies.lock().unwrap();
        let (mut left, mut batches) = (count.min(STEP), Vec::new());
        while left > 0 {
            let count = left.min(BATCH) as usize;
            let first = replies.len();
            replies.resize(first + count, Reply::Unknown);
            let lane = Lane::ALL[(first / BATCH as usize) % Lane::ALL.len()];
            batches.push(Batch { first, count, lane });
            left -= count as u64;
            self.submitted.fetch_add(count as u64, Ordering::SeqCst);
        }
        batches
    }

    fn answered(&self, at: usize, reply: Reply) {
        self.replies.lock().unwrap()[at] = reply;
        if reply != Reply::Accepted {
            self.submitted.fetch_sub(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::SeqCst)
    }

    /// Returns the replies, by number.
    pub(crate) fn replies(&self) -> Vec<Reply> {
        self.replies.lock().unwrap().clone()
    }
}

/// Returns the number of a plain job with this mark.
pub(crate) fn number_of(mark: &str) -> Option<usize> {
    mark.strip_prefix(MARK)?.parse().ok()
}

/// Returns the mark of a plain job.
pub(crate) fn mark_of(number: usize) -> String {
    format!("{MARK}{number}")
}

/// Submits batches.
pub(crate) struct Carrier {
    server: Arc<RedisServer>,
    far: Producer,
    bulk: Arc<Bulk>,
    /// One batch at a time goes each way, so that an outage of Redis does not hit all batches.
    ways: [Semaphore; 2],
}

impl Carrier {
    pub(crate) fn new(server: &Arc<RedisServer>, far: Producer, bulk: &Arc<Bulk>) -> Self {
        let ways = [Semaphore::new(1), Semaphore::new(1)];
        Self { server: Arc::clone(server), far, bulk: Arc::clone(bulk), ways }
    }

    /// Submits a batch once; nothing of it is sent again.
    pub(crate) async fn carry(&self, batch: Batch) {
        let is_far = batch.first / BATCH as usize % 2 == 1;
        let _turn = self.ways[usize::from(is_far)].acquire().await.unwrap();
        let reply = if is_far { self.produce(&batch).await } else { self.add(&batch).await };
        if reply == Reply::Refused {
            tokio::time::sleep(REFUSED).await;
        }
    }

    /// Submits by a producer behind a proxy.
    async fn produce(&self, batch: &Batch) -> Reply {
        let jobs = batch.marks().map(|mark| job("storm", &mark, "ok").lane(batch.lane));
        let mut done = 0;
        let sent = self.far.submit_or_find_all(jobs.collect::<Vec<_>>(), |more| done += more.len()).await;
        let reply = sent.map_or_else(|error| reply_of(&error), |_ids| Reply::Accepted);
        for nth in 0..batch.count {
            self.bulk.answered(batch.first + nth, if nth < done { Reply::Accepted } else { reply });
        }
        reply
    }

    /// Submits by a pipeline of `XADD`, on a thread that may block.
    async fn add(&self, batch: &Batch) -> Reply {
        let stream = match batch.lane {
            Lane::High => "sf:{default}:jobs:high",
            Lane::Normal => "sf:{default}:jobs",
            Lane::Low => "sf:{default}:jobs:low",
        };
        let mut pipe = redis::pipe();
        for mark in batch.marks() {
            let command = pipe.cmd("XADD").arg(stream).arg("*");
            for (name, value) in fields("storm", &mark, "ok") {
                command.arg(name).arg(value);
            }
        }
        let server = Arc::clone(&self.server);
        let answers = tokio::task::spawn_blocking(move || server.try_pipe(&pipe)).await.unwrap();
        let reply = match answers {
            Ok(answers) => {
                for (nth, answer) in answers.iter().enumerate() {
                    let is_error = matches!(answer, redis::Value::ServerError(_));
                    let reply = if is_error { Reply::Refused } else { Reply::Accepted };
                    self.bulk.answered(batch.first + nth, reply);
                }
                return Reply::Accepted;
            }
            Err(error) if error.is_connection_refusal() => Reply::Refused,
            Err(_lost) => Reply::Unknown,
        };
        (0..batch.count).for_each(|nth| self.bulk.answered(batch.first + nth, reply));
        reply
    }
}

impl Batch {
    fn marks(&self) -> impl Iterator<Item = String> + '_ {
        (self.first..self.first + self.count).map(mark_of)
    }
}
