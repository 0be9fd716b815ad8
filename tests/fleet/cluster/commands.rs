//! Every command and every feature, with each queue on another server.

use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{BatchId, JobId};
use streamfleet::{Fleet, JobError, Producer, Submission};

use super::account::config;
use harness::cluster::Cluster;
use harness::fleet::{Acts, Running, quick};
use harness::process::{Output, run};
use harness::steps::{Walks, plan};
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

/// The command line for one queue of a cluster.
struct Cli {
    url: String,
    queue: String,
}

impl Cli {
    fn sf(&self, args: &[&str], stdin: &str) -> Output {
        run(&[&["--redis", &self.url], args].concat(), stdin.as_bytes())
    }

    /// Runs a command about this queue, which must succeed, and returns its JSON.
    fn json(&self, args: &[&str]) -> Value {
        self.json_of(args, "")
    }

    fn json_of(&self, args: &[&str], stdin: &str) -> Value {
        let output = self.sf(&[args, &["--queue", &self.queue, "--json"]].concat(), stdin);
        assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {output:?}"))
    }

    async fn until_dead(&self, job: &str) {
        until_async(&format!("{job} to be dead"), SOON, async || {
            self.json(&["status", job])["state"] == "dead"
        })
        .await;
    }

    async fn jobs(&self) {
        assert_eq!(self.json(&["enqueue", "test", "ok", "--encoding", "raw", "--wait"])["state"], "done");
        assert_eq!(
            self.json(&["enqueue", "test", "late", "--encoding", "raw", "--delay", "200ms", "--wait"])["state"],
            "done"
        );
        let many = "{\"type\":\"test\",\"id\":\"once\",\"payload\":1,\"track\":true}\n\
                    {\"type\":\"test\",\"id\":\"fatal\",\"payload\":\"fatal\"}\n\
                    {\"type\":\"test\",\"id\":\"fatal-too\",\"payload\":\"fatal\"}\n";
        self.json_of(&["enqueue", "--bulk"], many);
        self.until_dead("fatal").await;
        self.until_dead("fatal-too").await;
        assert_eq!(self.json(&["dead", "list"])["items"].as_array().map(Vec::len), Some(2));
        assert_eq!(self.json(&["dead", "show", "fatal"])["queue"], self.queue.as_str());
        self.json(&["dead", "replay", "fatal"]);
        self.json(&["dead", "drop", "fatal-too"]);
        self.until_dead("fatal").await;
        let unique = ["enqueue", "test", "--unique", "k", "--delay", "1h"];
        let first = self.json(&unique);
        assert_eq!(self.json(&unique)["id"], first["id"], "the unique key must reject the second job");
        let id = first["id"].as_str().unwrap();
        assert_eq!(self.json(&["delayed", "list"])["total"], 1);
        self.json(&["delayed", "edit", id, "--payload", "{}"]);
        self.json(&["delayed", "reschedule", id, "--delay", "2h"]);
        assert_eq!(self.json(&["cancel", id])["state"], "cancelled");
        self.json(&["enqueue", "test", "--id", "soon", "--delay", "1h", "--track"]);
        self.json(&["delayed", "run", "soon"]);
        until_async("it to run", SOON, async || self.json(&["status", "soon"])["state"] == "done").await;
        self.json(&["events"]);
    }

    async fn steps_and_cron(&self) {
        let id = self.json(&["enqueue", "gift", "--wait"])["id"].as_str().unwrap().to_owned();
        assert_eq!(self.json(&["steps", &id])["steps"].as_array().map(Vec::len), Some(3));
        let decided = self.sf(&["steps", "decide", &id, "none", "done", "--queue", &self.queue], "");
        assert_eq!(decided.code, Some(4), "{decided:?}");
        self.json(&["cron", "add", "hourly", "--schedule", "@hourly", "--type", "test"]);
        self.json(&["cron", "run", "hourly"]);
        self.json(&["cron", "pause", "hourly"]);
        assert_eq!(self.json(&["cron", "list"])["items"].as_array().map(Vec::len), Some(1));
        self.json(&["cron", "resume", "hourly"]);
        self.json(&["cron", "remove", "hourly"]);
        let batch = self.sf(&["batch", "never", "--queue", &self.queue], "");
        assert_eq!(batch.code, Some(4), "{batch:?}");
    }
}

#[test]
fn check_finds_a_problem_of_one_server_out_of_three() {
    let cluster = Cluster::start(Duration::from_secs(15));
    cluster.masters[2].cmd(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let check = run(&["--redis", &cluster.url(), "check"], b"");
    assert_eq!(check.code, Some(5), "{check:?}");
    let wrong: Vec<_> = check.stdout.lines().filter(|line| line.contains("allkeys-lru")).collect();
    assert_eq!(wrong.len(), 1, "{check:?}");
    assert!(wrong[0].contains(&cluster.masters[2].addr().to_string()), "{check:?}");
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_command_and_feature_works_with_each_queue_on_another_server() {
        let cluster = Cluster::start(Duration::from_secs(15));
        let names = cluster.queues();
        let handler = Acts::new(|context, payload| match payload {
            [b'"', b'f', ..] => Err(JobError::fatal("no")),
            _ if context.attempt() == 1 => Err(JobError::retry("once more")),
            _ => Ok(Value::Null),
        });
        let config = config(&cluster, &names, Duration::from_secs(15));
        let broker = streamfleet::Broker::connect(config.redis.clone()).await.unwrap();
        let fleet = Fleet::builder(config).handler_with("test", quick(3), handler.clone()).unwrap();
        let fleet = Running::of(fleet.steps("gift", quick(3), plan(&Walks::well())).unwrap().build());
        for name in &names {
            let cli = Cli { url: cluster.url(), queue: name.clone() };
            cli.jobs().await;
            cli.steps_and_cron().await;
            let producer = Producer::new(broker.queue(name.parse().unwrap()));
            let (batch, last): (BatchId, JobId) =
                ("all".parse().unwrap(), format!("last-{name}").parse().unwrap());
            let follow = Submission::new("test").unwrap().id(last.clone());
            let members = (0..3).map(|_| Submission::new("test").unwrap());
            producer.submit_batch(&batch, follow, members).await.unwrap();
            until_async("the job after the batch", SOON, async || handler.runs(&last) >= 2).await;
        }
        let cli = Cli { url: cluster.url(), queue: String::new() };
        let queues = cli.sf(&["queues"], "");
        assert!(
            queues.code == Some(0) && names.iter().all(|name| queues.stdout.contains(name)),
            "{queues:?}"
        );
        assert_eq!(cli.sf(&["workers"], "").code, Some(0));
        for rest in [&["metrics"][..], &["config", "show"], &["config", "check"]] {
            assert_eq!(cli.sf(rest, "").code, Some(0), "{rest:?}");
        }
        let check = cli.sf(&["check", "--json"], "");
        let report: Value = serde_json::from_str(&check.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let rights: Vec<_> = findings.iter().filter(|finding| finding["check"] == "rights").collect();
        assert_eq!(rights.len(), 3, "one finding about rights per server: {report}");
        assert!(rights.iter().all(|finding| finding["level"] == "ok"), "{report}");
        assert_eq!(check.code, Some(0), "{report}");
        fleet.stop().await;
    }
}
