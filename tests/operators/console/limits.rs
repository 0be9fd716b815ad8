//! How many requests one person or program may send.

use super::client::{Console, SOON, tokens};
use harness::redis_server::RedisServer;
use harness::wait::until;

#[test]
fn who_asks_too_often_waits_and_delays_nobody_else() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let console = Console::start(&server, &format!("{}requests_per_second = 1\n", tokens(folder.path())));
    // Each may save up two requests, and gets one more a second.
    let refused = until("a request to be refused", SOON, || {
        let answer = console.get_as("admin", "/api/v1/queues");
        assert!([200, 429].contains(&answer.status), "{answer:?}");
        (answer.status == 429).then_some(answer)
    });
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.header("retry-after"), Some("1"), "{refused:?}");
    let problem: serde_json::Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(
        (&problem["status"], &problem["title"]),
        (&429.into(), &"too many requests".into()),
        "{problem}"
    );
    assert_eq!(console.get_as("viewer", "/api/v1/queues").status, 200, "somebody else is not delayed");
    for _ in 0..5 {
        assert_eq!(console.get("/healthz", &[]).status, 200, "probes are not counted");
    }
    until("the next request to be answered", SOON, || {
        console.get_as("admin", "/api/v1/queues").status == 200
    });
}
