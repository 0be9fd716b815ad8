//! Workers under load on three queues, each on its own server, and the account of what became of every job.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use streamfleet::worker::QueueConfig;
use streamfleet::{
    Broker, Fleet, FleetConfig, Handler, JobContext, JobError, Producer, Queue, RawPayload, Submission,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use harness::cluster::Cluster;
use harness::fleet::Running;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

/// The pause between two jobs of one queue.
const PACE: Duration = Duration::from_millis(10);

/// A handler that notes which job it ran and when. A job whose payload is a number takes that many milliseconds.
#[derive(Clone, Default)]
pub(super) struct Notes {
    runs: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    /// The jobs that ran here, if several workers share their notes.
    own: Arc<Mutex<Vec<String>>>,
}

impl Notes {
    /// Returns notes for another worker, which shares them.
    pub(super) fn beside(&self) -> Self {
        Self { runs: Arc::clone(&self.runs), own: Arc::default() }
    }

    /// Whether a job of this queue ran here.
    pub(super) fn has_served(&self, queue: &str) -> bool {
        self.own.lock().unwrap().iter().any(|job| queue_of(job) == queue)
    }

    /// Returns when this job ran, each time.
    pub(super) fn of(&self, job: &str) -> Vec<Instant> {
        self.runs.lock().unwrap().get(job).cloned().unwrap_or_default()
    }

    /// Returns the jobs whose ids begin so, and how often each ran.
    pub(super) fn with_prefix(&self, prefix: &str) -> BTreeMap<String, usize> {
        let runs = self.runs.lock().unwrap();
        let own = runs.iter().filter(|(job, _)| job.starts_with(prefix));
        own.map(|(job, runs)| (job.clone(), runs.len())).collect()
    }

    /// Returns how many jobs of a queue began after this instant.
    pub(super) fn after(&self, queue: &str, instant: Instant) -> usize {
        let runs = self.runs.lock().unwrap();
        let of_queue = runs.iter().filter(|(job, _)| job.starts_with(&format!("{queue}-")));
        of_queue.filter(|(_, runs)| runs.iter().any(|run| *run > instant)).count()
    }
}

impl Handler for Notes {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<(), JobError> {
        self.own.lock().unwrap().push(context.id().to_string());
        self.runs.lock().unwrap().entry(context.id().to_string()).or_default().push(Instant::now());
        let ms = std::str::from_utf8(&payload.0).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        Ok(())
    }
}

/// Two workers of three queues, and a task per queue that submits jobs.
pub(super) struct Load {
    pub(super) names: [String; 3],
    pub(super) notes: Notes,
    pub(super) begun: Instant,
    broker: Broker,
    workers: Vec<Running>,
    submitting: JoinSet<Vec<String>>,
    enough: CancellationToken,
}

/// The outcomes of the jobs of one queue.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) queue: String,
    pub(super) submitted: usize,
    pub(super) done: usize,
    pub(super) dead: u64,
    pub(super) missing: usize,
    pub(super) run_twice: usize,
    /// The longest time in which no job of the queue began.
    pub(super) pause: Duration,
}

/// Returns a configuration for the cluster and these queues.
pub(super) fn config(cluster: &Cluster, queues: &[String], lease: Duration) -> FleetConfig {
    let mut config = FleetConfig::default();
    config.redis.url = cluster.url().as_str().into();
    config.worker.lease = lease;
    let queue = QueueConfig::default().concurrency(8);
    config.worker.queues = queues.iter().map(|name| (name.parse().unwrap(), queue.clone())).collect();
    config
}

/// Starts a worker of these queues.
pub(super) fn worker(cluster: &Cluster, queues: &[String], lease: Duration, notes: &Notes) -> Running {
    let config = config(cluster, queues, lease);
    Running::of(Fleet::builder(config).handler_for("test", notes.clone()).unwrap().build())
}

impl Load {
    /// Starts workers and load, and waits until jobs of every queue are done.
    pub(super) async fn start(cluster: &Cluster, lease: Duration) -> Self {
        let (names, notes) = (cluster.queues(), Notes::default());
        let broker = Broker::connect(config(cluster, &names, lease).redis).await.unwrap();
        let workers = (0..2).map(|_| worker(cluster, &names, lease, &notes)).collect();
        let (mut submitting, enough) = (JoinSet::new(), CancellationToken::new());
        for name in &names {
            submitting.spawn(submit(broker.queue(name.parse().unwrap()), enough.clone()));
        }
        let load = Self { names, notes, begun: Instant::now(), broker, workers, submitting, enough };
        let begun = load.begun;
        until_async("jobs of every queue to run", SOON, async || {
            load.names.iter().all(|name| load.notes.after(name, begun) > 20)
        })
        .await;
        load
    }

    pub(super) fn queue(&self, nth: usize) -> Queue {
        self.broker.queue(self.names[nth].parse().unwrap())
    }

    /// Submits one job that takes this long, with this name, which must begin with the name of the queue.
    pub(super) async fn submit_long(&self, nth: usize, name: &str, takes: Duration) {
        let payload = takes.as_millis().to_string();
        let submission = Submission::new("test").unwrap().id(name.parse().unwrap());
        let submission = submission.payload(payload, streamfleet::job::Encoding::Json).unwrap();
        Producer::new(self.queue(nth)).submit(submission).await.unwrap();
        until_async("the long job to begin", SOON, async || !self.notes.of(name).is_empty()).await;
    }

    /// Waits until more than 20 jobs of the queue began after this instant.
    pub(super) async fn until_served(&self, nth: usize, after: Instant) {
        let name = &self.names[nth];
        let what = format!("jobs of {name} to run again");
        until_async(&what, SOON, async || self.notes.after(name, after) > 20).await;
    }

    /// Waits until all submitted jobs are done, and returns their accounts. Pauses count from `from` on.
    pub(super) async fn end(mut self, event: &str, from: Instant) -> Vec<Account> {
        let ended = Instant::now();
        self.enough.cancel();
        let mut submitted = BTreeMap::new();
        while let Some(ids) = self.submitting.join_next().await {
            let ids = ids.unwrap();
            submitted.insert(queue_of(&ids[0]).to_owned(), ids);
        }
        let mut accounts = Vec::new();
        for (nth, name) in self.names.iter().enumerate() {
            let queue = self.queue(nth);
            let dead = until_async("the queue to be empty", SOON, async || {
                let snapshot = queue.snapshot().await.ok()?;
                (snapshot.waiting() + snapshot.running() + snapshot.delayed == 0).then_some(snapshot.dead)
            })
            .await;
            let runs: Vec<Vec<Instant>> = submitted[name].iter().map(|id| self.notes.of(id)).collect();
            let done = runs.iter().filter(|runs| !runs.is_empty()).count();
            accounts.push(Account {
                queue: name.clone(),
                submitted: runs.len(),
                done,
                dead,
                missing: runs.len() - done - usize::try_from(dead).unwrap(),
                run_twice: runs.iter().filter(|runs| runs.len() > 1).count(),
                pause: longest_pause(runs.into_iter().flatten(), from, ended),
            });
        }
        for account in &accounts {
            let Account { queue, submitted, done, dead, missing, run_twice, pause } = account;
            println!(
                "{event}: {queue}: submitted {submitted}, done {done}, dead {dead}, missing {missing}, run twice \
                 {run_twice}, longest pause {:.1} s",
                pause.as_secs_f64()
            );
        }
        join_all(self.workers.into_iter().map(Running::stop)).await;
        accounts
    }
}

/// Submits one job after another, each until it is accepted. Returns the ids of the accepted ones.
async fn submit(queue: Queue, enough: CancellationToken) -> Vec<String> {
    let (producer, mut accepted) = (Producer::new(queue.clone()), Vec::new());
    for nth in 0.. {
        let id = format!("{}-{nth}", queue.name());
        let submission = || Submission::new("test").unwrap().id(id.parse().unwrap());
        // With its own id, it is one job however often it is sent.
        while producer.submit(submission()).await.is_err() {
            if enough.is_cancelled() {
                return accepted;
            }
            tokio::time::sleep(PACE).await;
        }
        accepted.push(id);
        if enough.is_cancelled() {
            break;
        }
        tokio::time::sleep(PACE).await;
    }
    accepted
}

fn queue_of(id: &str) -> &str {
    id.split('-').next().unwrap()
}

fn longest_pause(runs: impl Iterator<Item = Instant>, from: Instant, to: Instant) -> Duration {
    let mut runs: Vec<_> = runs.filter(|run| (from..to).contains(run)).chain([from, to]).collect();
    runs.sort();
    runs.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}
