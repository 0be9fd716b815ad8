//! Clients that send slowly, endlessly, or nonsense.

use std::io::{Read as _, Write as _};

use super::client::{Console, SESSION, SOON, tokens};
use harness::redis_server::RedisServer;
use harness::wait::until;

/// Sends the beginning of a request, and returns that of the answer: the version and the status.
fn answer_to(console: &Console, begun: &str) -> String {
    let mut stream = console.connected();
    stream.write_all(begun.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn silent_clients_delay_nobody() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    let silent: Vec<_> = (0..500)
        .map(|n| {
            let mut stream = console.connected();
            if n % 2 == 0 {
                let begun = format!("POST {SESSION} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le");
                stream.write_all(begun.as_bytes()).unwrap();
            }
            stream
        })
        .collect();
    assert_eq!(console.get("/", &[]).status, 200);
    drop(silent);
}

#[test]
fn a_body_without_end_is_refused() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    let mut stream = console.connected();
    let head = format!(
        "POST {SESSION} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut sent = 0;
    while stream.write_all(chunk.as_bytes()).is_ok() {
        sent += 0x10000;
        assert!(sent < 100 * 1024 * 1024, "the body is read without end");
    }
    // The answer may have been lost with the connection.
    let mut answer = Vec::new();
    if stream.read_to_end(&mut answer).is_ok() && !answer.is_empty() {
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(console.get("/", &[]).status, 200);
}

#[test]
fn a_large_head_is_refused_before_all_of_it_was_sent() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    let begun = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Large: ";
    let large = |bytes: usize| format!("{begun}{}", "x".repeat(bytes - begun.len()));
    assert_eq!(answer_to(&console, &format!("{}\r\n\r\n", large(12 * 1024))), "HTTP/1.1 200");
    // Its end was not sent.
    assert_eq!(answer_to(&console, &large(16 * 1024)), "HTTP/1.1 431");
}

#[test]
fn a_body_of_somebody_unknown_is_read_only_up_to_its_bound() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    let begun = format!(
        "POST {SESSION} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2000000\r\n\
         Content-Type: application/json\r\n\r\n{}",
        "x".repeat(16 * 1024 + 1)
    );
    // Most of the body was not sent.
    assert_eq!(answer_to(&console, &begun), "HTTP/1.1 413");
}

#[test]
fn a_body_is_not_read_from_somebody_who_may_not_send_it() {
    let server = RedisServer::start();
    let toml = "[console.proxy]\nfrom = [\"127.0.0.1/32\"]\nuser_header = \"X-User\"\n\
                [console.proxy.roles]\n\"*\" = \"viewer\"\n";
    let console = Console::start(&server, toml);
    for (path, status) in [("/api/v1/queues/default/pause", 403), ("/nowhere", 404)] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-User: ann\r\nContent-Length: 9000000\r\n\
             Content-Type: application/json\r\n\r\n"
        );
        // None of the body was sent.
        assert_eq!(answer_to(&console, &head), format!("HTTP/1.1 {status}"), "{path}");
    }
}

#[test]
fn one_token_takes_only_some_memory_with_large_bodies() {
    const PATH: &str = "/api/v1/queues/default/jobs";
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let console = Console::start(&server, &tokens(folder.path()));
    // Barely large.
    let large = format!(r#"{{"type":"test","payload":"{}"}}"#, "x".repeat(65_520));
    // Each counts three times, and six of them leave less than the large one needs.
    let hold = || {
        let mut stream = console.connected();
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer operator\r\n\
             Content-Type: application/json\r\nContent-Length: 9310000\r\n\r\n{large}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let mut held: Vec<_> = (0..6).map(|_| hold()).collect();
    let status = |token: &str, body: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("Authorization", &*authorization), ("Content-Type", "application/json")];
        console.ask("POST", PATH, &headers, body).status
    };
    until("all memory to be taken", SOON, || {
        // One that came while the last question had the rest of the memory was refused.
        held.iter_mut().filter(|stream| stream.peek(&mut [0]).is_ok()).for_each(|stream| *stream = hold());
        status("operator", &large) == 429
    });
    assert_eq!(status("operator", r#"{"type":"test"}"#), 201, "a small body does not count");
    assert_eq!(status("admin", &large), 201, "others have memory of their own");
    drop(held);
    until("memory to be free", SOON, || status("operator", &large) == 201);
}

#[test]
fn nonsense_is_refused() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    for sent in [
        "\0\0\0\0\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let mut stream = console.connected();
        stream.write_all(sent.as_bytes()).unwrap();
        // The connection stays open after a proper request.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        if stream.read_to_end(&mut answer).is_ok() && !answer.is_empty() {
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert!(answer.starts_with("HTTP/1.1 4"), "{sent:?}: {answer}");
        }
    }
    assert_eq!(console.get("/", &[]).status, 200);
}

#[test]
fn a_console_stops_though_clients_are_connected() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    let silent: Vec<_> = (0..10).map(|_| console.connected()).collect();
    console.process.term();
    assert_eq!(console.process.wait_exit(SOON).code(), Some(0));
    until("the port to be closed", SOON, || std::net::TcpStream::connect(&console.address).is_err());
    drop(silent);
}
