//! A fleet uses the login of workers, and submitters use theirs: jobs go through everything that can happen to them, and no
//! right is missing, not even one whose absence nobody would notice.

use serde_json::Value;
use streamfleet::job::Encoding;
use streamfleet::{Broker, Producer, Submission};

use super::logins::Site;
use harness::fleet::config;
use harness::process::{Launch, Worker};
use harness::scene::SOON;
use harness::scrape::{address, get};
use harness::wait::until;

const TOML: &str = r#"
[worker]
lease = "2s"
drain_timeout = "1s"
[queues.default]
tracking = "all"
max_depth = 1000
[events]
publish = "all"
queue_length_every = "1s"
[telemetry]
listen = "127.0.0.1:0"
[cron.tick]
schedule = "* * * * * *"
type = "note"
[types.note]
handler = "noop"
[types.flaky]
backoff = { fixed = "50ms" }
handler = { exec = { command = ["sh", "-c", "test $STREAMFLEET_JOB_ATTEMPT = 2"] } }
[types.doomed]
max_attempts = 1
handler = { exec = { command = ["false"] } }
[types.long]
handler = { exec = { command = ["sleep", "600"], grace = "1s" } }
[types.gift]
max_attempts = 2
backoff = { fixed = "50ms" }
[types.gift.steps.charge]
kind = "once"
handler = { exec = { command = ["false"] } }
[types.gift.steps.mail]
kind = "auto"
after = ["charge"]
handler = "noop"
"#;

/// A server with logins, and workers on it.
struct Fleet {
    site: Site,
}

impl Fleet {
    fn worker(&self) -> Worker {
        let launch = Launch::new(&["--config", "{config}", "--json", "worker"]).config(TOML);
        launch.env("STREAMFLEET__REDIS__URL", self.site.url("worker")).start()
    }

    fn submit(&self, args: &[&str]) {
        self.site.run("submitter", &[&["enqueue"], args].concat());
    }

    fn state(&self, id: &str) -> Option<String> {
        let launch =
            Launch::new(&["status", id, "--json"]).env("STREAMFLEET__REDIS__URL", self.site.url("worker"));
        let status: Value = serde_json::from_str(&launch.output(SOON).stdout).ok()?;
        status["state"].as_str().map(str::to_owned)
    }

    fn until(&self, id: &str, state: &str) {
        until(&format!("{id} to be {state}"), SOON, || self.state(id).is_some_and(|found| found == state));
    }

    /// Jobs that are done, retried, dead, made of steps, followed by others, and cancelled.
    fn all_ends(&self) {
        self.submit(&["note", "--id", "well", "--on-success", "note", "--unique", "one"]);
        self.submit(&["flaky", "--id", "again"]);
        self.submit(&["doomed", "--id", "bad", "--on-failure", "note"]);
        self.submit(&["gift", "--id", "gift"]);
        self.submit(&["note", "--id", "later", "--delay", "300ms"]);
        self.submit(&["long", "--id", "stopped"]);
        for (id, state) in
            [("well", "done"), ("again", "done"), ("bad", "dead"), ("gift", "dead"), ("later", "done")]
        {
            self.until(id, state);
        }
        self.until("stopped", "running");
        self.site.run("worker", &["cancel", "stopped"]);
        self.until("stopped", "cancelled");
        let xadd = ["XADD", "sf:{default}:jobs:high", "*", "type", "note", "id", "plain"];
        let mut command = redis::Cmd::new();
        xadd.iter().for_each(|word| {
            command.arg(*word);
        });
        command.query::<String>(&mut self.site.connect("producer")).unwrap();
        self.until("plain", "done");
    }
}

#[test]
fn the_worker_login_suffices_for_the_whole_life_of_a_job() {
    let fleet = Fleet { site: Site::new() };
    fleet.site.run("worker", &["check"]);
    fleet.site.server.cmd(&["ACL", "LOG", "RESET"]);
    let worker = fleet.worker();
    fleet.all_ends();
    let address = address(&worker);
    for path in ["/startupz", "/livez", "/readyz", "/scale", "/metrics"] {
        assert_eq!(get(&address, path).map(|(status, _)| status), Some(200), "{path}");
    }
    let ticked = || fleet.site.run("worker", &["events", "--limit", "1000"]).stdout.contains("cron.tick");
    until("a recurring job", SOON, ticked);
    fleet.submit(&["long", "--id", "taken"]);
    fleet.until("taken", "running");
    worker.kill9();
    let other = fleet.worker();
    let lost = || fleet.site.run("worker", &["status", "taken"]).stdout.contains("lost");
    until("the job of the killed worker to be taken over", SOON, lost);
    fleet.until("taken", "running");
    other.term();
    assert_eq!(other.wait_exit(2 * SOON).code(), Some(0), "{}", other.stderr());
    fleet.site.nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_submitted_and_awaited_with_a_submitter_login() {
    let fleet = Fleet { site: Site::new() };
    let worker = fleet.worker();
    let broker = Broker::connect(config(&fleet.site.url("submitter")).redis).await.unwrap();
    let producer = Producer::new(broker.queue("default".parse().unwrap()));
    let note = || Submission::new("note").unwrap().payload("{}", Encoding::Json).unwrap();
    let total = note().id("total".parse().unwrap());
    producer.submit_batch(&"all".parse().unwrap(), total, (0..50).map(|_| note())).await.unwrap();
    producer.wait(&"total".parse().unwrap(), SOON).await.unwrap();
    fleet.site.run("submitter", &["batch", "all"]);
    worker.term();
    assert_eq!(worker.wait_exit(2 * SOON).code(), Some(0), "{}", worker.stderr());
    fleet.site.nothing_was_refused();
}
