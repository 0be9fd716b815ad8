//! Which jobs leave a record, and for how long.

use std::time::Duration;

use streamfleet::job::{JobId, State, Tracking};
use streamfleet::{JobError, Producer, Queue, Submission};

use harness::fleet::{Acts, Running, config, queue, quick, until_empty, until_state};
use harness::redis_server::RedisServer;

/// Starts a fleet whose queue and type have this tracking.
fn fleet(server: &RedisServer, of_queue: Tracking, of_type: Option<Tracking>, handler: Acts) -> Running {
    let mut config = config(&server.url());
    for queue in config.worker.queues.values_mut() {
        queue.tracking = of_queue;
        queue.retention = Some(Duration::from_secs(5));
    }
    Running::start_with(config, quick(2).tracking(of_type), handler)
}

async fn submit(queue: &Queue, tracking: Option<Tracking>, id: Option<&str>) -> JobId {
    let mut submission = Submission::new("test").unwrap();
    if let Some(tracking) = tracking {
        submission = submission.tracking(tracking);
    }
    if let Some(id) = id {
        submission = submission.id(id.parse().unwrap()).idempotent_for(Duration::ZERO);
    }
    Producer::new(queue.clone()).submit(submission).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_specific_setting_decides_which_job_leaves_a_record() {
    use Tracking::{All, Failures, None as Nothing};
    let cases = [
        // queue, type, job, whether the job has its own id, and whether a record is left
        (All, None, None, false, true),
        (Nothing, Some(All), None, false, true),
        (All, Some(Nothing), None, false, false),
        (Nothing, Some(Nothing), Some(All), false, true),
        (All, Some(All), Some(Nothing), true, false),
        (Failures, None, None, true, true),
        (Nothing, None, None, true, false),
    ];
    for (nth, (of_queue, of_type, of_job, own, leaves)) in cases.into_iter().enumerate() {
        let server = RedisServer::start();
        let queue = queue(&server).await;
        let fleet = fleet(&server, of_queue, of_type, Acts::well());
        let job = submit(&queue, of_job, own.then_some("mine")).await;
        until_empty(&queue).await;
        assert_eq!(queue.status(&job).await.unwrap().is_some(), leaves, "case {nth}");
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_record_keeps_only_what_its_retry_needs() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|context, _| {
        context.progress(50, "half");
        if context.attempt() < 2 { Err(JobError::retry("not yet")) } else { Ok(7.into()) }
    });
    let fleet = fleet(&server, Tracking::None, None, handler.clone());
    let job = submit(&queue, None, None).await;
    until_empty(&queue).await;
    assert_eq!(handler.runs(&job), 2);
    let keys: Vec<String> = redis::from_redis_value(server.cmd(&["KEYS", "sf:{default}:job:*"])).unwrap();
    assert_eq!(keys, Vec::<String>::new());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_kept_for_its_queues_retention_or_with_its_letter() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|context, _| match context.header("fails") {
        Some(_) => Err(JobError::fatal("no")),
        None => Ok(7.into()),
    });
    let fleet = fleet(&server, Tracking::All, None, handler);
    let job = submit(&queue, None, None).await;
    until_state(&queue, &job, State::Done).await;
    let ttl = |job: &JobId| match server.cmd(&["PTTL", &format!("sf:{{default}}:job:{job}")]) {
        redis::Value::Int(ttl) => ttl,
        other => panic!("{other:?}"),
    };
    assert!((1..=5_000).contains(&ttl(&job)));
    let fails = Submission::new("test").unwrap().header("fails", "yes").unwrap().tracking(Tracking::None);
    let dead = Producer::new(queue.clone()).submit(fails).await.unwrap();
    let status = until_state(&queue, &dead, State::Dead).await;
    assert_eq!(ttl(&dead), -1);
    assert!(queue.dead_letters().drop(status.dead.unwrap(), &dead).await.unwrap());
    assert_eq!(ttl(&dead), -2);
    fleet.stop().await;
}
