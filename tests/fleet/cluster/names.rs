//! The addresses that the servers of a cluster announce.

use harness::cluster::{queue_on, two_servers_with, url};
use harness::process::run;
use harness::redis_server::RedisServer;

/// Runs a command about each of two queues, one on each server.
fn about_each(servers: &[RedisServer; 2], url: &str) -> [harness::process::Output; 2] {
    [true, false].map(|first| {
        let name = queue_on(&servers[0], first);
        run(&["--redis", url, "enqueue", "test", "--queue", &name], b"")
    })
}

#[test]
fn servers_are_reached_by_the_names_that_they_announce() {
    let names = ["--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"];
    let servers = two_servers_with(&names);
    let url = url(servers[0].addr(), servers[1].addr());
    for output in about_each(&servers, &url) {
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}

#[test]
fn servers_that_announce_no_endpoint_are_reached_where_they_were_asked() {
    let servers = two_servers_with(&["--cluster-preferred-endpoint-type", "unknown-endpoint"]);
    let url = url(servers[0].addr(), servers[1].addr());
    for output in about_each(&servers, &url) {
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}

#[test]
fn an_announced_address_that_cannot_be_reached_is_reported() {
    // Nothing listens there.
    let servers = two_servers_with(&["--cluster-announce-port", "1"]);
    let url = url(servers[0].addr(), servers[1].addr());
    for output in about_each(&servers, &url) {
        assert_eq!(output.code, Some(3), "{output:?}");
        assert!(
            output.stderr.contains("127.0.0.1:1,") && output.stderr.contains("according to the cluster"),
            "{output:?}"
        );
        assert!(output.stderr.contains("cluster-announce"), "{output:?}");
    }
}

#[test]
fn a_server_that_is_not_part_of_a_cluster_is_reported() {
    let server = RedisServer::start();
    let url = format!("redis-cluster://{}", server.addr());
    let output = run(&["--redis", &url, "queues"], b"");
    assert_eq!(output.code, Some(3), "{output:?}");
    assert!(output.stderr.contains("is not part of a cluster"), "{output:?}");
}

#[test]
fn every_server_gets_the_password_and_a_wrong_one_is_reported() {
    let servers = two_servers_with(&["--requirepass", "canary"]);
    // The harness has its own user; clients without a user need the password.
    let at = |login: &str| format!("redis-cluster://{login}{}?node={}", servers[0].addr(), servers[1].addr());
    for server in &servers {
        server.cmd(&["ACL", "SETUSER", "default", "resetpass", ">canary"]);
    }
    for output in about_each(&servers, &at(":canary@")) {
        assert_eq!(output.code, Some(0), "{output:?}");
    }
    let output = run(&["--redis", &at(":wrong@"), "check"], b"");
    assert_eq!(output.code, Some(3), "{output:?}");
    assert!(output.stdout.contains("redis.password_file"), "{output:?}");
    assert!(!output.stdout.contains("canary") && !output.stdout.contains("wrong@"), "{output:?}");
}
