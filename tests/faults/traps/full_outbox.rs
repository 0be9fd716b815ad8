//! A worker that stops while Redis takes no outcomes: whatever waits for that must not hold it up.

use std::time::{Duration, Instant};

use harness::fleet::{Acts, Running, quick, submit};
use harness::proxy::{Commands, Mode};
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

/// After a `drain_timeout` of zero: what handlers get to end, what the last outcomes get to be settled, and some for a slow machine.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Lets the worker read, and refuses everything that settles.
fn settles_nothing() -> Mode {
    let settling = ["XDEL", "XACK", "XACKDEL", "EVAL", "EVALSHA", "FCALL", "SCRIPT"];
    let to = Commands::Only(settling.map(str::to_owned).to_vec());
    Mode::Inject { error: "LOADING Redis is loading the dataset in memory".to_owned(), to }
}

/// Stops a worker that has read entries with this field until it had no place for their outcomes.
async fn stops_in_time(field: &str) {
    let scene = Scene::new().await;
    let mut config = scene.config(LONG);
    (config.worker.prefetch, config.worker.drain_timeout) = (20, Duration::ZERO);
    let fleet = Running::start_with(config, quick(3), Acts::well());
    submit(&scene.queue, "warm up").await;
    scene.until_at_rest().await;
    scene.proxy.set(settles_nothing());
    let script = "for _ = 1, 4000 do redis.call('XADD', KEYS[1], '*', ARGV[1], 'test') end";
    scene.server.cmd(&["EVAL", script, "1", STREAM, field]);
    let (mut last, mut since) = (0, Instant::now());
    until_async("reading to pause", 2 * SOON, async || {
        let now = scene.queue.snapshot().await.unwrap().running();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        last > 0 && since.elapsed() > Duration::from_secs(2)
    })
    .await;
    assert!(last < 4000, "nothing made the reader wait");
    let stopped = tokio::time::timeout(ENDS_WITHIN, fleet.stop()).await;
    assert!(stopped.is_ok(), "the worker waits for Redis");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_too_many_outcomes_stops_in_time() {
    stops_in_time("type").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_too_many_malformed_entries_stops_in_time() {
    stops_in_time("no-type").await;
}
