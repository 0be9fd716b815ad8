//! Commands about several queues, one of which cannot be read.

use serde_json::{Value, json};

use super::{SOON, grant, launch, until_said, url_of_fleet, works};
use harness::process::run;
use harness::redis_server::RedisServer;
use harness::scrape::get;
use harness::wait::until;

/// Starts a server with a job in each of three queues, and a login that has no rights to one of them.
fn server() -> RedisServer {
    let server = RedisServer::start();
    for queue in ["a", "b", "c"] {
        server.cmd(&["XADD", &format!("sf:{{{queue}}}:jobs"), "*", "type", "note"]);
    }
    grant(&server, &["a", "b"]);
    server
}

#[test]
fn queues_lists_the_others_and_names_the_keys_that_redis_refused() {
    let server = server();
    let url = url_of_fleet(&server);
    let table = run(&["--redis", &url, "queues"], b"");
    assert_eq!(table.code, Some(0), "{table:?}");
    for name in ["a ", "c "] {
        assert!(table.stdout.lines().any(|line| line.starts_with(name)), "{}", table.stdout);
    }
    let line = table.stdout.lines().find(|line| line.starts_with("failed to read the queue c: "));
    let line = line.unwrap_or_else(|| panic!("{}", table.stdout));
    assert!(line.contains("NOPERM") && line.contains("sf:{c}:*"), "{line}");
    let listed = run(&["--redis", &url, "--json", "queues"], b"");
    let list: Value = serde_json::from_str(&listed.stdout).unwrap();
    let report = &list["items"];
    assert_eq!((&report[0]["waiting"], &report[1]["waiting"]), (&json!(1), &json!(1)));
    assert_eq!((&report[2]["waiting"], &report[2]["consumers"]), (&json!(null), &json!(null)));
    assert!(report[2]["error"].as_str().unwrap().contains("sf:{c}:*"), "{report}");
    assert!(report[0].get("error").is_none());
    let alone = run(&["--redis", &url, "queues", "c"], b"");
    assert_eq!(alone.code, Some(3), "{alone:?}");
}

#[test]
fn workers_lists_the_others_and_names_the_key_that_cannot_be_read() {
    let server = server();
    server.cmd(&["XGROUP", "CREATE", "sf:{a}:jobs", "fleet", "0"]);
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", "sf:{a}:jobs", ">"]);
    let refused = run(&["--redis", &url_of_fleet(&server), "workers"], b"");
    assert_eq!(refused.code, Some(0), "{refused:?}");
    assert!(refused.stdout.contains("ghost"), "{}", refused.stdout);
    assert!(
        refused.stdout.contains("NOPERM") && refused.stdout.contains("sf:{c}:jobs"),
        "{}",
        refused.stdout
    );
    server.cmd(&["DEL", "sf:{c}:jobs"]);
    server.cmd(&["SET", "sf:{c}:jobs", "x"]);
    let spoiled = run(&["--redis", &server.url(), "--json", "workers"], b"");
    assert_eq!(spoiled.code, Some(0), "{spoiled:?}");
    let report: Value = serde_json::from_str(&spoiled.stdout).unwrap();
    assert_eq!(report["stale"][0]["consumer"], "ghost");
    let unlisted = &report["unlisted"][0];
    assert_eq!((&unlisted["queue"], &unlisted["lane"]), (&json!("c"), &json!("normal")));
    let error = unlisted["error"].as_str().unwrap();
    assert!(error.contains("WRONGTYPE") && error.ends_with("sf:{c}:jobs"), "{error}");
}

#[test]
fn cron_list_shows_all_recurring_jobs_except_of_the_refused_queue() {
    let server = server();
    let add = ["cron", "--queue", "b", "add", "nightly", "--schedule", "0 3 * * *", "--type", "note"];
    let added = run(&[&["--redis", &server.url()], &add[..]].concat(), b"");
    assert_eq!(added.code, Some(0), "{added:?}");
    let listed = run(&["--redis", &url_of_fleet(&server), "cron", "list"], b"");
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.stdout.contains("nightly"), "{}", listed.stdout);
    assert!(listed.stderr.contains("the queue c") && listed.stderr.contains("sf:{c}:*"), "{}", listed.stderr);
}

#[test]
fn a_command_for_one_queue_names_the_keys_that_redis_refused() {
    let server = server();
    for command in [&["dead", "list"][..], &["delayed", "list"], &["cron", "list"]] {
        let refused = run(&[&["--redis", &url_of_fleet(&server)], command, &["--queue", "c"]].concat(), b"");
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(
            refused.stderr.contains("NOPERM") && refused.stderr.contains("sf:{c}:"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn the_scale_of_several_queues_covers_those_that_can_be_read() {
    let server = RedisServer::start();
    grant(&server, &["a", "b"]);
    let (_worker, address) = launch(&url_of_fleet(&server));
    works(&server, &["a", "b"]);
    until_said(&address, &["queue c is not served"]);
    server.cmd(&["ZADD", "sf:{a}:delayed", "9000000000000", "later"]);
    let all = until("an answer", SOON, || {
        let (status, body) = get(&address, "/scale")?;
        (status == 200).then(|| serde_json::from_str::<Value>(&body).unwrap())
    });
    assert_eq!((&all["jobs"], &all["queues"]["a"]["jobs"]), (&json!(0), &json!(0)));
    let unread = &all["queues"]["c"]["unread"][0];
    assert_eq!(unread["key"], "sf:{c}:*", "{all}");
    assert_eq!(get(&address, "/scale?queue=c").unwrap().0, 503);
}
