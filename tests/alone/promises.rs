//! Promises of docs/promises.md, each by its name. Other tests try harder to break them; these show what they mean.

use std::time::{Duration, Instant};

use harness::alone::alone;
use harness::checker::{Case, Rules};
use harness::clock::monotonic_ns;
use harness::history::History;
use harness::ledger::Ledger;
use harness::program::Program;
use harness::redis_server::{Aof, RedisServer};
use harness::remains::{facts, is_allowed, until_at_rest, until_no_job_is_left};
use harness::scene::{SOON, send};
use harness::wait::until;
use harness::weather::{Cause, Event, Weather};

#[tokio::test(flavor = "multi_thread")]
async fn promise_1_no_accepted_job_is_lost() {
    let _alone = alone();
    let server = RedisServer::builder().aof(Aof::Always).start();
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program::new(&server.url(), dir.path());
    let workers = [program.launch().start(), program.launch().start()];
    let writer = ledger.writer("producer");
    let payloads = ["ok", "sleep 300", "fail 2", "fail 99", "fatal", "panic"].repeat(50);
    for id in send(&server, &payloads).await {
        writer.submitted(&id.to_string());
    }
    until("the workers to be busy", SOON, || ledger.starts().len() > 50);
    let from = monotonic_ns();
    server.kill9();
    workers[0].kill9();
    let killed = monotonic_ns();
    server.restart();
    let back = Instant::now();
    until_no_job_is_left(&server, SOON);
    // A connection that is asked to reconnect while it already does so would delay this by seconds.
    assert!(back.elapsed() < SOON / 2, "all jobs ended only after {:?}", back.elapsed());
    until_at_rest(&server, SOON);
    let both = |cause, pid, until| Event { cause, pid, from, until };
    let weather = Weather::new(&[
        both(Cause::Kill, Some(workers[0].pid()), killed),
        both(Cause::Redis, None, monotonic_ns()),
    ]);
    let (facts, history) = (facts(&server), History::new(ledger.read()));
    let rules = Rules {
        max_attempts: 4,
        max_losses: 3,
        timeout: None,
        settled_within: Duration::from_secs(1),
        recovered_within: SOON,
        is_allowed_key: &|key| is_allowed(key, &facts.dead),
    };
    let report = Case { history: &history, facts: &facts, weather: &weather, rules: &rules }.check();
    report.assert_clean();
    assert_eq!((report.totals.submitted, report.totals.dead), (300, 150));
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_5_recovery_in_seconds() {
    let _alone = alone();
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program::new(&server.url(), dir.path());
    let doomed = program.launch().start();
    let jobs = send(&server, &["sleep 60000"; 10]).await;
    until("all to start", SOON, || ledger.starts().len() == jobs.len());
    let _others = [program.launch().start(), program.launch().start()];
    until("the others to join", SOON, || {
        let workers = server.cmd(&["KEYS", "sf:worker:*"]);
        redis::from_redis_value::<Vec<String>>(workers).unwrap().len() == 3
    });
    doomed.kill9();
    let killed = monotonic_ns();
    until("all to start again", SOON, || ledger.starts().values().all(|starts| starts.len() == 2));
    let promised = Duration::from_millis(program.lease_ms * 4 / 3 + 1_000 + program.backoff_ms);
    for (job, starts) in ledger.starts() {
        let took = Duration::from_nanos(starts[1] - killed);
        assert!(took <= promised, "{job} started again after {took:?}, but {promised:?} were promised");
    }
}
