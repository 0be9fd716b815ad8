//! Logging in, and what a session is good for.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::client::{Answer, Console, JSON, SESSION, SOON, accounts, tokens};
use harness::process::{Launch, run};
use harness::redis_server::RedisServer;
use harness::wait::until;

/// A proxy on this machine, which says in a header who asks.
const PROXY: &str = "[console.proxy]\nfrom = [\"127.0.0.1/32\"]\nuser_header = \"X-User\"\n\
                     [console.proxy.roles]\n\"*\" = \"viewer\"\n";

/// The hash that the program prints for a password.
pub(super) fn hash(password: &str) -> String {
    let printed = run(&["console", "password"], format!("{password}\n").as_bytes());
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    printed.stdout.trim().to_owned()
}

fn log_in(console: &Console, name: &str, password: &str) -> Answer {
    console.log_in(&json!({"name": name, "password": password}))
}

/// Starts two consoles that accept each other's sessions. Ann has an account there.
fn two_consoles(server: &RedisServer, directory: &Path) -> [Console; 2] {
    let key = directory.join("key");
    std::fs::write(&key, "k".repeat(32)).unwrap();
    let toml = accounts(directory, &hash("correct horse")) + &format!("session_key_file = {key:?}\n");
    [Console::start(server, &toml), Console::start(server, &toml)]
}

/// The status of a list that only somebody with a session gets.
fn status(console: &Console, cookie: &str) -> u16 {
    console.get("/api/v1/queues", &[("Cookie", cookie)]).status
}

/// The token of the changes of a session.
fn token(console: &Console, cookie: &str) -> String {
    console.person(&[("Cookie", cookie)])["csrf_token"].as_str().unwrap().to_owned()
}

/// Whether a session goes on. A logout without the token of its changes is refused then, and Redis is not asked.
fn logged_in(console: &Console, cookie: &str) -> bool {
    console.ask("DELETE", SESSION, &[("Cookie", cookie)], "").status == 403
}

#[test]
fn a_session_begins_with_the_password_and_ends_with_it() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let console = Console::start(&server, &accounts(directory.path(), &hash("correct horse")));
    for (name, password) in [("ann", "wrong horse"), ("bob", "correct horse"), ("", "")] {
        let answer = log_in(&console, name, password);
        assert_eq!((answer.status, answer.cookie()), (401, None), "{name}");
    }
    // A cookie that somebody else has put into the browser is not taken over.
    let planted = ("Cookie", "streamfleet=AAAA.AAAA");
    let body = json!({"name": "ann", "password": "correct horse"}).to_string();
    let answer = console.ask("POST", SESSION, &[planted, JSON], &body);
    assert_eq!(answer.status, 204, "{answer:?}");
    let cookie = answer.cookie().unwrap();
    assert!(!cookie.contains("AAAA.AAAA"));
    assert!(logged_in(&console, &cookie), "a logout needs the token of changes, too");
    accounts(directory.path(), &hash("another horse"));
    until("the old session to end", SOON, || !logged_in(&console, &cookie));
    assert_eq!(log_in(&console, "ann", "another horse").status, 204);
}

#[test]
fn a_logout_ends_the_session_at_every_console() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let consoles = two_consoles(&server, directory.path());
    let begin = || log_in(&consoles[0], "ann", "correct horse").cookie().unwrap();
    let end = |cookie: &str, token: &str| assert_eq!(consoles[0].log_out(cookie, token).status, 204);
    let (ended, other) = (begin(), begin());
    for console in &consoles {
        assert_eq!([&ended, &other].map(|cookie| status(console, cookie)), [200, 200]);
    }
    end(&ended, &token(&consoles[0], &ended));
    for console in &consoles {
        assert_eq!([&ended, &other].map(|cookie| status(console, cookie)), [401, 200], "only that session");
    }
    // While Redis refuses, a logout counts where it was made. The other console learns of it afterwards.
    let token = token(&consoles[0], &other);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    end(&other, &token);
    assert_eq!(status(&consoles[0], &other), 401);
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(status(&consoles[0], &begin()), 200, "this console tells Redis");
    assert_eq!(status(&consoles[1], &other), 401);
}

#[test]
fn a_logout_counts_though_the_browser_does_not_wait_for_redis() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let consoles = two_consoles(&server, directory.path());
    let begin = || log_in(&consoles[0], "ann", "correct horse").cookie().unwrap();
    let (ended, other) = (begin(), begin());
    let token = token(&consoles[0], &ended);
    server.kill9();
    let mut browser = consoles[0].connected();
    let address = &consoles[0].address;
    let head = format!("DELETE {SESSION} HTTP/1.1\r\nHost: {address}\r\nCookie: {ended}\r\n");
    write!(browser, "{head}X-CSRF-Token: {token}\r\n\r\n").unwrap();
    until("the logout to count where it was made", SOON, || !logged_in(&consoles[0], &ended));
    drop(browser);
    server.restart();
    until("the other console to learn of it", SOON, || {
        status(&consoles[0], &other);
        status(&consoles[1], &ended) == 401
    });
}

#[test]
fn a_logout_counts_though_later_ones_of_that_second_crowd_it_out() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let consoles = two_consoles(&server, directory.path());
    let cookie = log_in(&consoles[0], "ann", "correct horse").cookie().unwrap();
    let token = token(&consoles[0], &cookie);
    assert_eq!(consoles[0].log_out(&cookie, &token).status, 204);
    let digest: String = Sha256::digest(b"ann").iter().map(|byte| format!("{byte:02x}")).collect();
    let ended = format!("sf:console:ended:{digest}");
    let kept = server.cmd(&["ZRANGE", &ended, "0", "-1", "WITHSCORES"]);
    let kept: Vec<String> = redis::from_redis_value(kept).unwrap();
    let [nonce, ends_s] = &kept[..] else { panic!("{kept:?}") };
    server.cmd(&["ZREM", &ended, nonce]);
    let later = (0..1000).flat_map(|nth| [ends_s.clone(), format!("other-{nth}")]);
    server.cmd(&["ZADD".to_owned(), ended].into_iter().chain(later).collect::<Vec<_>>());
    assert_eq!(status(&consoles[1], &cookie), 401);
}

#[test]
fn whom_a_proxy_logs_in_has_nothing_to_log_out_of() {
    let server = RedisServer::start();
    let console = Console::start(&server, PROXY);
    let ann = console.person(&[("X-User", "ann")]);
    assert_eq!((&ann["name"], &ann["can_log_out"]), (&json!("ann"), &json!(false)));
    // Some proxies pass on the password that they have checked.
    let passed_on = ("Authorization", "Basic YW5uOmNvcnJlY3QgaG9yc2U=");
    assert_eq!(console.person(&[("X-User", "ann"), passed_on])["name"], "ann");
    assert_eq!(console.person(&[]), Value::Null);
}

#[test]
fn a_request_that_names_two_people_is_from_none_of_them() {
    let server = RedisServer::start();
    let console = Console::start(&server, PROXY);
    assert_eq!(console.get("/api/v1/queues", &[("X-User", "ann")]).status, 200);
    for other in ["eve", "ann", ""] {
        let answer = console.get("/api/v1/queues", &[("X-User", "ann"), ("X-User", other)]);
        assert_eq!(answer.status, 401, "{other}");
    }
}

#[test]
fn a_request_that_names_groups_twice_is_from_nobody() {
    let server = RedisServer::start();
    let toml =
        PROXY.replace("\n[console.proxy.roles]", "\ngroups_header = \"X-Groups\"\n[console.proxy.roles]");
    let console = Console::start(&server, &toml);
    let (user, own) = (("X-User", "ann"), ("X-Groups", "sre,dev"));
    assert_eq!(console.get("/api/v1/queues", &[user, own]).status, 200);
    assert_eq!(console.get("/api/v1/queues", &[user, own, ("X-Groups", "admins")]).status, 401);
}

#[test]
fn guessing_passwords_becomes_slow() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let console = Console::start(&server, &accounts(directory.path(), &hash("correct horse")));
    let guessed: Vec<u16> = (0..7).map(|_| log_in(&console, "ann", "wrong").status).collect();
    assert_eq!(guessed[..5], [401; 5]);
    assert!(guessed[5..].contains(&429), "{guessed:?}");
    let answer = log_in(&console, "ann", "correct horse");
    assert_eq!(answer.status, 429, "even the right one waits");
    assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
}

#[test]
fn the_log_has_failed_logins_and_a_broken_file_of_accounts() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let toml = accounts(directory.path(), &hash("correct horse"));
    let console = Console::start(&server, &toml);
    let cookie = log_in(&console, "ann", "correct horse").cookie().unwrap();
    assert_eq!(log_in(&console, "hunter2", "hunter3").status, 401);
    until("the failed login to be logged", SOON, || {
        console.process.stderr().contains("a login to the console failed")
    });
    std::fs::write(directory.path().join("accounts.toml"), "[people.ann\npassword = \"hunter4\"").unwrap();
    until("the broken file to be logged", SOON, || {
        // The file is read when somebody asks for something.
        status(&console, &cookie);
        console.process.stderr().contains("the console's accounts stay as they were")
    });
    until("the session to go on", SOON, || status(&console, &cookie) == 200);
    let log = console.process.stderr();
    assert!(log.contains("accounts.toml") && !log.contains("hunter"), "{log}");
}

#[test]
fn nobody_is_locked_out_by_the_guesses_of_others() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let toml =
        accounts(directory.path(), &hash("correct horse")) + "[console.proxy]\nfrom = [\"127.0.0.1/32\"]\n";
    let console = Console::start(&server, &toml);
    let from = |address: &str, password: &str| {
        let body = json!({"name": "ann", "password": password}).to_string();
        console.ask("POST", SESSION, &[JSON, ("X-Forwarded-For", address)], &body).status
    };
    for nth in 1..=20 {
        let guessed: Vec<u16> = (0..5).map(|_| from(&format!("10.0.0.{nth}"), "wrong")).collect();
        assert_eq!(guessed, [401; 5]);
    }
    assert_eq!(from("10.0.1.1", "correct horse"), 204);
}

#[test]
fn a_right_token_is_taken_from_an_address_that_sent_many_wrong_ones() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let console = Console::start(&server, &tokens(directory.path()));
    let asked: Vec<u16> = (0..30).map(|_| console.get_as("stale", "/api/v1/queues").status).collect();
    assert!(asked[0] == 401 && asked.contains(&429), "{asked:?}");
    assert_eq!(console.get_as("admin", "/api/v1/queues").status, 200);
}

#[test]
fn another_sites_name_leads_nowhere() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"] {
        let answer = console.get("/login", &[("Host", host)]);
        assert_eq!((answer.status, answer.cookie()), (421, None), "{host}");
        assert!(answer.body.contains("console.public_url"), "{}", answer.body);
    }
    let body = json!({"name": "ann", "password": "x"}).to_string();
    let foreign = console.ask("POST", SESSION, &[JSON, ("Origin", "https://evil.example")], &body);
    assert_eq!(foreign.status, 403, "{foreign:?}");
}

#[test]
fn a_console_that_others_can_reach_needs_accounts() {
    let server = RedisServer::start();
    let url = server.url();
    let refused = Launch::new(&["--redis", &url, "console", "--listen", "0.0.0.0:0"]).output(SOON);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("console.listen: 0.0.0.0:0: others can reach this address"),
        "{}",
        refused.stderr
    );
}
