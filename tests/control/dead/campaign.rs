//! Campaigns: each letter is replayed once, whatever dies; a canary that fails, or too many deaths, stop them.

use redis::Value;
use streamfleet_engine::admin::{Filter, ReplayRules, TaskError, TaskState};

use super::{SOON, bury};
use harness::campaigns::{ann, begin, counts, known, until_campaign, write};
use harness::dead::{DEAD, letters};
use harness::fleet::{Acts, Running, queue, quick};
use harness::redis_server::RedisServer;
use harness::scripts::{Scripts, sha, source};
use harness::wait::{until, until_async};

const DEAD_Q: &str = "sf:{q}:dead";

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_replays_every_letter_once_and_tells_how_they_ended() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 300, "test");
    let id = begin(&queue, ReplayRules::default().rate(10_000.0).canary(5)).await;
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    let campaign = until_campaign(&queue, &id, TaskState::Done).await;
    assert_eq!(
        (
            campaign.replay.unwrap().replayed,
            campaign.replay.unwrap().succeeded,
            campaign.replay.unwrap().skipped
        ),
        (300, 300, 0)
    );
    assert_eq!((handler.all_runs(), handler.jobs(), letters(&queue).await.len()), (300, 300, 0));
    assert!(matches!(queue.tasks().pause(&id, &ann()).await, Err(TaskError::State(TaskState::Done))));
    assert!(matches!(queue.tasks().stop("none", &ann()).await, Err(TaskError::Unknown)));
    assert_eq!(known(&queue).await.get(&id), Some(&false));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_dies_stops_the_campaign() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1", "2", "3", "4", "5", "6"]).await;
    let id = begin(&queue, ReplayRules::default().rate(10_000.0).canary(2)).await;
    let fleet = super::deadly(&server);
    let campaign = until_campaign(&queue, &id, TaskState::Stopped).await;
    until_async("all to be dead", SOON, async || queue.snapshot().await.unwrap().dead == 6).await;
    fleet.stop().await;
    assert!(campaign.replay.unwrap().replayed <= 2 && campaign.replay.unwrap().died >= 1, "{campaign:?}");
    assert!(campaign.state_why.contains("did not succeed"), "{}", campaign.state_why);
    let all = letters(&queue).await;
    assert_eq!(all.len(), 6);
    assert_eq!((all[5].text("dead_campaigns"), all[5].text("dead_campaign")), ("1".to_owned(), id.clone()));
    assert_eq!(all[5].text("campaign"), "", "a replay by hand is not counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_deaths_of_the_same_error_stop_the_campaign() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let payloads: Vec<String> = (0..40).map(|nth| nth.to_string()).collect();
    bury(&server, &queue, &payloads.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let id = begin(&queue, ReplayRules::default().rate(60.0).stop_at(50.0)).await;
    let fleet = super::deadly(&server);
    let campaign = until_campaign(&queue, &id, TaskState::Stopped).await;
    fleet.stop().await;
    assert!(
        campaign.replay.unwrap().died >= 20 && campaign.replay.unwrap().died_otherwise == 0,
        "{campaign:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_replayed_by_campaigns_only_so_often() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1"]).await;
    let fleet = super::deadly(&server);
    for replays in [1, 1, 0] {
        let id = begin(&queue, ReplayRules::default().max_replays(2)).await;
        let campaign = until_campaign(&queue, &id, TaskState::Done).await;
        assert_eq!(
            (campaign.replay.unwrap().replayed, campaign.replay.unwrap().skipped),
            (replays, 1 - replays)
        );
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_campaign_replays_nothing_until_it_is_resumed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 100, "test");
    let id = begin(&queue, ReplayRules::default().rate(20.0)).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    until_async("some to be replayed", SOON, async || {
        queue.tasks().get(&id).await.unwrap().is_some_and(|task| task.replay.unwrap().succeeded >= 3)
    })
    .await;
    queue.tasks().pause(&id, &ann()).await.unwrap();
    let replayed = counts(&queue, &id).await.replayed;
    let paused = until_async("those replayed to end", SOON, async || {
        queue.tasks().get(&id).await.unwrap().filter(|task| task.replay.unwrap().alive() == 0)
    })
    .await;
    assert_eq!((paused.state, paused.replay.unwrap().replayed), (TaskState::Paused, replayed));
    queue.tasks().resume(&id, &ann()).await.unwrap();
    let done = until_campaign(&queue, &id, TaskState::Done).await;
    assert_eq!((done.replay.unwrap().replayed, done.replay.unwrap().succeeded), (100, 100));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_counts_jobs_that_are_malformed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fields =
        ["type", "test", "id", "a", "max_attempts", "x", "dead_reason", "malformed", "dead_error", "no"];
    server.cmd(&[&["XADD", DEAD, "*"][..], &fields].concat());
    let id = begin(&queue, ReplayRules::default()).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let campaign = until_campaign(&queue, &id, TaskState::Done).await;
    fleet.stop().await;
    assert_eq!((campaign.replay.unwrap().replayed, campaign.replay.unwrap().died_otherwise), (1, 1));
    let all = letters(&queue).await;
    assert_eq!((all[0].text("dead_campaigns"), all[0].text("campaign")), ("1".to_owned(), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_counts_malformed_jobs_that_waited_for_their_turn() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 1, "test");
    let id = begin(&queue, ReplayRules::default()).await;
    // It looks as if it had replayed another job, which has waited in a list since and has a new entry.
    let key = format!("sf:{{default}}:campaign:{id}");
    server.cmd(&["HSET", &key, "l:5-5", "1", "replayed", "1"]);
    let tag = format!("{id} 00ff 1");
    let moved = ["XADD", "sf:{default}:jobs", "*", "type", "test", "id", "a", "max_attempts", "x"];
    server.cmd(&[&moved[..], &["life", "5-5", "created_ms", "5", "campaign", &tag]].concat());
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let campaign = until_campaign(&queue, &id, TaskState::Done).await;
    fleet.stop().await;
    let counts = campaign.replay.unwrap();
    assert_eq!((counts.replayed, counts.succeeded, counts.died_otherwise), (2, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn campaigns_that_are_gone_or_over_make_room_for_new_ones() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 1, "test");
    let campaign = |nth: u64| format!("{nth:08x}");
    for nth in 0..200_u64 {
        let key = format!("sf:{{default}}:campaign:{}", campaign(nth));
        server.cmd(&[
            "HSET",
            key.as_str(),
            "state",
            "running",
            "changed_ms",
            (1000 + nth).to_string().as_str(),
        ]);
        server.cmd(&["HSET", "sf:{default}:campaigns", campaign(nth).as_str(), "active"]);
    }
    let selection = queue.dead_letters().select(Filter::new()).await.unwrap();
    let start = async || queue.tasks().start_replay(&selection, ReplayRules::default(), &ann()).await;
    assert!(matches!(start().await, Err(TaskError::TooMany)));
    for nth in [7, 9] {
        server.cmd(&["HSET", "sf:{default}:campaigns", campaign(nth).as_str(), "over"]);
    }
    start().await.unwrap();
    let known_now = known(&queue).await;
    assert_eq!(
        (known_now.len(), known_now.contains_key(&campaign(7)), known_now.contains_key(&campaign(9))),
        (200, false, true)
    );
    // Without its key, one that is active is gone too.
    server.cmd(&["DEL", format!("sf:{{default}}:campaign:{}", campaign(1)).as_str()]);
    assert_eq!(known(&queue).await.len(), 199);
    // The one that makes no sense is not taken for none.
    assert!(queue.tasks().get(&campaign(2)).await.is_err());
    assert!(queue.tasks().get(&campaign(1)).await.unwrap().is_none());
}

#[test]
fn a_replay_that_is_sent_twice_or_late_replays_nothing_again() {
    let scripts = Scripts::start();
    for (entry, id) in [("1-0", "a"), ("2-0", "b")] {
        scripts.server.cmd(&["XADD", "sf:{q}:dead", entry, "type", "test", "id", id]);
    }
    let campaign = "sf:{q}:campaign:c";
    scripts.server.cmd(&["HSET", campaign, "state", "running", "cursor", "0-0"]);
    let lanes = ["sf:{q}:jobs:high", "sf:{q}:jobs", "sf:{q}:jobs:low"];
    let keys = [&[campaign, "sf:{q}:dead"][..], &lanes, &["sf:{q}:job:a", "sf:{q}:job:b"]].concat();
    let args = ["c", "running", "0-0", "2-0", "1", "9", "3", "4", "1-0", "00ff", "2", "2-0", "-", "1"];
    // The rate allows one of them now.
    scripts.twice(source("task_replay"), &keys, &args, [1, 0]);
    assert_eq!((scripts.int(&["XLEN", "sf:{q}:jobs"]), scripts.int(&["XLEN", "sf:{q}:dead"])), (1, 1));
    let entry = format!("{:?}", scripts.server.cmd(&["XRANGE", "sf:{q}:jobs", "-", "+"]));
    assert!(entry.contains("c 00ff 1"), "{entry}");
    assert_eq!(scripts.int(&["HGET", campaign, "looked"]), 2);
    let paused = ["c", "paused", "1-0", "2-0", "1", "9", "3", "0", "2-0", "-", "1"];
    assert_eq!(scripts.call(source("task_replay"), &keys[..6], &paused).0, 0);
}

#[test]
fn a_campaign_does_not_wait_for_a_clock_that_was_set_back() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["XADD", "sf:{q}:dead", "1-0", "type", "test", "id", "a"]);
    let campaign = "sf:{q}:campaign:c";
    // It is due years from now.
    scripts.server.cmd(&["HSET", campaign, "state", "running", "cursor", "0-0", "due_ms", "9000000000000"]);
    let keys = [campaign, DEAD_Q, "sf:{q}:jobs:high", "sf:{q}:jobs", "sf:{q}:jobs:low", "sf:{q}:job:a"];
    // A letter's time is 0.1 ms here.
    let args = ["c", "running", "0-0", "1-0", "10000", "9", "3", "0", "1-0", "-", "1"];
    until("the letter to be replayed", SOON, || {
        scripts.call(source("task_replay"), &keys, &args);
        scripts.int(&["XLEN", DEAD_Q]) == 0
    });
}

#[test]
fn a_letter_whose_large_fields_are_gone_stays_a_letter() {
    let scripts = Scripts::start();
    for (entry, offloaded, campaigns) in [("1-0", "gone 9", "0"), ("2-0", "", "-5")] {
        let fields = ["type", "test", "id", "a", "offloaded", offloaded, "dead_campaigns", campaigns];
        scripts.server.cmd(&[&["XADD", DEAD_Q, entry][..], &fields].concat());
    }
    let campaign = "sf:{q}:campaign:c";
    // As if it had waited for a while.
    scripts.server.cmd(&["HSET", campaign, "state", "running", "cursor", "0-0", "due_ms", "0"]);
    let lanes = ["sf:{q}:jobs:high", "sf:{q}:jobs", "sf:{q}:jobs:low"];
    let keys = [&[campaign, DEAD_Q][..], &lanes, &["sf:{q}:job:a", "sf:{q}:job:a"]].concat();
    let args = ["c", "running", "0-0", "2-0", "100", "9", "3", "4", "1-0", "-", "2", "2-0", "-", "1"];
    assert_eq!(scripts.call(source("task_replay"), &keys, &args).0, 1);
    assert_eq!((scripts.int(&["HGET", campaign, "failed"]), scripts.int(&["XLEN", DEAD_Q])), (1, 1));
    assert_eq!(
        (scripts.int(&["HGET", campaign, "looked"]), scripts.int(&["HGET", campaign, "skipped"])),
        (7, 0)
    );
    // What a producer made of the count does not make the tag unreadable.
    let entry = format!("{:?}", scripts.server.cmd(&["XRANGE", "sf:{q}:jobs", "-", "+"]));
    assert!(entry.contains("c - 1"), "{entry}");
}

#[test]
fn letters_are_not_skipped_for_what_hits_all_of_them() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["XADD", DEAD_Q, "1-0", "type", "test", "id", "a", "dead_origin", "low"]);
    let campaign = "sf:{q}:campaign:c";
    scripts.server.cmd(&["HSET", campaign, "state", "running", "cursor", "0-0"]);
    let keys = [campaign, DEAD_Q, "sf:{q}:jobs:high", "sf:{q}:jobs", "sf:{q}:jobs:low", "sf:{q}:job:a"];
    let args = ["c", "running", "0-0", "1-0", "1", "9", "3", "0", "1-0", "-", "1"];
    scripts.server.cmd(&["DEL", "sf:{q}:jobs:low"]);
    scripts.server.cmd(&["SET", "sf:{q}:jobs:low", "a text"]);
    let before = scripts.int(&["XLEN", DEAD_Q]);
    let sha = sha(&scripts.server, source("task_replay"));
    let mut call = redis::cmd("EVALSHA");
    call.arg(sha).arg(keys.len()).arg(&keys[..]).arg(&args[..]);
    let refused = call.query::<Value>(&mut scripts.server.client()).unwrap_err();
    assert!(refused.to_string().contains("WRONGTYPE"), "{refused}");
    assert_eq!(scripts.int(&["XLEN", DEAD_Q]), before);
    // One bad member stays, and its error is told.
    scripts.server.cmd(&["DEL", "sf:{q}:jobs:low"]);
    scripts.server.cmd(&["SET", "sf:{q}:job:a", "a text"]);
    assert_eq!(scripts.call(source("task_replay"), &keys, &args).0, 1);
    assert_eq!(scripts.int(&["HGET", campaign, "failed"]), 1);
    let told = format!("{:?}", scripts.server.cmd(&["HGET", campaign, "error"]));
    assert!(told.contains("the dead letter 1-0: ") && told.contains("WRONGTYPE"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_cannot_be_read_keeps_no_other_from_going_on() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 5, "test");
    server.cmd(&["HSET", "sf:{default}:campaigns", "00000000", "active"]);
    server.cmd(&["SET", "sf:{default}:campaign:00000000", "a text"]);
    let id = begin(&queue, ReplayRules::default()).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let campaign = until_campaign(&queue, &id, TaskState::Done).await;
    fleet.stop().await;
    assert_eq!(campaign.replay.unwrap().succeeded, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_of_older_versions_stop_a_campaign_too() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut all = redis::pipe();
    for nth in 0..40 {
        let (id, error) = (format!("old-{nth}"), nth.to_string());
        let fields =
            ["type", "test", "id", &id, "payload", &error, "dead_reason", "fatal", "dead_error", &error];
        all.cmd("XADD").arg(DEAD).arg("*").arg(&fields[..]).ignore();
    }
    all.exec(&mut server.client()).unwrap();
    let id = begin(&queue, ReplayRules::default().rate(60.0).stop_at(50.0)).await;
    let fleet = super::deadly(&server);
    let campaign = until_campaign(&queue, &id, TaskState::Stopped).await;
    fleet.stop().await;
    assert!(
        campaign.replay.unwrap().died >= 20 && campaign.replay.unwrap().died_otherwise == 0,
        "{campaign:?}"
    );
}
