//! Large and broken jobs in waiting lists: whatever scripts add to them, they stay what they were.

use std::time::Duration;

use streamfleet::job::{JobId, Limits, State};
use streamfleet::{UniqueMode, UniqueScope};
use streamfleet_engine::admin::Cancellation;

use super::limits::test_type;
use harness::fleet::{Acts, Running, quick};
use harness::scene::{Gate, LONG, Scene, job};
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);
const TENANT: &str = "key:h.t=1";

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_that_went_from_waiting_list_to_waiting_list_leaves_nothing_when_it_is_cancelled() {
    let scene = Scene::new().await;
    let one = Limits::default().concurrency(1);
    for gate in [test_type(), "key:h.t".parse().unwrap()] {
        scene.queue.gates().set(&gate, &one).await.unwrap();
    }
    let handler = Gate::closed();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let producer = scene.producer().await;
    let first = producer.submit(job("wait").header("t", "1").unwrap()).await.unwrap();
    handler.until_started(&first).await;
    let id: JobId = "large".parse().unwrap();
    let large =
        job("x".repeat(200_000)).id(id.clone()).header("t", "1").unwrap().header("long", &"y".repeat(8000));
    let unique = ("one".parse().unwrap(), UniqueScope::Running, UniqueMode::Reject);
    producer.submit(large.unwrap().unique(unique.0, unique.1, unique.2)).await.unwrap();
    let in_waitlist = async |gate: &str| scene.int(&["XLEN", &format!("sf:{{default}}:room:{gate}")]) == 1;
    until_async("the type's gate to refuse it", SOON, async || in_waitlist("type:test").await).await;
    // The type has a free place, the tenant has none.
    scene.server.cmd(&["DEL", "sf:{default}:held:type:test"]);
    until_async("the tenant's gate to refuse it", SOON, async || in_waitlist(TENANT).await).await;
    let waitlist = format!("sf:{{default}}:room:{TENANT}");
    let fields = format!("{:?}", scene.server.cmd(&["XRANGE", &waitlist, "-", "+"]));
    assert!(
        fields.contains("room_moves") && fields.contains("offloaded") && fields.contains("h.t"),
        "{fields}"
    );
    assert!(!fields.contains("h.long"), "{fields}");
    assert_eq!(scene.queue.cancel(&id, "ann", LONG).await.unwrap(), Cancellation::Done);
    assert_eq!(scene.queue.status(&id).await.unwrap().unwrap().state, State::Cancelled);
    assert!(scene.int(&["PTTL", "sf:{default}:job:large"]) > 0);
    for left in ["sf:{default}:offloaded:*", "sf:{default}:unique:*", "sf:{default}:room:*"] {
        let keys: Vec<String> = redis::from_redis_value(scene.server.cmd(&["KEYS", left])).unwrap();
        assert_eq!(keys, Vec::<String>::new(), "{left}");
    }
    handler.open();
    fleet.stop().await;
}

#[tokio::test]
async fn a_malformed_job_is_cancelled_with_all_that_it_has() {
    let scene = Scene::new().await;
    scene.queue.join(LONG).await.unwrap();
    let generation = "5-1";
    scene.server.cmd(&["SET", "sf:{default}:unique:one", "bad"]);
    scene.server.cmd(&["SET", "sf:{default}:offloaded:5-1-0f", "x"]);
    scene.server.cmd(&["HSET", "sf:{default}:job:bad", "state", "waiting", "life", generation]);
    let fields = ["type", "test", "id", "bad", "life", generation, "unique", "one", "offloaded", "5-1-0f 7"];
    scene
        .server
        .cmd(&[&["XADD", "sf:{default}:jobs", "*"], &fields[..], &["encoding", "offloaded"]].concat());
    let id: JobId = "bad".parse().unwrap();
    assert_eq!(scene.queue.cancel(&id, "ann", LONG).await.unwrap(), Cancellation::Done);
    assert_eq!(scene.queue.status(&id).await.unwrap().unwrap().state, State::Cancelled);
    let left = ["sf:{default}:unique:one", "sf:{default}:offloaded:5-1-0f", "sf:{default}:jobs"];
    assert_eq!(left.map(|key| scene.int(&["EXISTS", key])), [0, 0, 1]);
    assert_eq!(scene.int(&["XLEN", left[2]]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_field_with_the_name_of_the_token_is_handed_to_no_script_twice() {
    let scene = Scene::new().await;
    let long = "a".repeat(1 << 20);
    let fields =
        ["id", "own", "offloaded", long.as_str(), "offloaded", "5-1-0f 7", "offloaded", long.as_str()];
    for job_type in ["nobody.knows.it", "test"] {
        scene.server.cmd(&[&["XADD", "sf:{default}:jobs", "*", "type", job_type], &fields[..]].concat());
    }
    let fleet = Running::start_with(
        scene.config(LONG),
        quick(1),
        Acts::new(|_, _| Err(streamfleet::JobError::fatal("no"))),
    );
    for at in ["sf:{default}:room:unknown:nobody.knows.it", "sf:{default}:dead"] {
        until_async("it to be moved", SOON, async || scene.int(&["XLEN", at]) == 1).await;
        let moved = format!("{:?}", scene.server.cmd(&["XRANGE", at, "-", "+"]));
        assert!(moved.len() < 10_000 && moved.matches("offloaded").count() >= 1, "{at}: {}", moved.len());
    }
    let letters = scene.queue.dead_letters().page(None, 1).await.unwrap();
    let sent: Vec<_> = letters[0].fields.fields().filter(|(name, _)| *name == b"offloaded").collect();
    assert_eq!(sent.iter().filter(|(_, value)| *value == long.as_bytes()).count(), 2, "nothing is lost");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_job_that_waited_for_its_turn_keeps_its_identity() {
    let scene = Scene::new().await;
    let fields = ["type", "test", "h.t", "a"];
    let add = |more: &[&str]| -> String {
        let added = scene.server.cmd(&[&["XADD", "sf:{default}:jobs", "*"], &fields[..], more].concat());
        redis::from_redis_value(added).unwrap()
    };
    (0..150).for_each(|_| drop(add(&[])));
    let broken = add(&["timeout_ms", ""]);
    let mut config = scene.config(LONG);
    for queue in config.worker.queues.values_mut() {
        (queue.concurrency, queue.fair_by) = (4, Some("h.t".to_owned()));
    }
    let fleet = Running::start_with(config, quick(1), Acts::well());
    until_async("it to be buried", SOON, async || scene.int(&["XLEN", "sf:{default}:dead"]) == 1).await;
    let letter = scene.server.cmd(&["XRANGE", "sf:{default}:dead", "-", "+"]);
    let [(_, letter)]: [(String, Vec<String>); 1] =
        redis::from_redis_value::<Vec<_>>(letter).unwrap().try_into().unwrap();
    let field = |name: &str| letter.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1].as_str());
    assert_eq!(field("dead_job"), Some(broken.as_str()), "{letter:?}");
    assert_eq!([field("id"), field("life"), field("created_ms")], [None; 3], "{letter:?}");
    assert_eq!(scene.queue.status(&broken.parse().unwrap()).await.unwrap().unwrap().state, State::Dead);
    fleet.stop().await;
}

#[tokio::test]
async fn a_large_entry_says_whose_turn_it_is() {
    let scene = Scene::new().await;
    let large = job("x".repeat(200_000)).id("large".parse().unwrap()).header("t", "1").unwrap();
    scene.producer().await.submit(large).await.unwrap();
    let entry = format!("{:?}", scene.server.cmd(&["XRANGE", "sf:{default}:jobs", "-", "+"]));
    assert!(entry.contains("offloaded") && entry.contains("h.t") && !entry.contains("xxx"), "{entry}");
}
