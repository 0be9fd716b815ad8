//! `bench`: its figures for programs, and what it refuses to measure.

use std::time::Duration;

use serde_json::Value;

use harness::process::{Launch, run};

/// What programs of three languages may take to start and run on a busy machine.
const PROGRAMS_RAN: Duration = Duration::from_secs(300);

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
    for (way, jobs) in [("delayed", 2500), ("retried", 1000)] {
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
        (["--jobs", "9999"], "--jobs 9999 leaves 499 jobs for steps, too few for a meaningful figure"),
    ] {
        let output = run(&[&["bench"][..], &args].concat(), b"");
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
}

/// Whether a program is on the `PATH`.
fn is_installed(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file())
}

#[test]
fn bench_measures_the_memory_of_many_programs() {
    let output =
        Launch::new(&["bench", "--only", "program_memory", "--jobs", "4", "--json"]).output(PROGRAMS_RAN);
    assert_eq!(output.code, Some(0), "{output:?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let figures = report["program_memory"].as_array().unwrap();
    assert!(figures.iter().any(|figures| figures["language"] == "python"), "{report}");
    for figures in figures {
        assert_eq!(figures["programs"], 4);
        assert_positive(figures, &["rss_bytes", "pss_bytes"]);
        assert!(
            figures["pss_bytes"].as_u64() < figures["rss_bytes"].as_u64(),
            "programs share memory: {figures}"
        );
    }
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[test]
    fn bench_measures_each_way_to_run_programs_in_every_language_that_is_installed() {
        let args = ["bench", "--only", "programs", "--jobs", "5000", "--rounds", "1", "--json"];
        let output = Launch::new(&args).output(PROGRAMS_RAN);
        assert_eq!(output.code, Some(0), "{output:?}");
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        let languages = report["programs"].as_array().unwrap();
        for (figures, (language, program, is_concurrent)) in
            languages.iter().zip([("python", "python3", true), ("php", "php", false), ("node", "node", true)])
        {
            assert_eq!(figures["language"], language);
            let rates = &figures["rates"];
            assert_eq!(rates.is_object(), is_installed(program), "{figures}");
            if rates.is_null() {
                continue;
            }
            assert_positive(
                rates,
                &["bare_per_s", "bare_lockstep_per_s", "plain_per_s", "http_per_s", "exec_per_s"],
            );
            assert_positive(rates, &["pool_per_s", "pool_ahead_per_s"]);
            for ratio in ["pool_ratio", "pool_ahead_ratio"] {
                assert_positive(&rates[ratio], &["ratio", "ratio_min", "ratio_max"]);
            }
            let inflight = &rates["pool_inflight"];
            assert_eq!(inflight.is_object(), is_concurrent, "{figures}");
            if is_concurrent {
                assert_positive(inflight, &["bare_per_s", "per_s", "ratio"]);
            }
        }
        assert_eq!(languages.len(), 3);
    }
}
