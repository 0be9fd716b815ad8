//! Tests of `harness::proxy`.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, Value};

use harness::proxy::{Commands, Direction, Mode, Proxy, Scope};
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(10);
const BRIEFLY: Duration = Duration::from_millis(100);

fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    (server, proxy)
}

/// A client through the proxy.
fn client(server: &RedisServer, proxy: &Proxy) -> Connection {
    let url = server.url_through(proxy.addr());
    let connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    connection.set_read_timeout(Some(SOON)).unwrap();
    connection
}

fn is_unanswered(client: &mut Connection, command: &str) -> bool {
    client.set_read_timeout(Some(BRIEFLY)).unwrap();
    run(client, command).is_err_and(|error| error.is_timeout())
}

fn run(client: &mut Connection, command: &str) -> RedisResult<Value> {
    let mut words = command.split(' ');
    redis::cmd(words.next().unwrap()).arg(words.collect::<Vec<_>>()).query(client)
}

#[test]
fn a_proxy_that_passes_is_not_noticed() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    let big = vec![b'x'; 300_000];
    redis::cmd("SET").arg("k").arg(&big).exec(&mut client).unwrap();
    let (back, len): (Vec<u8>, usize) =
        redis::pipe().cmd("GET").arg("k").cmd("STRLEN").arg("k").query(&mut client).unwrap();
    assert!(back == big && len == big.len());
    assert_eq!((proxy.connections(), proxy.hits()), (1, 0));
    drop(client);
    until("the connection is closed", SOON, || proxy.connections() == 0);
}

#[test]
fn a_dropped_reply_leaves_the_xadd_executed() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    proxy.set(Mode::drop_reply_to("XADD", 1));
    run(&mut client, "XLEN s").unwrap();
    assert!(run(&mut client, "XADD s * type a").unwrap_err().is_connection_dropped());
    assert_eq!(server.cmd(&["XLEN", "s"]), Value::Int(1));
    assert_eq!(proxy.hits(), 1);
    let mut again = self::client(&server, &proxy);
    run(&mut again, "XADD s * type a").unwrap();
    assert_eq!((proxy.hits(), proxy.accepted()), (1, 2));
}

#[test]
fn only_the_reply_that_holds_the_needle_is_dropped() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    let holding = b"precious".to_vec();
    proxy.set(Mode::DropReplyTo { needle: b"XREADGROUP".to_vec(), holding, times: 1 });
    server.cmd(&["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"]);
    let read = "XREADGROUP GROUP g c COUNT 1 STREAMS s >";
    server.cmd(&["XADD", "s", "*", "payload", "cheap"]);
    assert!(matches!(run(&mut client, read), Ok(Value::Array(_))));
    server.cmd(&["XADD", "s", "*", "payload", "precious"]);
    assert!(run(&mut client, read).unwrap_err().is_connection_dropped());
    let pending = server.cmd(&["XPENDING", "s", "g"]);
    assert!(matches!(pending, Value::Array(summary) if summary[0] == Value::Int(2)));
}

#[test]
fn a_blackhole_keeps_the_connection_open_and_silent() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    proxy.set(Mode::blackhole(Scope::All));
    assert!(is_unanswered(&mut client, "XADD s * type a"));
    assert_eq!(server.cmd(&["XLEN", "s"]), Value::Int(0));
    until("the request is swallowed", SOON, || proxy.hits() == 1);
    drop(client);
    assert_eq!(proxy.connections(), 1);
    proxy.set(Mode::Pass);
    until("the connection that lost bytes is reset", SOON, || proxy.connections() == 0);
}

#[test]
fn a_blackhole_for_replies_leaves_the_xadd_executed() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    proxy.set(Mode::Blackhole { scope: Scope::All, direction: Direction::Replies });
    assert!(is_unanswered(&mut client, "XADD s * type a"));
    until("the entry is there", SOON, || server.cmd(&["XLEN", "s"]) == Value::Int(1));
}

#[test]
fn a_blackhole_can_spare_the_connection_that_reads_or_all_others() {
    let (server, proxy) = start();
    server.cmd(&["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"]);
    let read = "XREADGROUP GROUP g c STREAMS s >";
    let (mut reader, mut other) = (client(&server, &proxy), client(&server, &proxy));
    run(&mut reader, read).unwrap();
    proxy.set(Mode::blackhole(Scope::NeverSent("XREADGROUP".to_owned())));
    assert!(run(&mut reader, read).is_ok());
    assert!(is_unanswered(&mut other, "PING"));
    proxy.set(Mode::blackhole(Scope::Sent("XREADGROUP".to_owned())));
    assert!(is_unanswered(&mut reader, read));
    assert!(run(&mut client(&server, &proxy), "PING").is_ok());
}

#[test]
fn a_blackhole_can_spare_later_connections() {
    let (server, proxy) = start();
    let (mut open, mut other) = (client(&server, &proxy), client(&server, &proxy));
    run(&mut open, "GET word").unwrap();
    proxy.set(Mode::blackhole(Scope::OpenSent("word".to_owned())));
    assert!(is_unanswered(&mut open, "PING"));
    assert!(run(&mut other, "PING").is_ok());
    assert!(run(&mut client(&server, &proxy), "GET word").is_ok());
}

#[test]
fn an_injected_error_answers_a_whole_pipeline_and_executes_nothing() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    proxy.set(Mode::inject("LOADING Redis is loading the dataset in memory"));
    run(&mut client, "PING").unwrap();
    let mut pipeline = redis::pipe();
    pipeline.cmd("XADD").arg(&["s", "*", "type", "a"]).cmd("PING").cmd("XLEN").arg("s").ignore_errors();
    let replies: Vec<RedisResult<Value>> = pipeline.query(&mut client).unwrap();
    let codes = replies.iter().map(|reply| reply.as_ref().err().and_then(|error| error.code()));
    assert_eq!(codes.collect::<Vec<_>>(), [Some("LOADING"), None, Some("LOADING")]);
    assert_eq!(proxy.hits(), 2);
    assert_eq!(server.cmd(&["XLEN", "s"]), Value::Int(0));
}

#[test]
fn an_injected_error_can_be_for_some_commands_or_for_all() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    let error = "READONLY You can't write against a read only replica.".to_owned();
    proxy.set(Mode::Inject { error: error.clone(), to: Commands::Only(vec!["XADD".to_owned()]) });
    assert_eq!(run(&mut client, "xadd s * type a").unwrap_err().code(), Some("READONLY"));
    run(&mut client, "XLEN s").unwrap();
    proxy.set(Mode::Inject { error, to: Commands::All });
    assert_eq!(run(&mut client, "PING").unwrap_err().code(), Some("READONLY"));
}

#[test]
fn a_reset_ends_open_and_new_connections() {
    let (_server, proxy) = start();
    let mut answer = [0; 7];
    let mut open = TcpStream::connect(proxy.addr()).unwrap();
    open.write_all(b"PING\r\n").unwrap();
    open.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    proxy.set(Mode::Rst);
    assert_eq!(open.read(&mut answer).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut fresh = TcpStream::connect(proxy.addr()).unwrap();
    assert_eq!(fresh.read(&mut answer).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(proxy.hits(), 2);
}

#[test]
fn a_refusing_proxy_keeps_open_connections() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    proxy.set(Mode::Refuse);
    let url = server.url_through(proxy.addr());
    assert!(redis::Client::open(url).unwrap().get_connection().is_err());
    run(&mut client, "PING").unwrap();
    assert_eq!(proxy.hits(), 1);
}

#[test]
fn a_delay_holds_back_requests() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    proxy.set(Mode::Delay { by: BRIEFLY, direction: Direction::Requests });
    let started = Instant::now();
    run(&mut client, "PING").unwrap();
    assert!(started.elapsed() >= BRIEFLY);
    assert_eq!(proxy.hits(), 1);
}

#[test]
fn a_client_of_a_dead_server_finds_its_connection_closed() {
    let (server, proxy) = start();
    let mut client = client(&server, &proxy);
    server.kill9();
    assert!(run(&mut client, "PING").unwrap_err().is_connection_dropped());
    server.restart();
    run(&mut self::client(&server, &proxy), "PING").unwrap();
}
