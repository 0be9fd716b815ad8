//! Unusable servers: down, silent, locked, or with keys of the wrong type.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use streamfleet::job::Lane;
use streamfleet::{Broker, ErrorClass, Fleet, Producer, RedisError, Shutdown, Submission};

use harness::fleet::{Acts, Running, config, queue, quick, submit, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

async fn refusal(url: &str) -> RedisError {
    match Broker::connect(config(url).redis).await {
        Err(error) => error,
        Ok(_) => panic!("connected to {url}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_to_a_closed_port_fails_within_seconds() {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let asked = Instant::now();
    let error = refusal(&format!("redis://:canary@{nobody}")).await;
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    assert!(matches!(error, RedisError::Unreachable(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("canary"));
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_to_a_server_that_never_answers_fails_within_seconds() {
    let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let asked = Instant::now();
    let error = refusal(&format!("redis://{}", mute.local_addr().unwrap())).await;
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    assert!(matches!(error, RedisError::Unreachable(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_wrong_password_is_a_configuration_error() {
    let server = RedisServer::builder().password("right").start();
    let at = server.addr();
    for url in
        [format!("redis://{at}"), format!("redis://:canary@{at}"), format!("redis://nobody:canary@{at}")]
    {
        let asked = Instant::now();
        let error = refusal(&url).await;
        assert_eq!(error.class(), Some(ErrorClass::Configuration), "{url}: {error:?}");
        assert!(asked.elapsed() < Duration::from_secs(15), "{url}: {:?}", asked.elapsed());
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
    Broker::connect(config(&server.url()).redis).await.unwrap().ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_cannot_log_in_waits_and_stops_when_asked() {
    let server = RedisServer::builder().password("right").start();
    let config = config(&format!("redis://:wrong@{}", server.addr()));
    let fleet = Fleet::builder(config).handler_for("test", Acts::well()).unwrap().build();
    let (probe, shutdown) = (fleet.probe(), Shutdown::new());
    let stop = shutdown.clone();
    let task = tokio::task::spawn(async move { fleet.run(stop).await });
    let refused = || -> u64 {
        let info: String = redis::from_redis_value(server.cmd(&["INFO", "commandstats"])).unwrap();
        let log_in = |line: &&str| line.starts_with("cmdstat_auth:") || line.starts_with("cmdstat_hello:");
        let failed = |line: &str| line.trim().rsplit_once("failed_calls=").unwrap().1.parse::<u64>().unwrap();
        info.lines().filter(log_in).map(failed).sum()
    };
    until_async("some logins to be refused", SOON, async || refused() >= 2).await;
    assert_eq!(probe.ready(), Err("waiting for redis".to_owned()));
    shutdown.request();
    task.await.unwrap().unwrap();
    // The fleet has waited between logins.
    assert!(refused() < 20, "{} logins", refused());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_recovers_when_a_stream_key_of_the_wrong_type_is_deleted() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    let first = submit(&queue, "{}").await;
    until_async("a job to run", SOON, async || handler.runs(&first) == 1).await;
    until_empty(&queue).await;
    server.cmd(&["DEL", "sf:{default}:jobs"]);
    server.cmd(&["SET", "sf:{default}:jobs", "not a stream"]);
    let job = Submission::new("test").unwrap();
    let error = Producer::new(queue.clone()).submit(job.clone()).await.unwrap_err().to_string();
    assert!(error.contains("WRONGTYPE"), "{error}");
    let error = queue.join(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.class(), Some(ErrorClass::Configuration), "{error}");
    server.cmd(&["DEL", "sf:{default}:jobs"]);
    for lane in Lane::ALL {
        let later = Producer::new(queue.clone()).submit(job.clone().lane(lane)).await.unwrap();
        until_async("a later job to run", SOON, async || handler.runs(&later) > 0).await;
    }
    until_empty(&queue).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_starts_when_a_stream_key_of_the_wrong_type_is_deleted() {
    let server = RedisServer::start();
    server.cmd(&["SET", "sf:{default}:jobs", "not a stream"]);
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    until_async("the first script call of the fleet", SOON, async || {
        let info: String = redis::from_redis_value(server.cmd(&["INFO", "commandstats"])).unwrap();
        info.contains("cmdstat_evalsha") || info.contains("cmdstat_eval:")
    })
    .await;
    server.cmd(&["DEL", "sf:{default}:jobs"]);
    let queue = queue(&server).await;
    let job = submit(&queue, "{}").await;
    until_async("the job to run", SOON, async || handler.runs(&job) == 1).await;
    fleet.stop().await;
}
