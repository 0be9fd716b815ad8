//! Statistics of a queue: the same as those of the command line.

use hyper::Method;
use serde_json::{Value, json};

use super::client::{Console, send};
use harness::cli;
use harness::redis_server::RedisServer;
use harness::samples::{add_samples, add_types};

#[tokio::test(flavor = "multi_thread")]
async fn samples_and_types_are_those_of_the_command_line() {
    let server = RedisServer::start();
    add_samples(&server);
    add_types(&server);
    let console = Console::start(&server).await;
    let samples = console.get("queues/mail/stats?since=24h").await.ok(200);
    assert_eq!(samples, cli::json(&server, &["stats", "mail", "--since", "24h"]));
    assert_eq!((&samples["items"][1]["done"], &samples["items"][2]["waiting"]), (&json!(25), &json!(0)));
    let recent = console.get("queues/mail/stats?since=2m").await.ok(200);
    assert_eq!(recent["items"], json!([]));
    let types = console.get("queues/mail/stats/types").await.ok(200);
    assert_eq!(types["items"], cli::json(&server, &["stats", "mail", "--types"])["items"]);
    assert_eq!(
        (&types["items"][0]["type"], &types["items"][0]["run"]["count"], &types["items"][1]["type"]),
        (&json!("mail.send"), &json!(12), &Value::Null)
    );
    let durations = console.get("queues/mail/stats/durations").await.ok(200);
    assert_eq!(durations["items"], cli::json(&server, &["stats", "mail", "--durations"])["items"]);
    assert!(durations["items"][0]["run"]["count"].as_u64().is_some_and(|runs| runs > 0), "{durations}");
    assert!(types["from_ms"].as_u64().is_some_and(|from| from > 0), "{types}");
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_are_for_those_who_may_see_the_queue() {
    let server = RedisServer::start();
    add_samples(&server);
    let console = Console::start(&server).await;
    console.submit("other", &json!({"type": "test"})).await;
    for path in ["stats", "stats/types", "stats/durations"] {
        let ask = async |token: &str, queue: &str| {
            send(console.ask_as(token, Method::GET, &format!("queues/{queue}/{path}"))).await
        };
        ask("viewer", "mail").await.ok(200);
        ask("limited", "mail").await.ok(200);
        ask("limited", "other").await.problem(403);
        assert_eq!(ask("viewer", "other").await.ok(200)["items"], json!([]));
        ask("viewer", "nowhere").await.problem(404);
        for (query, at) in
            [("since=25h", "query.since"), ("since=soon", "query.since"), ("sinc=1h", "query.sinc")]
        {
            assert_eq!(console.get(&format!("queues/mail/{path}?{query}")).await.wrong(422), at);
        }
    }
}
