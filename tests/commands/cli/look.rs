//! `status`, `queues`, `workers`, `delayed`: listings, and changes to delayed jobs.

use std::time::Duration;

use serde_json::Value;
use streamfleet::JobError;
use streamfleet::job::State;

use harness::assert_output;
use harness::cli::{json, launch, sf, sf_with, stdout_of};
use harness::fleet::{Acts, Running, queue, quick, submit, until_state};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::wait::{until, until_async};

#[tokio::test(flavor = "multi_thread")]
async fn a_status_lists_every_attempt() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fails_once = Acts::new(|context, _| {
        if context.attempt() < 2 { Err(JobError::retry("not\x1b[31myet")) } else { Ok(Value::from(42)) }
    });
    let fleet = Running::start(&server.url(), quick(3), fails_once);
    let job = submit(&queue, "{}").await;
    until_state(&queue, &job, State::Done).await;
    let id = job.to_string();
    let status = json(&server, &["status", &id]);
    assert_eq!(
        (&status["state"], &status["type"], &status["result"]),
        (&"done".into(), &"test".into(), &42.into())
    );
    let attempts = status["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!((&attempts[0]["outcome"], &attempts[1]["outcome"]), (&"error".into(), &"done".into()));
    assert!(attempts[0]["started_ms"].is_u64() && attempts[0]["started"].as_str().unwrap().ends_with('Z'));
    assert_output!(stdout_of(&server, &["status", &id]));
    fleet.stop().await;
}

#[test]
fn a_result_that_is_not_text_is_kept_and_shown_in_hexadecimal() {
    let server = RedisServer::start();
    let config = r#"
[types.bytes]
handler = { exec = { command = ["printf", '\377\000'] } }
[telemetry]
listen = "off"
"#;
    let args = ["--config", "{config}", "--redis", &server.url(), "worker"];
    let _worker = Launch::new(&args).config(config).start();
    let done = json(&server, &["enqueue", "bytes", "--wait=20s"]);
    assert_eq!(done["result"], serde_json::json!({"encoding": "base64", "data": "/wA="}));
    let id = done["id"].as_str().unwrap();
    assert_eq!(json(&server, &["status", id])["result"], done["result"]);
    let shown = stdout_of(&server, &["status", id]);
    assert!(shown.contains("2 bytes: ff 00\n"), "{shown}");
}

#[test]
fn a_traceback_is_shown_with_its_line_breaks() {
    let server = RedisServer::start();
    let config = r#"
[types.import]
handler = { exec = { command = ["sh", "-c", "printf 'Traceback:\\n  File import.py\\nKeyError: id\\n' >&2; exit 65"] } }
[telemetry]
listen = "off"
"#;
    let args = ["--config", "{config}", "--redis", &server.url(), "worker"];
    let _worker = Launch::new(&args).config(config).start();
    assert_eq!(sf(&server, &["enqueue", "import", "--id", "order-7", "--track"]).code, Some(0));
    let error = "KeyError: id\nTraceback:\n  File import.py\nKeyError: id\nexit status: 65";
    until("the job to be dead", SOON, || json(&server, &["status", "order-7"])["error"] == error);
    // Each line of the error is a line of its own.
    for args in [&["status", "order-7"][..], &["dead", "show", "order-7"]] {
        let shown = stdout_of(&server, args);
        let mut lines = shown.lines().map(str::trim_start).skip_while(|line| !line.ends_with("Traceback:"));
        let lines = [lines.next(), lines.next(), lines.next()].map(Option::unwrap_or_default);
        assert!(lines[1].starts_with("File import.py") && lines[2].starts_with("KeyError: id"), "{shown}");
    }
}

#[test]
fn a_waiting_job_is_found_by_its_entry_id_in_any_lane() {
    let server = RedisServer::start();
    for (stream, lane) in [("sf:{default}:jobs:high", "high"), ("sf:{default}:jobs", "normal")] {
        let entry: String =
            redis::cmd("XADD").arg(&[stream, "*", "type", "a.b"]).query(&mut server.client()).unwrap();
        let status = json(&server, &["status", &entry]);
        let known = (&status["state"], &status["lane"], &status["type"], &status["entry"]);
        assert_eq!(known, (&"waiting".into(), &lane.into(), &"a.b".into(), &entry.as_str().into()));
    }
}

#[test]
fn a_waiting_job_is_found_by_its_own_id() {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "a.b", "--id", "order-7", "--lane", "low"]);
    let filler = "{\"type\":\"a\",\"lane\":\"low\"}\n".repeat(250);
    sf_with(&server, &["enqueue", "--bulk"], filler.as_bytes());
    let status = json(&server, &["status", "order-7"]);
    let known = (&status["id"], &status["state"], &status["lane"], &status["type"]);
    assert_eq!(known, (&"order-7".into(), &"waiting".into(), &"low".into(), &"a.b".into()));
    assert!(status["created_ms"].is_u64(), "{status}");
}

#[test]
fn an_unknown_job_exits_with_4() {
    let server = RedisServer::start();
    for args in
        [vec!["status", "1700000000000-0"], vec!["dead", "show", "nobody"], vec!["delayed", "cancel", "x"]]
    {
        let output = sf(&server, &args);
        assert_eq!((output.code, output.stdout.as_str()), (Some(4), ""), "{output:?}");
        assert!(!output.stderr.is_empty());
    }
    let output = sf(&server, &["status", "1700000000000-0"]);
    assert!(output.stderr.contains("leaves no record"), "{}", output.stderr);
    let output = sf(&server, &["status", "two words"]);
    assert_eq!(output.code, Some(2), "{output:?}");
}

#[test]
fn queues_are_listed_before_any_worker_joins_them() {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "a", "--queue", "mail", "--lane", "high"]);
    sf(&server, &["enqueue", "a", "--queue", "later", "--delay", "1h"]);
    let queues = json(&server, &["queues"]);
    let names: Vec<_> =
        queues["items"].as_array().unwrap().iter().map(|queue| queue["queue"].clone()).collect();
    assert_eq!(names, ["later", "mail"]);
    let (later, mail) = (&queues["items"][0], &queues["items"][1]);
    assert_eq!((&mail["waiting"], &mail["lanes"][0]["waiting"]), (&1.into(), &1.into()));
    assert!(mail["oldest_waiting_age_ms"].is_u64() && later["next_due_ms"].is_u64());
    assert_output!(stdout_of(&server, &["queues"]));
    assert_eq!(sf(&server, &["queues", "mail"]).code, Some(0));
    let unknown = [
        "queues male",
        "dead list -q male",
        "dead watch -q male",
        "delayed list -q male",
        "gates list -q male",
        "tasks list -q male",
        "events -q male",
        "cron list -q male",
    ];
    for args in unknown {
        let output = sf(&server, &args.split(' ').collect::<Vec<_>>());
        assert_eq!((output.code, output.stdout.as_str()), (Some(4), ""), "{output:?}");
        let want = "has no queue male; it has: later, mail; did you mean mail?\n";
        assert!(output.stderr.ends_with(want), "{}", output.stderr);
    }
    assert!(!sf(&server, &["queues", "reports"]).stderr.contains("did you mean"));
    // The configuration names it, even if it has had no job yet.
    assert_eq!(json(&server, &["dead", "list"])["total"], 0);
}

#[test]
fn gates_of_a_queue_that_does_not_exist_are_changed_only_if_that_is_meant() {
    let server = RedisServer::start();
    let change = |args: &str| sf(&server, &args.split(' ').collect::<Vec<_>>());
    assert_eq!(change("pause -q first").stderr, "", "there is no other queue");
    sf(&server, &["enqueue", "a", "--queue", "mail"]);
    let told = "there is no queue male yet; did you mean mail?";
    for args in ["pause -q male", "pause -q male --type a", "gates set queue --rate 9/s -q male"] {
        let refused = change(args);
        let want = format!("{told}: add --yes if that is meant");
        assert!(refused.code == Some(2) && refused.stderr.contains(&want), "{args}: {refused:?}");
    }
    let meant = [
        "resume -q male",
        "gates clear queue -q male",
        "gates set queue --rate 9/s -q male --yes",
        "pause -q male --yes",
    ];
    for args in meant {
        let output = change(args);
        assert_eq!((output.code, output.stderr.trim_end()), (Some(0), told), "{args}");
    }
    for args in
        ["pause -q mail", "resume -q mail", "pause -q male --type a", "gates set queue --rate 9/s -q mail"]
    {
        let output = change(args);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{args}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_workers_and_stale_consumers_are_listed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    until_async("the worker's heartbeat", Duration::from_secs(10), async || {
        !json(&server, &["workers"])["items"].as_array().unwrap().is_empty()
    })
    .await;
    let live = json(&server, &["workers"])["items"][0].clone();
    assert_eq!(
        (&live["state"], &live["queues"][0], &live["types"][0]),
        (&"running".into(), &"default".into(), &"test".into())
    );
    assert_eq!(live["version"], env!("CARGO_PKG_VERSION"));
    assert_output!(stdout_of(&server, &["workers"]));
    fleet.stop().await;
    submit(&queue, "{}").await;
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "gone", "STREAMS", "sf:{default}:jobs", ">"]);
    let workers = json(&server, &["workers"]);
    assert_eq!(workers["items"].as_array().unwrap().len(), 0);
    let stale = &workers["stale"][0];
    assert_eq!((&stale["consumer"], &stale["pending"]), (&"gone".into(), &1.into()));
    assert_output!(stdout_of(&server, &["workers"]));
}

#[test]
fn a_status_names_the_other_queues_that_have_a_job_of_the_same_id() {
    let server = RedisServer::start();
    for (queue, id) in
        [("default", "1700000000000-1"), ("default", "1700000000000-2"), ("mail", "1700000000000-1")]
    {
        server.cmd(&["XADD", &format!("sf:{{{queue}}}:jobs"), id, "type", queue]);
    }
    let config = "[queues.default]\n[queues.mail]\n";
    let status = |args: &[&str]| {
        Launch::new(&[&["--config", "{config}", "--redis", &server.url(), "status"], args].concat())
            .config(config)
            .output(SOON)
    };
    let both = status(&["1700000000000-1"]);
    assert!(both.code == Some(0) && both.stdout.contains("default"), "{both:?}");
    assert_eq!(both.stderr, "other queues have a job 1700000000000-1, too; see it with --queue: mail\n");
    assert_eq!(status(&["1700000000000-2"]).stderr, "");
    assert_eq!(status(&["1700000000000-1", "--queue", "default"]).stderr, "");
}

#[test]
fn delayed_jobs_are_paged_and_can_be_cancelled() {
    let server = RedisServer::start();
    for (id, delay) in [("late", "2h"), ("soon", "1h"), ("latest", "3h")] {
        sf(&server, &["enqueue", "a", "--id", id, "--delay", delay]);
    }
    let page = json(&server, &["delayed", "list", "--limit", "2"]);
    let ids = |page: &Value| {
        page["items"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (ids(&page), &page["total"], &page["next"]),
        (vec!["soon".into(), "late".into()], &3.into(), &2.into())
    );
    let page = json(&server, &["delayed", "list", "--limit", "2", "--skip", "2"]);
    assert_eq!((ids(&page), &page["next"]), (vec![Value::from("latest")], &Value::Null));
    assert_output!(stdout_of(&server, &["delayed", "list"]));
    assert_eq!(json(&server, &["delayed", "cancel", "late"])["state"], "cancelled");
    assert_eq!(json(&server, &["status", "late"])["state"], "cancelled");
    assert_eq!(json(&server, &["delayed", "list"])["total"], 2);
    let again = launch(&server, &["delayed", "cancel", "late"]).output(Duration::from_secs(30));
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "late is cancelled\n"), "{again:?}");
}

#[test]
fn a_delayed_job_is_rescheduled_edited_and_run_and_others_exit_with_4() {
    let server = RedisServer::start();
    let id = json(&server, &["enqueue", "a", "--delay", "1h"])["id"].as_str().unwrap().to_owned();
    let moved = json(&server, &["delayed", "reschedule", &id, "--at", "2100-01-01T00:00:00Z"]);
    assert_eq!((&moved["id"], &moved["due_ms"]), (&id.as_str().into(), &4_102_444_800_000_u64.into()));
    let edited = sf(&server, &["delayed", "edit", &id, "--payload", "{\"to\":\"x\"}", "--utc"]);
    assert_eq!(edited.stdout, format!("{id} is due 2100-01-01 00:00:00Z\n"));
    assert_eq!(sf(&server, &["delayed", "edit", &id, "--payload", "{oops"]).code, Some(2));
    assert_eq!(sf(&server, &["delayed", "reschedule", &id]).code, Some(2));
    let both =
        ["delayed", "edit", &id, "--delay", "2h", "--payload", "9", "--by", "ann", "--reason", "why not"];
    assert!(json(&server, &both)["due_ms"].as_u64().unwrap() < 4_102_444_800_000);
    assert_eq!(json(&server, &["status", &id])["payload"], 9);
    let now = json(&server, &["delayed", "run", &id]);
    assert!(now["due_ms"].as_u64().unwrap() < 4_102_444_800_000);
    let audit = json(&server, &["audit"]);
    let notes = audit["items"].as_array().unwrap();
    let what: Vec<_> = notes.iter().map(|note| note["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["run-now", "delayed edit", "delayed edit", "delayed edit"]);
    assert_eq!(
        (&notes[1]["who"], &notes[1]["why"], &notes[1]["target"]),
        (&"ann".into(), &"why not".into(), &id.as_str().into())
    );
    let raw = ["enqueue", "a", "x", "--encoding", "raw", "--id", "raw-1", "--delay", "1h"];
    assert_eq!(sf(&server, &raw).code, Some(0));
    json(&server, &["delayed", "edit", "raw-1", "--payload", "{oops"]);
    let status = json(&server, &["status", "raw-1"]);
    assert_eq!((&status["payload"], &status["encoding"]), (&"{oops".into(), &"raw".into()));
    let waiting = json(&server, &["enqueue", "a", "--id", "order-7"])["id"].as_str().unwrap().to_owned();
    for args in [
        &["delayed", "run", &waiting][..],
        &["run-now", &waiting],
        &["delayed", "run", "nobody"],
        &["delayed", "edit", "nobody", "--delay", "1h"],
    ] {
        let output = sf(&server, args);
        assert_eq!(output.code, Some(4), "{output:?}");
        let why = if args.contains(&"nobody") { "no record of the job nobody" } else { "is waiting: only" };
        assert!(output.stderr.contains(why), "{output:?}");
    }
}

#[test]
fn invisible_characters_are_escaped_in_tables_errors_and_json() {
    let server = RedisServer::start();
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "a.b"]);
    server.cmd(&["SET", "sf:{default}:leader", "me\u{202e}txt\u{200b}\u{9b}31m"]);
    let is_clean = |text: &str| !text.contains(['\u{202e}', '\u{200b}', '\u{9b}']);
    let run = |args: &[&str]| harness::process::run(&[&["--redis", &server.url()], args].concat(), b"");
    let table = run(&["queues", "-o", "wide"]).stdout;
    assert!(is_clean(&table) && table.contains("\\u{202e}"), "{table}");
    let listed = run(&["--json", "queues"]).stdout;
    assert!(is_clean(&listed) && listed.contains("\\u202e"), "{listed}");
    let report: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(report["items"][0]["leader"], "me\u{202e}txt\u{200b}\u{9b}31m");
    let refused = run(&["status", "no\u{202e}job"]);
    assert_ne!(refused.code, Some(0));
    assert!(is_clean(&refused.stderr), "{}", refused.stderr);
}
