//! Callbacks that a type names for all its jobs: submitted by the script that ends a job, once for each generation.

use serde_json::{Value, json};
use streamfleet::job::{JobId, JobType, Policy, State};
use streamfleet::{Fleet, FleetConfig};

use super::follow::xadd;
use harness::callbacks::Seen;
use harness::fleet::{Running, config, quick, until_state};
use harness::proxy::Mode;
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

/// Starts a process whose type `test` names the type `called` for each end, and serves both.
fn fleet(config: FleetConfig, seen: &Seen, policy: Policy) -> Running {
    let called = || "called".parse::<JobType>().unwrap();
    let policy = policy.on_success(called()).on_failure(called());
    let builder = Fleet::builder(config).handler_with("test", policy, seen.handler()).unwrap();
    Running::of(builder.handler_with("called", quick(3), seen.handler()).unwrap().build())
}

fn states(seen: &Seen, job: &JobId) -> Vec<Value> {
    seen.of(job).iter().map(|facts| facts["state"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_job_is_followed_and_leaves_no_record() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = fleet(config(&scene.server.url()), &seen, quick(3));
    let job = xadd(&scene, &["payload", r#"{"say":7}"#]);
    until_async("the callback to run", SOON, async || !seen.of(&job).is_empty()).await;
    scene.until_at_rest().await;
    let want = json!({"id": job.to_string(), "type": "test", "state": "done", "result": {"said": 7}});
    assert_eq!(seen.of(&job), [want]);
    assert_eq!(scene.int(&["EXISTS", &format!("sf:{{default}}:job:{job}")]), 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_generation_that_dies_is_followed_by_the_callback_of_its_type() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = fleet(config(&scene.server.url()), &seen, quick(3));
    let job = xadd(&scene, &["payload", r#"{"act":"die"}"#, "id", "order-7"]);
    for generation in 1..=3 {
        let status = until_state(&scene.queue, &job, State::Dead).await;
        until_async("its callback to run", SOON, async || seen.of(&job).len() == generation).await;
        if generation < 3 {
            let replayed = scene.queue.dead_letters().replay(status.dead.unwrap(), &job).await.unwrap();
            assert!(replayed.is_done());
        }
    }
    scene.until_at_rest().await;
    assert_eq!(states(&seen, &job), ["dead", "dead", "dead"]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_own_callback_wins_and_is_called_once_for_all_its_generations() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = fleet(config(&scene.server.url()), &seen, quick(3));
    let fields = ["payload", r#"{"act":"die"}"#, "id", "order-7", "on_failure", "called"];
    let job = xadd(&scene, &fields);
    let letter = until_state(&scene.queue, &job, State::Dead).await.dead.unwrap();
    assert!(scene.queue.dead_letters().replay(letter, &job).await.unwrap().is_done());
    until_async("it to die again", SOON, async || {
        let status = scene.queue.status(&job).await.unwrap();
        status.is_some_and(|status| status.attempts.len() == 2 && status.state == State::Dead)
    })
    .await;
    scene.until_at_rest().await;
    assert_eq!(states(&seen, &job), ["dead"]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_of_a_lost_worker_is_followed_by_the_callback_of_its_type() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    scene.server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "0", "MKSTREAM"]);
    let job = xadd(&scene, &["payload", r#"{"say":7}"#]);
    scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "gone", "COUNT", "1", "STREAMS", STREAM, ">"]);
    let fleet = fleet(config(&scene.server.url()), &seen, quick(3).max_losses(1));
    until_async("the callback to run", SOON, async || !seen.of(&job).is_empty()).await;
    scene.until_at_rest().await;
    assert_eq!((states(&seen, &job), &seen.of(&job)[0]["reason"]), (vec![json!("dead")], &json!("lost")));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_success_whose_reply_was_lost_is_followed_once() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = fleet(scene.config(LONG), &seen, quick(3));
    xadd(&scene, &["payload", r#"{"say":"eureka"}"#]);
    scene.until_at_rest().await;
    scene.proxy.set(Mode::DropReplyTo { needle: "eureka\"}".into(), holding: b":1\r\n".to_vec(), times: 1 });
    let job = xadd(&scene, &["payload", r#"{"say":"eureka"}"#]);
    until_async("the reply to be lost", SOON, async || scene.proxy.hits() == 1).await;
    fleet.stop().await;
    let again = self::fleet(config(&scene.server.url()), &seen, quick(3));
    scene.until_at_rest().await;
    assert_eq!(states(&seen, &job), ["done"]);
    again.stop().await;
}
