//! Invalid or unreachable sentinels are reported in one clear sentence that contains no password.

use std::time::Duration;

use streamfleet::{Broker, RedisError};

use harness::fleet::config;
use harness::sentinel::{SERVICE, Watched};

async fn refusal(url: &str) -> RedisError {
    let connected = Broker::connect(config(url).redis);
    let connected =
        tokio::time::timeout(Duration::from_secs(20), connected).await.expect("an answer in time");
    let Err(error) = connected else { panic!("{url} should be refused") };
    let text = error.to_string();
    assert!(!text.contains("canary"), "{text}");
    assert!(!text.contains('\n'), "{text}");
    eprintln!("{text}");
    error
}

/// The most important part of a login error is which login it is about.
#[tokio::test(flavor = "multi_thread")]
async fn the_error_for_a_wrong_password_names_the_login() {
    let servers = Watched::builder().password("server-canary").sentinel_login("watcher", "sentinel-canary");
    let watched = tokio::task::spawn_blocking(move || servers.start()).await.unwrap();
    let url = watched.url();
    drop(Broker::connect(config(&url).redis).await.unwrap());
    let at = watched.sentinels.iter().map(|sentinel| sentinel.addr().to_string()).collect::<Vec<_>>();
    let of_a_sentinel = |text: &str, end: &str| {
        at.iter().any(|at| text.starts_with(&format!("redis.url: the sentinel at {at} {end}")))
    };

    let wrong = refusal(&url.replace("sentinel-canary", "wrong-canary")).await;
    assert!(wrong.is_configuration(), "{wrong}");
    let rejects = "rejects the login; see sentinelUsername and sentinelPassword";
    assert!(of_a_sentinel(&wrong.to_string(), rejects), "{wrong}");

    let (without, _) = url.split_once("&sentinelUsername").unwrap();
    let none = refusal(without).await;
    assert!(none.is_configuration(), "{none}");
    assert!(of_a_sentinel(&none.to_string(), "asks for a password"), "{none}");

    let of_the_server = refusal(&url.replace("server-canary", "wrong-canary")).await;
    assert!(of_the_server.is_configuration(), "{of_the_server}");
    assert!(of_the_server.to_string().contains("WRONGPASS"), "{of_the_server}");
    assert!(!of_the_server.to_string().contains("the sentinel at"), "{of_the_server}");

    let name = refusal(&url.replace(&format!("={SERVICE}&"), "=elsewhere&")).await;
    assert!(name.is_configuration(), "{name}");
    let knows_none = r#"does not know a primary named "elsewhere"; see sentinelServiceName"#;
    assert!(of_a_sentinel(&name.to_string(), knows_none), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_sentinels_are_named() {
    let error = refusal("redis-sentinel://127.0.0.1:1/0?sentinelServiceName=main&node=127.0.0.1:2").await;
    assert!(error.is_transient(), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("no sentinel answers: "), "{text}");
    for port in [1, 2] {
        assert!(text.contains(&format!("127.0.0.1:{port} (Connection refused)")), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_a_sentinel_is_reported() {
    let server = harness::redis_server::RedisServer::start();
    let error = refusal(&format!("redis-sentinel://{}/0?sentinelServiceName=main", server.addr())).await;
    assert_eq!(error.to_string(), format!("redis.url: the sentinel at {} is not a sentinel", server.addr()));
}

/// All sentinels but one are gone or frozen, and the primary is still found.
#[tokio::test(flavor = "multi_thread")]
async fn one_sentinel_that_answers_is_enough() {
    let watched = tokio::task::spawn_blocking(|| Watched::builder().start()).await.unwrap();
    watched.sentinels[0].freeze();
    watched.sentinels[1].freeze();
    let broker = Broker::connect(config(&watched.url()).redis).await.unwrap();
    broker.ping().await.unwrap();
}

/// The sentinels name a primary that is gone, as they do until a failover has finished.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_primary_is_named() {
    let watched = tokio::task::spawn_blocking(|| Watched::builder().start()).await.unwrap();
    watched.servers.iter().for_each(|server| server.kill9());
    let error = refusal(&watched.url()).await;
    assert!(error.is_transient(), "{error}");
    let addr = watched.servers[0].addr();
    assert!(error.to_string().contains(&format!("{addr}")), "{error}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
}
