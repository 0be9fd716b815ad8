//! Workers that resume after their jobs were taken over. They are real processes, stopped for three leases. The two
//! simplest cases are a promise.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use streamfleet::hooks::Publish;
use streamfleet::job::{JobId, State};
use streamfleet::{Producer, Submission};
use streamfleet_engine::admin::Attempt;
use tempfile::TempDir;

use harness::fleet::{Running, config, quick, until_state};
use harness::ledger::{How, Ledger, Record};
use harness::process::Worker;
use harness::program::Program;
use harness::proxy::{Mode, Scope};
use harness::scene::{Gate, SOON, STREAM, Scene, job};
use harness::wait::until_async;

const LEASE: Duration = Duration::from_secs(1);

/// A worker process behind the proxy, whose only job blocks its thread until a file exists.
struct Zombie {
    scene: Scene,
    dir: TempDir,
    worker: Worker,
    job: JobId,
}

impl Zombie {
    /// Starts a worker that is in the middle of its job.
    async fn running(backoff: Duration) -> Self {
        Self::running_as(backoff, |job| job).await
    }

    /// Starts a worker like that, with a modified job.
    async fn running_as(backoff: Duration, more: impl FnOnce(Submission) -> Submission) -> Self {
        let scene = Scene::new().await;
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("ledger")).unwrap();
        let mut program =
            Program::new(&scene.server.url_through(scene.proxy.addr()), &dir.path().join("ledger"));
        program.lease_ms = LEASE.as_millis() as u64;
        program.retention_ms = 60_000;
        // The job occupies its only slot, so that it does not read others and hold them while it is frozen.
        program.concurrency = 1;
        program.backoff_ms = backoff.as_millis() as u64;
        program.publish = Publish::All;
        let worker = program.launch().start();
        let payload = format!("block {}", dir.path().join("end").display());
        let job = Producer::new(scene.queue.clone()).submit(more(job(payload))).await.unwrap();
        let zombie = Self { scene, dir, worker, job };
        until_async("the job to start", SOON, async || zombie.records().len() == 1).await;
        zombie
    }

    fn records(&self) -> Vec<Record> {
        Ledger::new(&self.dir.path().join("ledger")).read()
    }

    /// Lets the job end as soon as the worker runs.
    fn let_end(&self) {
        fs::write::<PathBuf, _>(self.dir.path().join("end"), "").unwrap();
    }

    async fn until_ended(&self) {
        until_async("the zombie's job to end", SOON, async || {
            self.records().iter().any(|record| matches!(record, Record::End { how: How::Ok, .. }))
        })
        .await;
    }

    /// Stops the worker.
    fn freeze(&self) -> Instant {
        self.worker.freeze();
        Instant::now()
    }

    /// Waits until the job was taken over, and at least for three leases.
    async fn until_taken_over(&self, frozen: Instant, state: State) {
        until_state(&self.scene.queue, &self.job, state).await;
        until_async("three leases to pass", SOON, async || frozen.elapsed() > 3 * LEASE).await;
    }

    /// Starts a process of the fleet that bypasses the proxy, with this many slots. It soon becomes the leader.
    fn successor(&self, slots: usize, backoff: Duration, handler: Gate) -> Running {
        let mut config = config(&self.scene.server.url());
        config.worker.lease = LEASE;
        for queue in config.worker.queues.values_mut() {
            queue.concurrency = slots;
        }
        let mut policy = quick(3);
        policy.backoff = streamfleet::job::Backoff::Fixed(backoff);
        Running::start_with(config, policy, handler)
    }

    /// Returns the state and the attempts of the job.
    async fn recorded(&self) -> (State, Vec<Attempt>) {
        let status = self.scene.queue.status(&self.job).await.unwrap().unwrap();
        (status.state, status.attempts)
    }

    /// Returns how many successes of a job were reported as events.
    fn successes(&self, job: &JobId) -> usize {
        let events = self.scene.server.cmd(&["XRANGE", "sf:{default}:events", "-", "+"]);
        let events: Vec<(String, Vec<String>)> = redis::from_redis_value(events).unwrap();
        let id = job.to_string();
        let wanted = [("event", "after_handle"), ("outcome", "succeeded"), ("id", id.as_str())];
        let has = |fields: &[String], (name, value): (&str, &str)| {
            fields.chunks_exact(2).any(|pair| pair[0] == name && pair[1] == value)
        };
        events.iter().filter(|(_, fields)| wanted.iter().all(|pair| has(fields, *pair))).count()
    }

    fn dead(&self) -> i64 {
        self.scene.int(&["XLEN", "sf:{default}:dead"])
    }
}

/// A zombie whose job was done by another changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn promise_4_zombies_are_fenced() {
    let zombie = Zombie::running(Duration::ZERO).await;
    let frozen = zombie.freeze();
    let handler = Gate::closed();
    handler.open();
    let successor = zombie.successor(4, Duration::ZERO, handler.clone());
    zombie.until_taken_over(frozen, State::Done).await;
    let before = zombie.recorded().await;
    zombie.let_end();
    zombie.worker.thaw();
    zombie.until_ended().await;
    // Once the resumed worker runs another job, it has settled what it could.
    let producer = Producer::new(zombie.scene.queue.clone());
    successor.stop().await;
    let next = producer.submit(job("ok").tracking(streamfleet::job::Tracking::All)).await.unwrap();
    until_state(&zombie.scene.queue, &next, State::Done).await;
    assert_eq!(zombie.recorded().await, before);
    assert_eq!((handler.of(&zombie.job).ends, zombie.dead()), (1, 0));
    // Its events are in order, and only this process reports successes.
    until_async("the event of the next job", SOON, async || zombie.successes(&next) == 1).await;
    assert_eq!(zombie.successes(&zombie.job), 0, "a fenced success was reported");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_stopped_before_it_settles_changes_nothing_after_a_takeover() {
    let zombie = Zombie::running(Duration::ZERO).await;
    zombie.scene.proxy.set(Mode::blackhole(Scope::All));
    zombie.let_end();
    zombie.until_ended().await;
    let frozen = zombie.freeze();
    let handler = Gate::closed();
    handler.open();
    let successor = zombie.successor(4, Duration::ZERO, handler.clone());
    zombie.until_taken_over(frozen, State::Done).await;
    let before = zombie.recorded().await;
    successor.stop().await;
    zombie.scene.proxy.set(Mode::Pass);
    zombie.worker.thaw();
    let producer = Producer::new(zombie.scene.queue.clone());
    let next = producer.submit(job("ok").tracking(streamfleet::job::Tracking::All)).await.unwrap();
    until_state(&zombie.scene.queue, &next, State::Done).await;
    assert_eq!(zombie.recorded().await, before);
    assert_eq!((handler.of(&zombie.job).ends, zombie.dead()), (1, 0));
}

/// A late success cancels the retry that is parked.
#[tokio::test(flavor = "multi_thread")]
async fn promise_4_a_late_success_cancels_the_retry_that_has_not_started() {
    let hour = Duration::from_secs(3600);
    let zombie = Zombie::running(hour).await;
    let frozen = zombie.freeze();
    let handler = Gate::closed();
    let successor = zombie.successor(4, hour, handler.clone());
    zombie.until_taken_over(frozen, State::Retrying).await;
    zombie.let_end();
    zombie.worker.thaw();
    let status = until_state(&zombie.scene.queue, &zombie.job, State::Done).await;
    let outcomes: Vec<_> = status.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
    assert_eq!(outcomes, ["lost", "done"]);
    zombie.scene.until_at_rest().await;
    assert_eq!((handler.of(&zombie.job).starts, zombie.dead()), (0, 0));
    successor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_success_leaves_nothing_of_the_retry_of_a_large_job() {
    let hour = Duration::from_secs(3600);
    let blob = "x".repeat(8_000);
    let large =
        |job| (0..40).fold(job, |job: Submission, nth| job.header(&format!("blob-{nth}"), &blob).unwrap());
    let zombie = Zombie::running_as(hour, large).await;
    let keys = || zombie.scene.server.cmd(&["KEYS", "sf:{default}:offloaded:*"]);
    let frozen = zombie.freeze();
    let successor = zombie.successor(4, hour, Gate::closed());
    zombie.until_taken_over(frozen, State::Retrying).await;
    assert_ne!(keys(), redis::Value::Array(vec![]));
    zombie.let_end();
    zombie.worker.thaw();
    until_state(&zombie.scene.queue, &zombie.job, State::Done).await;
    zombie.scene.until_at_rest().await;
    assert_eq!(keys(), redis::Value::Array(vec![]));
    successor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_success_cancels_the_retry_that_waits_for_a_slot() {
    let zombie = Zombie::running(Duration::ZERO).await;
    // The successor's only slot is taken, so the retry can't start.
    let handler = Gate::closed();
    let successor = zombie.successor(1, Duration::ZERO, handler.clone());
    let producer = Producer::new(zombie.scene.queue.clone());
    let blocker = producer.submit(job("wait")).await.unwrap();
    handler.until_started(&blocker).await;
    let frozen = zombie.freeze();
    zombie.until_taken_over(frozen, State::Waiting).await;
    zombie.let_end();
    zombie.worker.thaw();
    until_state(&zombie.scene.queue, &zombie.job, State::Done).await;
    zombie.worker.kill9();
    handler.open();
    zombie.scene.until_at_rest().await;
    assert_eq!((handler.of(&zombie.job).starts, zombie.dead()), (0, 0));
    assert_eq!(zombie.scene.int(&["XLEN", STREAM]), 0);
    successor.stop().await;
}
