//! Callbacks and chains: submitted once, by the script that settles the job.

use serde_json::{Value, json};
use streamfleet::job::{JobId, State};

use harness::callbacks::Seen;
use harness::fleet::until_state;
use harness::proxy::Mode;
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

/// Submits by one `XADD`, as any language would.
pub(super) fn xadd(scene: &Scene, fields: &[&str]) -> JobId {
    let head = ["XADD", STREAM, "*", "type", "test"];
    let command: Vec<&str> = head.iter().chain(fields).copied().collect();
    let redis::Value::BulkString(entry) = scene.server.cmd(&command) else { panic!("no entry") };
    let own = fields.iter().position(|field| *field == "id").map(|at| fields[at + 1].to_owned());
    own.unwrap_or_else(|| String::from_utf8(entry).unwrap()).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_submits_its_callback_with_id_type_and_result() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = scene.sound_fleet(LONG, seen.handler());
    let job = xadd(&scene, &["payload", r#"{"say":7}"#, "on_success", "test", "on_failure", "test"]);
    until_state(&scene.queue, &job, State::Done).await;
    scene.until_at_rest().await;
    let want = json!({"id": job.to_string(), "type": "test", "state": "done", "result": {"said": 7}});
    assert_eq!(seen.of(&job), [want]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_dies_again_after_a_replay_calls_back_once() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = scene.sound_fleet(LONG, seen.handler());
    let both = ["on_success", "test", "on_failure", "test"];
    let job = xadd(&scene, &[&["payload", r#"{"act":"die"}"#, "id", "order-7"][..], &both].concat());
    for generation in 1..=2 {
        let status = until_state(&scene.queue, &job, State::Dead).await;
        assert_eq!(status.attempts.len(), generation);
        let letter = status.dead.unwrap();
        if generation == 1 {
            assert!(scene.queue.dead_letters().replay(letter, &job).await.unwrap().is_done());
        } else {
            let fields = ["payload", r#"{"act":"die"}"#, "id", "order-7", "h.cured", "yes"];
            scene.queue.dead_letters().drop(letter, &"another".parse().unwrap()).await.unwrap();
            xadd(&scene, &[&fields[..], &both].concat());
        }
        scene.until_at_rest().await;
    }
    until_state(&scene.queue, &job, State::Done).await;
    scene.until_at_rest().await;
    let states: Vec<_> = seen.of(&job).iter().map(|facts| facts["state"].clone()).collect();
    assert_eq!(states, ["dead", "done"]);
    let dead =
        json!({"id": "order-7", "type": "test", "state": "dead", "reason": "fatal", "error": "out of stock"});
    assert_eq!(seen.of(&job)[0], dead);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_runs_in_order_and_stops_at_the_first_death() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = scene.sound_fleet(LONG, seen.handler());
    let then = r#"[{"type":"test","payload":{"say":2}},{"type":"test","payload":{"say":3,"act":"die"},"on_failure":"test"},
        {"type":"test","payload":{"say":4}}]"#;
    let mut job = xadd(&scene, &["payload", r#"{"say":1}"#, "then", then]);
    scene.until_at_rest().await;
    // The last one is the callback for the death of the third.
    assert_eq!(seen.said(), [json!(1), json!(2), json!(3), Value::Null]);
    assert_eq!(scene.int(&["XLEN", "sf:{default}:dead"]), 1);
    // Each job names the one that followed it.
    for state in [State::Done, State::Done, State::Dead] {
        let status = scene.queue.status(&job).await.unwrap().unwrap();
        assert_eq!((status.state, status.children.len()), (state, 1));
        job = status.children[0].clone();
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_job_does_not_name_what_followed_its_death() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = scene.sound_fleet(LONG, seen.handler());
    let job = xadd(&scene, &["payload", r#"{"act":"die"}"#, "on_failure", "test"]);
    let status = until_state(&scene.queue, &job, State::Dead).await;
    assert_eq!(status.children.len(), 1);
    // Nobody calls back again, because the job died before.
    assert!(scene.queue.dead_letters().replay(status.dead.unwrap(), &job).await.unwrap().is_done());
    let status = until_async("the job to die again", SOON, async || {
        let status = scene.queue.status(&job).await.unwrap()?;
        (status.state == State::Dead && status.attempts.len() == 2).then_some(status)
    })
    .await;
    assert_eq!(status.children, []);
    fleet.stop().await;
}

/// Asserts that a job calls back once even if the reply to its settlement is lost.
async fn calls_back_once_despite_a_lost_reply(payload: &str, needle: &str) {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = scene.fleet(LONG, seen.handler());
    xadd(&scene, &["payload", payload, "on_success", "test", "on_failure", "test"]);
    scene.until_at_rest().await;
    scene.proxy.set(Mode::DropReplyTo { needle: needle.into(), holding: b":1\r\n".to_vec(), times: 1 });
    let job = xadd(&scene, &["payload", payload, "on_success", "test", "on_failure", "test"]);
    // The callback may have run while the reply to the script that submitted it is still on its way.
    until_async("the reply to be lost", SOON, async || scene.proxy.hits() == 1).await;
    until_async("the callback to run", SOON, async || !seen.of(&job).is_empty()).await;
    fleet.stop().await;
    scene.until_at_rest().await;
    assert_eq!(seen.of(&job).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_whose_reply_was_lost_calls_back_once() {
    calls_back_once_despite_a_lost_reply(r#"{"say":"eureka"}"#, "eureka\"}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_whose_reply_was_lost_calls_back_once() {
    calls_back_once_despite_a_lost_reply(r#"{"act":"die"}"#, "out of stock").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_chain_is_buried_with_the_reason() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = scene.sound_fleet(LONG, seen.handler());
    let job = xadd(&scene, &["then", r#"[{"type":"Test"}]"#]);
    let status = until_state(&scene.queue, &job, State::Dead).await;
    let error = status.error.unwrap();
    assert!(error.contains("then") && error.contains("a type must match"), "{error}");
    fleet.stop().await;
}
