//! Tests of `harness::redis_server`.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use redis::Value;
use streamfleet::dev_server::DevServer;

use harness::redis_server::{Aof, RedisServer};
use harness::wait::until;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_server_that_fsyncs_always_keeps_an_entry_through_a_kill() {
    let server = RedisServer::builder().aof(Aof::Always).start();
    let (pid, port) = (server.pid(), server.port());
    server.cmd(&["XADD", "s", "*", "type", "a"]);
    server.kill9();
    assert!(server.try_cmd(&["PING"]).is_err());
    server.restart();
    assert_eq!(server.cmd(&["XLEN", "s"]), Value::Int(1));
    assert_ne!(server.pid(), pid);
    assert_eq!(server.port(), port);
}

#[test]
fn a_server_that_stops_gracefully_has_written_everything() {
    let server = RedisServer::builder().aof(Aof::EverySec).start();
    server.cmd(&["SET", "k", "v"]);
    server.stop_gracefully();
    server.restart();
    assert_eq!(server.cmd(&["EXISTS", "k"]), Value::Int(1));
}

#[test]
fn a_server_without_aof_forgets_everything() {
    let server = RedisServer::start();
    server.cmd(&["SET", "k", "v"]);
    server.restart();
    assert_eq!(server.cmd(&["EXISTS", "k"]), Value::Int(0));
}

#[tokio::test]
async fn a_server_whose_cluster_bus_cannot_listen_gets_another_port() {
    let bus = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = bus.local_addr().unwrap().port() - 10_000;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("port"), port.to_string()).unwrap();
    let server = DevServer::builder().arguments(["--cluster-enabled", "yes"]).start(folder.path()).await;
    assert_ne!(server.unwrap().port(), port);
}

#[test]
fn two_servers_do_not_share_a_key() {
    let servers = [RedisServer::start(), RedisServer::start()];
    servers[0].cmd(&["SET", "k", "v"]);
    assert_eq!(servers[1].cmd(&["EXISTS", "k"]), Value::Int(0));
}

#[test]
fn a_server_with_a_password_accepts_only_its_own_url() {
    let server = RedisServer::builder().password("s3cret").start();
    let open = |url: String| redis::Client::open(url).unwrap().get_connection();
    assert!(redis::cmd("PING").exec(&mut open(server.url()).unwrap()).is_ok());
    let locked = open(format!("redis://{}", server.addr()));
    assert!(locked.and_then(|mut connection| redis::cmd("PING").exec(&mut connection)).is_err());
}

#[test]
fn a_user_of_the_acl_file_is_limited_to_its_keys() {
    let acl = "user default off\nuser worker on >w ~sf:* +@all";
    let server = RedisServer::builder().users_acl(acl).args(&["--maxclients", "50"]).start();
    let url = format!("redis://worker:w@{}", server.addr());
    let mut worker = redis::Client::open(url).unwrap().get_connection().unwrap();
    assert!(redis::cmd("SET").arg("sf:k").arg("v").exec(&mut worker).is_ok());
    let denied = redis::cmd("SET").arg("other").arg("v").exec(&mut worker).unwrap_err();
    assert_eq!(denied.code(), Some("NOPERM"));
    let limit: Vec<String> =
        redis::cmd("CONFIG").arg(&["GET", "maxclients"]).query(&mut server.client()).unwrap();
    assert_eq!(limit, ["maxclients", "50"]);
}

#[test]
fn a_frozen_server_answers_after_the_thaw() {
    let server = RedisServer::start();
    let mut client = server.client();
    server.freeze();
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(redis::cmd("PING").exec(&mut client).unwrap_err().is_timeout());
    server.thaw();
    assert_eq!(server.cmd(&["PING"]), Value::SimpleString("PONG".to_owned()));
}

#[test]
fn the_cpu_time_of_a_busy_server_grows() {
    let server = RedisServer::start();
    let before = server.cpu_seconds();
    until("the server has used CPU time", SOON, || {
        server.cmd(&["EVAL", "for i = 1, 1000000 do end", "0"]);
        server.cpu_seconds() > before
    });
}
