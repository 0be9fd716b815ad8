//! Chains that go on in another queue: each job is accepted there once, whatever is lost on the way.

use std::time::Duration;

use serde_json::{Value, json};
use streamfleet::job::{JobId, QueueName, State};
use streamfleet::worker::QueueConfig;
use streamfleet::{Fleet, FleetConfig, Producer, Queue, Submission};
use streamfleet_engine::admin::Status;

use harness::fleet::{Acts, Running, quick, until_state};
use harness::proxy::Mode;
use harness::scene::{LONG, SOON, Scene};
use harness::wait::until_async;

use super::follow::xadd;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A configuration that serves the queues `default` and `mail`.
fn config(scene: &Scene, mail: QueueConfig) -> FleetConfig {
    let mut config = scene.config(LONG);
    let queues = [("default", QueueConfig::default()), ("mail", mail)];
    config.worker.queues = queues.map(|(name, queue)| (name.parse().unwrap(), queue)).into();
    config
}

fn start(config: FleetConfig, handler: Acts) -> Running {
    Running::of(Fleet::builder(config).handler_with("test", quick(3), handler).unwrap().build())
}

async fn beside(scene: &Scene, queue: &str) -> Queue {
    let queue: QueueName = queue.parse().unwrap();
    streamfleet::Broker::connect(scene.server.url().as_str()).await.unwrap().queue(queue)
}

/// Says where it runs, and with what.
fn says() -> Acts {
    Acts::new(|context, payload| {
        let payload: Value = serde_json::from_slice(payload).unwrap();
        Ok(json!({ "queue": context.queue().as_str(), "say": payload["say"], "lane": context.lane().as_str(),
            "trace": context.traceparent(), "state": context.tracestate() }))
    })
}

/// Waits for the end of the only job that followed this one, and of the hand-over between them.
async fn next_of(from: &Queue, job: &JobId, to: &Queue) -> (JobId, Status) {
    let status = until_state(from, job, State::Done).await;
    assert_eq!(status.children.len(), 1, "{status:?}");
    let handed = until_state(from, &status.children[0], State::Done).await;
    assert_eq!(handed.job_type, "streamfleet.handover");
    let result: Value = serde_json::from_str(&handed.result.unwrap()).unwrap();
    assert_eq!(result["queue"], to.name().as_str());
    let id: JobId = result["id"].as_str().unwrap().parse().unwrap();
    let status = until_state(to, &id, State::Done).await;
    (id, status)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_goes_on_in_other_queues_and_comes_back() {
    let scene = Scene::new().await;
    let mail = beside(&scene, "mail").await;
    let fleet = start(config(&scene, QueueConfig::default()), says());
    let then = r#"[{"type":"test","payload":{"say":2},"queue":"mail"},{"type":"test","payload":{"say":3}},
        {"type":"test","payload":{"say":4},"queue":"default"}]"#;
    let fields = ["payload", r#"{"say":1}"#, "then", then, "traceparent", TRACE, "h.tracestate", "shop=1"];
    let first = xadd(&scene, &fields);
    let (second, status) = next_of(&scene.queue, &first, &mail).await;
    let said =
        |status: &Status| -> Value { serde_json::from_str(status.result.as_deref().unwrap()).unwrap() };
    let want = |queue: &str, say: u8| json!({ "queue": queue, "say": say, "lane": "normal", "trace": TRACE, "state": "shop=1" });
    assert_eq!(said(&status), want("mail", 2));
    // A job that names no queue stays in that of the job before it.
    let third = status.children[0].clone();
    assert_eq!(said(&until_state(&mail, &third, State::Done).await), want("mail", 3));
    let (_, status) = next_of(&mail, &third, &scene.queue).await;
    assert_eq!(said(&status), want("default", 4));
    assert!(second.to_string().starts_with("default.") && status.children.is_empty());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_knows_the_queue_of_the_job_before_it_and_its_own_callbacks() {
    let scene = Scene::new().await;
    let fleet = start(config(&scene, QueueConfig::default()), Acts::well());
    let then = r#"[{"type":"dies","queue":"mail","on_failure":"test"}]"#;
    let first = xadd(&scene, &["payload", "{}", "then", then]);
    let status = until_state(&scene.queue, &first, State::Done).await;
    until_state(&scene.queue, &status.children[0], State::Done).await;
    // Nobody knows its type, so its fields stay where they can be read.
    let room = "sf:{mail}:room:unknown:dies";
    let entry =
        until_async("the job to wait", SOON, async || match scene.server.cmd(&["XRANGE", room, "-", "+"]) {
            redis::Value::Array(entries) => entries.into_iter().next(),
            other => panic!("{other:?}"),
        })
        .await;
    let shown = format!("{entry:?}");
    for field in ["parent", &first.to_string(), "parent_queue", "default", "on_failure", "test"] {
        assert!(
            shown.contains(&format!("{:?}", redis::Value::BulkString(field.as_bytes().to_vec()))),
            "{field}: {shown}"
        );
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_acceptance_is_not_answered_is_accepted_once() {
    let (scene, acts) = (Scene::new().await, Acts::well());
    let mail = beside(&scene, "mail").await;
    let fleet = start(config(&scene, QueueConfig::default()), acts.clone());
    let then = r#"[{"type":"test","queue":"mail"}]"#;
    until_async("the queues to be served", SOON, async || mail.was_joined().await.unwrap()).await;
    // The first script that has the record of the second job is the one that submits it.
    scene.proxy.set(Mode::drop_reply_to("sf:{mail}:job:default.", 1));
    let first = xadd(&scene, &["payload", "{}", "then", then]);
    let (id, _) = next_of(&scene.queue, &first, &mail).await;
    until_async("the reply to be lost", SOON, async || scene.proxy.hits() == 1).await;
    fleet.stop().await;
    assert_eq!((acts.jobs(), acts.runs(&id)), (2, 1));
    assert_eq!(scene.int(&["XLEN", "sf:{mail}:jobs"]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_runs_again_finds_the_job() {
    let (scene, acts) = (Scene::new().await, Acts::well());
    let mail = beside(&scene, "mail").await;
    let fleet = start(config(&scene, QueueConfig::default()), acts.clone());
    let then = r#"[{"type":"test","queue":"mail"}]"#;
    let first = xadd(&scene, &["payload", "{}", "then", then]);
    let (id, _) = next_of(&scene.queue, &first, &mail).await;
    let status = scene.queue.status(&first).await.unwrap().unwrap();
    // Redis delivers an entry twice if its worker dies before Redis takes the end.
    let own = status.children[0].to_string();
    let order = format!(r#"{{"queue":"mail","type":"test","payload":1,"parent":"{first}"}}"#);
    let again =
        ["XADD", "sf:{default}:jobs", "*", "type", "streamfleet.handover", "id", &own, "payload", &order];
    scene.server.cmd(&again);
    scene.until_at_rest().await;
    fleet.stop().await;
    assert_eq!((acts.jobs(), acts.runs(&id)), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_lets_a_chain_wait_and_nothing_is_lost() {
    let (scene, acts) = (Scene::new().await, Acts::well());
    let mail = beside(&scene, "mail").await;
    let filler = Submission::new("other").unwrap();
    let blocked = Producer::new(mail.clone()).submit(filler.delay(Duration::from_secs(3600))).await.unwrap();
    let fleet = start(config(&scene, QueueConfig::default().max_depth(1)), acts.clone());
    until_async("the limit to hold", SOON, async || mail.was_joined().await.unwrap()).await;
    let first = xadd(&scene, &["payload", "{}", "then", r#"[{"type":"test","queue":"mail"}]"#]);
    let status = until_state(&scene.queue, &first, State::Done).await;
    let waits = until_state(&scene.queue, &status.children[0], State::Retrying).await;
    assert!(waits.error.unwrap().starts_with("the queue mail does not take jobs now: "));
    assert!(mail.cancel(&blocked, "ann", LONG).await.is_ok());
    next_of(&scene.queue, &first, &mail).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_that_can_never_succeed_is_a_dead_letter() {
    let scene = Scene::new().await;
    let fleet = start(config(&scene, QueueConfig::default()), Acts::well());
    let orders = [
        r#"{"queue":"No","type":"test","payload":1,"parent":"a"}"#,
        r#"{"queue":"mail","type":"No","payload":1,"parent":"a"}"#,
    ];
    for order in orders {
        scene.server.cmd(&[
            "XADD",
            "sf:{default}:jobs",
            "*",
            "type",
            "streamfleet.handover",
            "payload",
            order,
        ]);
    }
    scene.until_at_rest().await;
    let letters = scene.queue.dead_letters().page(None, 10).await.unwrap();
    let mut errors: Vec<_> =
        letters.iter().map(|letter| (letter.text("dead_reason"), letter.text("dead_error"))).collect();
    errors.sort();
    assert!(errors.iter().all(|(reason, _)| reason == "fatal") && errors.len() == 2, "{errors:?}");
    assert!(errors[0].1.contains("job type \"No\"") && errors[1].1.contains("queue"), "{errors:?}");
    fleet.stop().await;
}
