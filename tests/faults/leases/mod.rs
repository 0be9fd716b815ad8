//! Leases under misleading conditions: Redis or a worker is paused, or the server's clock is set. A job that its worker still
//! holds must not run again.

mod clock;
mod pages;
mod pause;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use streamfleet::Producer;
use streamfleet::job::JobId;
use tempfile::TempDir;

use harness::fleet::queue;
use harness::ledger::{How, Ledger, Record};
use harness::process::Worker;
use harness::program::Program;
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;
use harness::scene::job;
use harness::wait::until;

/// Long enough that even a fraction of it exceeds the time that a busy machine takes to answer.
const LEASE: Duration = Duration::from_secs(6);

/// Longer than anything here takes.
const LATEST: Duration = Duration::from_secs(60);

/// A server and worker processes.
struct Scene {
    server: RedisServer,
    dir: TempDir,
    program: Program,
    workers: Vec<Worker>,
}

impl Scene {
    fn new(server: RedisServer, lease: Duration, workers: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ledger")).unwrap();
        let mut program = Program::new(&server.url(), &dir.path().join("ledger"));
        program.lease_ms = u64::try_from(lease.as_millis()).unwrap();
        program.retention_ms = 60_000;
        let mut scene = Self { server, dir, program, workers: Vec::new() };
        for _ in 0..workers {
            scene.hire();
        }
        scene
    }

    /// Starts another worker and waits until it has joined. Returns its index.
    fn hire(&mut self) -> usize {
        self.workers.push(self.program.launch().start());
        let lives = || {
            let keys = self.server.cmd(&["KEYS", "sf:worker:*"]);
            redis::from_redis_value::<Vec<String>>(keys).unwrap().len() == self.workers.len()
        };
        until("the worker to join", LATEST, lives);
        self.workers.len() - 1
    }

    async fn send(&self, payloads: &[&str]) -> Vec<JobId> {
        let producer = Producer::new(queue(&self.server).await);
        let jobs = payloads.iter().map(|payload| job(*payload));
        producer.submit_all(jobs).await.unwrap()
    }

    fn records(&self) -> Vec<Record> {
        Ledger::new(&self.dir.path().join("ledger")).read()
    }

    /// Returns which processes started each job, in the order of the starts.
    fn starts(&self) -> BTreeMap<String, Vec<u32>> {
        let mut starts: BTreeMap<String, Vec<(u64, u32)>> = BTreeMap::new();
        for record in self.records() {
            if let Record::Start { run, t } = record {
                starts.entry(run.job).or_default().push((t, run.pid));
            }
        }
        let in_order = |mut found: Vec<(u64, u32)>| {
            found.sort_unstable();
            found.into_iter().map(|(_, pid)| pid).collect()
        };
        starts.into_iter().map(|(job, found)| (job, in_order(found))).collect()
    }

    fn until_started(&self, jobs: usize) {
        until("the jobs to start", LATEST, || self.starts().len() == jobs);
    }

    fn until_done(&self) {
        until("all jobs to be done", LATEST, || jobs_left(&self.server) == 0);
    }

    /// Panics unless each job ran exactly once, to its end.
    fn assert_all_ran_once(&self, jobs: usize) {
        let starts = self.starts();
        let twice: Vec<_> = starts.iter().filter(|(_, by)| by.len() != 1).collect();
        assert!(twice.is_empty(), "started more than once: {twice:?}");
        let ends =
            self.records().into_iter().filter(|record| matches!(record, Record::End { how: How::Ok, .. }));
        assert_eq!((starts.len(), ends.count()), (jobs, jobs));
    }
}

/// Lets this much time pass: the tested state depends on time.
fn pass(time: Duration) {
    let begun = Instant::now();
    until("the time to pass", time * 2 + LATEST, || begun.elapsed() >= time);
}
