//! The http handler against real servers: well-behaved ones by wiremock, odd ones written by hand.

use std::net::SocketAddr;

use hyper::header::RETRY_AFTER;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wiremock::matchers::{body_bytes, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::handlers::fixture::{context, context_for, failure, run, soon};
use crate::job::Outcome;

fn http(url: &str) -> Http {
    http_with(url, |_| {})
}

fn http_with(url: &str, change: impl FnOnce(&mut HttpConfig)) -> Http {
    let mut config = HttpConfig { url: url.to_owned(), ..HttpConfig::default() };
    change(&mut config);
    Http::open(config).unwrap()
}

async fn answer(response: ResponseTemplate) -> Result<Value, Outcome> {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(response).mount(&server).await;
    run(&http(&server.uri()), b"{}", context(&[])).await
}

async fn refusal(status: u16, headers: &[(&str, &str)]) -> Failure {
    let mut response = ResponseTemplate::new(status).set_body_string("because");
    for (name, value) in headers {
        response = response.insert_header(*name, *value);
    }
    failure(answer(response).await)
}

/// A server that reads one request's head on each connection, answers with `bytes`, then sends `repeat` over and over
/// if it is given, and keeps the connection open.
async fn odd_server(bytes: &'static [u8], repeat: Option<&'static [u8]>) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            read_head(&mut stream).await;
            stream.write_all(bytes).await.ok();
            while let Some(more) = repeat
                && stream.write_all(more).await.is_ok()
            {}
            open.push(stream);
        }
    };
    // Dropping the set ends the server.
    let mut server = JoinSet::new();
    server.spawn(serve);
    (address, server)
}

async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap_or(0) > 0
    {
    }
}

async fn ask(address: SocketAddr, timeout: Duration) -> Result<Value, Outcome> {
    run(&http(&format!("http://{address}/")), b"", context_for(timeout)).await
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_job_becomes_one_post_with_its_payload_byte_for_byte() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/jobs"))
        .and(body_bytes(b"\0\xff\r\n"))
        .and(header("content-type", "application/octet-stream"))
        .and(header("idempotency-key", "order-7"))
        .and(header("x-streamfleet-job-attempt", "3"))
        .and(header("x-streamfleet-redelivered", "true"))
        .and(header("x-streamfleet-header-tenant", "acme"))
        .and(header("x-api", "v2"))
        .respond_with(ResponseTemplate::new(201).set_body_string("{\"rows\": 3}"))
        .expect(1)
        .mount(&server)
        .await;
    let handler = http_with(&format!("{}/jobs", server.uri()), |config| {
        config.headers = [("X-Api".into(), "v2".into())].into();
    });
    let fields = [
        ("id", "order-7"),
        ("attempt", "2"),
        ("encoding", "raw"),
        ("h.tenant", "acme"),
        ("h.evil", "a\r\nX-Admin: 1"),
    ];
    assert_eq!(run(&handler, b"\0\xff\r\n", context(&fields)).await, Ok(json!({"rows": 3})));
    let requests = server.received_requests().await.unwrap();
    let names: Vec<_> = requests[0].headers.keys().map(HeaderName::as_str).collect();
    assert!(
        !names.iter().any(|name| name.contains("evil") || *name == "x-admin" || *name == "accept-encoding"),
        "{names:?}"
    );
}

#[tokio::test]
async fn every_2xx_is_success_with_the_body_as_the_result() {
    assert_eq!(answer(ResponseTemplate::new(200).set_body_string("thanks\n")).await, Ok(json!("thanks")));
    assert_eq!(answer(ResponseTemplate::new(202)).await, Ok(Value::Null));
    assert_eq!(answer(ResponseTemplate::new(204)).await, Ok(Value::Null));
}

/// Returns the outcome of `rules` for a response.
async fn judged(response: ResponseTemplate, rules: &Value) -> Result<Value, Outcome> {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(response).mount(&server).await;
    let rules = serde_json::from_value(rules.clone()).unwrap();
    run(&http_with(&server.uri(), |config| config.rules = rules), b"{}", context(&[])).await
}

#[tokio::test]
async fn rules_give_statuses_and_bodies_their_own_meanings() {
    let rules = json!([
        { "status": [409, 410], "then": "drop" },
        { "status": 402, "matches": "quota", "then": { "snooze": "10m" } },
        { "status": "5xx", "matches": "(?i)duplicate order", "then": "fatal" },
        { "status": 404, "then": { "retry_after": "30s" } },
        { "status": 304, "then": "done" },
        { "status": 200, "matches": "\"ok\":false", "then": "retry" },
        { "status": 403, "then": "retry" },
    ]);
    let answer = |status: u16, body: &str| ResponseTemplate::new(status).set_body_string(body);
    assert_eq!(
        judged(answer(409, "seen before"), &rules).await,
        Err(Outcome::Dropped("the endpoint answered 409 Conflict: seen before".to_owned()))
    );
    assert_eq!(
        judged(answer(402, "over quota"), &rules).await,
        Err(Outcome::Snoozed(Duration::from_secs(600)))
    );
    assert_eq!(judged(answer(304, ""), &rules).await, Ok(Value::Null));
    assert_eq!(judged(answer(200, "{\"ok\":true}"), &rules).await, Ok(json!({"ok": true})));
    let want = [
        (answer(402, "no card"), Retry::Never),
        (answer(500, "DUPLICATE ORDER 7"), Retry::Never),
        (answer(500, "other"), Retry::Policy),
        (answer(404, ""), Retry::After(Duration::from_secs(30))),
        (answer(200, "{\"ok\":false}"), Retry::Policy),
        (answer(403, "").insert_header("retry-after", "7"), Retry::After(Duration::from_secs(7))),
    ];
    for (response, retry) in want {
        let failed = failure(judged(response, &rules).await);
        assert_eq!(failed.retry, retry, "{}", failed.error);
    }
}

#[tokio::test]
async fn a_truncated_response_is_not_matched_by_rules() {
    let cut = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 100\r\nconnection: close\r\n\r\nhalf";
    let (address, mut server) = odd_server(cut, None).await;
    let rules = json!([{ "status": 400, "matches": "busy", "then": "retry" }]);
    let handler = http_with(&format!("http://{address}/"), |config| {
        config.rules = serde_json::from_value(rules).unwrap();
    });
    let asked = run(&handler, b"", context_for(Duration::from_millis(500))).await;
    server.shutdown().await;
    // The server keeps the connection open, so the wait ends with the attempt's time. That is not the job's fault.
    assert!(!matches!(&asked, Err(Outcome::Failed(failure)) if failure.retry == Retry::Never), "{asked:?}");
}

#[tokio::test]
async fn the_status_decides_whether_to_retry() {
    for status in [408, 425, 429, 500, 502, 503, 504, 599] {
        let failed = refusal(status, &[]).await;
        let lost = matches!(status, 502 | 504);
        let kind = if lost { FailureKind::Unknown } else { FailureKind::Error };
        assert_eq!((failed.kind, failed.retry), (kind, Retry::Policy), "{status}");
    }
    for status in [400, 401, 403, 404, 409, 410, 413, 422, 451, 499] {
        assert_eq!(refusal(status, &[]).await.retry, Retry::Never, "{status}");
    }
    assert_eq!(refusal(404, &[]).await.error, "the endpoint answered 404 Not Found: because");
}

#[tokio::test]
async fn retry_after_is_honoured_in_both_forms_and_capped() {
    let (noon, later) = ("Sun, 06 Nov 1994 12:00:00 GMT", "Sun, 06 Nov 1994 12:01:40 GMT");
    let asked = async |status, headers: &[_]| refusal(status, headers).await.retry;
    assert_eq!(asked(503, &[("retry-after", "120")]).await, Retry::After(Duration::from_secs(120)));
    let date = asked(429, &[("date", noon), ("retry-after", later)]).await;
    assert_eq!(date, Retry::After(Duration::from_secs(100)));
    assert_eq!(asked(503, &[("retry-after", "86400")]).await, Retry::After(Duration::from_secs(600)));
    assert_eq!(asked(503, &[("retry-after", "soon")]).await, Retry::Policy);
    assert_eq!(asked(400, &[("retry-after", "120")]).await, Retry::Never);
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_static(noon));
    assert_eq!(
        retry_after::pause(&headers, jiff::Timestamp::now),
        Some(Duration::ZERO),
        "long ago by our clock"
    );
}

#[tokio::test]
async fn a_redirect_is_fatal_and_not_followed() {
    let server = MockServer::start().await;
    let target = format!("{}/target", server.uri());
    Mock::given(path("/target")).respond_with(ResponseTemplate::new(200)).expect(0).mount(&server).await;
    let moved = ResponseTemplate::new(307).insert_header("location", target.as_str());
    Mock::given(path("/jobs")).respond_with(moved).expect(1).mount(&server).await;
    let failed = failure(run(&http(&format!("{}/jobs", server.uri())), b"", context(&[])).await);
    assert_eq!(failed.retry, Retry::Never);
    let expected =
        format!("the endpoint answered 307 Temporary Redirect to {target}; redirects are not followed");
    assert_eq!(failed.error, expected);
}

#[tokio::test]
async fn the_error_has_the_start_of_the_body_with_its_line_breaks() {
    let body = format!("line\n\u{1b}[2J{}", "x".repeat(100_000));
    let failed = failure(answer(ResponseTemplate::new(422).set_body_string(body)).await);
    assert!(failed.error.contains(": line\n\\u{1b}[2Jxxx"), "{}", failed.error);
    assert!(failed.error.len() < EXCERPT_BYTES + 100, "{}", failed.error.len());
}

#[tokio::test]
async fn an_endless_body_is_cut_and_the_job_is_done() {
    let (address, _server) = odd_server(b"HTTP/1.1 200 OK\r\n\r\n", Some(&[b'x'; 5000])).await;
    let Ok(Value::String(result)) = ask(address, LONG).await else { panic!("not done") };
    assert_eq!(result.len(), MAX_RESULT_BYTES);
    let (address, _server) = odd_server(b"HTTP/1.1 404 Not Found\r\n\r\n", Some(b"\n")).await;
    assert_eq!(failure(ask(address, LONG).await).retry, Retry::Never);
}

#[tokio::test]
async fn a_refusal_whose_body_never_comes_still_counts() {
    let (address, _server) =
        odd_server(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 9\r\n\r\nwhy", None).await;
    let failed = failure(ask(address, LONG).await);
    assert_eq!(
        (failed.retry, failed.error.as_str()),
        (Retry::Never, "the endpoint answered 400 Bad Request: why")
    );
}

#[tokio::test]
async fn a_compressed_body_is_not_unpacked() {
    let zeros = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x63, 0x60, 0, 0];
    let packed = ResponseTemplate::new(200).insert_header("content-encoding", "gzip").set_body_bytes(zeros);
    assert_eq!(answer(packed).await, Ok(json!({ "encoding": "base64", "data": "H4sIAAAAAAAAA2NgAAA=" })));
}

#[tokio::test]
async fn a_broken_response_is_unknown_and_retried() {
    let broken: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"",
    ];
    for bytes in broken {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(bytes).await.unwrap();
        };
        let (ended, ()) = soon(async { tokio::join!(ask(address, LONG), serve) }).await;
        let failed = failure(ended);
        let told = (failed.kind, failed.retry);
        assert_eq!(told, (FailureKind::Unknown, Retry::Policy), "{}", bytes.escape_ascii());
    }
}

#[tokio::test]
async fn an_unreachable_endpoint_is_retried_without_showing_its_url() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let handler = http(&format!("http://{address}/?key=s3cret"));
    let failed = failure(run(&handler, b"", context(&[])).await);
    assert_eq!((failed.kind, failed.retry), (FailureKind::Error, Retry::Policy));
    assert!(
        failed.error.contains("Connection refused") && !failed.error.contains("s3cret"),
        "{}",
        failed.error
    );
}

#[tokio::test]
async fn a_server_without_tls_is_no_endpoint_for_https() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let handler = match Http::open(HttpConfig { url, ..HttpConfig::default() }) {
        Ok(handler) => handler,
        // On a machine without root certificates, the error comes at the start.
        Err(Error::Client { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.ok();
    };
    let (ended, ()) = soon(async { tokio::join!(run(&handler, b"", context(&[])), serve) }).await;
    let failed = failure(ended);
    assert_eq!((failed.kind, failed.retry), (FailureKind::Error, Retry::Policy));
    assert!(failed.error.contains("corrupt message"), "{}", failed.error);
}

#[tokio::test]
async fn a_server_that_is_too_slow_times_out() {
    let slow: [&[u8]; 3] = [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n123"];
    for bytes in slow {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(bytes).await.unwrap();
            // Only the end of the connection ends this.
            stream.read_to_end(&mut Vec::new()).await.ok();
        };
        let (ended, ()) = soon(async { tokio::join!(ask(address, Duration::from_millis(200)), serve) }).await;
        assert_eq!(ended, Err(Outcome::Interrupted));
    }
}

#[tokio::test]
async fn the_bearer_token_is_sent_and_never_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "s3cret-token\n").unwrap();
    let server = MockServer::start().await;
    Mock::given(header("authorization", "Bearer s3cret-token"))
        .respond_with(ResponseTemplate::new(200))
        .expect(1)
        .mount(&server)
        .await;
    let handler = http_with(&server.uri(), |config| config.bearer_file = Some(file.path().to_owned()));
    assert_eq!(run(&handler, b"", context(&[])).await, Ok(Value::Null));
    assert!(!format!("{handler:?}").contains("s3cret"), "{handler:?}");
    let sent = authorization(handler.bearer.as_ref().unwrap()).unwrap();
    assert!(!format!("{sent:?}").contains("s3cret"));
}

#[test]
fn a_missing_or_invalid_token_is_reported_at_startup() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for content in ["", "\n", "two tokens", "s3cret\nX-Admin: 1", "ü"] {
        std::fs::write(file.path(), content).unwrap();
        let error = bearer(file.path()).unwrap_err();
        assert!(matches!(error, Error::Bearer { .. }), "{content:?}");
        assert!(!format!("{error:?}").contains("s3cret"));
    }
    let missing = HttpConfig {
        url: "http://localhost/".into(),
        bearer_file: Some("/no/such/file".into()),
        ..HttpConfig::default()
    };
    assert!(matches!(Http::open(missing), Err(Error::Bearer { path, .. }) if path == "/no/such/file"));
    assert!(matches!(Http::open(HttpConfig::default()), Err(Error::Invalid { .. })));
}

#[tokio::test]
async fn connections_are_kept_from_job_to_job() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handler = http(&format!("http://{}/", listener.local_addr().unwrap()));
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            read_head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    };
    let ask = async {
        for _ in 0..3 {
            assert_eq!(run(&handler, b"", context(&[])).await, Ok(json!("ok")));
        }
    };
    soon(async { tokio::join!(serve, ask) }).await;
}
