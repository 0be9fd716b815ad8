//! A fleet under load, and a record of what was submitted and run, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use streamfleet::job::Encoding;
use streamfleet::producer::SubmitError;
use streamfleet::{
    Broker, Fleet, FleetConfig, Handler, JobContext, JobError, Producer, Queue, RawPayload, RedisError,
    Submission,
};
use streamfleet_engine::admin::QueueSnapshot;
use tokio::task::JoinSet;

use harness::fleet::{Running, config, quick};
use harness::wait::until_async;

/// Processes, and how many jobs each of them runs at a time.
const PROCESSES: usize = 3;
const SLOTS: usize = 4;

/// The interval between submissions. The fleet could run more than that.
const EVERY: Duration = Duration::from_millis(8);

/// How many jobs wait from the beginning: replicas have them, and a former primary would deliver them to no effect.
const BACKLOG: u64 = 800;

/// How long a job takes.
const TAKES: Duration = Duration::from_millis(60);

/// The most jobs that run at a time.
pub(super) const RUNNING: usize = PROCESSES * SLOTS;

/// The start and end of a run.
pub(super) type Ran = (Instant, Option<Instant>);

/// What producers and handlers saw. A job is identified by a number, its payload.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When the submission was sent, and when it was accepted.
    pub(super) accepted: BTreeMap<u64, (Instant, Instant)>,
    /// Submissions with an unknown outcome.
    pub(super) unknown: BTreeSet<u64>,
    /// Submissions that were refused: nothing was executed.
    pub(super) refused: BTreeSet<u64>,
    pub(super) runs: BTreeMap<u64, Vec<Ran>>,
}

/// A handler that takes some time.
#[derive(Clone)]
struct Work(Arc<Mutex<Seen>>);

impl Handler for Work {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        let number: u64 = std::str::from_utf8(&payload.0).unwrap().parse().unwrap();
        let nth = {
            let mut seen = self.0.lock().unwrap();
            let runs = seen.runs.entry(number).or_default();
            runs.push((Instant::now(), None));
            runs.len() - 1
        };
        tokio::time::sleep(TAKES).await;
        self.0.lock().unwrap().runs.get_mut(&number).expect("it was just recorded")[nth].1 =
            Some(Instant::now());
        Ok(())
    }
}

/// Producers and workers.
pub(super) struct Load {
    seen: Arc<Mutex<Seen>>,
    fleet: Vec<Running>,
    producers: JoinSet<()>,
    queue: Queue,
}

impl Load {
    /// Starts the fleet, and waits until jobs are done.
    pub(super) async fn start(url: &str) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let fleet = (0..PROCESSES).map(|_| process(url, Work(Arc::clone(&seen)))).collect();
        let broker = Broker::connect(config(url).redis).await.unwrap();
        let queue = broker.queue("default".parse().unwrap());
        let sent = Instant::now();
        let backlog = Producer::new(queue.clone()).submit_all((0..BACKLOG).map(job)).await.unwrap();
        let accepted = (0..).zip(&backlog).map(|(number, _id)| (number, (sent, Instant::now())));
        seen.lock().unwrap().accepted.extend(accepted);
        let mut producers = JoinSet::new();
        producers.spawn(submit(queue.clone(), Arc::clone(&seen)));
        let load = Self { seen, fleet, producers, queue };
        load.until_more(100).await;
        load
    }

    /// Waits until this many further jobs have ended.
    pub(super) async fn until_more(&self, jobs: usize) {
        let ended = || {
            let seen = self.seen.lock().unwrap();
            seen.runs.values().flatten().filter(|(_, until)| until.is_some()).count()
        };
        let target = ended() + jobs;
        until_async("more jobs to end", Duration::from_secs(60), async || ended() >= target).await;
    }

    /// Stops submitting, waits until all jobs are done, and stops the fleet.
    pub(super) async fn end(mut self) -> (Seen, QueueSnapshot) {
        self.producers.shutdown().await;
        let snapshot = until_async("the queue to be empty", Duration::from_secs(60), async || {
            let snapshot = self.queue.snapshot().await.ok()?;
            (snapshot.waiting() + snapshot.running() + snapshot.delayed == 0).then_some(snapshot)
        })
        .await;
        for running in self.fleet {
            running.stop().await;
        }
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        (seen, snapshot)
    }
}

fn process(url: &str, work: Work) -> Running {
    let mut config: FleetConfig = config(url);
    config.worker.lease = Duration::from_secs(10);
    config.worker.queues.values_mut().for_each(|queue| queue.concurrency = SLOTS);
    Running::of(Fleet::builder(config).handler_with("test", quick(5), work).unwrap().build())
}

fn job(number: u64) -> Submission {
    Submission::new("test").unwrap().payload(number.to_string(), Encoding::Json).unwrap()
}

/// Submits one job after another. A failed submission is not repeated, so that each acceptance is one job.
async fn submit(queue: Queue, seen: Arc<Mutex<Seen>>) {
    let producer = Producer::new(queue);
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for number in BACKLOG.. {
        due.tick().await;
        let submission = job(number);
        let sent = Instant::now();
        // The outcome is unknown until the answer arrives.
        seen.lock().unwrap().unknown.insert(number);
        let result = producer.submit(submission).await;
        let mut seen = seen.lock().unwrap();
        match result {
            Ok(_) => drop(seen.accepted.insert(number, (sent, Instant::now()))),
            Err(SubmitError::Broker(RedisError::Unknown { .. })) => continue,
            Err(_) => drop(seen.refused.insert(number)),
        }
        seen.unknown.remove(&number);
    }
}
