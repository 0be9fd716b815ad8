//! Chains from one queue to another while workers are killed: no job is lost, and none is accepted twice.

use std::time::Duration;

use streamfleet::job::ChainedJob;
use streamfleet::{Broker, Producer, Queue, Submission};

use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const CHAINS: usize = 1500;
const KILLS: usize = 8;
const SOON: Duration = Duration::from_secs(60);

fn worker(server: &RedisServer) -> Worker {
    let toml = format!(
        "[redis]\nurl = \"{}\"\n[worker]\nlease = \"1s\"\n[queues.orders]\nconcurrency = 1\n[queues.mail]\n[types.test]\nhandler = \"noop\"\n\
         [telemetry]\nlisten = \"off\"\n",
        server.url()
    );
    Launch::new(&["--config", "{config}", "worker"]).config(&toml).start()
}

/// The jobs of a queue that were handed over to it: each leaves a record.
fn accepted(server: &RedisServer) -> usize {
    let count = "local n, at = 0, '0' repeat local page = redis.call('SCAN', at, 'MATCH', ARGV[1], 'COUNT', 1000) \
        at = page[1] n = n + #page[2] until at == '0' return n";
    match server.cmd(&["EVAL", count, "0", "sf:{mail}:job:orders.*"]) {
        redis::Value::Int(count) => usize::try_from(count).unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn is_at_rest(queue: &Queue) -> bool {
    let snapshot = queue.snapshot().await.unwrap();
    snapshot.waiting() + snapshot.running() + snapshot.delayed == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kill_of_a_worker_loses_a_chain_or_submits_its_next_job_twice() {
    let server = RedisServer::start();
    let broker = Broker::connect(server.url().as_str()).await.unwrap();
    let [orders, mail] = ["orders", "mail"].map(|name| broker.queue(name.parse().unwrap()));
    let next = ChainedJob::new(&"test".parse().unwrap(), Some("{}".to_owned())).unwrap();
    let next = next.queue(mail.name());
    let jobs =
        (0..CHAINS).map(|_| Submission::new("test").unwrap().then(std::slice::from_ref(&next)).unwrap());
    Producer::new(orders.clone()).submit_all(jobs).await.unwrap();
    let mut workers = [worker(&server), worker(&server)];
    for nth in 0..KILLS {
        // Each kill meets the fleet at another point of the work.
        let reached = (nth + 1) * CHAINS / (KILLS + 2);
        until_async(&format!("{reached} jobs to be handed over"), SOON, async || {
            accepted(&server) >= reached
        })
        .await;
        let victim = &mut workers[nth % 2];
        victim.kill9();
        *victim = worker(&server);
    }
    until_async("both queues to be at rest", SOON, async || {
        is_at_rest(&orders).await && is_at_rest(&mail).await
    })
    .await;
    assert_eq!(accepted(&server), CHAINS);
    assert_eq!([orders.snapshot().await.unwrap().dead, mail.snapshot().await.unwrap().dead], [0, 0]);
    for worker in workers {
        worker.term();
        assert!(worker.wait_exit(SOON).success());
    }
}
