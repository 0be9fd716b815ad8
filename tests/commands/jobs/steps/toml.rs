//! Steps in the configuration file, end to end: the real binary, programs as steps, and the commands.

use std::time::Duration;

use serde_json::Value;

use harness::assert_output;
use harness::process::{Launch, Output, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

/// `charge` fails unless the file `bank` exists; every run adds a line to the file `log`.
const TOML: &str = r#"
[worker]
lease = "2s"
[telemetry]
listen = "off"
[types."gift.send"]
max_attempts = 3
backoff = { fixed = "50ms" }
[types."gift.send".steps.charge]
kind = "once"
timeout = "10s"
handler = { exec = { directory = "{dir}", command = ["sh", "-c", "echo $STREAMFLEET_STEP >> log; test -e bank"] } }
[types."gift.send".steps.mail]
kind = "auto"
after = ["charge"]
handler = { exec = { directory = "{dir}", command = ["sh", "-c", "echo $STREAMFLEET_STEP >> log"] } }
[types."gift.send".steps.render]
kind = "auto"
max_attempts = 2
handler = { exec = { directory = "{dir}", command = ["sh", "-c", "echo $STREAMFLEET_STEP >> log; test $STREAMFLEET_JOB_ATTEMPT = 2"] } }
"#;

struct Stage {
    server: RedisServer,
    dir: tempfile::TempDir,
    _worker: Worker,
}

impl Stage {
    fn new() -> Self {
        let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
        let toml = TOML.replace("{dir}", dir.path().to_str().unwrap());
        let worker = Launch::new(&["--config", "{config}", "worker"]).config(&toml);
        let worker = worker.env("STREAMFLEET__REDIS__URL", server.url()).start();
        Self { server, dir, _worker: worker }
    }

    fn run(&self, args: &[&str]) -> Output {
        let launch = Launch::new(args).env("STREAMFLEET__REDIS__URL", self.server.url()).env("USER", "ann");
        launch.output(SOON)
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Returns the steps that ran, in their order.
    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn until_state(&self, state: &str) {
        until(&format!("the job to be {state}"), SOON, || {
            let output = self.run(&["status", "g-1", "--json"]);
            serde_json::from_str::<Value>(&output.stdout).is_ok_and(|status| status["state"] == state)
        });
    }
}

#[test]
fn configured_steps_run_wait_for_a_decision_and_continue() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["steps", "g-1"]).code, Some(4));
    stage.run(&["enqueue", "gift.send", "--id", "g-1"]);
    stage.until_state("dead");
    assert_eq!(stage.log(), ["charge", "render", "render"]);
    let letter = &stage.json(&["dead", "list"])["items"][0];
    assert_eq!(letter["reason"], "needs_decision");
    let seen = stage.json(&["steps", "g-1"]);
    let states: Vec<&str> =
        seen["steps"].as_array().unwrap().iter().filter_map(|step| step["state"].as_str()).collect();
    assert_eq!((states, &seen["needs_decision"]), (vec!["failed", "pending", "done"], &true.into()));
    assert_output!(stage.run(&["steps", "g-1"]).stdout);
    let status = stage.run(&["status", "g-1"]).stdout;
    assert!(status.contains("1 of 3 done; waiting for a decision: charge"), "{status}");
    for (args, code) in [
        (["steps", "decide", "g-1", "charge", "perhaps"], 2),
        (["steps", "decide", "g-1", "refund", "done"], 4),
        (["steps", "decide", "g-2", "charge", "done"], 4),
        (["steps", "decide", "g-1", "render", "run"], 1),
    ] {
        assert_eq!(stage.run(&args).code, Some(code), "{args:?}");
    }
    let decide = ["steps", "decide", "g-1", "charge", "done", "--reason", "paid by wire", "--as", "ann"];
    let wrong = stage.run(&[&decide[..], &["--result", "{17"]].concat());
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let answer = stage.json(&[&decide[..], &["--result", r#"{"receipt":17}"#]].concat());
    assert_eq!((&answer["job"], &answer["verdict"]), (&"replayed".into(), &"done".into()));
    stage.until_state("done");
    assert_eq!(stage.log(), ["charge", "render", "render", "mail"]);
    let charge = &stage.json(&["steps", "g-1"])["steps"][0];
    let decision = &charge["decision"];
    assert_eq!((&decision["by"], &decision["reason"]), (&"ann".into(), &"paid by wire".into()));
    assert_eq!(charge["result"], serde_json::json!({"receipt": 17}));
    let noted = &stage.json(&["audit"])["items"][0];
    let told = ["what", "who", "why", "target"].map(|name| noted[name].as_str().unwrap().to_owned());
    assert_eq!(told, ["steps decide", "ann", "paid by wire", "g-1 charge done"], "{noted}");
}

#[test]
fn a_replay_says_that_a_person_must_decide_first() {
    let stage = Stage::new();
    stage.run(&["enqueue", "gift.send", "--id", "g-1"]);
    stage.until_state("dead");
    let replayed = stage.run(&["dead", "replay", "g-1"]);
    let told =
        "1 of them cannot succeed before a person has decided about a step: streamfleet steps JOB, and";
    assert!(replayed.stdout.starts_with(&format!("1 replayed\n{told}")), "{replayed:?}");
    stage.until_state("dead");
    let task = stage.json(&["dead", "replay", "--all", "--yes"])["id"].as_str().unwrap().to_owned();
    until("the job to need a decision again", SOON, || {
        stage.json(&["tasks", "show", &task])["needs_decision"] == 1
    });
    stage.until_state("dead");
    let dropped = stage.json(&["dead", "drop", "g-1"]);
    assert_eq!((&dropped["dropped"], &dropped["needs_decision"]), (&1.into(), &0.into()));
}

#[test]
fn a_replay_of_all_steps_warns_and_asks_for_confirmation() {
    let stage = Stage::new();
    stage.run(&["enqueue", "gift.send", "--id", "g-1"]);
    stage.until_state("dead");
    std::fs::write(stage.dir.path().join("bank"), "").unwrap();
    let refused = stage.run(&["dead", "replay", "--all", "--steps", "all"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let refused = stage.run(&["dead", "replay", "g-1", "--steps", "all"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("add --yes"), "{refused:?}");
    let replayed = stage.run(&["dead", "replay", "g-1", "--steps", "all", "--yes"]);
    assert!(replayed.stderr.contains("steps of the kind `once`"), "{replayed:?}");
    assert_eq!(replayed.stdout, "1 replayed with all their steps\n");
    stage.until_state("done");
    let runs = |step: &str| stage.log().iter().filter(|ran| *ran == step).count();
    assert_eq!(["charge", "mail", "render"].map(runs), [2, 1, 4]);
}

#[test]
fn all_steps_of_what_a_filter_matches_run_again() {
    let stage = Stage::new();
    stage.run(&["enqueue", "gift.send", "--id", "g-1"]);
    stage.until_state("dead");
    std::fs::write(stage.dir.path().join("bank"), "").unwrap();
    let replayed = stage.json(&["dead", "replay", "--type", "gift.send", "--steps", "all", "--yes"]);
    assert_eq!((&replayed["replayed"], &replayed["all_steps"]), (&1.into(), &true.into()));
    stage.until_state("done");
    let runs = |step: &str| stage.log().iter().filter(|ran| *ran == step).count();
    assert_eq!(["charge", "mail", "render"].map(runs), [2, 1, 4]);
    let noted = stage.json(&["audit"])["items"].as_array().unwrap().clone();
    assert!(noted.iter().any(|note| note["target"] == "--steps all --type gift.send"), "{noted:?}");
}

#[test]
fn invalid_steps_are_refused_with_their_keys() {
    let toml = r#"
[types.a]
handler = "noop"
[types.a.steps.one]
kind = "auto"
handler = "noop"
after = ["two"]
[types.a.steps.two]
kind = "once"
handler = { exec = { command = [] } }
after = ["one"]
max_attempts = 3
[types.b.steps]
[types.c.steps.x]
after = ["y"]
timeout = "6m"
[types.d.steps.x]
kind = "twice"
handler = "noop"
"#;
    let output = Launch::new(&["--config", "{config}", "config", "check"]).config(toml).output(SOON);
    assert_eq!(output.code, Some(2), "{output:?}");
    let file = output.stdout.split('(').nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    insta::assert_snapshot!(output.stdout.replace(file, "[file]"));
}
