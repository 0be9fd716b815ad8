//! `stats`: the samples of a queue, or its types.

use std::time::Duration;

use super::form::on_a_terminal;
use harness::cli::{json, sf, stdout_of};
use harness::redis_server::RedisServer;
use harness::samples::{add_samples, add_types};

const MINUTE: u64 = 60_000;

/// Compares the text with a snapshot, regardless of times and column widths.
macro_rules! assert_table {
    ($text:expr) => {
        insta::with_settings!({filters => vec![
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[time]"),
            (r" +", " "),
        ]}, { insta::assert_snapshot!($text) })
    };
}

#[test]
fn samples_are_summed_up_in_a_table_and_listed_in_json() {
    let server = RedisServer::start();
    let first = add_samples(&server);
    assert_table!(stdout_of(&server, &["stats", "mail"]));
    let listed = json(&server, &["stats", "mail", "--since", "24h"]);
    assert_eq!((&listed["queue"], listed["items"].as_array().unwrap().len()), (&"mail".into(), 3));
    let sample = &listed["items"][1];
    assert_eq!(sample["at_ms"], first + MINUTE);
    assert_eq!(
        (&sample["span_ms"], &sample["done"], &sample["died"]),
        (&60_000.into(), &25.into(), &1.into())
    );
    assert_eq!(sample["oldest_waiting_age_ms"], 300);
    assert_eq!(listed["items"][2]["oldest_waiting_age_ms"], serde_json::Value::Null);
    let recent = json(&server, &["stats", "mail", "--since", "2m"]);
    assert_eq!(recent["items"].as_array().unwrap().len(), 0);
}

#[test]
fn trends_are_drawn_on_a_terminal_and_left_out_in_a_pipe() {
    let server = RedisServer::start();
    add_samples(&server);
    let shown = on_a_terminal(&server, &["stats", "mail"]).output(Duration::from_secs(30)).stdout;
    assert!(shown.contains("trend") && shown.contains('█'), "{shown}");
    assert!(stdout_of(&server, &["stats", "mail"]).is_ascii());
}

#[test]
fn types_are_listed_with_how_long_they_waited_and_ran() {
    let server = RedisServer::start();
    add_types(&server);
    assert_table!(stdout_of(&server, &["stats", "mail", "--types"]));
    let listed = json(&server, &["stats", "mail", "--types", "--since", "20m"]);
    let [mail, other] = [0, 1].map(|at| &listed["items"][at]);
    assert_eq!((&mail["type"], &other["type"]), (&"mail.send".into(), &serde_json::Value::Null));
    assert_eq!((&mail["run"]["count"], &mail["dead"]), (&12.into(), &1.into()));
    let p95 = mail["run"]["p95_ms"].as_f64().unwrap();
    assert!((800.0..900.0).contains(&p95), "{p95}");
    assert!(listed["from_ms"].as_u64().unwrap() < server.now_ms() - 19 * MINUTE);
}

#[test]
fn how_long_jobs_waited_and_ran_is_listed_over_time() {
    let server = RedisServer::start();
    add_types(&server);
    let listed = json(&server, &["stats", "mail", "--durations", "--since", "20m"]);
    let windows = listed["items"].as_array().unwrap();
    let runs: u64 = windows.iter().map(|window| window["run"]["count"].as_u64().unwrap()).sum();
    let types = json(&server, &["stats", "mail", "--types", "--since", "20m"]);
    let of_types =
        types["items"].as_array().unwrap().iter().map(|each| each["run"]["count"].as_u64().unwrap());
    assert_eq!((runs, &listed["window_ms"]), (of_types.sum(), &(10 * MINUTE).into()));
    assert!(windows.iter().all(|window| window["at_ms"].as_u64().unwrap() % (10 * MINUTE) == 0), "{listed}");
    let day = json(&server, &["stats", "mail", "--durations", "--since", "24h"]);
    assert_eq!(day["window_ms"], 60 * MINUTE);
    let shown = stdout_of(&server, &["stats", "mail", "--durations"]);
    assert!(shown.contains("run p95") && shown.contains("10m each"), "{shown}");
}

#[test]
fn a_queue_without_statistics_says_so_and_an_unknown_one_exits_with_4() {
    let server = RedisServer::start();
    server.cmd(&["XADD", "sf:{mail}:jobs", "*", "type", "mail.send"]);
    assert!(stdout_of(&server, &["stats", "mail"]).starts_with("there are no samples of the queue mail"));
    assert!(stdout_of(&server, &["stats", "mail", "--types"]).starts_with("no jobs of the queue mail"));
    assert!(
        stdout_of(&server, &["stats", "mail", "--durations"]).starts_with("no attempts of the queue mail")
    );
    assert_eq!(sf(&server, &["stats", "male"]).code, Some(4));
    assert_eq!(sf(&server, &["stats", "mail", "--since", "25h"]).code, Some(2));
}
