//! `bench`: its figures for programs, and what it refuses to measure.

use serde_json::Value;

use crate::harness::process::run;

/// Asserts that the values under these keys are positive numbers.
fn assert_positive(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value[*key].as_f64().is_some_and(|number| number > 0.0), "{key}: {value}");
    }
}

#[test]
fn bench_measures_the_chosen_ways_and_explains_their_cost() {
    let args =
        ["bench", "--only", "delayed,retried", "--jobs", "5000", "--rounds", "1", "--json", "--explain"];
    let output = run(&args, b"");
    assert_eq!(output.code, Some(0), "{output:?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let mut keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["explain", "raw", "retry", "server", "ways"]);
    assert_positive(&report["raw"], &["per_s", "redis_us_per_job"]);
    assert_positive(&report["retry"], &["per_s"]);
    assert_eq!(report["ways"].as_object().unwrap().len(), 2);
    for (way, jobs) in [("delayed", 2500), ("retried", 500)] {
        let figures = &report["ways"][way];
        assert_eq!(figures["jobs"], jobs);
        assert_positive(figures, &["per_s", "ratio", "ratio_min", "ratio_max", "redis_us_per_job"]);
        assert_positive(figures, &["worker_us_per_job"]);
        let commands = report["explain"][way].as_array().unwrap();
        let of = |name: &str| commands.iter().find(|command| command["command"] == name);
        assert_positive(of("evalsha").unwrap(), &["calls_per_job"]);
        assert_positive(of("xreadgroup").unwrap(), &["calls_per_job", "us_per_job"]);
    }
}

#[test]
fn bench_refuses_names_that_it_does_not_know_and_jobs_that_are_too_few() {
    for (args, part) in [
        (["--only", "retired"], "possible values: enqueue, ways, plain, delayed"),
        (["--only", ""], "possible values: enqueue, ways, plain, delayed"),
        (["--jobs", "0"], "--jobs 0 leaves 0 jobs for enqueue, too few for a meaningful figure"),
        (["--jobs", "19999"], "--jobs 19999 leaves 499 jobs for steps, too few for a meaningful figure"),
    ] {
        let output = run(&[&["bench"][..], &args].concat(), b"");
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
}
