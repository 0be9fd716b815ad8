//! What a job did, as its workers wrote it: attempts, log, progress, result and steps.

use std::time::Duration;

use serde_json::{Value, json};
use streamfleet::JobError;

use super::client::{Console, SOON};
use harness::fleet::{Acts, Running, quick};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// Handlers that are programs: one returns bytes that are not text, and one is a step that fails until the file `bank` exists.
const WORKER: &str = r#"
[telemetry]
listen = "off"
[types.pack]
handler = { exec = { command = ["sh", "-c", "printf '\\377\\001'"] } }
tracking = "all"
[types."gift.send".steps.charge]
kind = "once"
handler = { exec = { directory = "{dir}", command = ["sh", "-c", "test -e bank"] } }
"#;

/// Waits until a job is in a state, and returns what the API says of it.
async fn until_state(console: &Console, id: &str, state: &str) -> Value {
    until_async(&format!("{id} to be {state}"), SOON, async || {
        let job = console.get(&format!("queues/default/jobs/{id}")).await.ok(200);
        (job["state"] == state).then_some(job)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_has_its_attempts_its_log_and_its_progress() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let handler = Acts::new(|context, _| {
        context.log("reading sales");
        context.progress(40, "13 of 31 days");
        Err(JobError::retry("connection refused\nby 10.0.0.7"))
    });
    let fleet = Running::start(&server.url(), quick(2), handler);
    console.submit("default", &json!({"type": "test", "id": "order-7"})).await;
    let job = until_state(&console, "order-7", "dead").await;
    let attempts = job["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{job}");
    for attempt in attempts {
        assert_eq!(attempt["error"], "connection refused\nby 10.0.0.7");
        assert!(attempt["worker"].as_str().is_some_and(|worker| !worker.is_empty()), "{job}");
        let [started, ended, took] =
            ["started_ms", "ended_ms", "duration_ms"].map(|key| attempt[key].as_u64().unwrap());
        assert!(started > 0 && started + took == ended, "{job}");
    }
    assert_eq!(
        (&job["progress"]["percent"], &job["progress"]["note"]),
        (&json!(40), &json!("13 of 31 days"))
    );
    let log = job["log"].as_array().unwrap();
    assert!(!log.is_empty() && log.iter().all(|line| line["text"] == "reading sales"), "{job}");
    console.get("queues/default/jobs/order-7/result").await.problem(409);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_not_text_is_base64_and_a_step_is_decided() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let console = Console::start(&server).await;
    let config = WORKER.replace("{dir}", folder.path().to_str().unwrap());
    let worker =
        Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]).config(&config).start();
    console.submit("default", &json!({"type": "pack", "id": "pack-1"})).await;
    let bytes = json!({"encoding": "base64", "data": "/wE="});
    assert_eq!(console.get("queues/default/jobs/pack-1/result?wait=60s").await.ok(200), bytes);
    assert_eq!(until_state(&console, "pack-1", "done").await["result"], bytes);
    console.submit("default", &json!({"type": "gift.send", "id": "gift-1"})).await;
    until_state(&console, "gift-1", "dead").await;
    let steps = console.get("queues/default/jobs/gift-1/steps").await.ok(200);
    assert_eq!(
        (&steps["steps"][0]["step"], &steps["steps"][0]["state"]),
        (&json!("charge"), &json!("failed"))
    );
    let decide = "queues/default/jobs/gift-1/steps/charge/decide";
    let wrong = console.post(decide, &json!({"verdict": "perhaps", "reason": "x"})).await;
    assert_eq!(wrong.wrong(422), "/verdict");
    console
        .post("queues/default/jobs/gift-1/steps/refund/decide", &json!({"verdict": "done"}))
        .await
        .problem(404);
    console
        .post("queues/default/jobs/gift-2/steps/charge/decide", &json!({"verdict": "done"}))
        .await
        .problem(404);
    std::fs::write(folder.path().join("bank"), "").unwrap();
    let wrong = console.post(decide, &json!({"verdict": "run", "result": {"receipt": 17}})).await;
    assert_eq!(wrong.wrong(422), "/result");
    console.post(decide, &json!({"verdict": "run", "reason": "the bank is back"})).await.ok(200);
    until_state(&console, "gift-1", "done").await;
    console.post(decide, &json!({"verdict": "run", "reason": "again"})).await.problem(409);
    let audit = console.get("queues/default/audit").await.ok(200);
    let decisions: Vec<&Value> =
        audit["items"].as_array().unwrap().iter().filter(|item| item["what"] == "steps decide").collect();
    assert_eq!(decisions.len(), 1, "{audit}");
    assert_eq!(
        (&decisions[0]["who"], &decisions[0]["why"], &decisions[0]["target"]),
        (&json!("admin"), &json!("the bank is back"), &json!("gift-1 charge run"))
    );
    worker.term();
    let ended = tokio::task::block_in_place(|| worker.wait_exit(Duration::from_secs(60)));
    assert!(ended.success(), "{}", worker.stderr());
}
