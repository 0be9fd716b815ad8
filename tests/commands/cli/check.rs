//! `check`: its findings on good and on bad servers.

use serde_json::Value;

use harness::cli::sf;
use harness::fleet::uses_xackdel;
use harness::process::{Output, run};
use harness::proxy::{Commands, Mode, Proxy};
use harness::redis_server::{Aof, RedisServer};

fn level(output: &Output, check: &str) -> String {
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no finding about {check}: {report}"))["level"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Returns the server's address with this login.
fn as_user(server: &RedisServer, login: &str) -> String {
    format!("redis://{login}@{}/0", server.addr())
}

#[test]
fn a_good_server_is_fit_and_check_leaves_nothing_on_it() {
    let server = RedisServer::builder().aof(Aof::EverySec).args(&["--maxmemory", "200mb"]).start();
    let output = sf(&server, &["check", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["fit"], true);
    for finding in report["findings"].as_array().unwrap() {
        assert_eq!(finding["level"], "ok", "{finding}");
    }
    assert_eq!(server.cmd(&["DBSIZE"]), redis::Value::Int(0));
}

#[test]
fn check_and_bench_show_the_servers_own_name_and_version() {
    let server = RedisServer::start();
    let info: String = redis::from_redis_value(server.cmd(&["INFO", "server"])).unwrap();
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    // Valkey also reports the Redis version that it is compatible with.
    let name = match field("valkey_version:") {
        Some(version) => format!("Valkey {version}"),
        None => format!("Redis {}", field("redis_version:").unwrap()),
    };
    let checked = sf(&server, &["check"]);
    assert!(checked.stdout.contains(&name), "{name}: {checked:?}");
    // `bench` starts the same server program as the tests.
    let measured = run(&["bench", "--only", "enqueue", "--jobs", "500", "--rounds", "1"], b"");
    assert!(measured.stdout.contains(&name), "{name}: {measured:?}");
}

#[test]
fn without_json_the_report_is_a_table() {
    let server = RedisServer::builder().aof(Aof::EverySec).args(&["--maxmemory", "200mb"]).start();
    let output = sf(&server, &["check"]);
    for part in ["reachable", "version", "eviction", "noeviction", "rights", "fit for a fleet"] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
}

#[test]
fn an_evicting_server_is_unfit_and_a_missing_aof_is_a_warning() {
    let server = RedisServer::start();
    let output = sf(&server, &["check", "--json"]);
    assert_eq!((output.code, level(&output, "persistence").as_str()), (Some(0), "warning"));
    server.cmd(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let output = sf(&server, &["check", "--json"]);
    assert_eq!((output.code, level(&output, "eviction").as_str()), (Some(5), "error"));
    server.cmd(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let output = sf(&server, &["check", "--json"]);
    assert_eq!((output.code, level(&output, "eviction").as_str()), (Some(0), "warning"));
}

#[test]
fn a_missing_password_is_reported() {
    let server = RedisServer::builder().password("canary").start();
    let url = format!("redis://{}/0", server.addr());
    let output = run(&["--redis", &url, "check"], b"");
    assert_eq!(output.code, Some(3), "{output:?}");
    assert!(output.stdout.contains("redis.password_file"), "{}", output.stdout);
    let output = run(&["--redis", &server.url(), "check"], b"");
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!output.stdout.contains("canary"), "{}", output.stdout);
}

#[test]
fn a_missing_right_of_the_login_is_detected() {
    let users = "user short on >pw ~sf:* +@all -xautoclaim\nuser shorter on >pw ~sf:* +@all -xadd -info\n\
                 user outside on >pw ~other:* +@all\n";
    let server = RedisServer::builder().users_acl(users).start();
    for (user, step) in
        [("short", "take over, dead-letter"), ("shorter", "enqueue"), ("outside", "heartbeat")]
    {
        let output = run(&["--redis", &as_user(&server, &format!("{user}:pw")), "check", "--json"], b"");
        assert_eq!((output.code, level(&output, "rights").as_str()), (Some(5), "error"), "{output:?}");
        assert!(output.stdout.contains(step) && output.stdout.contains("ACL SETUSER"), "{}", output.stdout);
    }
    let left: Vec<String> = redis::from_redis_value(server.cmd(&["KEYS", "*"])).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_workers_can_do_without_is_no_error() {
    let server = RedisServer::start();
    if !uses_xackdel(&server).await {
        return;
    }
    assert!(!sf(&server, &["check"]).stdout.contains("+xackdel"));
    server.cmd(&["ACL", "SETUSER", "thrifty", "on", ">pw", "~sf:*", "+@all", "-xackdel"]);
    let output = run(&["--redis", &as_user(&server, "thrifty:pw"), "check", "--json"], b"");
    assert_eq!((output.code, level(&output, "xackdel").as_str()), (Some(0), "ok"), "{output:?}");
    assert!(output.stdout.contains("+xackdel"), "{}", output.stdout);
    assert_eq!(server.cmd(&["DBSIZE"]), redis::Value::Int(0));
}

#[test]
fn what_managed_services_refuse_is_a_warning() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "patient", "on", ">pw", "~sf:*", "+@all", "-client|unblock"]);
    let output = run(&["--redis", &as_user(&server, "patient:pw"), "check", "--json"], b"");
    assert_eq!((output.code, level(&output, "unblock").as_str()), (Some(0), "warning"), "{output:?}");
    let proxy = Proxy::start(server.addr());
    let to = Commands::Only(vec!["EXISTS".to_owned()]);
    proxy.set(Mode::Inject { error: "ERR too many arguments".to_owned(), to });
    let output = run(&["--redis", &format!("redis://{}/0", proxy.addr()), "check", "--json"], b"");
    assert_eq!((output.code, level(&output, "arguments").as_str()), (Some(0), "warning"), "{output:?}");
    assert_eq!(server.cmd(&["DBSIZE"]), redis::Value::Int(0));
}

#[test]
fn bounds_that_cut_connections_of_workers_are_a_warning() {
    let conf = include_str!("../../../deploy/redis/redis.conf");
    let bound = |name: &str| conf.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let server = RedisServer::start();
    for name in ["proto-max-bulk-len", "client-query-buffer-limit"] {
        server.cmd(&["CONFIG", "SET", name, bound(name)]);
    }
    let check = || sf(&server, &["check", "--json"]);
    assert!(!check().stdout.contains("\"bounds\""), "redis.conf is enough");
    server.cmd(&["CONFIG", "SET", "proto-max-bulk-len", "8mb"]);
    let output = check();
    assert_eq!((output.code, level(&output, "bounds").as_str()), (Some(0), "warning"), "{output:?}");
    assert!(output.stdout.contains("CONFIG SET proto-max-bulk-len 16777216"), "{}", output.stdout);
}

#[test]
fn the_rights_that_the_remedy_lists_are_enough() {
    let server = RedisServer::builder().users_acl("user fleet on >pw -@all +@connection").start();
    let check = || run(&["--redis", &as_user(&server, "fleet:pw"), "check", "--json"], b"");
    let refused = check();
    assert_eq!((refused.code, level(&refused, "rights").as_str()), (Some(5), "error"), "{refused:?}");
    let report: Value = serde_json::from_str(&refused.stdout).unwrap();
    let remedies =
        report["findings"].as_array().unwrap().iter().filter_map(|finding| finding["remedy"].as_str());
    let rules = remedies.filter_map(|remedy| remedy.strip_prefix("ACL SETUSER <user> ")).next().unwrap();
    server.cmd(&["ACL", "SETUSER", "fleet"].into_iter().chain(rules.split(' ')).collect::<Vec<_>>());
    let output = check();
    assert_eq!((output.code, level(&output, "rights").as_str()), (Some(0), "ok"), "{output:?}");
    assert!(output.stdout.contains("may not list queues and workers"), "{}", output.stdout);
}

#[test]
fn a_server_that_is_down_exits_with_3_and_shows_no_password() {
    let server = RedisServer::start();
    let url = as_user(&server, "somebody:canary");
    server.kill9();
    let output = run(&["--redis", &url, "check"], b"");
    assert_eq!(output.code, Some(3), "{output:?}");
    for command in [vec!["queues"], vec!["status", "1-1"], vec!["dead", "list"], vec!["enqueue", "a"]] {
        let output = run(&[vec!["--redis", &url], command].concat(), b"");
        assert_eq!(output.code, Some(3), "{output:?}");
        let shown = format!("redis://somebody:***@{}/0", server.addr());
        assert_eq!(output.stderr, format!("error: cannot reach redis at {shown}: Connection refused\n"));
    }
}
