//! One group of dead letters, and when jobs died.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet::JobError;

use super::client::{Console, SOON, send, values};
use harness::fleet::{Acts, Running, quick};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const PATH: &str = "queues/default/dead";

/// A console, and the letters of one group: of these customers, all of one region.
async fn with_group(server: &RedisServer, config: &str, customers: &[u64]) -> (Console, String) {
    let console = Console::start_with(server, config).await;
    let fleet =
        Running::start(&server.url(), quick(1), Acts::new(|_, _| Err(JobError::fatal("no such account"))));
    for customer in customers {
        let payload = json!({"customer": customer, "to": {"region": "eu"}, "card": "4111"});
        let job = json!({"type": "test", "payload": payload, "headers": {"tenant": "acme"}});
        console.submit("default", &job).await;
    }
    until_async("the jobs to be dead", SOON, async || {
        console.get("queues/default").await.json()["dead"] == customers.len()
    })
    .await;
    fleet.stop().await;
    let groups = console.get(&format!("{PATH}/groups")).await.ok(200);
    (console, values(&groups, "group").remove(0))
}

/// The columns of a group, each with how many values it has, and the most frequent one.
fn columns(shown: &Value) -> Vec<(String, u64, String)> {
    let column = |column: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&column["column"]), column["distinct"].as_u64().unwrap(), text(&column["values"][0]["value"]))
    };
    shown["columns"].as_array().unwrap().iter().map(column).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_shows_when_its_jobs_died_and_in_what_they_differ() {
    let server = RedisServer::start();
    let (console, group) = with_group(&server, "", &[7, 8, 8]).await;
    let shown = console.get(&format!("{PATH}/groups/{group}")).await.ok(200);
    assert_eq!((&shown["group"], &shown["count"], &shown["sampled"]), (&json!(group), &json!(3), &json!(3)));
    let hourly = shown["hourly"].as_array().unwrap();
    assert_eq!((hourly.len(), hourly.iter().filter_map(Value::as_u64).sum::<u64>()), (24, 3));
    assert_eq!(shown["deaths"], 3);
    assert_eq!((&shown["span"]["part_ms"], &shown["span"]["complete"]), (&json!(3_600_000), &json!(true)));
    assert_eq!(shown["letters"].as_array().unwrap().len(), 3);
    let columns = columns(&shown);
    assert_eq!(columns[0], ("payload.customer".to_owned(), 2, "8".to_owned()), "{columns:?}");
    for same in ["payload.to.region", "h.tenant"] {
        assert!(columns.iter().any(|(name, distinct, _)| name == same && *distinct == 1), "{columns:?}");
    }
    for path in [format!("{PATH}/deaths?since=24h"), format!("{PATH}/deaths")] {
        let all = console.get(&path).await.ok(200);
        assert_eq!(values(&all, "group"), std::slice::from_ref(&group), "{path}");
    }
    console.get(&format!("{PATH}/groups/ffffffffffffffff")).await.problem(404);
    console.get("queues/nowhere/dead/deaths").await.problem(404);
    assert_eq!(console.get(&format!("{PATH}/deaths?since=25h")).await.wrong(422), "query.since");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_letters_contain_is_shown_only_to_those_who_may_see_it() {
    let server = RedisServer::start();
    let (console, group) = with_group(&server, "mask = [\"card\"]\n", &[7, 8]).await;
    let path = format!("{PATH}/groups/{group}");
    let masked = console.get(&path).await;
    assert!(!masked.text.contains("4111"), "{masked:?}");
    assert!(columns(&masked.ok(200)).iter().any(|(name, ..)| name == "payload.customer"), "{masked:?}");
    let viewer = send(console.ask_as("viewer", Method::GET, &path)).await;
    let shown = viewer.ok(200);
    assert_eq!((&shown["columns"], &shown["error"]), (&json!([]), &json!("***")));
    assert!(!viewer.text.contains("acme") && !viewer.text.contains("no such account"), "{viewer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_of_jobs_that_a_task_has_replayed_are_found() {
    let server = RedisServer::start();
    let (console, _) = with_group(&server, "", &[7]).await;
    let letter =
        ["XADD", "sf:{default}:dead", "*", "id", "again", "type", "test", "dead_campaign", "0b5ff109"];
    server.cmd(&letter);
    let found = console.get(&format!("{PATH}?task=0b5ff109")).await.ok(200);
    assert_eq!((values(&found, "id"), &found["next"]), (vec!["again".to_owned()], &Value::Null));
    let page = console.get(&format!("{PATH}?task=0b5ff109&limit=1")).await.ok(200);
    assert_eq!((values(&page, "id").len(), &page["next"]), (1, &Value::Null));
    assert_eq!(console.get(&format!("{PATH}?task=ffffffff")).await.ok(200)["items"], json!([]));
}
