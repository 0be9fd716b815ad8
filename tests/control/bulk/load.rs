//! Jobs are moved while workers run them: none is lost, and none runs twice. Each is made due once, however soon it comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{Encoding, Envelope, JobId, Lane, State};
use streamfleet::worker::QueueConfig;
use streamfleet::{Broker, JobError, Producer, Queue, Submission};
use streamfleet_engine::admin::{BulkAction, BulkCursor, BulkTally, BulkTerms, Filter, JobSearch, KeptBack};

use harness::fleet::{Acts, Running, config, queue, quick, until_empty};
use harness::redis_server::RedisServer;

const JOBS: usize = 3000;

/// A handler whose jobs fail once, so that they are retried.
fn fails_once() -> Acts {
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    Acts::new(move |context, _| {
        if seen.lock().unwrap().insert(context.id().to_string()) {
            return Err(JobError::retry("not yet"));
        }
        Ok(Value::Null)
    })
}

/// Moves the jobs of a queue that do not run: all of them, or only until some have moved.
async fn move_jobs(queue: &Queue, to: &str, all: bool) -> BulkTally {
    let (bulk, terms) = (queue.bulk(), BulkTerms::new("ann"));
    let action = BulkAction::Move(to.parse().unwrap());
    let selection = bulk.select(action, Filter::new(), None).await.unwrap();
    let (mut tally, mut next) = (BulkTally::default(), Some(BulkCursor::default()));
    while let Some(from) = next.filter(|_| all || tally.changed == 0) {
        let page = bulk.advance(&selection, &terms, from).await.unwrap();
        tally.add(page.tally);
        next = page.next;
    }
    tally
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_moved_while_workers_run_are_neither_lost_nor_run_twice() {
    let server = RedisServer::start();
    let here = queue(&server).await;
    let there = Broker::connect(config(&server.url()).redis).await.unwrap().queue("mail".parse().unwrap());
    for nth in 0..JOBS {
        let payload = format!("{nth}");
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "payload", &payload]);
    }
    // Some are moved for sure.
    let first = move_jobs(&here, "mail", false).await;
    assert!(first.changed > 0 && first.kept.is_empty(), "{first:?}");
    let mut config = config(&server.url());
    config.worker.queues.insert("mail".parse().unwrap(), QueueConfig::default());
    let handler = fails_once();
    let fleet = Running::start_with(config, quick(3), handler.clone());
    for _ in 0..3 {
        let tally = move_jobs(&here, "mail", true).await;
        assert_eq!((tally.failed, tally.undecided), (0, 0), "{tally:?}");
        let tally = move_jobs(&there, "default", true).await;
        assert_eq!((tally.failed, tally.undecided), (0, 0), "{tally:?}");
    }
    until_empty(&here).await;
    until_empty(&there).await;
    for queue in [&here, &there] {
        assert_eq!(queue.snapshot().await.unwrap().dead, 0);
    }
    assert_eq!((handler.jobs(), handler.all_runs() as usize), (JOBS, 2 * JOBS));
    fleet.stop().await;
}

#[tokio::test]
async fn a_job_that_comes_back_at_once_is_made_due_only_once() {
    let server = RedisServer::start();
    let here = queue(&server).await;
    let submission = Submission::new("test").unwrap().payload("1".to_owned(), Encoding::Json).unwrap();
    let submission = submission.delay(Duration::from_secs(3600));
    let job = Producer::new(here.clone()).submit(submission).await.unwrap().to_string();
    let search = JobSearch::new().states(vec![State::Scheduled]);
    let page = here.find_jobs(&search, None).await.unwrap();
    assert_eq!((page.jobs.len(), page.next), (1, None), "no page follows that only new jobs can fill");
    let (bulk, terms) = (here.bulk(), BulkTerms::new("ann"));
    let selection = bulk.select(BulkAction::RunNow, Filter::new(), None).await.unwrap();
    let (mut changed, mut next) = (0, Some(BulkCursor::default()));
    while let Some(from) = next {
        let page = bulk.advance(&selection, &terms, from).await.unwrap();
        changed += page.tally.changed;
        assert!(changed <= 1, "its attempts are spent one after the other");
        // It ran, failed, and waits for its next attempt.
        server.cmd(&["ZADD", "sf:{default}:delayed", "XX", "9999999999999", &job]);
        next = page.next;
    }
    assert_eq!(changed, 1);
}

/// Cancels all jobs of a queue.
async fn cancel_all(queue: &Queue) -> BulkTally {
    let (bulk, terms) = (queue.bulk(), BulkTerms::new("ann"));
    let selection = bulk.select(BulkAction::Cancel, Filter::new(), None).await.unwrap();
    let (mut tally, mut next) = (BulkTally::default(), Some(BulkCursor::default()));
    while let Some(from) = next {
        let page = bulk.advance(&selection, &terms, from).await.unwrap();
        tally.add(page.tally);
        next = page.next;
    }
    tally
}

#[tokio::test]
async fn both_delayed_generations_of_one_id_are_cancelled() {
    let server = RedisServer::start();
    let here = queue(&server).await;
    for (member, generation) in [("j", "1650000000000-0"), ("j 1660000000000-0", "1660000000000-0")] {
        let fields = [("life", generation), ("id", "j"), ("type", "test")];
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let pack = Envelope::new(fields).pack(Lane::Normal);
        server.cmd(&[&b"HSET"[..], b"sf:{default}:delayed:fields", member.as_bytes(), &pack]);
        server.cmd(&["ZADD", "sf:{default}:delayed", "9999999999999", member]);
    }
    // This one only looks like a generation of another job.
    server.cmd(&["HSET", "sf:{default}:delayed:fields", "k batch", "no fields"]);
    server.cmd(&["ZADD", "sf:{default}:delayed", "9999999999999", "k batch"]);
    let tally = cancel_all(&here).await;
    assert_eq!((tally.changed, here.snapshot().await.unwrap().delayed), (2, 1), "{tally:?}");
}

#[tokio::test]
async fn jobs_whose_ids_look_like_generations_of_others_are_cancelled() {
    let server = RedisServer::start();
    let here = queue(&server).await;
    let job = |id: &str| Submission::new("test").unwrap().id(id.parse().unwrap());
    let delayed = job("invoice#42").delay(Duration::from_secs(3600));
    Producer::new(here.clone()).submit_all([delayed, job("invoice#44")]).await.unwrap();
    let tally = cancel_all(&here).await;
    assert_eq!((tally.changed, tally.gone), (2, 0), "{tally:?}");
    let left = here.snapshot().await.unwrap();
    assert_eq!((left.waiting(), left.delayed), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_by_xadd_stays_where_its_letter_is() {
    let server = RedisServer::start();
    let here = queue(&server).await;
    let large = Value::String("x".repeat(200_000)).to_string();
    let submission = Submission::new("test").unwrap().payload(large, Encoding::Json).unwrap();
    let id: JobId = "order-7".parse().unwrap();
    Producer::new(here.clone()).submit(submission.id(id.clone())).await.unwrap();
    let fleet =
        Running::start_with(config(&server.url()), quick(1), Acts::new(|_, _| Err(JobError::fatal("no"))));
    until_empty(&here).await;
    fleet.stop().await;
    let letters: Vec<(String, Vec<(String, String)>)> =
        redis::from_redis_value(server.cmd(&["XRANGE", "sf:{default}:dead", "-", "+"])).unwrap();
    let fields = letters[0].1.iter().flat_map(|(name, value)| [name.clone(), value.clone()]);
    let head = ["XADD", "sf:{default}:jobs", "*"].map(str::to_owned);
    server.cmd(&head.into_iter().chain(fields).collect::<Vec<_>>());
    let tally = move_jobs(&here, "mail", true).await;
    assert_eq!((tally.changed, tally.kept), (0, BTreeMap::from([(KeptBack::Letters, 1)])));
    // Without the fields about the letter it is another job, but the letter still needs its large fields.
    let of_job = |name: &str| !name.starts_with("dead_") || name == "dead_job";
    let fields = letters[0].1.iter().filter(|(name, _)| of_job(name) && name != "life");
    let fields = fields.flat_map(|(name, value)| [name.clone(), value.clone()]);
    let head = ["XADD", "sf:{default}:jobs", "*"].map(str::to_owned);
    server.cmd(&head.into_iter().chain(fields).collect::<Vec<_>>());
    let tally = move_jobs(&here, "mail", true).await;
    assert_eq!(tally.changed, 1, "{tally:?}");
    let keys: Vec<String> =
        redis::from_redis_value(server.cmd(&["KEYS", "sf:{default}:offloaded:*"])).unwrap();
    let left: Vec<i64> =
        keys.iter().map(|key| redis::from_redis_value(server.cmd(&["PTTL", key])).unwrap()).collect();
    assert_eq!(left, [-1], "the letter still has them");
}
