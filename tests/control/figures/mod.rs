//! When a queue is empty, and why its jobs wait, compared with the truth of six scenes. A fleet runs real jobs. Its minutes are as
//! many attempts as the test allows, so they pass as fast as the machine runs them, and the truth is counted, not timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use streamfleet::job::{GateName, Limits, Rate};
use streamfleet::{Handler, JobContext, JobError, Queue, RawPayload};
use streamfleet_engine::admin::{Backlog, TimeToEmpty};
use tokio::sync::Semaphore;

use harness::fleet::{Running, config, queue, quick};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON};
use harness::wait::until_async;

const STREAM: &str = "sf:{default}:jobs";
const SAMPLES: &str = "sf:{default}:samples";
const MINUTE: u64 = 60_000;

/// How many minutes are watched before somebody asks.
const WATCHED: usize = 10;

/// How many attempts a minute allows.
const RUN: u64 = 90;

/// Runs as many attempts as are allowed, and lets some of ten fail.
struct Allowed {
    attempts: Semaphore,
    ran: AtomicU64,
    fail_of_ten: u64,
}

/// Its handler.
struct Worker(Arc<Allowed>);

impl Handler for Worker {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        self.0.attempts.acquire().await.map_err(JobError::retry)?.forget();
        let nth = self.0.ran.fetch_add(1, Ordering::SeqCst);
        if nth % 10 < self.0.fail_of_ten { Err(JobError::retry("no")) } else { Ok(()) }
    }
}

/// What was counted at the end of a minute, and what had happened in it.
#[derive(Default)]
struct Counted {
    waiting: u64,
    running: u64,
    arrived: u64,
    failed: u64,
    done: u64,
    moved: i64,
}

/// A queue, its fleet, and what was counted.
struct Watched {
    server: RedisServer,
    queue: Queue,
    allowed: Arc<Allowed>,
    fleet: Running,
    /// How many jobs wait or run.
    jobs: u64,
    /// How many more were moved here than away since they were counted.
    moved: i64,
    counted: Vec<Counted>,
}

impl Watched {
    async fn start(jobs: u64, fail_of_ten: u64) -> Self {
        let server = RedisServer::start();
        let queue = queue(&server).await;
        let allowed = Allowed { attempts: Semaphore::new(0), ran: AtomicU64::new(0), fail_of_ten };
        let allowed = Arc::new(allowed);
        let mut config = config(&server.url());
        // A busy machine must not lose attempts that wait for the test.
        (config.worker.lease, config.worker.prefetch) = (SOON, 4);
        config.worker.queues.values_mut().for_each(|queue| queue.concurrency = 4);
        submit(&server, jobs);
        let fleet = Running::start_with(config, quick(100), Worker(Arc::clone(&allowed)));
        let mut watched = Self { server, queue, allowed, fleet, jobs, moved: 0, counted: Vec::new() };
        watched.count(Counted::default()).await;
        watched
    }

    /// Waits until everything that was allowed has happened, and counts the jobs.
    async fn count(&mut self, happened: Counted) {
        let (queue, jobs) = (&self.queue, self.jobs);
        let snapshot = until_async("the minute to be over", LONG, async || {
            let snapshot = queue.snapshot().await.unwrap();
            let is_over = snapshot.waiting() + snapshot.running() == jobs && snapshot.delayed == 0;
            (is_over && snapshot.running() > 0).then_some(snapshot)
        })
        .await;
        let (waiting, running) = (snapshot.waiting(), snapshot.running());
        self.counted.push(Counted { waiting, running, ..happened });
    }

    /// Lets a minute pass in which `arrived` jobs arrive.
    async fn minute(&mut self, arrived: u64) {
        submit(&self.server, arrived);
        let before = self.allowed.ran.load(Ordering::SeqCst);
        let failed = (before..before + RUN).filter(|nth| nth % 10 < self.allowed.fail_of_ten).count() as u64;
        let done = RUN - failed;
        self.jobs = self.jobs + arrived - done;
        self.allowed.attempts.add_permits(RUN as usize);
        let ran = &self.allowed.ran;
        until_async("the attempts", LONG, async || ran.load(Ordering::SeqCst) == before + RUN).await;
        let moved = std::mem::take(&mut self.moved);
        self.count(Counted { arrived, failed, done, moved, ..Counted::default() }).await;
    }

    /// Takes waiting jobs away, as a move does.
    fn move_away(&mut self, jobs: u64) {
        let count = jobs.to_string();
        let newest = self.server.cmd(&["XREVRANGE", STREAM, "+", "-", "COUNT", &count]);
        let newest: Vec<(String, Vec<String>)> = redis::from_redis_value(newest).unwrap();
        let delete = ["XDEL".to_owned(), STREAM.to_owned()].into_iter();
        self.server.cmd(&delete.chain(newest.into_iter().map(|(id, _)| id)).collect::<Vec<_>>());
        self.jobs -= jobs;
        self.moved -= jobs as i64;
    }

    /// Writes what was counted as the samples of the last minutes.
    fn write_samples(&self) {
        let now = self.server.now_ms();
        let minute = now / MINUTE * MINUTE;
        let mut all = redis::pipe();
        all.atomic().cmd("DEL").arg(SAMPLES).ignore();
        for (nth, one) in (1..).zip(&self.counted) {
            let id = format!("{}-0", minute - (self.counted.len() as u64 - nth) * MINUTE);
            let fields = [
                ("span_ms", MINUTE.to_string()),
                ("off_ms", (now - minute).to_string()),
                ("waiting", one.waiting.to_string()),
                ("running", one.running.to_string()),
                ("arrived", one.arrived.to_string()),
                ("done", one.done.to_string()),
                ("failed", one.failed.to_string()),
                ("retried", one.failed.to_string()),
                ("moved", one.moved.to_string()),
            ];
            all.cmd("XADD").arg(SAMPLES).arg(id).arg(&fields[..]).ignore();
        }
        all.exec(&mut self.server.client()).unwrap();
    }

    /// Asks what is known now.
    async fn ask(&self) -> Backlog {
        until_async("an answer without samples of the leader", SOON, async || {
            self.write_samples();
            let known = self.queue.backlog(&self.queue.snapshot().await.unwrap()).await.unwrap();
            let kept: usize = redis::from_redis_value(self.server.cmd(&["XLEN", SAMPLES])).unwrap();
            (kept == self.counted.len()).then_some(known)
        })
        .await
    }

    /// Goes on until no job waits. Returns how many seconds that takes.
    async fn until_empty(&mut self, arrives: u64) -> f64 {
        let mut minutes = 0.0;
        loop {
            let [.., before, last] = &self.counted[..] else { unreachable!("two were counted") };
            let lost = (before.waiting + before.running) as f64 - (last.waiting + last.running) as f64;
            if last.waiting as f64 <= 2.0 * lost {
                return 60.0 * (minutes + last.waiting as f64 / lost);
            }
            self.minute(arrives).await;
            minutes += 1.0;
        }
    }

    /// Lets what waits for the test end.
    async fn stop(self) {
        self.allowed.attempts.add_permits(1000);
        self.fleet.stop().await;
    }
}

/// Adds waiting jobs, if there are any.
fn submit(server: &RedisServer, jobs: u64) {
    if jobs == 0 {
        return;
    }
    let mut all = redis::pipe();
    for _ in 0..jobs {
        all.cmd("XADD").arg(STREAM).arg("*").arg(&["type", "test", "payload", "1"][..]).ignore();
    }
    all.exec(&mut server.client()).unwrap();
}

fn assert_within(known: &Backlog, truth: f64) {
    let Some(time) = known.time_to_empty().time() else { panic!("{:?}: {known:?}", known.time_to_empty()) };
    let share = time.as_secs_f64() / truth;
    assert!((0.8..=1.2).contains(&share), "{time:?} instead of {truth} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_steady_queue_is_empty_when_it_says_so_and_a_paused_one_never() {
    let mut watched = Watched::start(1600, 0).await;
    for _ in 0..WATCHED {
        watched.minute(30).await;
    }
    let known = watched.ask().await;
    let truth = watched.until_empty(30).await;
    assert_within(&known, truth);
    watched.queue.gates().close(&GateName::queue(), "ann", "the bank is down", None).await.unwrap();
    let known = watched.queue.backlog(&watched.queue.snapshot().await.unwrap()).await.unwrap();
    assert_eq!(known.time_to_empty(), TimeToEmpty::Stopped);
    assert_eq!(known.causes()[0].to_string(), "paused by ann: the bank is down");
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_from_which_jobs_were_moved_is_empty_when_it_says_so() {
    let mut watched = Watched::start(2600, 0).await;
    for nth in 0..WATCHED {
        if nth == 4 {
            watched.move_away(500);
        }
        watched.minute(0).await;
    }
    let known = watched.ask().await;
    assert_within(&known, watched.until_empty(0).await);
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_with_bursts_says_that_it_is_unsteady() {
    let mut watched = Watched::start(900, 0).await;
    for nth in 0..WATCHED {
        watched.minute(if nth % 3 == 0 { 200 } else { 0 }).await;
    }
    assert_eq!(watched.ask().await.time_to_empty(), TimeToEmpty::Unsteady);
    watched.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_attempts_fail_says_so_and_never_when_it_is_empty_if_all_do() {
    let mut some = Watched::start(1800, 3).await;
    let mut all = Watched::start(500, 10).await;
    for _ in 0..WATCHED {
        some.minute(0).await;
        all.minute(0).await;
    }
    let known = some.ask().await;
    assert!(known.causes().iter().all(|cause| cause.kind() != "failing"), "{:?}", known.causes());
    assert_within(&known, some.until_empty(0).await);
    let known = all.ask().await;
    assert_eq!(known.time_to_empty(), TimeToEmpty::NotShrinking);
    let line = known.causes()[0].to_string();
    assert_eq!(line, "100 % of attempts fail: 900 of 900 in 10m, 900 retried");
    some.stop().await;
    all.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gated_queue_lasts_as_long_as_its_rate_says_and_its_cause_has_the_same_figures() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let rate: Rate = "1/1h".parse().unwrap();
    queue.gates().set(&"type:test".parse().unwrap(), &Limits::default().rate(rate)).await.unwrap();
    submit(&server, 50);
    let allowed = Allowed { attempts: Semaphore::new(1000), ran: AtomicU64::new(0), fail_of_ten: 0 };
    let fleet = Running::start_with(config(&server.url()), quick(3), Worker(Arc::new(allowed)));
    // One passes at once.
    let snapshot = until_async("the others to wait at the gate", SOON, async || {
        let snapshot = queue.snapshot().await.unwrap();
        (snapshot.in_rooms == 49 && snapshot.waiting() == 49).then_some(snapshot)
    })
    .await;
    let known = queue.backlog(&snapshot).await.unwrap();
    assert_eq!(known.time_to_empty(), TimeToEmpty::After(Duration::from_secs(49 * 3600)));
    assert_eq!(known.causes()[0].to_string(), "49 held by type:test (1/h): 2d 1h");
    // All of them have to pass the gate of the queue, too, though none waits there.
    let slower: Rate = "1/2h".parse().unwrap();
    queue.gates().set(&GateName::queue(), &Limits::default().rate(slower)).await.unwrap();
    let known = queue.backlog(&queue.snapshot().await.unwrap()).await.unwrap();
    assert_eq!(known.time_to_empty(), TimeToEmpty::After(Duration::from_secs(98 * 3600)));
    assert_eq!(known.causes()[0].to_string(), "49 held by queue (1/2h): 4d 2h");
    fleet.stop().await;
}
