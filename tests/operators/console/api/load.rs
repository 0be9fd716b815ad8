//! Many requests and many listeners at once.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::client::{Console, SOON, watcher};
use super::events::{Listener, publish};
use harness::redis_server::RedisServer;

/// How many clients listen at once.
const LISTENERS: usize = 500;

/// How many connections send requests at once, for how long, and how often.
const CONNECTIONS: usize = 16;
const ROUND: Duration = Duration::from_millis(300);
const ROUNDS: usize = 5;

/// How much more memory all listeners may take together.
const MOST_MEMORY: u64 = 64 << 20;

/// What one kind of request came to.
struct Load {
    answers: usize,
    slowest: Duration,
}

/// Sends the same request over and over on a connection of its own, and waits for each answer.
async fn ask_again_and_again(address: &str, request: &str, end: Instant) -> Load {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut load, mut buffer) = (Load { answers: 0, slowest: Duration::ZERO }, vec![0; 64 * 1024]);
    while Instant::now() < end {
        let asked = Instant::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = 0;
        loop {
            read += stream.read(&mut buffer[read..]).await.unwrap();
            let text = std::str::from_utf8(&buffer[..read]).unwrap();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() == length.unwrap().parse::<usize>().unwrap() {
                assert!(head.starts_with("http/1.1 20"), "{text}");
                break;
            }
        }
        load.answers += 1;
        load.slowest = load.slowest.max(asked.elapsed());
    }
    load
}

/// Returns the answers per second, and the slowest answer.
async fn measure(address: &str, request: &str) -> (f64, Duration) {
    let (begin, end) = (Instant::now(), Instant::now() + ROUND);
    let asking = (0..CONNECTIONS).map(|_| ask_again_and_again(address, request, end));
    let loads = futures_util::future::join_all(asking).await;
    let answers: usize = loads.iter().map(|load| load.answers).sum();
    let slowest = loads.iter().map(|load| load.slowest).max().unwrap();
    (answers as f64 / begin.elapsed().as_secs_f64(), slowest)
}

/// Serves the shortest answer that there is.
async fn bare() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let routes = Router::new().route("/", get(|| async { r#"{"state":"waiting"}"# }));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    address
}

fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer admin\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// What is asked, and the least share of a bare handler's requests that the API answers: about a fifth of what two idle cores have shown in a build
/// without optimization.
fn requests() -> [(&'static str, f64, String); 4] {
    let submission = r#"{"type":"test","payload":{"order":7}}"#;
    [
        ("a check of health", 0.05, request("GET", "/healthz", "")),
        ("the state of a job", 0.008, request("GET", "/api/v1/queues/default/jobs/order-7", "")),
        ("the queues", 0.006, request("GET", "/api/v1/queues", "")),
        ("a submission", 0.012, request("POST", "/api/v1/queues/default/jobs", submission)),
    ]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn five_hundred_clients_get_every_event_and_take_little_memory() {
        let server = RedisServer::start();
        let console = Console::start(&server).await;
        console.submit("default", &json!({"type": "test"})).await;
        let before = console.memory();
        let mut listeners = Vec::new();
        for nth in 0..LISTENERS {
            // One program alone may not take all places.
            let request = console.ask_as(&watcher(nth), Method::GET, "queues/default/events");
            listeners.push(Listener::start(request).await);
        }
        // Nobody reads what these get.
        let mut idle = Vec::new();
        for _ in 0..20 {
            idle.push(console.ask(Method::GET, "events").send().await);
        }
        let started = Instant::now();
        let ids: Vec<String> = (0..20).map(|nth| format!("job-{nth}")).collect();
        ids.iter().for_each(|id| publish(&server, "default", id));
        for listener in &mut listeners {
            for id in &ids {
                assert_eq!(listener.next().await.data["id"], id.as_str());
            }
        }
        let took = started.elapsed();
        // More than what any of the idle ones is owed: it is cut off, and the others go on. Each part is sent before the next one comes.
        drop(listeners);
        let add = "for nth = 1, ARGV[1] do redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', 'event', 'failed_handle', 'error', ARGV[2]) end";
        let large = "x".repeat(20_000);
        for part in 0..15 {
            let mut listener = Listener::start(console.ask(Method::GET, "queues/default/events")).await;
            server.cmd(&["EVAL", add, "1", "sf:{default}:events", "200", &large]);
            let id = format!("part-{part}");
            publish(&server, "default", &id);
            while listener.next().await.data["id"] != id.as_str() {}
        }
        publish(&server, "default", "last");
        let mut listener = Listener::start(console.ask(Method::GET, "queues/default/events?after=0-0")).await;
        while listener.next().await.data["id"] != "last" {}
        let grown = console.memory().saturating_sub(before);
        eprintln!(
            "{LISTENERS} listeners got {} events each in {took:?}; the peak of memory grew by {} KiB",
            ids.len(),
            grown >> 10
        );
        assert!(grown < MOST_MEMORY, "{grown} bytes");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_load_of_requests_gets_a_fair_share_of_a_bare_handlers_rate() {
        let server = RedisServer::start();
        let console = Console::start(&server).await;
        console.submit("default", &json!({"type": "test", "id": "order-7"})).await;
        let address = console.address().strip_prefix("http://").unwrap().to_owned();
        let bare = bare().await;
        eprintln!("request                 per second  of a bare handler  at least  slowest");
        for (what, least, asked) in requests() {
            let (mut rates, mut shares, mut slowest) = (Vec::new(), Vec::new(), Duration::ZERO);
            // By turns, so that both meet the same machine.
            for _ in 0..ROUNDS {
                let (beside, _) = measure(&bare, &request("GET", "/", "")).await;
                let (rate, longest) = measure(&address, &asked).await;
                rates.push(rate);
                shares.push(rate / beside);
                slowest = slowest.max(longest);
            }
            let (rate, share) = (median(rates), median(shares));
            eprintln!("{what:<22} {rate:>11.0} {share:>18.3} {least:>9.3} {:>6} ms", slowest.as_millis());
            assert!(share > least && slowest < SOON, "{what}: {rate} a second, {share} of a bare handler");
        }
    }
}
