//! The codes by which the API says what is wrong with a field.

use hyper::Method;
use serde_json::json;

use super::client::{Console, send};
use harness::redis_server::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_breaks_a_rule_has_its_code_and_values() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("default", &json!({"type": "test", "id": "one", "delay": "1h"})).await;
    let none = json!({});
    for (method, path, body, code, values) in [
        (
            Method::POST,
            "jobs",
            json!({"type": "A"}),
            "name",
            json!({"text": "A", "pattern": "[a-z0-9][a-z0-9._-]{0,127}"}),
        ),
        (Method::POST, "jobs", json!({"payload": 1}), "required", none.clone()),
        (Method::POST, "jobs", json!({"type": "a", "typ": 1}), "unknown", none.clone()),
        (Method::POST, "jobs", json!({"type": "a", "delay": "soon"}), "duration", none.clone()),
        (
            Method::POST,
            "jobs",
            json!({"type": "a", "timeout": "8d"}),
            "range",
            json!({"least": "1ms", "most": "7d"}),
        ),
        (Method::POST, "jobs", json!({"type": "a", "id": "1700-0"}), "derived_id", none.clone()),
        (Method::POST, "jobs?wait=2h", json!({"type": "a"}), "at_most", json!({"most": "60s"})),
        (Method::GET, "jobs?limit=0", none.clone(), "range", json!({"least": "1", "most": "500"})),
        (Method::GET, "jobs?limt=9", none.clone(), "unknown", none.clone()),
        (Method::GET, "jobs?where=x%3D1", none.clone(), "condition", none.clone()),
        (
            Method::POST,
            "pause",
            json!({"type": "a", "key": "h.a=1"}),
            "exclusive",
            json!({"one": "type", "other": "key"}),
        ),
        (Method::PUT, "gates/queue", json!({"concurrency": 0}), "at_least", json!({"least": "1"})),
        (Method::PUT, "gates/queue", json!({"rate": "fast"}), "rate", none.clone()),
        (Method::PUT, "gates/queue", none.clone(), "no_limit", none.clone()),
        (Method::POST, "bulk/cancel", none.clone(), "nothing_selected", none.clone()),
        (
            Method::POST,
            "bulk/move",
            json!({"all": true, "to": "default"}),
            "same_queue",
            json!({"queue": "default"}),
        ),
        (Method::PATCH, "jobs/one", none.clone(), "nothing_to_change", none.clone()),
        (
            Method::PUT,
            "cron/nightly",
            json!({"schedule": "0 25 * * *", "type": "a"}),
            "schedule_field",
            json!({"text": "25", "column": "3", "allowed": "0 to 23"}),
        ),
        (
            Method::PUT,
            "cron/nightly",
            json!({"schedule": "@daily", "timezone": "Mars", "type": "a"}),
            "timezone",
            json!({"name": "Mars"}),
        ),
    ] {
        let request = console.ask(method, &format!("queues/default/{path}"));
        let refused =
            send(if body == none && path.contains('?') { request } else { request.json(&body) }).await;
        let problem = refused.problem(422);
        let wrong = &problem["errors"][0];
        assert_eq!((&wrong["code"], &wrong["values"]), (&json!(code), &values), "{path}: {refused:?}");
    }
}
