//! Many letters: a campaign keeps its rate though its leaders die.

use std::time::{Duration, Instant};

use redis::Value;
use streamfleet_engine::admin::{Filter, ReplayRules, TaskState};

use harness::alone::alone;
use harness::campaigns::{begin, counts, until_campaign, write};
use harness::fleet::queue;
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::wait::{until, until_async};

const DEAD: &str = "sf:{default}:dead";
const SOON: Duration = Duration::from_secs(20);

/// How many letters the campaign replays, and how many per second.
const LETTERS: usize = 10_000;
const RATE: f64 = 400.0;

/// Prepares a worker that handles the jobs like this.
fn worker(server: &RedisServer, handler: &str) -> Launch {
    let config = format!(
        "telemetry.listen = \"off\"\n[worker]\nlease = \"1s\"\n[types.test]\nmax_attempts = 1\nhandler = {handler}\n"
    );
    Launch::new(&["worker", "--config", "{config}", "--redis", &server.url()]).config(&config)
}

/// Returns the place of the worker that leads.
fn leader(server: &RedisServer, workers: &[Worker]) -> Option<usize> {
    let Value::BulkString(name) = server.cmd(&["GET", "sf:{default}:leader"]) else { return None };
    let name = String::from_utf8(name).unwrap();
    workers.iter().position(|worker| name.contains(&format!("-{}-", worker.pid())))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_letters_come_back_at_their_rate_though_leaders_die() {
    let _alone = alone();
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, LETTERS, "test");
    let selection = queue.dead_letters().select(Filter::new().job_type("test").unwrap()).await.unwrap();
    let plan = queue.dead_letters().plan(&selection, |_| ()).await.unwrap();
    assert_eq!((plan.letters, plan.groups.len()), (LETTERS as u64, 1));

    // What killed the jobs is still there.
    let rules = ReplayRules::default().rate(RATE).canary(10).stop_at(5.0);
    let first = begin(&queue, rules).await;
    let broken = worker(&server, "{ exec = { command = [\"false\"] } }").start();
    let stopped = until_campaign(&queue, &first, TaskState::Stopped).await;
    assert!(stopped.replay.unwrap().replayed <= 10, "{stopped:?}");
    until("all to be dead", SOON, || server.cmd(&["XLEN", DEAD]) == Value::Int(LETTERS as i64));
    broken.kill9();

    let launch = worker(&server, "\"noop\"");
    let mut workers = vec![launch.start(), launch.start()];
    let second = begin(&queue, rules).await;
    let replayed = async || counts(&queue, &second).await.replayed;
    until_async("the first to be replayed", SOON, async || replayed().await > 0).await;
    let (since, mut without_leader) = (Instant::now(), Duration::ZERO);
    for least in [3_000, 6_000] {
        until_async("some to be replayed", 2 * SOON, async || replayed().await >= least).await;
        let leads = until("a leader", SOON, || leader(&server, &workers));
        workers.swap_remove(leads).kill9();
        let (killed, before) = (Instant::now(), replayed().await);
        workers.push(launch.start());
        until_async("another to lead", SOON, async || replayed().await > before).await;
        without_leader += killed.elapsed();
    }
    until_async("all to be replayed", 2 * SOON, async || replayed().await == LETTERS as u64).await;
    let (took, wanted) = (since.elapsed().as_secs_f64(), LETTERS as f64 / RATE);
    let rest = took - without_leader.as_secs_f64();
    eprintln!(
        "{LETTERS} letters in {took:.1} s: {:.1}/s, and {:.1}/s while somebody led; wanted: {RATE}/s",
        LETTERS as f64 / took,
        LETTERS as f64 / rest
    );
    assert!(
        took >= wanted * 0.95 && rest <= wanted * 1.5,
        "{took} s, {rest} s with a leader, not {wanted} s"
    );
    let done = until_campaign(&queue, &second, TaskState::Done).await;
    workers.iter().for_each(Worker::kill9);
    let counts = done.replay.unwrap();
    assert_eq!((counts.succeeded, counts.skipped, counts.alive()), (LETTERS as u64, 0, 0));
    assert_eq!(server.cmd(&["XLEN", DEAD]), Value::Int(0));
}
