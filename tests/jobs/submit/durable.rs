//! Submissions that are confirmed only when replicas, or the disk, have the job.

use std::time::{Duration, Instant};

use streamfleet::{Durability, Producer, RedisError, Submission, SubmitError, UniqueMode, UniqueScope};

use super::ids::own;
use harness::fleet::queue;
use harness::proxy::{Direction, Mode};
use harness::redis_server::{Aof, RedisServer};
use harness::scene::{SOON, STREAM, Scene, job};
use harness::server_program::skip;
use harness::wait::until_async;

const SHORT: Duration = Duration::from_secs(2);

fn is_unconfirmed<T: std::fmt::Debug>(answer: Result<T, SubmitError>) {
    let is = matches!(&answer, Err(SubmitError::Unconfirmed { accepted, .. }) if accepted.len() == 1);
    assert!(is, "{answer:?}");
}

fn length(server: &RedisServer) -> i64 {
    redis::from_redis_value(server.cmd(&["XLEN", STREAM])).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_a_replica_is_on_it_when_its_submission_returns() {
    let server = RedisServer::start();
    let replica = server.replica();
    let producer = Producer::new(queue(&server).await);
    for nth in 1..=20 {
        producer.submit(job("{}").durability(Durability::Replicas(1))).await.unwrap();
        assert_eq!(length(&replica), nth);
    }
    let jobs = (0..600).map(|_| job("{}").durability(Durability::Replicas(1)));
    producer.submit_all(jobs).await.unwrap();
    assert_eq!(length(&replica), 620);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_on_too_few_replicas_in_time_is_accepted_as_unconfirmed() {
    let server = RedisServer::start();
    let _replica = server.replica();
    let producer = Producer::new(queue(&server).await).confirm_within(SHORT);
    let answer = producer.submit(own("{}").durability(Durability::Replicas(2))).await;
    let Err(SubmitError::Unconfirmed { accepted, why }) = answer else { panic!("{answer:?}") };
    assert_eq!((accepted[0].to_string().as_str(), accepted.len()), ("order-7", 1));
    assert!(why.contains("1 of 2 replicas"), "{why}");
    assert_eq!(length(&server), 1);
    // Resending it with a durability that the server can confirm finds it and confirms it.
    let again = producer.submit_or_find(own("{}").durability(Durability::Replicas(1))).await.unwrap();
    assert!(again.existing().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_confirmed_only_over_the_connection_that_wrote_it() {
    let scene = Scene::new().await;
    let _replica = scene.server.replica();
    let producer = scene.producer().await;
    producer.submit(job("{}").durability(Durability::Replicas(1))).await.unwrap();
    let waits = Mode::drop_reply_to("WAIT", 1);
    scene.proxy.set(waits);
    let answer = producer.submit(own("{}").durability(Durability::Replicas(1))).await;
    is_unconfirmed(answer);
    // A new connection is opened for the next one.
    let again = producer.submit_or_find(own("{}").durability(Durability::Replicas(1))).await.unwrap();
    assert!(again.existing().is_some());
    assert_eq!(length(&scene.server), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_job_with_an_id_outlasts_a_server_that_is_away_for_a_while() {
    tokio::join!(outlasts_an_absence(true), outlasts_an_absence(false));
}

async fn outlasts_an_absence(comes_back: bool) {
    let scene = Scene::new().await;
    let _replica = scene.server.replica();
    let producer = scene.producer().await;
    let durable = |submission: Submission| submission.durability(Durability::Replicas(1));
    producer.submit(durable(job("first").id("warm-up".parse().unwrap()))).await.unwrap();
    let hold = Mode::Hold { needle: b"precious".to_vec(), nth: 1, way: Direction::Replies };
    scene.proxy.set(hold);
    let submitting = tokio::spawn(async move { producer.submit_or_find(durable(own("precious"))).await });
    until_async("the reply to be held", SOON, async || scene.proxy.hits() == 1).await;
    scene.proxy.set(Mode::Rst);
    scene.proxy.set(Mode::Refuse);
    until_async("a new connection to be refused", SOON, async || scene.proxy.hits() > 0).await;
    if comes_back {
        scene.proxy.set(Mode::Pass);
        let submitted = submitting.await.unwrap().unwrap();
        assert_eq!((submitted.id.to_string().as_str(), submitted.existing()), ("order-7", None));
    } else {
        let answer = submitting.await.unwrap();
        let is_unknown = matches!(answer, Err(SubmitError::Broker(RedisError::Unknown { .. })));
        assert!(is_unknown, "{answer:?}");
    }
    assert_eq!(length(&scene.server), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_replicas_blocks_no_other_submission() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await).confirm_within(SOON);
    let waiting = tokio::task::spawn({
        let producer = producer.clone();
        async move { producer.submit(job("{}").durability(Durability::Replicas(1))).await }
    });
    until_async("the first job", SOON, async || length(&server) == 1).await;
    let begun = Instant::now();
    producer.submit(job("{}")).await.unwrap();
    assert!(begun.elapsed() < SOON / 4, "{:?}", begun.elapsed());
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_confirm_its_disk_gets_no_submission() {
    let server = RedisServer::start();
    let waitaof: redis::RedisResult<Vec<i64>> =
        redis::cmd("WAITAOF").arg(&[1, 0, 1]).query(&mut server.client());
    let producer = Producer::new(queue(&server).await);
    let answer = producer.submit(job("{}").durability(Durability::Aof)).await;
    let Err(SubmitError::NotOffered(why)) = answer else { panic!("{answer:?}") };
    let unknown = waitaof.unwrap_err().to_string().contains("unknown command");
    assert!(why.contains(if unknown { "Redis 7.2 or later" } else { "appendonly" }), "{why}");
    assert_eq!(length(&server), 0);
}

/// Starts a server with an append-only file and this fsync policy. Returns `None` and prints a skip line if it has no WAITAOF.
fn with_a_file(fsync: &str) -> Option<RedisServer> {
    let server = RedisServer::builder().aof(Aof::EverySec).args(&["--appendfsync", fsync]).start();
    if !server.knows("WAITAOF") {
        skip("this server has no WAITAOF");
        return None;
    }
    Some(server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_resent_after_a_lost_reply_waits_for_the_disk() {
    let Some(server) = with_a_file("no") else { return };
    let scene = Scene::on(server).await;
    let producer = scene.producer().await.confirm_within(SHORT);
    // Loads the script, so that the lost reply is that of a call that was carried out.
    producer.submit(job("{}").id("warm-up".parse().unwrap())).await.unwrap();
    scene.proxy.set(Mode::drop_reply_to("order-7", 1));
    is_unconfirmed(producer.submit(own("{}").durability(Durability::Aof)).await);
    assert_eq!((scene.proxy.hits(), length(&scene.server)), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_job_waits_for_its_replica_again() {
    let server = RedisServer::start();
    let replica = server.replica();
    let producer = Producer::new(queue(&server).await).confirm_within(SHORT);
    let again = || producer.submit_or_find(own("{}").durability(Durability::Replicas(1)));
    replica.freeze();
    is_unconfirmed(again().await);
    is_unconfirmed(again().await);
    replica.thaw();
    assert!(again().await.unwrap().existing().is_some());
    assert_eq!(length(&replica), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_its_confirmation_holds_back_no_other_one() {
    let server = RedisServer::start();
    // Longer than a script may take to answer.
    let producer = Producer::new(queue(&server).await).confirm_within(Duration::from_secs(7));
    let submit = || {
        let producer = producer.clone();
        tokio::task::spawn(
            async move { producer.submit(job("{}").durability(Durability::Replicas(1))).await },
        )
    };
    let blocked = || {
        let clients: String = redis::from_redis_value(server.cmd(&["CLIENT", "LIST"])).unwrap();
        clients.lines().filter(|client| client.contains(" cmd=wait ")).count()
    };
    let first = submit();
    until_async("the first job to wait", SOON, async || blocked() == 1).await;
    let second = submit();
    until_async("both jobs", SOON, async || length(&server) == 2).await;
    for answer in [first, second] {
        is_unconfirmed(answer.await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_confirmed_on_the_disk_survives_a_kill() {
    let Some(server) = with_a_file("everysec") else { return };
    for nth in 1..=3 {
        let producer = Producer::new(queue(&server).await);
        producer.submit(job("{}").durability(Durability::Aof)).await.unwrap();
        server.kill9();
        server.restart();
        assert_eq!(length(&server), nth);
    }
    let producer = Producer::new(queue(&server).await);
    let jobs = (0..600).map(|_| job("{}").durability(Durability::Aof));
    producer.submit_all(jobs).await.unwrap();
    assert_eq!(length(&server), 603);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_not_on_the_disk_in_time_is_accepted_as_unconfirmed() {
    // Only the operating system writes to the disk, at some time.
    let Some(server) = with_a_file("no") else { return };
    let producer = Producer::new(queue(&server).await).confirm_within(SHORT);
    let answer = producer.submit(own("{}").durability(Durability::Aof)).await;
    let Err(SubmitError::Unconfirmed { accepted, why }) = answer else { panic!("{answer:?}") };
    assert_eq!((accepted[0].to_string().as_str(), accepted.len()), ("order-7", 1));
    assert!(why.contains("not on the server's disk"), "{why}");
    // The job is known, and still not on the disk.
    is_unconfirmed(producer.submit(own("{}").durability(Durability::Aof)).await);
    server.cmd(&["CONFIG", "SET", "appendfsync", "always"]);
    let again = producer.submit_or_find(own("{}").durability(Durability::Aof)).await.unwrap();
    assert!(again.existing().is_some());
    assert_eq!(length(&server), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_producer_of_a_replacement_whose_reply_was_lost_sees_its_own_job() {
    let scene = Scene::new().await;
    let _replica = scene.server.replica();
    let producer = scene.producer().await.confirm_within(SOON);
    let unique = |mode| {
        let job = job("{}").unique("k".parse().unwrap(), UniqueScope::Running, mode);
        job.durability(Durability::Replicas(1))
    };
    producer.submit(unique(UniqueMode::Reject).delay(SOON)).await.unwrap();
    scene.proxy.set(Mode::DropReplyTo { needle: "EVALSHA".into(), holding: b"replaced".to_vec(), times: 1 });
    let answer = producer.submit_or_find(unique(UniqueMode::Replace).id("new".parse().unwrap())).await;
    assert_eq!(scene.proxy.hits(), 1);
    let answer = answer.unwrap();
    assert_eq!((answer.id.to_string().as_str(), answer.existing()), ("new", None));
}
