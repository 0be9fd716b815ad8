//! What `check` rehearses: every script of workers and commands, so that a missing right is noticed before it is needed.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;

use redis::Value;

use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::scripts;

/// Scripts that no worker or command runs on this server: users' own tests run the first, and an import the second on the Redis of another system.
const NOT_REHEARSED: [&str; 2] = ["advance", "take_over"];

/// Commands that a fleet can do without. It logs that it may not run them, and finds out in another way.
const DISPENSABLE: [&str; 1] = ["info"];

/// The commands that the client sends besides scripts.
const PLAIN: [&str; 8] =
    ["evalsha", "xreadgroup", "xack", "xdel", "xautoclaim", "xrevrange", "xinfo", "blpop"];

/// All families of keys.
const FAMILIES: [&str; 50] = [
    "{*}:jobs",
    "{*}:jobs:high",
    "{*}:jobs:low",
    "{*}:delayed",
    "{*}:delayed:fields",
    "{*}:dead",
    "{*}:dead:*",
    "{*}:edited:*",
    "{*}:audit",
    "{*}:campaigns",
    "{*}:campaign:*",
    "{*}:tasks",
    "{*}:task:*",
    "{*}:control",
    "{*}:leader",
    "{*}:cancels",
    "{*}:cancels:places",
    "{*}:endings",
    "{*}:calls",
    "{*}:wake",
    "{*}:cron",
    "{*}:cron:ticks",
    "{*}:events",
    "{*}:counts",
    "{*}:samples",
    "{*}:journal",
    "{*}:journal:writer",
    "{*}:types:*",
    "{*}:gates",
    "{*}:held:*",
    "{*}:unstarted:*",
    "{*}:rate:*",
    "{*}:breaker:*",
    "{*}:claim:*",
    "{*}:fair",
    "{*}:fair:*",
    "{*}:rooms",
    "{*}:rooms:places",
    "{*}:room:*",
    "{*}:receipt:*",
    "{*}:receipts:*",
    "{*}:job:*",
    "{*}:steps:*",
    "{*}:offloaded:*",
    "{*}:batch:*",
    "{*}:unique:*",
    "{*}:rooms:asked",
    "worker:*",
    "alerts:*",
    "outbox:*",
];

/// Returns the commands that scripts call and that the client sends.
fn commands() -> BTreeSet<String> {
    let calls =
        scripts::names().filter(|name| !NOT_REHEARSED.contains(name)).map(scripts::source).flat_map(|text| {
            let after = |begin: &str| text.split(begin).skip(1).map(str::to_owned).collect::<Vec<_>>();
            [after("redis.call('"), after("redis.pcall('")].concat()
        });
    let called = calls.filter_map(|rest| Some(rest.split('\'').next()?.to_lowercase()));
    called.chain(PLAIN.map(str::to_owned)).collect()
}

/// Runs `check` with each of these logins, several at once, and returns those found fit, with the output.
fn fit(server: &RedisServer, users: &[String]) -> Vec<(String, String)> {
    const AT_ONCE: usize = 6;
    let mut fit = Vec::new();
    for some in users.chunks(AT_ONCE) {
        let start = |user: &String| {
            let url = format!("redis://{user}:pw@{}/0", server.addr());
            Launch::new(&["--redis", &url, "check", "--json"]).start()
        };
        let checks: Vec<Worker> = some.iter().map(start).collect();
        for (user, check) in some.iter().zip(checks) {
            let status = check.wait_exit(SOON);
            assert!(matches!(status.code(), Some(0 | 3 | 5)), "{user}: {status} {}", check.stderr());
            if status.success() {
                fit.push((user.clone(), check.stdout()));
            }
        }
    }
    fit
}

/// Returns the commands that `work` sent to a server, as `MONITOR` shows them.
fn sent(server: &RedisServer, work: impl FnOnce()) -> String {
    const END: &str = "no script has these words";
    let mut monitor = TcpStream::connect(server.addr()).unwrap();
    monitor.set_read_timeout(Some(SOON)).unwrap();
    monitor.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(monitor).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    work();
    server.cmd(&["ECHO", END]);
    lines.map(Result::unwrap).take_while(|line| !line.contains(END)).collect::<Vec<_>>().join("\n")
}

#[test]
fn check_runs_every_script_of_workers_and_commands() {
    let server = RedisServer::start();
    let check = || assert_eq!(Launch::new(&["--redis", &server.url(), "check"]).output(SOON).code, Some(0));
    // Each script is sent in full the first time, and begins with its name.
    let sent = sent(&server, check);
    let left: Vec<&str> = scripts::names().filter(|name| !sent.contains(&format!("-- {name}: "))).collect();
    assert_eq!(left, NOT_REHEARSED);
    assert_eq!(server.cmd(&["DBSIZE"]), Value::Int(0));
}

#[test]
fn check_notices_any_command_that_the_login_may_not_run() {
    let commands = commands();
    let mut acl = String::new();
    for command in &commands {
        writeln!(acl, "user no-{command} on >pw ~sf:* &* +@all -{command}").unwrap();
    }
    let server = RedisServer::builder().users_acl(&acl).start();
    let users: Vec<String> = commands.iter().map(|command| format!("no-{command}")).collect();
    let fit = fit(&server, &users);
    let fit: Vec<&str> = fit.iter().map(|(user, _)| &user["no-".len()..]).collect();
    assert_eq!(fit, DISPENSABLE, "of {commands:?}");
}

#[test]
fn check_notices_any_keys_that_the_login_may_not_access() {
    let all: String = FAMILIES.iter().map(|family| format!(" ~sf:{family}")).collect();
    let mut acl = format!("user all on >pw{all} &* +@all\n");
    for (at, _) in FAMILIES.iter().enumerate() {
        let others = FAMILIES.iter().enumerate().filter(|(other, _)| *other != at);
        let keys: String = others.map(|(_, family)| format!(" ~sf:{family}")).collect();
        writeln!(acl, "user no-{at} on >pw{keys} &* +@all").unwrap();
    }
    let server = RedisServer::builder().users_acl(&acl).start();
    let users: Vec<String> = (0..FAMILIES.len()).map(|at| format!("no-{at}")).collect();
    assert_eq!(fit(&server, &["all".to_owned()]).len(), 1, "the login that may access all of them");
    let fit = fit(&server, &users);
    let fit: Vec<&str> =
        fit.iter().map(|(user, _)| FAMILIES[user["no-".len()..].parse::<usize>().unwrap()]).collect();
    assert_eq!(fit, [""; 0]);
}
