//! The real system: a server, a worker process whose handlers wait for an order how to end, and the operations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use streamfleet::cron::Missed;
use streamfleet::job::{JobId, State};
use streamfleet::{Producer, Queue, Submission};
use streamfleet_engine::admin::{Action, Evicted, LetterLimits};

use super::expected::{End, Model, Op, Wish};
use harness::cron::{STATES, entry, set_back};
use harness::fleet::queue;
use harness::ledger::{Ledger, Record};
use harness::process::Worker;
use harness::program::Program;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

/// The server and the worker on it.
pub(super) struct World {
    server: RedisServer,
    pub(super) queue: Queue,
    producer: Producer,
    worker: Worker,
    program: Program,
    dir: tempfile::TempDir,
}

impl World {
    pub(super) async fn new() -> Self {
        let server = RedisServer::start();
        let queue = queue(&server).await;
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("gate")).unwrap();
        fs::create_dir(dir.path().join("ledger")).unwrap();
        let program = Program {
            lease_ms: 1_500,
            retention_ms: 600_000,
            backoff_ms: HOUR.as_millis() as u64,
            max_attempts: super::expected::MAX_ATTEMPTS,
            max_losses: super::expected::MAX_LOSSES,
            concurrency: 200,
            ..Program::new(&server.url(), &dir.path().join("ledger"))
        };
        let worker = program.launch().start();
        Self { producer: Producer::new(queue.clone()), server, queue, worker, program, dir }
    }

    /// Performs one operation. The model is still in the state before it.
    pub(super) async fn perform(&mut self, op: Op, model: &Model) {
        match op {
            Op::Submit(wish) => self.submit(model.jobs.len(), wish).await,
            // The id is known, so nothing must happen.
            Op::Resend(job) => {
                self.submit(job, Wish { later: false, calls_back: true, has_steps: false }).await
            }
            Op::Finish(job, end) => self.finish(job, end).await,
            Op::MakeDue(job) => _ = self.producer.run_now(&id(job)).await.unwrap().unwrap(),
            Op::Cancel(job) => self.cancel(job).await,
            Op::Replay(job) => {
                let letter = self.status(job).await.and_then(|status| status.dead).unwrap();
                assert!(self.queue.dead_letters().replay(letter, &id(job)).await.unwrap().is_done());
            }
            Op::Drop(job) => {
                let letter = self.status(job).await.and_then(|status| status.dead).unwrap();
                // The only letter is the oldest, and the limit is zero.
                if model.those(&[State::Dead]) == [job] {
                    let limits = LetterLimits::default().most(0);
                    let evicted = self.queue.dead_letters().evict(letter, &id(job), limits).await.unwrap();
                    assert_eq!(evicted, Evicted::Dropped);
                } else {
                    assert!(self.queue.dead_letters().drop(letter, &id(job)).await.unwrap());
                }
            }
            Op::Decide(job, verdict) => {
                let (step, by) = ("charge".parse().unwrap(), Action::new("steps decide", "ann"));
                self.queue.steps().decide(&id(job), (&step, verdict), None, &by, HOUR).await.unwrap();
            }
            Op::Tick => self.tick(model.ticks).await,
            Op::Kill => {
                self.worker.kill9();
                self.worker = self.program.launch().start();
            }
        }
    }

    /// Waits until every job is in the state that the model predicts.
    pub(super) async fn until_agreed(&self, model: &Model, after: &str) {
        for (nth, job) in &model.jobs {
            let want = (!job.gone).then_some(job.state);
            let mut last = None;
            let found = until_async("", SOON, async || {
                last = self.status(*nth).await.map(|status| status.state);
                last == want
            });
            let what = format!("job {nth} to be {want:?} after {after}");
            if tokio::time::timeout(SOON / 2, found).await.is_err() {
                panic!("timed out waiting for {what}: it is {:?}", self.status(*nth).await);
            }
        }
        self.until_begun(model, after).await;
    }

    /// Waits until the step of each running job has started, and each callback and tick. A job is running shortly before that;
    /// if it is killed or cancelled in between, it has started nothing, and would be retried only after an hour.
    async fn until_begun(&self, model: &Model, after: &str) {
        let of_steps = model.jobs.iter().filter(|(_, job)| job.state == State::Running && job.once.is_some());
        let want: Vec<_> = of_steps.map(|(nth, job)| (*nth, job.begun)).collect();
        let others = (model.callbacks(), model.ticks);
        let what = format!(
            "the jobs to have started their steps this often after {after}: {want:?}; and {others:?} callbacks and ticks"
        );
        until_async(&what, SOON, async || {
            let begun = self.all_begun();
            self.others() == others
                && want.iter().all(|(nth, times)| begun.get(&step(*nth)).is_some_and(|begun| begun == times))
        })
        .await;
    }

    /// Returns how many jobs outside the model ran: callbacks, and ticks of recurring jobs.
    pub(super) fn others(&self) -> (usize, usize) {
        let records = Ledger::new(&self.dir.path().join("ledger")).read();
        let ran = records.into_iter().filter_map(|record| match record {
            Record::Start { run, .. } if !run.job.starts_with("job-") => Some(run.job),
            _ => None,
        });
        let (ticks, callbacks): (BTreeSet<_>, BTreeSet<_>) = ran.partition(|job| job.starts_with("cron."));
        (callbacks.len(), ticks.len())
    }

    /// Returns how often the step of a job that must not run twice has started.
    pub(super) fn begun(&self, nth: usize) -> usize {
        self.all_begun().get(&step(nth)).copied().unwrap_or_default()
    }

    /// Returns how often each job and step has started.
    fn all_begun(&self) -> BTreeMap<String, usize> {
        let mut begun = BTreeMap::new();
        for record in Ledger::new(&self.dir.path().join("ledger")).read() {
            if let Record::Start { run, .. } = record {
                *begun.entry(run.job).or_default() += 1;
            }
        }
        begun
    }

    /// Creates an hourly recurring job that missed its last tick.
    async fn tick(&self, nth: usize) {
        let name = format!("tock-{nth}");
        let minute = self.queue.cron().table().await.unwrap().now.as_ms() / 60_000 + 30;
        let hourly = entry(&name, &format!("{} * * * *", minute % 60)).when_missed(Missed::All);
        let hourly = hourly.payload(b"ok", streamfleet::job::Encoding::Raw).unwrap();
        self.queue.cron().put(&hourly).await.unwrap();
        set_back(&self.server, &self.queue, &name, HOUR).await;
        // The change bypasses the fleet, so the revision is raised here, as after any change.
        self.server.cmd(&["HINCRBY", STATES, ":revision", "1"]);
    }

    async fn submit(&self, nth: usize, wish: Wish) {
        let payload = format!("gate {}", self.dir.path().join("gate").display());
        let (job_type, payload) =
            if wish.has_steps { ("gift", format!("charge {payload}")) } else { ("test", payload) };
        let mut job = Submission::new(job_type).unwrap().id(id(nth));
        job = job.payload(payload, streamfleet::job::Encoding::Raw).unwrap();
        if wish.later {
            job = job.delay(HOUR);
        }
        if wish.calls_back {
            job = job.on_success("test").unwrap().on_failure("test").unwrap();
        }
        self.producer.submit(job).await.unwrap();
    }

    async fn finish(&self, nth: usize, end: End) {
        let word = match end {
            End::Success => "ok",
            End::Failure => "fail",
            End::Fatal => "fatal",
            End::Snooze => "snooze",
        };
        let entry = until_async("the job to have an entry", SOON, async || {
            self.status(nth).await.filter(|status| status.state == State::Running)?.entry
        });
        let gate = self.dir.path().join("gate").join(format!("{}@{}", id(nth), entry.await));
        // Atomically, so that the handler never reads half of it.
        let draft = gate.with_extension("draft");
        fs::write(&draft, word).unwrap();
        fs::rename(draft, gate).unwrap();
    }

    async fn cancel(&self, nth: usize) {
        self.queue.cancel(&id(nth), "the model", HOUR).await.unwrap();
    }

    async fn status(&self, nth: usize) -> Option<streamfleet_engine::admin::Status> {
        self.queue.status(&id(nth)).await.unwrap()
    }
}

/// Returns the step that must not run twice, as the ledger names it.
fn step(nth: usize) -> String {
    format!("{}/charge", id(nth))
}

fn id(nth: usize) -> JobId {
    format!("job-{nth}").parse().unwrap()
}
