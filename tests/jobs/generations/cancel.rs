//! Requests to cancel a job: each is for one generation, whatever the clock says, and is deleted when nothing can fulfill it.

use std::time::{Duration, Instant};

use streamfleet::job::{State, Tracking};
use streamfleet::{UniqueMode, UniqueScope};
use streamfleet_engine::admin::Cancellation;

use harness::fleet::{Running, config, queue, quick, until_state};
use harness::redis_server::RedisServer;
use harness::scene::{Gate, job};
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);
const KEPT: Duration = Duration::from_secs(3600);
const CANCELS: &str = "sf:{default}:cancels";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_accepted_before_a_clock_step_back_can_be_cancelled() {
    let server = RedisServer::builder().clock_shifts().start();
    let queue = queue(&server).await;
    let handler = Gate::closed();
    let mut config = config(&server.url());
    config.worker.lease = Duration::from_secs(30);
    let fleet = Running::start_with(config, quick(3), handler.clone());
    let producer = streamfleet::Producer::new(queue.clone());
    let running = producer.submit(job("wait").id("running".parse().unwrap())).await.unwrap();
    let plain = producer.submit(job("wait").tracking(Tracking::All)).await.unwrap();
    let delayed = producer.submit(job("wait").delay(KEPT)).await.unwrap();
    for id in [&running, &plain] {
        handler.until_started(id).await;
    }
    server.shift_clock(-60_000);
    assert_eq!(queue.cancel(&delayed, "ann", KEPT).await.unwrap(), Cancellation::Done);
    for id in [&running, &plain] {
        assert_eq!(queue.cancel(id, "ann", KEPT).await.unwrap(), Cancellation::Requested);
        until_state(&queue, id, State::Cancelled).await;
    }
    fleet.stop().await;
}

#[tokio::test]
async fn a_job_whose_id_looks_like_a_generation_of_another_outlasts_its_cancellation() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    queue.join(Duration::from_secs(1)).await.unwrap();
    let add = ["XADD", "sf:{default}:jobs", "*", "type", "test", "id", "order-7", "payload", "{}"];
    let generation: String = redis::from_redis_value(server.cmd(&add)).unwrap();
    let producer = streamfleet::Producer::new(queue.clone());
    let mut children = Vec::new();
    for id in [format!("order-7#{generation}"), format!("order-7.{generation}")] {
        let child = job("{}").id(id.parse().unwrap()).delay(KEPT);
        children.push(producer.submit(child).await.unwrap());
    }
    assert_eq!(queue.cancel(&"order-7".parse().unwrap(), "ann", KEPT).await.unwrap(), Cancellation::Done);
    assert_eq!(server.cmd(&["XLEN", "sf:{default}:jobs"]), redis::Value::Int(0));
    for child in children {
        assert_eq!(queue.status(&child).await.unwrap().unwrap().state, State::Scheduled, "{child}");
        assert_eq!(queue.cancel(&child, "ann", KEPT).await.unwrap(), Cancellation::Done, "{child}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_behind_many_others_is_found_at_the_same_cost() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut others = redis::pipe();
    for nth in 0..30_000 {
        others.cmd("ZADD").arg(&[CANCELS, &nth.to_string(), &format!("{nth}-0")]).ignore();
    }
    others.exec(&mut server.client()).unwrap();
    let handler = Gate::closed();
    let mut config = config(&server.url());
    config.worker.lease = Duration::from_secs(30);
    let fleet = Running::start_with(config, quick(3), handler.clone());
    let producer = streamfleet::Producer::new(queue.clone());
    let id = producer.submit(job("wait")).await.unwrap();
    handler.until_started(&id).await;
    let asked = Instant::now();
    assert_eq!(queue.cancel(&id, "ann", KEPT).await.unwrap(), Cancellation::Requested);
    until_state(&queue, &id, State::Cancelled).await;
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    // They were made long ago, for jobs that no worker holds.
    until_async("the others to be deleted", 3 * SOON, async || {
        server.cmd(&["EXISTS", CANCELS]) == redis::Value::Int(0)
    })
    .await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_that_came_too_late_is_soon_deleted() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    queue.join(Duration::from_secs(1)).await.unwrap();
    let producer = streamfleet::Producer::new(queue.clone());
    let id = producer.submit(job("x")).await.unwrap().to_string();
    let stream = "sf:{default}:jobs";
    // A worker runs it, and it succeeds before the worker sees the request.
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", stream, ">"]);
    assert_eq!(queue.cancel(&id.parse().unwrap(), "ann", KEPT).await.unwrap(), Cancellation::Requested);
    server.cmd(&["XDEL", stream, &id]);
    server.cmd(&["XACK", stream, "fleet", &id]);
    let fleet = Running::start(&server.url(), quick(3), Gate::closed());
    until_async("the request to be deleted", SOON, async || {
        server.cmd(&["EXISTS", CANCELS, "sf:{default}:cancels:places"]) == redis::Value::Int(0)
    })
    .await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_reports_jobs_cancelled_or_replaced_while_no_worker_has_them() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let (sender, receiver) = std::sync::mpsc::channel();
    let listener = move |event: &streamfleet::event::Event<'_>| {
        if let streamfleet::event::Event::Finished(end) = event {
            let job_type = end.job_type.map(ToString::to_string);
            let reported = (end.job.to_string(), job_type, end.ending, end.error.map(str::to_owned));
            sender.send(reported).unwrap();
        }
    };
    let producer = streamfleet::Producer::new(queue.clone());
    let waiting = producer.submit(job("x")).await.unwrap();
    let delayed = producer.submit(job("x").delay(KEPT)).await.unwrap();
    for id in [&waiting, &delayed] {
        assert_eq!(queue.cancel(id, "ann", KEPT).await.unwrap(), Cancellation::Done);
    }
    let unique = |mode| job("x").unique("k".parse().unwrap(), UniqueScope::Running, mode);
    let replaced = producer.submit(unique(UniqueMode::Reject).delay(KEPT)).await.unwrap();
    let newcomer = producer.submit(unique(UniqueMode::Replace).delay(KEPT)).await.unwrap();
    let fleet = streamfleet::Fleet::builder(config(&server.url()));
    let fleet = fleet.handler_with("test", quick(1), Gate::closed()).unwrap();
    let events = streamfleet::event::Events::new(vec![std::sync::Arc::new(listener)]);
    let fleet = Running::of(fleet.events(events).build());
    let mut reported = std::collections::BTreeMap::new();
    until_async("all to be reported", SOON, async || {
        reported.extend(receiver.try_iter().map(|(id, job_type, ending, why)| (id, (job_type, ending, why))));
        reported.len() == 3
    })
    .await;
    let by_newcomer = format!("replaced by {newcomer}");
    for (id, why) in
        [(&waiting, "cancelled by ann"), (&delayed, "cancelled by ann"), (&replaced, by_newcomer.as_str())]
    {
        let want = (Some("test".to_owned()), streamfleet::event::Ending::Cancelled, Some(why.to_owned()));
        assert_eq!(reported[&id.to_string()], want);
    }
    fleet.stop().await;
}
