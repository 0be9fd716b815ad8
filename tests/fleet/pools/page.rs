//! docs/pools.md and docs/handlers-in-your-language.md: what they show is what the worker takes and writes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use harness::cli;
use harness::pool::{SOON, Stage};
use harness::process::Launch;
use harness::rest::state_of;
use harness::wait::until;

const PAGE: &str = include_str!("../../../docs/pools.md");
const OVERVIEW: &str = include_str!("../../../docs/handlers-in-your-language.md");

/// Notes the lines that it gets, and answers a job with the line of the page that its payload selects.
const ANSWERER: &str = r#"
import json, sys

lines = [line.rstrip("\n") for line in open("page")]
of = lambda kind: [line for line in lines if json.loads(line)["type"] == kind]
print(of("ready")[0], flush=True)
for line in sys.stdin:
    message = json.loads(line)
    open("got", "a").write(line)
    if message["type"] != "job":
        continue
    for told in [*of("progress"), *of("log"), of("result")[message["payload"]]]:
        print(json.dumps({**json.loads(told), "ref": message["ref"]}), flush=True)
print(of("bye")[0], flush=True)
"#;

/// The blocks without a mark. The tests of the packages run those with one.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("\n\n```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

/// The program of the page.
fn program() -> &'static str {
    let [program] = blocks(PAGE, "python")[..] else { panic!("one program without an SDK") };
    program
}

fn keys(message: &Value) -> BTreeSet<&str> {
    message.as_object().unwrap().keys().map(String::as_str).collect()
}

/// A pool of one program with this text, for the type of the page.
fn stage(program: &str) -> Stage {
    let types = "[types.\"mail.send\"]\nhandler = { pool = \"py\" }\nmax_attempts = 4\n";
    let stage = Stage::new("processes = 1", types);
    fs::write(stage.dir.path().join("worker.py"), program).unwrap();
    stage
}

fn submit(stage: &Stage, id: &str, payload: &str) {
    let job = ["type", "mail.send", "id", id, "h.tenant", "9", "payload", payload];
    stage.server.cmd(&[&["XADD", "sf:{default}:jobs", "*"], &job[..]].concat());
}

fn until_state(stage: &Stage, id: &str, state: &str) -> Value {
    until(&format!("{id} to be {state}"), SOON, || {
        state_of(&stage.server, id).is_some_and(|now| now == state)
    });
    cli::json(&stage.server, &["status", id])
}

#[test]
fn every_configuration_of_the_pages_is_valid() {
    for (page, want) in [(PAGE, 4), (OVERVIEW, 1)] {
        let found = blocks(page, "toml");
        assert_eq!(found.len(), want);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("page.py"), program()).unwrap();
        // Each interpreter of the page is one that runs the program of the page, whatever its arguments.
        for name in ["php", "node"] {
            let interpreter = dir.path().join(name);
            let run = format!("#!/bin/sh\nexec python3 '{}'\n", dir.path().join("page.py").display());
            fs::write(&interpreter, run).unwrap();
            fs::set_permissions(&interpreter, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let path = std::env::var_os("PATH").unwrap();
        let path = format!("{}:{}", dir.path().display(), path.to_str().unwrap());
        let check = Launch::new(&["--config", "{config}", "config", "check"]).env("PATH", path);
        let output = check.config(&found.join("\n")).output(SOON);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(0), "the configuration is valid\n"),
            "{output:?}"
        );
    }
}

#[test]
fn the_program_without_an_sdk_runs_jobs() {
    let stage = stage(program());
    let _worker = stage.start();
    submit(&stage, "good", r#"{"to":"ann@example.com"}"#);
    assert_eq!(until_state(&stage, "good", "done")["result"], json!({ "to": "ann@example.com" }));
    submit(&stage, "bad", "{}");
    assert_eq!(until_state(&stage, "bad", "retrying")["error"], "'to'");
}

#[test]
fn the_lines_of_the_page_have_the_effect_that_it_describes() {
    let lines: Vec<&str> = blocks(PAGE, "json").into_iter().flat_map(str::lines).collect();
    let parsed: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    let stage = stage(ANSWERER);
    fs::write(stage.dir.path().join("page"), lines.join("\n")).unwrap();
    let worker = stage.start();
    let states = [
        "done",
        "done",
        "retrying",
        "retrying",
        "retrying",
        "dead",
        "scheduled",
        "cancelled",
        "scheduled",
        "retrying",
    ];
    let results = parsed.iter().filter(|line| line["type"] == "result").count();
    assert_eq!(results, states.len());
    for (index, state) in states.into_iter().enumerate() {
        let id = format!("{state}-{index}");
        submit(&stage, &id, &index.to_string());
        let status = until_state(&stage, &id, state);
        assert!(status["log"].to_string().contains("sent"), "{status}");
    }
    worker.term();
    assert!(worker.wait_exit(SOON).success());
    agree(&parsed, stage.dir.path(), &["hello", "job"]);
}

/// The lines that the worker wrote have the fields of those on the page.
fn agree(page: &[Value], dir: &Path, kinds: &[&str]) {
    let got = fs::read_to_string(dir.join("got")).unwrap();
    let got: Vec<Value> = got.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for kind in kinds {
        let first = |lines: &[Value]| lines.iter().find(|line| line["type"] == **kind).cloned();
        let (shown, written) = (first(page).expect("on the page"), first(&got).expect("written"));
        assert_eq!(keys(&shown), keys(&written), "{kind}");
    }
}
