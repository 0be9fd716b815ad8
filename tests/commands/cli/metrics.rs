//! `metrics`: the list of metrics that workers export, without asking a worker.

use serde_json::{Value, json};

use harness::process::run;

#[test]
fn metrics_are_listed_with_their_labels_and_who_exports_them() {
    let listed: Value = serde_json::from_str(&run(&["--json", "metrics"], b"").stdout).unwrap();
    let metric = |name: &str| {
        let all = listed["items"].as_array().unwrap().iter();
        all.clone().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    insta::assert_json_snapshot!(metric("streamfleet_queue_jobs"));
    let attempts = metric("streamfleet_job_attempts");
    assert_eq!(attempts["buckets"], json!([1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 25.0]));
    assert_eq!((&attempts["unit"], &attempts["aggregate"]), (&json!(""), &json!("sum")));
    let people = run(&["metrics"], b"").stdout;
    assert!(people.contains("streamfleet_queue_backlog_jobs"), "{people}");
}
