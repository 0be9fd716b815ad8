//! Commands refuse what does not fit the configured schemas.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use harness::process::{Launch, Output};
use harness::redis_server::RedisServer;
use harness::scene::STREAM;
use harness::schema::{BAD, GOOD, TEXT, WRONG};
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

/// A configuration with the schema of the type `test` beside it.
struct Cli {
    server: RedisServer,
    folder: TempDir,
}

impl Cli {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("schemas")).unwrap();
        fs::write(folder.path().join("schemas/test.json"), TEXT).unwrap();
        let toml = "[types.test]\nhandler = \"noop\"\npayload_schema = \"schemas/test.json\"\n\
                    [telemetry]\nlisten = \"off\"\n";
        fs::write(folder.path().join("streamfleet.toml"), toml).unwrap();
        Self { server: RedisServer::start(), folder }
    }

    fn launch(&self, args: &[&str]) -> Launch {
        let config = self.folder.path().join("streamfleet.toml");
        let url = self.server.url();
        Launch::new(&[&["--config", config.to_str().unwrap(), "--redis", &url], args].concat())
    }

    fn run(&self, args: &[&str], stdin: &str) -> Output {
        self.launch(args).stdin(stdin).output(SOON)
    }

    /// Runs a command that the schema refuses.
    fn refuses(&self, args: &[&str], want: &str) {
        let output = self.run(args, "");
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output:?}");
        assert!(output.stderr.contains(want), "{output:?}");
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat(), "");
        assert_eq!(output.code, Some(0), "{output:?}");
        serde_json::from_str(&output.stdout).unwrap()
    }

    fn length(&self, key: &str) -> u64 {
        redis::from_redis_value(self.server.cmd(&["XLEN", key])).unwrap()
    }
}

#[test]
fn a_single_job_is_refused_with_the_name_of_its_field() {
    let cli = Cli::open();
    cli.refuses(&["enqueue", "test", BAD], WRONG);
    cli.refuses(&["enqueue", "test", BAD, "--encoding", "msgpack"], WRONG);
    cli.refuses(&["enqueue", "test"], "null is not of type \"object\"");
    cli.refuses(&["enqueue", "other", "--then", "[{\"type\":\"test\",\"payload\":{}}]"], "/to: is required");
    assert_eq!(cli.length(STREAM), 0);
    assert_eq!(cli.run(&["enqueue", "test", GOOD], "").code, Some(0));
    assert_eq!(cli.run(&["enqueue", "other", BAD], "").code, Some(0));
    assert_eq!(cli.length(STREAM), 2);
}

#[test]
fn a_bulk_names_the_line_that_does_not_fit() {
    let cli = Cli::open();
    let line = |payload: &str| format!("{{\"type\":\"test\",\"payload\":{payload}}}\n");
    let bad = format!("{}{}", line(BAD), line(GOOD));
    let first = cli.run(&["enqueue", "--bulk"], &bad);
    assert_eq!((first.code, cli.length(STREAM)), (Some(1), 0), "{first:?}");
    assert!(
        first.stderr.contains(&format!("no job was accepted: line 1 is not a valid job: {WRONG}")),
        "{first:?}"
    );
    let many = format!("{}{bad}", line(GOOD).repeat(600));
    let output = cli.run(&["enqueue", "--bulk"], &many);
    assert!(output.stderr.contains(&format!("line 601 is not a valid job: {WRONG}")), "{output:?}");
    let accepted = cli.length(STREAM);
    assert!(accepted <= 600 && output.stderr.contains(&format!("all up to line {accepted}:")), "{output:?}");
    let skipped = cli.run(&["enqueue", "--bulk", "--skip-bad", "--json"], &many);
    let summary: Value = serde_json::from_str(&skipped.stdout).unwrap();
    assert_eq!((&summary["accepted"], &summary["rejected_lines"][0]["line"]), (&601.into(), &601.into()));
    assert_eq!(summary["rejected_lines"][0]["error"], WRONG);
}

#[test]
fn recurring_and_delayed_jobs_must_fit_too() {
    let cli = Cli::open();
    let add = ["cron", "add", "nightly", "--schedule", "0 3 * * *", "--type", "test", "--payload"];
    cli.refuses(&[&add[..], &[BAD]].concat(), WRONG);
    assert_eq!(cli.run(&[&add[..], &[GOOD]].concat(), "").code, Some(0));
    assert_eq!(cli.run(&["enqueue", "test", GOOD, "--delay", "1h", "--id", "order-7"], "").code, Some(0));
    let edit = ["delayed", "edit", "order-7", "--payload"];
    let wrong = "the payload of the job order-7 does not fit the schema of test: /items/0/sku: \"x\" is not";
    cli.refuses(&[&edit[..], &[BAD]].concat(), wrong);
    assert_eq!(cli.run(&[&edit[..], &[r#"{"to":"bob"}"#]].concat(), "").code, Some(0));
}

#[test]
fn a_worker_buries_a_raw_job_and_its_letter_is_edited_to_fit() {
    let cli = Cli::open();
    cli.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "order-7", "payload", BAD]);
    let worker = cli.launch(&["worker"]).start();
    let status = || cli.json(&["status", "order-7"]);
    until("the job to be dead", SOON, || (cli.length("sf:{default}:dead") == 1).then_some(()));
    assert_eq!((&status()["state"], &status()["error"]), (&"dead".into(), &WRONG.into()));
    let listed = |reason: &[&str]| {
        let page = cli.json(&[&["dead", "list", "--dead-reason"], reason].concat());
        page["items"].as_array().unwrap().len()
    };
    assert_eq!((listed(&["invalid", "--kind", "invalid"]), listed(&["fatal"])), (1, 0));
    let refused = "the payload does not fit the schema of test: /to: 7 is not of type \"string\"";
    cli.refuses(&["dead", "edit", "order-7", "--payload-file", &file(&cli, r#"{"to":7}"#)], refused);
    // The payload is as it was, so only the header changes.
    assert_eq!(cli.run(&["dead", "edit", "order-7", "--set", "h.tenant=9"], "").code, Some(0));
    let edit = ["dead", "edit", "order-7", "--payload-file", &file(&cli, GOOD)];
    assert_eq!(cli.run(&edit, "").code, Some(0));
    let replayed = cli.run(&["dead", "replay", "order-7"], "");
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    until("the job to be done", SOON, || (status()["state"] == "done").then_some(()));
    worker.term();
    assert!(worker.wait_exit(SOON).success());
}

/// Writes a payload into a file.
fn file(cli: &Cli, payload: &str) -> String {
    let path = cli.folder.path().join("payload.json");
    fs::write(&path, payload).unwrap();
    path.to_str().unwrap().to_owned()
}
