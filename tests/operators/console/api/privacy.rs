//! Who sees what.

use hyper::Method;
use serde_json::{Value, json};

use super::client::{Console, send, values};
use harness::fleet::{Acts, Running, quick};
use harness::redis_server::RedisServer;

const SECRET: &str = "ann@example.com";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_payload_is_told_to_those_who_may_not_see_it() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let job = json!({"type": "test", "id": "one", "payload": {"to": SECRET}, "headers": {"to": SECRET}, "delay": "1h"});
    console.submit("default", &job).await;
    let get = |path: &'static str| send(console.ask_as("viewer", Method::GET, path));
    let shown = get("queues/default/jobs/one").await;
    assert_eq!(shown.ok(200)["payload"], "***");
    assert!(!shown.text.contains(SECRET), "{shown:?}");
    let large = json!({"type": "test", "id": "large", "payload": SECRET.repeat(5000), "delay": "1h"});
    console.submit("default", &large).await;
    let whole = get("queues/default/jobs/large?full=true").await.ok(200);
    assert_eq!(
        (&whole["payload"], &whole["payload_cut"]),
        (&Value::Null, &json!(true)),
        "it is not even read"
    );
    let whole = console.get("queues/default/jobs/large?full=true").await.ok(200);
    assert_eq!(whole["payload"], json!(SECRET.repeat(5000)));
    for path in ["queues/default/jobs", "queues/default/dead", "jobs"] {
        let list = get(path).await;
        assert!(list.status == 200 && !list.text.contains(SECRET), "{path}: {list:?}");
    }
    for path in [
        "queues/default/jobs/one/payload",
        "queues/default/jobs/one/result",
        "queues/default/jobs?where=payload.to%3Dann@example.com",
        "queues/default/jobs?text=ann",
        "queues/default/jobs?header=to%3Dann",
        "queues/default/dead?error=ann",
    ] {
        get(path).await.problem(403);
    }
    let read = async |query: &str| {
        let request = console.ask_as("viewer", Method::GET, &format!("queues/default/jobs?{query}"));
        send(request.header("accept", "application/x-ndjson")).await
    };
    let listed = read("").await;
    assert!(listed.status == 200 && !listed.text.contains(SECRET), "{listed:?}");
    read("text=ann").await.problem(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_payload_takes_bounded_memory() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let objects = vec![json!({"": 1}); 150_000];
    let letter = "x".repeat(100_000);
    for (id, payload) in [("objects", json!(objects)), ("text", json!(letter))] {
        let job = json!({"type": "test", "id": id, "delay": "1h", "payload": payload});
        console.submit("default", &job).await;
    }
    assert_eq!(console.get("queues/default/jobs/text?full=true").await.ok(200)["payload"], letter);
    console.get("queues/default/jobs/objects?full=true").await.problem(413);
    let payload = send(console.ask(Method::GET, "queues/default/jobs/objects/payload")).await;
    assert_eq!((payload.status, payload.text.len()), (200, 1 + 150_000 * 7), "it is not decoded");
    for id in ["objects", "text"] {
        let path = format!("queues/default/jobs/{id}?full=true");
        let shown = send(console.ask_as("viewer", Method::GET, &path)).await;
        assert_eq!((&shown.ok(200)["payload"], &shown.ok(200)["payload_cut"]), (&Value::Null, &json!(true)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_field_of_a_letter_takes_bounded_memory() {
    let server = RedisServer::start();
    let console = Console::start_with(&server, "mask = [\"card\"]\n").await;
    let bury = |fields: &[&str]| -> String {
        let letter = ["XADD", "sf:{default}:dead", "*", "type", "test", "dead_reason", "malformed"];
        redis::from_redis_value(server.cmd(&[&letter[..], fields].concat())).unwrap()
    };
    let chain = format!("[{}1]", "{\"\":1},".repeat(300_000));
    let control = "\u{1}".repeat(9 << 20);
    let (long, large) =
        (bury(&["payload", "{}", "then", &chain]), bury(&["payload", "{}", "h.big", &control]));
    let get = async |token: &str, letter: &str| {
        send(console.ask_as(token, Method::GET, &format!("queues/default/dead/{letter}"))).await
    };
    let shown = get("admin", &long).await.ok(200);
    let then = shown["fields"].as_array().unwrap().iter().find(|field| field["name"] == "then").unwrap();
    assert_eq!(then["value"], "***", "no worker would read it");
    get("admin", &large).await.problem(413);
    assert_eq!(get("viewer", &large).await.ok(200)["fields"], json!([]));
    let page = console.get("queues/default/dead").await.ok(200);
    assert_eq!(values(&page, "letter"), [large, long]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_read_a_large_payload_keep_nobody_out() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let payload = "x".repeat(7 << 20);
    console.submit("mail", &json!({"type": "test", "id": "big", "delay": "1h", "payload": payload})).await;
    server.cmd(&["CONFIG", "SET", "client-output-buffer-limit", "normal 67108864 0 0"]);
    let read = async |nth: usize| {
        let token = if nth.is_multiple_of(2) { "admin" } else { "limited" };
        let request = console.ask_as(token, Method::GET, "queues/mail/jobs/big/payload");
        send(request).await.status
    };
    let statuses = futures_util::future::join_all((0..40).map(read)).await;
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn masked_fields_are_told_to_nobody() {
    let server = RedisServer::start();
    let console = Console::start_with(&server, "mask = [\"Card\"]\n").await;
    for encoding in ["json", "msgpack"] {
        let job = json!({
            "type": "test", "id": encoding, "encoding": encoding, "headers": {"card": "card-4711"}, "delay": "1h",
            "payload": {"to": "ann", "lines": [{"card": "card-4711"}]},
        });
        console.submit("default", &job).await;
        let path = format!("queues/default/jobs/{encoding}");
        let shown = console.get(&path).await;
        assert_eq!(shown.ok(200)["payload"], json!({"to": "ann", "lines": [{"card": "***"}]}));
        assert!(!shown.text.contains("card-4711"), "{shown:?}");
        let payload = send(console.ask(Method::GET, &format!("{path}/payload"))).await;
        assert!(payload.status == 200 && !payload.text.contains("card-4711"), "{payload:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_told_to_operators_only_unless_the_configuration_says_otherwise() {
    let server = RedisServer::start();
    let usual = Console::start(&server).await;
    let open = Console::start_with(&server, "secrets = []\n").await;
    let job = json!({
        "type": "test", "id": "one", "delay": "1h", "headers": {"Authorization": "Bearer s-4711"},
        "payload": {"to": "ann", "login": {"Api_Key": "s-4711"}},
    });
    usual.submit("mail", &job).await;
    let letter = ["type", "test", "id", "ill", "dead_reason", "fatal", "dead_error", "refused: token=s-4711"];
    server.cmd(&[&["XADD", "sf:{mail}:dead", "*"][..], &letter].concat());
    let searched = "queues/mail/jobs?state=scheduled&where=payload.login.Api_Key%3Ds-4711";
    for (console, token, is_told) in [
        (&usual, "admin", true),
        (&usual, "limited", true),
        (&usual, "reader", false),
        (&open, "reader", true),
    ] {
        let get = async |path: &str| send(console.ask_as(token, Method::GET, path)).await;
        for path in ["queues/mail/jobs/one", "queues/mail/jobs/one/payload", "queues/mail/dead"] {
            let shown = get(path).await;
            assert_eq!(
                (shown.status, shown.text.contains("s-4711")),
                (200, is_told),
                "{token} {path}: {shown:?}"
            );
        }
        let payload = get("queues/mail/jobs/one").await.ok(200)["payload"].clone();
        assert_eq!(payload["to"], "ann", "{token} sees the rest: {payload}");
        assert_eq!(get(searched).await.status, if is_told { 200 } else { 403 }, "{token}");
        assert_eq!(get("session").await.ok(200)["person"]["masked"], json!(!is_told), "{token}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_cannot_be_decoded_is_hidden_wherever_it_is_told() {
    let server = RedisServer::start();
    let console = Console::start_with(&server, "mask = [\"card\"]\n").await;
    let handler = Acts::new(|_, payload| match payload {
        // MessagePack with a card in it.
        b"\"bytes\"" => Ok(json!({"encoding": "base64", "data": "gaRjYXJkpDQ3MTE="})),
        b"\"text\"" => Ok(json!("paid by card 4711")),
        _ => Ok(json!({"card": "4711", "rows": 3})),
    });
    let fleet = Running::start(&server.url(), quick(1), handler);
    let value = json!({"card": "***", "rows": 3});
    for (id, seen) in [("bytes", json!("***")), ("text", json!("***")), ("value", value)] {
        let job = json!({"type": "test", "id": id, "payload": id});
        assert_eq!(console.post("queues/default/jobs?wait=60s", &job).await.ok(200)["result"], seen, "{id}");
        let path = format!("queues/default/jobs/{id}");
        assert_eq!(console.get(&path).await.ok(200)["result"], seen, "{id}");
        assert_eq!(console.get(&format!("{path}/result")).await.ok(200), seen, "{id}");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_tells_no_masked_value_in_any_of_its_fields() {
    let server = RedisServer::start();
    let console = Console::start_with(&server, "mask = [\"card\"]\n").await;
    let letter = "1700000000000-0";
    let payload = r#"{"card":{"n":"no-4711"},"card":4711,"to":"ann"}"#;
    let fields = [
        ("payload", payload, r#"{"card":"***","to":"ann"}"#),
        ("card", "no-4711", "***"),
        ("h.card", "no-4711", "***"),
        ("h.note", "card=no-4711 x", "card=*** x"),
        ("traceparent", "card: no-4711", "card: ***"),
        ("dead_reason", "fatal", "fatal"),
        ("then", r#"[{"type":"next","payload":"no-4711"}]"#, r#"[{"payload":"***","type":"next"}]"#),
    ];
    let mut add = vec!["XADD", "sf:{default}:dead", letter, "type", "test", "id", "ill"];
    add.extend(fields.iter().flat_map(|(name, value, _)| [*name, *value]));
    server.cmd(&add);
    let shown = console.get(&format!("queues/default/dead/{letter}")).await;
    let told = shown.ok(200)["fields"].clone();
    for (name, _, seen) in fields {
        let field = told.as_array().unwrap().iter().find(|field| field["name"] == name).unwrap();
        assert_eq!(field["value"], seen, "{name}");
    }
    let exported = console.get("queues/default/dead/export?all=true").await;
    for answer in [shown, exported] {
        assert!(answer.status == 200 && !answer.text.contains("no-4711"), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_found_by_what_is_masked_in_a_text() {
    let server = RedisServer::start();
    let console = Console::start_with(&server, "mask = [\"card\"]\n").await;
    let job = json!({
        "type": "test", "id": "later", "delay": "1h", "headers": {"note": "card=4711 x"},
        "payload": {"body": "{\"card\":\"4713\",\"to\":\"ann\"}"},
    });
    console.submit("default", &job).await;
    let letter = ["type", "test", "id", "ill", "dead_reason", "fatal", "dead_error", "declined: card=4714"];
    server.cmd(&[&["XADD", "sf:{default}:dead", "*"][..], &letter].concat());
    let found = async |condition: &str| {
        let path = format!("queues/default/jobs?state=scheduled,dead&{condition}");
        values(&console.get(&path).await.ok(200), "id")
    };
    for (hidden, shown, id) in [
        ("where=h.note~4711", "where=h.note~x", "later"),
        ("where=payload.body~4713", "where=payload.body~ann", "later"),
        ("error=4714", "error=declined", "ill"),
    ] {
        assert!(found(hidden).await.is_empty(), "{hidden}");
        assert_eq!(found(shown).await, [id], "{shown}");
    }
    // A plan counts the jobs that the list has.
    let planned = async |path: &str, filter: Value| {
        let plan = console
            .post(&format!("queues/default/{path}"), &json!({"filter": filter, "dry_run": true}))
            .await;
        plan.ok(200)["planned"].clone()
    };
    for (text, count) in [("4711", 0), ("x", 1)] {
        assert_eq!(planned("bulk/cancel", json!({"where": [format!("h.note~{text}")]})).await, count);
    }
    for (text, count) in [("4714", 0), ("declined", 1)] {
        assert_eq!(planned("bulk/replay", json!({"error": text})).await, count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_letter_tells_nobody_that_a_hidden_value_was_guessed() {
    let server = RedisServer::start();
    let masked = Console::start_with(&server, "mask = [\"card\"]\n").await;
    let open = Console::start(&server).await;
    let bury = |id: &str, more: &[&str]| -> String {
        let fields = ["type", "test", "id", id, "payload", "{\"card\":\"4711\"}", "dead_reason", "fatal"];
        let add = [&["XADD", "sf:{default}:dead", "*"][..], &fields, more].concat();
        redis::from_redis_value(server.cmd(&add)).unwrap()
    };
    let patch = async |console: &Console, token: &str, letter: &str, body: &Value| {
        let path = format!("queues/default/dead/{letter}");
        send(console.ask_as(token, Method::PATCH, &path).json(body)).await
    };
    for guess in ["4711", "4712"] {
        let (one, whole) =
            (json!({"set": [format!("payload.card={guess}")]}), json!({"payload": {"card": guess}}));
        // It is malformed whatever the card is.
        let ill = bury(&format!("ill-{guess}"), &["max_attempts", "leaked"]);
        patch(&masked, "admin", &ill, &whole).await.problem(422);
        patch(&masked, "admin", &bury(&format!("masked-{guess}"), &[]), &whole).await.ok(200);
        let refused = patch(&open, "blind", &ill, &whole).await;
        refused.problem(422);
        assert!(!refused.text.contains("leaked"), "{refused:?}");
        patch(&open, "blind", &bury(&format!("whole-{guess}"), &[]), &whole).await.ok(200);
        patch(&open, "blind", &ill, &one).await.problem(403);
    }
    // Whether a value can be set tells what the present one is like.
    let letter = bury("set", &[]);
    for place in ["card=4711", "Card[0]=1", "card.n=1", "lines[0].card=1"] {
        let body = json!({"set": ["payload.to=bob", format!("payload.{place}")]});
        patch(&masked, "admin", &letter, &body).await.problem(403);
    }
    patch(&masked, "admin", &letter, &json!({"set": ["payload.to=bob"]})).await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hash_of_a_masked_payload_is_told_to_nobody() {
    let server = RedisServer::start();
    let console = Console::start_with(&server, "mask = [\"card\"]\n").await;
    let job = json!({"type": "test", "payload": {"card": "4711", "to": "ann"}, "delay": "1h"});
    let sent = console.ask(Method::POST, "queues/default/jobs").header("Idempotency-Key", "k-1").json(&job);
    let id = send(sent).await.ok(201)["id"].as_str().unwrap().to_owned();
    let hash: String =
        redis::from_redis_value(server.cmd(&["GET", &format!("sf:{{default}}:mark:{id}")])).unwrap();
    let shown = console.get(&format!("queues/default/jobs/{id}")).await;
    assert_eq!(shown.ok(200)["headers"]["idempotency"], "***");
    assert!(!shown.text.contains(&hash), "{shown:?}");
    for condition in [format!("where=h.idempotency%3D{hash}"), format!("header=idempotency%3D{hash}")] {
        console.get(&format!("queues/default/jobs?state=scheduled&{condition}")).await.problem(403);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_revision_of_a_job_tells_nothing_to_those_without_the_key() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let key = folder.path().join("key");
    std::fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    let keyed = format!("session_key_file = {:?}\n", key.to_str().unwrap());
    let one = Console::start_with(&server, &keyed).await;
    let same = Console::start_with(&server, &keyed).await;
    let other = Console::start(&server).await;
    one.submit("default", &json!({"type": "test", "id": "later", "payload": SECRET, "delay": "1h"})).await;
    let path = "queues/default/jobs/later";
    let revision = async |console: &Console| {
        let shown = console.get(path).await;
        shown.header("etag").unwrap().to_owned()
    };
    let known = revision(&one).await;
    assert_eq!(revision(&same).await, known);
    assert_ne!(revision(&other).await, known, "it can be computed from what the job is");
    let change = |console: &Console| {
        send(console.ask(Method::PATCH, path).header("If-Match", &known).json(&json!({"delay": "2h"})))
    };
    change(&other).await.problem(412);
    change(&same).await.ok(200);
    // They could put one guess after another into the job, and would see when the revision is the former one again.
    let hidden = send(one.ask_as("viewer", Method::GET, path)).await;
    assert_eq!((hidden.status, hidden.header("etag")), (200, None));
    let masking = Console::start_with(&server, "mask = [\"card\"]\n").await;
    assert_eq!(masking.get(path).await.header("etag"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_with_a_role_on_one_queue_sees_no_other() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for queue in ["mail", "default"] {
        console.submit(queue, &json!({"type": "test", "id": queue})).await;
    }
    let get = |path: &'static str| send(console.ask_as("limited", Method::GET, path));
    assert_eq!(values(&get("queues").await.ok(200), "queue"), ["mail"]);
    assert_eq!(values(&get("jobs").await.ok(200), "id"), ["mail"]);
    get("queues/default").await.problem(403);
    get("queues/default/jobs").await.problem(403);
    get("jobs?queue=default").await.problem(403);
    get("queues/default/events").await.problem(403);
    get("queues/mail/jobs/mail").await.ok(200);
}
