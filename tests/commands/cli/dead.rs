//! `dead`: listing, showing, replaying and dropping letters.

use std::time::Duration;

use serde_json::Value;
use streamfleet::job::State;
use streamfleet::{Handler, JobContext, JobError, RawPayload};

use harness::assert_output;
use harness::cli::{bury, doomed, json, launch, sf, stdout_of, until_dead};
use harness::fleet::{Acts, Running, queue, quick, submit, until_empty, until_state};
use harness::process::Launch;
use harness::redis_server::RedisServer;

fn letters(page: &Value) -> Vec<String> {
    assert_eq!(page["letters"], page["items"], "older programs read this key");
    let letters = page["items"].as_array().unwrap();
    letters.iter().map(|letter| letter["letter"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_listed_from_either_end_page_by_page() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 3).await;
    let oldest = letters(&json(&server, &["dead", "list", "--oldest-first"]));
    let newest = json(&server, &["dead", "list", "--limit", "2"]);
    assert_eq!(letters(&newest), [oldest[2].clone(), oldest[1].clone()]);
    assert_eq!((&newest["total"], &newest["next"]), (&3.into(), &oldest[1].as_str().into()));
    let rest = json(&server, &["dead", "list", "--after", &oldest[1]]);
    assert_eq!((letters(&rest), &rest["next"]), (vec![oldest[0].clone()], &Value::Null));
    let rest = json(&server, &["dead", "list", "--oldest-first", "--after", &oldest[1]]);
    assert_eq!(letters(&rest), [oldest[2].clone()]);
    let names = |args: &[&str]| stdout_of(&server, &[args, &["-o", "name"]].concat());
    assert_eq!(names(&["dead"]), names(&["dead", "list"]), "without a subcommand, they are listed");
    let exactly = json(&server, &["dead", "list", "--limit", "3"]);
    assert_eq!((letters(&exactly).len(), &exactly["next"]), (3, &Value::Null), "no page follows");
    assert_output!(stdout_of(&server, &["dead", "list"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_filtered_by_type_and_reason() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 2).await;
    server.cmd(&["XADD", "sf:{default}:dead", "*", "type", "other", "dead_reason", "exhausted"]);
    let count = |args: &[&str]| letters(&json(&server, &[&["dead", "list"], args].concat())).len();
    assert_eq!([count(&[]), count(&["--type", "test"]), count(&["--dead-reason", "exhausted"])], [3, 2, 1]);
    assert_eq!(count(&["--type", "test", "--dead-reason", "exhausted"]), 0);
    assert_eq!(sf(&server, &["dead", "list", "--dead-reason", "boredom"]).code, Some(2));
    let swept = json(&server, &["dead", "drop", "--all", "--yes", "--type", "test"]);
    assert_eq!((&swept["dropped"], count(&[])), (&2.into(), 1));
}

/// A handler that hangs, panics or fails, as the job's id says.
struct Named;

impl Handler for Named {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _: RawPayload, context: JobContext) -> Result<(), JobError> {
        match context.id().to_string().as_str() {
            "timeout" => std::future::pending().await,
            "panic" => panic!("as told"),
            "unknown" => Err(JobError::unknown("the answer was lost")),
            _ => Err(JobError::retry("as told")),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_filtered_by_the_kind_of_the_last_failure() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fleet = Running::start(&server.url(), quick(1), Named);
    let kinds = ["error", "panic", "timeout", "unknown"];
    for kind in kinds {
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "id", kind, "timeout_ms", "100"]);
    }
    until_dead(&queue, 4).await;
    fleet.stop().await;
    for kind in kinds {
        let page = json(&server, &["dead", "list", "--dead-reason", "exhausted", "--kind", kind]);
        let found: Vec<_> = page["items"].as_array().unwrap().iter().collect();
        assert_eq!((found.len(), &found[0]["id"], &found[0]["kind"]), (1, &kind.into(), &kind.into()));
        assert_eq!(json(&server, &["dead", "show", kind])["kind"], kind);
    }
    assert_eq!(sf(&server, &["dead", "list", "--kind", "boredom"]).code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_is_shown_in_full_by_its_own_id_and_by_its_job_id() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fleet = Running::start(&server.url(), quick(1), doomed());
    let job = submit(&queue, r#"{"a": 1}"#).await;
    let letter = until_state(&queue, &job, State::Dead).await.dead.unwrap().to_string();
    fleet.stop().await;
    for id in [&letter, &job.to_string()] {
        let shown = json(&server, &["dead", "show", id]);
        assert_eq!((&shown["letter"], &shown["id"]), (&letter.as_str().into(), &job.to_string().into()));
        let fields = shown["fields"].as_array().unwrap();
        let payload = fields.iter().find(|field| field["name"] == "payload").unwrap();
        assert_eq!((&payload["form"], &payload["value"]), (&"utf8".into(), &r#"{"a": 1}"#.into()));
    }
    assert_output!(stdout_of(&server, &["dead", "show", &letter]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_says_when_retention_drops_it() {
    let server = RedisServer::start();
    let died_ms = server.now_ms();
    let letter = format!("{died_ms}-0");
    server.cmd(&["XADD", "sf:{default}:dead", &letter, "type", "test", "id", "j", "dead_reason", "fatal"]);
    let show = |more: &[&str], toml: &str| {
        let url = server.url();
        let args = [&["--config", "{config}", "--redis", &url], more, &["dead", "show", &letter]].concat();
        let shown = Launch::new(&args).config(toml).output(Duration::from_secs(30));
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        shown.stdout
    };
    let both = "[queues.default]\ndead_retention = \"7d\"\ndead_max = 50\n";
    let shown: Value = serde_json::from_str(&show(&["--json"], both)).unwrap();
    let week_ms = 7 * 24 * 3600 * 1000;
    assert_eq!((&shown["expires_at_ms"], &shown["dead_max"]), (&(died_ms + week_ms).into(), &50.into()));
    let told = show(&[], both);
    for part in
        ["retention drops it at the latest 20", "(in 6d 23h), or as soon as the queue has 50 newer ones\n"]
    {
        assert!(told.contains(part), "{told}");
    }
    let kept: Value = serde_json::from_str(&show(&["--json"], "[queues.default]\n")).unwrap();
    assert!(kept.get("expires_at").is_none() && kept.get("dead_max").is_none(), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_entry_is_shown_in_hex_and_dropped_with_its_record() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    server.cmd(&[&b"XADD"[..], b"sf:{default}:jobs", b"*", b"payload", &[0xff, 0x00]]);
    until_dead(&queue, 1).await;
    fleet.stop().await;
    let listed = json(&server, &["dead", "list"])["items"][0].clone();
    assert_eq!(listed["reason"], "malformed");
    let shown = stdout_of(&server, &["dead", "show", listed["id"].as_str().unwrap()]);
    assert!(shown.contains("payload") && shown.contains("ff00"), "{shown}");
    let swept = json(&server, &["dead", "drop", listed["letter"].as_str().unwrap()]);
    assert_eq!(swept["dropped"], 1);
    let left = server.cmd(&["KEYS", "sf:{default}:job:*"]);
    assert_eq!(left, redis::Value::Array(vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_job_runs_again() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 1).await;
    let listed = json(&server, &["dead", "list"]);
    let (letter, job) = (letters(&listed).remove(0), listed["items"][0]["id"].as_str().unwrap().to_owned());
    assert_eq!(json(&server, &["dead", "replay", &letter])["replayed"], 1);
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    until_empty(&queue).await;
    assert_eq!(queue.snapshot().await.unwrap().dead, 0);
    fleet.stop().await;
    let output = sf(&server, &["dead", "replay", &letter, "--json"]);
    let swept: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.code, &swept["replayed"], &swept["gone"]), (Some(4), &0.into(), &1.into()));
    let audit = json(&server, &["audit"]);
    let notes = audit["items"].as_array().unwrap().iter().map(|note| (&note["count"], &note["outcome"]));
    assert_eq!(notes.collect::<Vec<_>>(), [(&1.into(), &"done".into())], "what changed nothing is not noted");
    let refused = sf(&server, &["dead", "replay", &job]);
    assert_eq!(refused.stderr, format!("{job} has no dead letter: the job is done\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_sweeps_replay_every_letter_once() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 700).await;
    let replay = launch(&server, &["dead", "replay", "--all", "--yes", "--json"]);
    let both = [replay.start(), replay.start()];
    let replayed = both.map(|process| {
        assert!(process.wait_exit(Duration::from_secs(60)).success(), "{}", process.stderr());
        serde_json::from_str::<Value>(&process.stdout()).unwrap()["replayed"].as_u64().unwrap()
    });
    assert_eq!(replayed.iter().sum::<u64>(), 700, "{replayed:?}");
    let snapshot = queue.snapshot().await.unwrap();
    assert_eq!((snapshot.waiting(), snapshot.dead), (700, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_replays_or_drops_only_the_oldest() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 620).await;
    let oldest = letters(&json(&server, &["dead", "list", "--oldest-first", "--limit", "620"]));
    let plan = json(&server, &["dead", "replay", "--all", "--limit", "3", "--dry-run"]);
    assert_eq!((&plan["planned"], &plan["total"]), (&3.into(), &3.into()), "{plan}");
    let plan = stdout_of(&server, &["dead", "replay", "--all", "--limit", "3", "--dry-run"]);
    assert!(plan.starts_with("3 of 620 dead letters: the oldest, at most 3\n"), "{plan}");
    let plan = stdout_of(&server, &["dead", "drop", "--type", "test", "--limit", "3", "--dry-run"]);
    assert!(plan.starts_with("3 of 620 dead letters: the oldest, at most 3, of --type test\n"), "{plan}");
    let swept = json(&server, &["dead", "replay", "--all", "--limit", "3", "--yes"]);
    assert_eq!((&swept["replayed"], &swept["kind"]), (&3.into(), &"replay".into()));
    assert_eq!(swept["filter"], "--all --limit 3");
    let swept = json(&server, &["dead", "drop", "--type", "test", "--limit", "510", "--yes"]);
    assert_eq!(swept["dropped"], 510, "more than a page");
    let tasks = json(&server, &["tasks", "list"]);
    assert_eq!(tasks["items"][0]["filter"], "--type test --limit 510", "{tasks}");
    let left = letters(&json(&server, &["dead", "list", "--oldest-first", "--limit", "620"]));
    assert_eq!(left, oldest[513..]);
    let swept = json(&server, &["dead", "replay", "--all", "--limit", "1000", "--yes"]);
    assert_eq!(swept["replayed"], 107, "fewer than the limit");
    for wrong in [&["--all", "--limit", "0"][..], &["1-0", "--limit", "5"]] {
        let output = sf(&server, &[&["dead", "replay"], wrong].concat());
        assert!(output.code == Some(2) && output.stderr.contains("--limit"), "{wrong:?}: {output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_does_not_replay_jobs_that_die_again_meanwhile() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 500).await;
    let handler = doomed();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    let swept = json(&server, &["dead", "replay", "--all", "--yes"]);
    assert_eq!((&swept["replayed"], &swept["skipped"]), (&500.into(), &0.into()));
    until_dead(&queue, 500).await;
    assert_eq!(handler.all_runs(), 500);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_everything_without_a_terminal_needs_yes() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 2).await;
    let output = sf(&server, &["dead", "drop", "--all"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("--yes"), "{}", output.stderr);
    assert_eq!(queue.snapshot().await.unwrap().dead, 2);
    let dropped = stdout_of(&server, &["dead", "drop", "--all", "--yes"]);
    assert!(dropped.starts_with("2 dropped\nby the task "), "{dropped}");
    assert_eq!(server.cmd(&["KEYS", "sf:{default}:job:*"]), redis::Value::Array(vec![]));
    for args in
        [&["dead", "drop"][..], &["dead", "drop", "x", "--all"], &["dead", "drop", "x", "--type", "a"]]
    {
        assert_eq!(sf(&server, args).code, Some(2), "{args:?}");
    }
}
