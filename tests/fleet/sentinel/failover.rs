//! The primary hands over, is killed or freezes under load.

use std::time::{Duration, Instant};

use super::account::{Account, Change};
use super::load::{Load, RUNNING};
use harness::sentinel::{Builder, Watched, role};
use harness::wait::{until, until_async};

/// What is done to the primary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blow {
    /// `SENTINEL FAILOVER`.
    Planned,
    /// `kill -9`.
    Kill,
    /// `SIGSTOP` until after the failover, then `SIGCONT`.
    Freeze,
}

const PASSWORD: &str = "server-canary";

/// With these options a primary refuses writes that no replica would get.
const CAREFUL: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];

fn open<'a>() -> Builder<'a> {
    Watched::builder()
}

/// Servers that refuse writes without replicas and all require passwords.
fn careful<'a>() -> Builder<'a> {
    Watched::builder().args(&CAREFUL).password(PASSWORD).sentinel_login("watcher", "sentinel-canary")
}

/// Strikes the primary under load, and checks the account.
async fn strike(title: &'static str, servers: Builder<'static>, blow: Blow) -> Account {
    let watched = tokio::task::spawn_blocking(move || servers.start()).await.unwrap();
    let load = Load::start(&watched.url()).await;
    let began = Instant::now();
    match blow {
        Blow::Planned => watched.sentinels[1].fail_over(),
        Blow::Kill => watched.servers[0].kill9(),
        Blow::Freeze => watched.servers[0].freeze(),
    }
    let (watched, promoted) = tokio::task::spawn_blocking(|| {
        watched.promoted();
        (watched, Instant::now())
    })
    .await
    .unwrap();
    load.until_more(RUNNING * 10).await;
    if blow == Blow::Planned {
        // Until then it accepts writes, and discards them.
        until_async("the old primary to be a replica", Duration::from_secs(30), async || {
            role(&watched.servers[0]).as_deref() == Some("slave")
        })
        .await;
        load.until_more(RUNNING * 10).await;
    }
    if blow == Blow::Freeze {
        watched.servers[0].thaw();
        // It considers itself the primary for another ten seconds, and no client may use it.
        until("the old primary to answer", Duration::from_secs(10), || role(&watched.servers[0]).is_some());
        load.until_more(RUNNING * 10).await;
        assert_eq!(clients(&watched), 0, "some client uses the old primary");
    }
    let (seen, snapshot) = load.end().await;
    let account = Account::new(title, &seen, &snapshot, Change { began, promoted });
    eprintln!("{account}");
    account.assert_sound();
    assert!(account.again_running <= RUNNING, "{account}");
    assert!(account.resumed < Duration::from_secs(3), "{account}");
    account
}

/// Returns how many of our clients are connected to the first server.
fn clients(watched: &Watched) -> usize {
    let list: String = redis::from_redis_value(watched.servers[0].cmd(&["CLIENT", "LIST"])).unwrap();
    let ours = |line: &&str| {
        ["cmd=xreadgroup", "cmd=evalsha", "cmd=xack", "cmd=blpop"].iter().any(|cmd| line.contains(cmd))
    };
    list.lines().filter(ours).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_failover_takes_nothing_back() {
    let account = strike("planned", open(), Blow::Planned).await;
    assert!(account.again_unreplicated <= RUNNING, "{account}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_failover_takes_nothing_back_when_writes_need_a_replica() {
    let account = strike("planned, min-replicas-to-write 1, passwords", careful(), Blow::Planned).await;
    assert!(account.again_unreplicated <= RUNNING, "{account}");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_continues_after_the_primary_is_killed() {
    strike("kill -9", open(), Blow::Kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_continues_after_a_kill_when_writes_need_a_replica() {
    strike("kill -9, min-replicas-to-write 1, passwords", careful(), Blow::Kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_primary_that_returns_is_left_alone() {
    strike("frozen", open(), Blow::Freeze).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returning_primary_is_left_alone_when_writes_need_a_replica() {
    strike("frozen, min-replicas-to-write 1, passwords", careful(), Blow::Freeze).await;
}
