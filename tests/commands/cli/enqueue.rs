//! `enqueue`: one job, and many.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use harness::cli::{json, launch, sf, sf_with};
use harness::fleet::queue;
use harness::redis_server::RedisServer;

const SOON: Duration = Duration::from_secs(30);

/// Returns the fields of the only entry of a stream.
fn entry(server: &RedisServer, stream: &str) -> BTreeMap<String, Vec<u8>> {
    let mut entries: Vec<(String, Vec<Vec<u8>>)> =
        redis::cmd("XRANGE").arg(&[stream, "-", "+"]).query(&mut server.client()).unwrap();
    assert_eq!(entries.len(), 1, "{stream}");
    let (_id, flat) = entries.remove(0);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    flat.chunks_exact(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect()
}

fn length(server: &RedisServer, stream: &str) -> i64 {
    redis::cmd("XLEN").arg(stream).query(&mut server.client()).unwrap()
}

#[test]
fn every_flag_becomes_a_field_of_the_job() {
    let server = RedisServer::start();
    let mut args = vec!["enqueue", "mail.send", r#"{"to": "x"}"#, "--queue", "mail", "--id", "order-7"];
    args.extend(["--lane", "high", "--max-attempts", "3", "--timeout", "1m", "--header", "tenant=acme"]);
    args.extend(["--expires-at", "2100-01-01T00:00:00Z", "--track"]);
    let submitted = json(&server, &args);
    let want = serde_json::json!({"id": "order-7", "queue": "mail", "lane": "high", "state": "waiting", "existing": false});
    assert_eq!(submitted, want);
    let mut fields = entry(&server, "sf:{mail}:jobs:high");
    assert_eq!(fields.remove("life").map(|generation| generation.len()), Some(32));
    let want = [
        ("expires_at_ms", "4102444800000"),
        ("h.tenant", "acme"),
        ("id", "order-7"),
        ("max_attempts", "3"),
        ("once", "1"),
        ("payload", r#"{"to": "x"}"#),
        ("timeout_ms", "60000"),
        ("tracking", "all"),
        ("type", "mail.send"),
    ];
    let want = want.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    assert_eq!(fields, BTreeMap::from(want));
}

#[test]
fn a_payload_from_a_file_or_stdin_is_encoded_as_requested() {
    let server = RedisServer::start();
    let output = sf_with(&server, &["enqueue", "a", "-", "--encoding", "msgpack"], b"[1,2]");
    assert_eq!(output.code, Some(0), "{output:?}");
    let fields = entry(&server, "sf:{default}:jobs");
    assert_eq!((&fields["payload"][..], &fields["encoding"][..]), (&[0x92, 1, 2][..], &b"msgpack"[..]));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, &[0xff, 0x00]).unwrap();
    let from = format!("@{}", file.path().display());
    let output = sf(&server, &["enqueue", "a", &from, "--encoding", "raw", "--lane", "low"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(entry(&server, "sf:{default}:jobs:low")["payload"], [0xff, 0x00]);
}

#[test]
fn a_job_for_later_is_scheduled() {
    let server = RedisServer::start();
    assert_eq!(json(&server, &["enqueue", "a", "--delay", "1h"])["state"], "scheduled");
    assert_eq!(json(&server, &["enqueue", "a", "--at", "2100-01-01T00:00:00Z"])["state"], "scheduled");
    assert_eq!(server.cmd(&["ZCARD", "sf:{default}:delayed"]), redis::Value::Int(2));
    let due: f64 = redis::cmd("ZSCORE")
        .arg("sf:{default}:delayed")
        .arg(json(&server, &["delayed", "list"])["items"][1]["id"].as_str().unwrap())
        .query(&mut server.client())
        .unwrap();
    assert_eq!(due, 4_102_444_800_000.0);
}

#[test]
fn a_priority_stands_for_a_lane() {
    let server = RedisServer::start();
    for (priority, lane) in
        [("1", "low"), ("3", "low"), ("4", "normal"), ("7", "normal"), ("8", "high"), ("10", "high")]
    {
        assert_eq!(json(&server, &["enqueue", "a", "--priority", priority])["lane"], lane);
    }
    let line = b"{\"type\":\"a\",\"priority\":2}";
    assert_eq!(sf_with(&server, &["enqueue", "--bulk"], line).code, Some(0));
    let lengths = ["sf:{default}:jobs:high", "sf:{default}:jobs", "sf:{default}:jobs:low"];
    assert_eq!(lengths.map(|stream| length(&server, stream)), [2, 2, 3]);
}

#[test]
fn an_invalid_command_line_is_explained_and_sends_nothing() {
    let server = RedisServer::start();
    let wrong: [(&[&str], &str); 17] = [
        (&["enqueue"], "<TYPE>"),
        (&["enqueue", "Mail"], "a type must match"),
        (&["enqueue", "a", "{oops"], "the payload is not JSON"),
        (&["enqueue", "a", "@no/such/file"], "failed to read the payload no/such/file"),
        (&["enqueue", "a", "--lane", "fast"], "a lane must be high, normal or low"),
        (&["enqueue", "a", "--priority", "11"], "from 1 (lowest) to 10 (highest)"),
        (&["enqueue", "a", "--priority", "9", "--lane", "high"], "cannot be used with"),
        (&["enqueue", "--bulk", "--priority", "9"], "cannot be used with"),
        (&["enqueue", "a", "--delay", "10"], "a duration must be a number with a unit"),
        (&["enqueue", "a", "--at", "noon"], "a time must be as it is shown"),
        (&["enqueue", "a", "--delay", "1s", "--at", "2100-01-01T00:00:00Z"], "cannot be used with"),
        (&["enqueue", "a", "--timeout", "8d"], "between 1ms and 7d"),
        (&["enqueue", "a", "--max-attempts", "0"], "expected a number of at least 1"),
        (&["enqueue", "a", "--header", "tenant"], "NAME=VALUE"),
        (&["enqueue", "a", "--queue", "A b"], "a queue name must match"),
        (&["enqueue", "a", "--prioriy", "high"], "unexpected argument"),
        (&["enqueue", "--bulk", "--id", "x"], "cannot be used with"),
    ];
    for (args, want) in wrong {
        let output = sf(&server, args);
        assert_eq!(output.code, Some(2), "{args:?}: {output:?}");
        assert!(output.stderr.contains(want), "{args:?}: {}", output.stderr);
        assert_eq!(output.stdout, "");
    }
    assert_eq!(server.cmd(&["DBSIZE"]), redis::Value::Int(0));
}

fn lines(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, at| {
        writeln!(text, r#"{{"type":"a","payload":{{"n":{at}}},"lane":"{}"}}"#, ["normal", "low"][at % 2])
            .unwrap();
        text
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_lines_are_ten_thousand_jobs() {
    let server = RedisServer::start();
    let output = sf_with(&server, &["enqueue", "--bulk", "--json"], lines(10_000).as_bytes());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:?}");
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&summary["accepted"], &summary["rejected"]), (&10_000.into(), &0.into()));
    assert!(summary["jobs_per_second"].as_f64().unwrap() > 0.0);
    let snapshot = queue(&server).await.snapshot().await.unwrap();
    assert_eq!(snapshot.lanes.map(|lane| lane.waiting), [0, 5_000, 5_000]);
}

#[test]
fn a_bad_line_ends_a_bulk_and_the_accepted_lines_are_reported() {
    let server = RedisServer::start();
    let text = format!("{}{{\"type\":\"a\",\"colour\":1}}\n{}", lines(601), lines(601));
    let output = sf_with(&server, &["enqueue", "--bulk"], text.as_bytes());
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{output:?}");
    assert!(
        output.stderr.contains("line 602 is not a valid job: unknown field `colour`"),
        "{}",
        output.stderr
    );
    let accepted = length(&server, "sf:{default}:jobs") + length(&server, "sf:{default}:jobs:low");
    assert!(accepted <= 601, "{accepted}");
    let want = format!("{accepted} jobs were accepted, all up to line {accepted}");
    assert!(output.stderr.contains(&want), "{want}: {}", output.stderr);
}

#[test]
fn a_bulk_with_a_job_that_redis_refuses_counts_the_jobs_beside_it() {
    let server = RedisServer::start();
    server.cmd(&["SET", "sf:{default}:job:j41", "oops"]);
    let text: String = (1..=60).map(|nth| format!("{{\"type\":\"a\",\"id\":\"j{nth}\"}}\n")).collect();
    for _ in 0..2 {
        let output = sf_with(&server, &["enqueue", "--bulk"], text.as_bytes());
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{output:?}");
        let want = "59 jobs were accepted: all up to line 40, and 19 behind it: the job j41 was refused: ";
        assert!(output.stderr.contains(want), "{}", output.stderr);
        assert_eq!(length(&server, "sf:{default}:jobs"), 59);
    }
}

#[test]
fn a_bulk_whose_first_line_is_bad_accepts_nothing_and_says_so() {
    let server = RedisServer::start();
    let output = sf_with(&server, &["enqueue", "--bulk"], b"nonsense\n{\"type\":\"a\"}\n");
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{output:?}");
    let want = "error: no job was accepted: line 1 is not a valid job: ";
    assert!(output.stderr.starts_with(want), "{}", output.stderr);
    assert_eq!(server.cmd(&["DBSIZE"]), redis::Value::Int(0));
}

#[test]
fn bad_lines_are_skipped_and_counted_on_request() {
    let server = RedisServer::start();
    let text = format!("{}nonsense\n\n{}{{}}", lines(300), lines(300));
    let output = sf_with(&server, &["enqueue", "--bulk", "--skip-bad", "--json"], text.as_bytes());
    assert_eq!(output.code, Some(0), "{output:?}");
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&summary["accepted"], &summary["rejected"]), (&600.into(), &2.into()));
    assert_eq!(
        (&summary["rejected_lines"][0]["line"], &summary["rejected_lines"][1]["line"]),
        (&301.into(), &603.into())
    );
}

#[test]
fn a_bulk_without_lines_is_an_error() {
    let server = RedisServer::start();
    let output = sf(&server, &["enqueue", "--bulk"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("stdin contains no jobs"), "{}", output.stderr);
}

#[test]
fn unique_jobs_obey_the_mode_and_scope_flags() {
    let server = RedisServer::start();
    let unique = ["enqueue", "a", "--unique", "ann", "--delay", "1h"];
    let first = json(&server, &unique);
    assert_eq!((&first["existing"], &first["state"]), (&false.into(), &"scheduled".into()));
    let output = sf(&server, &unique);
    assert_eq!((output.code, output.stdout.trim()), (Some(0), first["id"].as_str().unwrap()));
    assert!(output.stderr.contains("existed already"), "{output:?}");
    let replacing = json(&server, &[&unique[..], &["--unique-mode", "replace"]].concat());
    assert_eq!(replacing["replaced"], first["id"]);
    let merged =
        json(&server, &[&unique[..], &["--unique-mode", "debounce", "--unique-scope", "30s"]].concat());
    assert_eq!((&merged["debounced"], &merged["id"]), (&true.into(), &replacing["id"]));
    assert_eq!(server.cmd(&["ZCARD", "sf:{default}:delayed"]), redis::Value::Int(1));
    let lines = "{\"type\":\"a\",\"unique\":\"ann\"}\n{\"type\":\"a\",\"unique\":\"bob\",\"unique_scope\":\"waiting\"}\n";
    let output = sf_with(&server, &["enqueue", "--bulk", "--json"], lines.as_bytes());
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&summary["accepted"], &summary["existing"]), (&2.into(), &1.into()));
    assert_eq!(length(&server, "sf:{default}:jobs"), 1);
}

#[test]
fn a_relative_expiry_is_counted_by_the_servers_clock() {
    let server = RedisServer::start();
    let now = server.now_ms();
    json(&server, &["enqueue", "a", "--expires-in", "1h"]);
    let line = b"{\"type\":\"a\",\"lane\":\"low\",\"expires_in\":3600000}";
    assert_eq!(sf_with(&server, &["enqueue", "--bulk"], line).code, Some(0));
    for stream in ["sf:{default}:jobs", "sf:{default}:jobs:low"] {
        let fields = entry(&server, stream);
        let expires: u64 = String::from_utf8(fields["expires_at_ms"].clone()).unwrap().parse().unwrap();
        let early = now + 3_599_000;
        assert!((early..early + 60_000).contains(&expires), "{expires} is not an hour after {now}");
    }
}

#[test]
fn jobs_inherit_a_valid_trace_of_the_submitting_program() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let server = RedisServer::start();
    let state = |queue: &str| entry(&server, &format!("sf:{{{queue}}}:jobs")).remove("h.tracestate");
    let submit = |queue: &str, trace: &str, stdin: &str| {
        let args = ["enqueue", "--queue", queue, if stdin.is_empty() { "mail.send" } else { "--bulk" }];
        let output = launch(&server, &args)
            .env("TRACEPARENT", trace)
            .env("TRACESTATE", "shop=1")
            .stdin(stdin)
            .output(SOON);
        assert_eq!(output.code, Some(0), "{output:?}");
        entry(&server, &format!("sf:{{{queue}}}:jobs")).remove("traceparent")
    };
    assert_eq!(submit("one", TRACE, "").as_deref(), Some(TRACE.as_bytes()));
    assert_eq!(submit("many", TRACE, "{\"type\":\"mail.send\"}\n").as_deref(), Some(TRACE.as_bytes()));
    assert_eq!(submit("none", "", ""), None);
    assert_eq!(submit("broken", "00-ab-cd-01", ""), None);
    let own = format!("{{\"type\":\"a\",\"traceparent\":\"{TRACE}\",\"tracestate\":\"desk=2\"}}\n");
    assert_eq!(submit("own", "", &own).as_deref(), Some(TRACE.as_bytes()));
    let want = [Some("shop=1"), Some("shop=1"), None, None, Some("desk=2")]
        .map(|text| text.map(|text| text.as_bytes().to_vec()));
    assert_eq!(["one", "many", "none", "broken", "own"].map(state), want);
}
