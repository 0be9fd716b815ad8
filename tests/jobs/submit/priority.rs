//! Priorities: which lane a job takes, and the order of delayed jobs that are due at the same time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use streamfleet::job::{JobId, Lane, Priority, State, Timestamp};
use streamfleet::{Producer, Queue, Submission, UniqueMode, UniqueScope};
use streamfleet_engine::admin::{Due, JobSearch};

use harness::fleet::{Acts, Running, config, queue, quick, until_empty};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, job};

const DELAYED: &str = "sf:{default}:delayed";

/// Later than any test.
fn far() -> Timestamp {
    Timestamp::from_ms(4_102_444_800_000).unwrap()
}

/// Returns a job whose id is in the opposite order of its priority.
fn ranked(number: u8) -> Submission {
    let id: JobId = format!("job-{:02}", 100 - number).parse().unwrap();
    job(number.to_string()).id(id).priority(Priority::new(number).unwrap())
}

fn members(server: &RedisServer) -> Vec<String> {
    redis::from_redis_value(server.cmd(&["ZRANGE", DELAYED, "0", "-1"])).unwrap()
}

fn score(server: &RedisServer, member: &str) -> f64 {
    redis::cmd("ZSCORE").arg(DELAYED).arg(member).query(&mut server.client()).unwrap()
}

async fn due(queue: &Queue) -> Vec<Timestamp> {
    queue.delayed().page(0, 20).await.unwrap().iter().map(|upcoming| upcoming.due).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_due_together_are_ordered_by_priority_and_none_is_late() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    let submissions = [4, 7, 5, 6].map(|number| ranked(number).at(far()));
    producer.submit_all(submissions).await.unwrap();
    producer.submit(job("plain").id("job-00".parse().unwrap()).at(far())).await.unwrap();
    assert_eq!(members(&server), ["job-00", "job-93", "job-94", "job-95", "job-96"]);
    assert_eq!(due(&queue).await, [far(); 5]);
    let status = queue.status(&"job-96".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((status.state, status.due), (State::Scheduled, Some(far())));
    assert_eq!(queue.snapshot().await.unwrap().next_due, Some(far()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_runs_jobs_that_are_due_together_by_priority() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let at = queue.clock().await.unwrap().after(Duration::from_secs(1));
    let submissions = [8, 2, 5, 10, 1, 7, 9, 3, 4, 6].map(|number| ranked(number).at(at));
    Producer::new(queue.clone()).submit_all(submissions).await.unwrap();
    let order: Arc<Mutex<Vec<u8>>> = Arc::default();
    let noted = Arc::clone(&order);
    let handler = Acts::new(move |_, payload| {
        noted.lock().unwrap().push(std::str::from_utf8(payload).unwrap().parse().unwrap());
        Ok(serde_json::Value::Null)
    });
    let mut config = config(&server.url());
    config.worker.queues.values_mut().for_each(|queue| queue.concurrency = 1);
    let fleet = Running::start_with(config, quick(1), handler);
    until_empty(&queue).await;
    fleet.stop().await;
    let order = order.lock().unwrap();
    let of_lane = |lane| {
        let lane_of = |number: &u8| Priority::new(*number).unwrap().lane();
        order.iter().copied().filter(|number| lane_of(number) == lane).collect::<Vec<_>>()
    };
    assert_eq!(Lane::ALL.map(of_lane), [vec![10, 9, 8], vec![7, 6, 5, 4], vec![3, 2, 1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_priority_survives_a_new_time_and_a_new_payload() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    let id = producer.submit(ranked(5).delay(LONG)).await.unwrap();
    assert_eq!(producer.reschedule(&id, Due::At(far())).await.unwrap(), Some(far()));
    let ms = far().as_ms() as f64;
    assert!((score(&server, "job-95") - ms - 0.125).abs() < 0.01);
    let edited = producer.edit(&id, "new", streamfleet::job::Encoding::Raw).await.unwrap();
    assert_eq!((edited, due(&queue).await), (Some(far()), vec![far()]));
    assert!((score(&server, "job-95") - ms - 0.125).abs() < 0.01);
    let status = queue.status(&id).await.unwrap().unwrap();
    assert_eq!(status.due, Some(far()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debounced_job_keeps_its_own_priority() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    let unique = |number| {
        let key = "report".parse().unwrap();
        ranked(number).unique(key, UniqueScope::Running, UniqueMode::Debounce)
    };
    producer.submit(unique(4).delay(LONG)).await.unwrap();
    producer.submit_or_find(unique(6).at(far())).await.unwrap();
    assert_eq!(members(&server), ["job-96"]);
    assert!((score(&server, "job-96") - far().as_ms() as f64 - 0.1875).abs() < 0.01);
    assert_eq!(due(&queue).await, [far()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_ends_where_priorities_order_the_delayed_jobs() {
    const JOBS: u64 = 301;
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let before = Timestamp::from_ms(far().as_ms() - 1).unwrap();
    let due = |nth| if nth < JOBS - 1 { before } else { far() };
    let delayed = |nth| job("x").priority(Priority::new(4).unwrap()).at(due(nth));
    Producer::new(queue.clone()).submit_all((0..JOBS).map(delayed)).await.unwrap();
    let search = JobSearch::new().states(vec![State::Scheduled]);
    let (mut ids, mut read, mut from) = (BTreeSet::new(), 0, None);
    loop {
        let page = queue.find_jobs(&search, from).await.unwrap();
        ids.extend(page.jobs.into_iter().map(|job| job.id));
        read += page.read;
        assert!(read <= JOBS, "a job was found twice");
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!((ids.len() as u64, read), (JOBS, JOBS));
}
