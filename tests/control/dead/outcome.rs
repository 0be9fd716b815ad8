//! What a campaign leaves behind: exact counts, notes in the audit, and the reasons of those who paused it.

use redis::Value;
use streamfleet::job::State;
use streamfleet_engine::admin::{Filter, JobSearch, PastAction, ReplayRules, TaskState};

use super::{SOON, bury};
use harness::campaigns::{ann, begin, until_campaign, write};
use harness::dead::DEAD;
use harness::fleet::{Acts, Running, queue, quick, until_empty};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const JOBS: &str = "sf:{default}:jobs";

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_campaign_is_noted_once_with_its_outcome() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 3, "test");
    let id = begin(&queue, ReplayRules::default()).await;
    let fleets = [(); 2].map(|()| Running::start(&server.url(), quick(1), Acts::well()));
    until_campaign(&queue, &id, TaskState::Done).await;
    for fleet in fleets {
        fleet.stop().await;
    }
    let noted = queue.audit().recent(None, 10).await.unwrap();
    let [end, start] = &noted[..] else { panic!("{noted:?}") };
    assert_eq!(
        (start.action.what.as_str(), start.action.outcome.as_str()),
        ("dead replay", &*format!("campaign {id}"))
    );
    let PastAction { action: end, .. } = end;
    assert_eq!((end.what.as_str(), end.who.as_str(), end.count), ("campaign done", "ann", Some(3)));
    assert_eq!(end.target, format!("campaign {id}"));
    assert!(
        end.outcome.contains("3 succeeded") && end.outcome.contains("0 still running"),
        "{}",
        end.outcome
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_stops_itself_notes_why() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1", "2"]).await;
    let id = begin(&queue, ReplayRules::default().canary(1)).await;
    let fleet = super::deadly(&server);
    until_campaign(&queue, &id, TaskState::Stopped).await;
    fleet.stop().await;
    let end = queue.audit().recent(None, 1).await.unwrap().remove(0).action;
    assert_eq!((end.what.as_str(), end.who.as_str()), ("campaign stopped", "ann"));
    assert!(end.why.contains("did not succeed"), "{}", end.why);
    assert!(end.outcome.contains("1 died of the same error"), "{}", end.outcome);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_pause_is_kept_until_the_campaign_goes_on() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 1, "test");
    let id = begin(&queue, ReplayRules::default()).await;
    let why = async || queue.tasks().get(&id).await.unwrap().unwrap().state_why;
    queue.tasks().pause(&id, &ann().why("the relay is slow")).await.unwrap();
    assert_eq!(why().await, "paused by ann: the relay is slow");
    queue.tasks().resume(&id, &ann()).await.unwrap();
    assert_eq!(why().await, "");
    queue.tasks().stop(&id, &ann().why("")).await.unwrap();
    assert_eq!(why().await, "stopped by ann");
    let end = queue.audit().recent(None, 1).await.unwrap().remove(0).action;
    assert!(end.outcome.starts_with("0 replayed: "), "{}", end.outcome);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_copies_a_campaigns_mark_counts_for_none() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, 2, "test");
    // The first letter is replayed at once, and the second one in an hour.
    let id = begin(&queue, ReplayRules::default().rate(1.0 / 3600.0)).await;
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    let counts = async || harness::campaigns::counts(&queue, &id).await;
    until_async("the first one to succeed", SOON, async || counts().await.succeeded == 1).await;
    let mark = format!("{id} 00ff 1");
    for copy in ["a", "b"] {
        server.cmd(&["XADD", JOBS, "*", "type", "test", "id", copy, "campaign", &mark]);
    }
    until_async("the copies to run", SOON, async || handler.jobs() == 3).await;
    until_empty(&queue).await;
    let counts = counts().await;
    fleet.stop().await;
    assert_eq!((counts.replayed, counts.succeeded, counts.alive()), (1, 1, 0));
    // Its key has nothing about jobs that have ended.
    let fields = server.cmd(&["HKEYS", &format!("sf:{{default}}:campaign:{id}")]);
    assert!(!format!("{fields:?}").contains("l:"), "{fields:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_reads_large_fields_only_of_letters_that_may_match() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for (nth, job_type) in ["mail", "mail", "test", "mail"].into_iter().enumerate() {
        let (id, token) = (format!("j{nth}"), format!("t{nth} 9"));
        server.cmd(&["XADD", DEAD, "*", "type", job_type, "id", &id, "offloaded", &token]);
    }
    let dead = queue.dead_letters();
    let filter = Filter::new().job_type("test").unwrap().condition("payload.customer=9").unwrap();
    let selection = dead.select(filter).await.unwrap();
    let before = server.calls("get");
    let page = dead.selected(&selection, None).await.unwrap();
    // The large fields of the only one that may match are gone.
    assert_eq!((page.read, page.letters.len(), page.undecided), (4, 0, 1));
    assert_eq!(server.calls("get") - before, 1);
    assert_eq!(server.cmd(&["XLEN", DEAD]), Value::Int(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_reads_large_fields_of_letters_only_if_they_decide() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for (nth, job_type) in ["mail", "mail", "test", "mail"].into_iter().enumerate() {
        let (id, token) = (format!("j{nth}"), format!("t{nth} 9"));
        let fields = ["type", job_type, "id", &id, "offloaded", &token, "dead_error", "no"];
        server.cmd(&[&["XADD", DEAD, "*"][..], &fields].concat());
    }
    let search = async |filter: Filter| {
        let before = server.calls("get");
        let search = JobSearch::new().states(vec![State::Dead]).filter(filter);
        let page = queue.find_jobs(&search, None).await.unwrap();
        (page.jobs.len(), page.unreadable, server.calls("get") - before)
    };
    let of_type = |name: &str| Filter::new().job_type(name).unwrap();
    assert_eq!(search(Filter::new()).await, (4, 0, 0));
    assert_eq!(search(of_type("mail")).await, (3, 0, 0));
    assert_eq!(search(of_type("mail").error("yes").unwrap()).await, (0, 0, 0));
    // The large fields of the only one that may match are gone.
    assert_eq!(search(of_type("test").condition("payload.customer=9").unwrap()).await, (0, 1, 1));
}
