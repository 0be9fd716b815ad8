//! The kill test: thousands of jobs of every kind while worker processes are killed and frozen at random moments.

use std::time::Duration;

use streamfleet::Producer;

use super::mix::jobs;
use harness::alone::alone;
use harness::checker::{Case, Rules};
use harness::fleet::queue;
use harness::history::History;
use harness::ledger::{Ledger, Writer};
use harness::nemesis::{Intensity, Plan, seed};
use harness::process::Worker;
use harness::program::Program;
use harness::redis_server::{Aof, RedisServer};
use harness::remains::{facts, immortal_workers, is_allowed, until_at_rest};
use harness::slowness::Slowness;
use harness::weather::Weather;

const JOBS: usize = 5_000;
const OVER: Duration = Duration::from_secs(40);
const WORKERS: usize = 4;

/// How long the last jobs may take on a slow machine.
const AT_REST: Duration = Duration::from_secs(60);

/// The promise on a machine that does nothing else: lease + a third of it + 1 s + the pause before a retry.
fn promised(program: &Program) -> Duration {
    Duration::from_millis(program.lease_ms * 4 / 3 + 1_000 + program.backoff_ms)
}

/// Submits jobs evenly over a time, and writes down those that were accepted.
fn submit(server: &RedisServer, seed: u64, writer: &Writer) {
    const STEP: Duration = Duration::from_millis(100);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let producer = Producer::new(queue(server).await);
        let steps = OVER.as_millis() / STEP.as_millis();
        let mut ticks = tokio::time::interval(STEP);
        for some in jobs(seed, JOBS).chunks(JOBS.div_ceil(steps as usize)) {
            ticks.tick().await;
            for id in producer.submit_all(some.to_vec()).await.unwrap() {
                writer.submitted(&id.to_string());
            }
        }
    });
}

#[test]
fn no_job_is_lost_or_ends_twice_while_workers_are_killed_and_frozen() {
    let _alone = alone();
    let server = RedisServer::builder().aof(Aof::EverySec).start();
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program::new(&server.url(), dir.path());
    let seed = seed();
    let freeze_for = Duration::from_millis(1_300)..=Duration::from_millis(3_000);
    let plan =
        Plan::new(seed, &Intensity { workers: WORKERS, kills: 22, freezes: 6, freeze_for, over: OVER });
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| program.launch().start()).collect();
    let writer = ledger.writer("producer");
    let slowness = Slowness::begin();
    let events = std::thread::scope(|scope| {
        let submitting = scope.spawn(|| submit(&server, seed, &writer));
        let events = plan.unleash(&mut workers, |_slot| program.launch().start());
        submitting.join().unwrap();
        events
    });
    until_at_rest(&server, AT_REST);
    let slowness = slowness.end();
    let (facts, history) = (facts(&server), History::new(ledger.read()));
    let rules = Rules {
        max_attempts: program.policy().max_attempts,
        max_losses: program.policy().max_losses,
        timeout: None,
        settled_within: Duration::from_secs(1).mul_f64(slowness),
        recovered_within: promised(&program).mul_f64(slowness),
        is_allowed_key: &|key| is_allowed(key, &facts.dead),
    };
    let weather = Weather::new(&events);
    let report = Case { history: &history, facts: &facts, weather: &weather, rules: &rules }.check();
    eprintln!(
        "SEED={seed} promised {:?}, on a machine {slowness:.1} times as slow as at its best\n{report}",
        promised(&program)
    );
    assert_eq!(immortal_workers(&server), Vec::<String>::new());
    assert_eq!(report.totals.submitted, JOBS);
    report.assert_clean();
}
