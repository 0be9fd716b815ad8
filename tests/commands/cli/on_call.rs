//! The situations of docs/on-call.md, with the commands that a person types: outages, pauses, customers who leave.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{Backoff, JobId};
use streamfleet::worker::QueueConfig;
use streamfleet::{JobError, Producer, Queue};

use super::form::Person;
use harness::cli::{json, sf, stdout_of};
use harness::fleet::{Acts, Running, config, queue, quick};
use harness::redis_server::RedisServer;
use harness::scene::{SOON, job};
use harness::wait::{until, until_async};

/// Submits a job for each of these customers.
fn submit(server: &RedisServer, customers: impl Iterator<Item = usize>) {
    let mut all = redis::pipe();
    for customer in customers {
        let fields = ["type", "test", "payload", &format!("{{\"customer\":{customer}}}")];
        all.cmd("XADD").arg("sf:{default}:jobs").arg("*").arg(&fields[..]).ignore();
    }
    all.exec(&mut server.client()).unwrap();
}

/// A third party that jobs depend on.
#[derive(Clone)]
struct Relay {
    is_down: Arc<AtomicBool>,
    /// The payloads that it has got.
    got: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

impl Relay {
    fn down() -> Self {
        Self { is_down: Arc::new(AtomicBool::new(true)), got: Arc::default() }
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// A handler that fails for good while the third party is down.
    fn handler(&self) -> Acts {
        let relay = self.clone();
        Acts::new(move |_, payload| {
            if relay.is_down.load(Ordering::SeqCst) {
                return Err(JobError::fatal("connection to 10.0.0.5:443 refused"));
            }
            relay.got.lock().unwrap().insert(payload.to_vec());
            Ok(Value::Null)
        })
    }
}

/// Waits until all jobs have ended, and these are dead.
async fn until_all_dead(queue: &Queue, count: u64) {
    until_async(&format!("{count} dead letters"), 6 * SOON, async || {
        let snapshot = queue.snapshot().await.unwrap();
        snapshot.dead == count && snapshot.waiting() + snapshot.running() + snapshot.delayed == 0
    })
    .await;
}

/// Returns the only group of letters, which has this many.
fn find_group(server: &RedisServer, letters: u64) -> String {
    let groups = json(server, &["dead", "groups"])["items"].clone();
    assert_eq!((&groups[0]["count"], groups.as_array().unwrap().len()), (&letters.into(), 1));
    groups[0]["group"].as_str().unwrap().to_owned()
}

/// Looks at three letters that have this error, and repairs them.
fn mend_three(server: &RedisServer) {
    const FIXED: &str = "payload.customer=1000000";
    let found = stdout_of(server, &["dead", "list", "--error", "refused", "--limit", "3", "-o", "name"]);
    assert_eq!(found.lines().count(), 3);
    for letter in found.lines() {
        let shown = stdout_of(server, &["dead", "show", letter]);
        assert!(shown.contains("connection to 10.0.0.5:443 refused"), "{shown}");
        let edit = ["dead", "edit", letter, "--set", FIXED, "--reason", "typo in the import"];
        assert_eq!(sf(server, &edit).code, Some(0));
    }
    assert_eq!(json(server, &["dead", "list", "--where", FIXED])["items"].as_array().unwrap().len(), 3);
}

/// Without `--yes`, a plan says how many letters it is about. A person who does not agree changes nothing.
fn ask_in_vain(server: &RedisServer, group: &str) {
    let person = Person::new();
    let replay = ["dead", "replay", "--group", group, "--rate", "50/s", "--canary", "5"];
    let asked = person.runs(server, &replay).start();
    until("the question", 2 * SOON, || asked.stdout().contains("[y/N]"));
    assert!(asked.stdout().contains("10000"), "{}", asked.stdout());
    person.types("n");
    assert_eq!(asked.wait_exit(SOON).code(), Some(1));
    assert!(json(server, &["tasks", "list"])["items"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_for_an_hour_and_others_go_on() {
    let server = RedisServer::start();
    let pause = ["pause", "--queue", "mail", "--for", "1h", "--reason", "the relay is down", "--by", "ann"];
    assert_eq!(sf(&server, &pause).code, Some(0));
    let mut config = config(&server.url());
    config.worker.queues.insert("mail".parse().unwrap(), QueueConfig::default());
    let handler = Acts::well();
    let fleet = Running::start_with(config, quick(1), handler.clone());
    let mail = ["enqueue", "test", "{}", "--queue", "mail", "--id", "mail-7"];
    assert_eq!(sf(&server, &mail).code, Some(0));
    assert_eq!(sf(&server, &["enqueue", "test", "{}", "--id", "other-7"]).code, Some(0));
    let ran = |id: &str| handler.runs(&id.parse::<JobId>().unwrap());
    until_async("the job of the other queue to run", SOON, async || ran("other-7") == 1).await;
    let gate = json(&server, &["gates", "list", "--queue", "mail"])["items"][0].clone();
    assert_eq!(
        (&gate["gate"], &gate["state"], &gate["paused_by"]),
        (&"queue".into(), &"paused".into(), &"ann".into())
    );
    let lasts = gate["until_ms"].as_u64().unwrap() - gate["paused_since_ms"].as_u64().unwrap();
    assert_eq!(lasts, 3_600_000, "{gate}");
    assert_eq!(gate["waiting"], 1, "it waits behind the gate, though in no waiting list");
    let paused = json(&server, &["queues", "mail"])["items"][0].take();
    assert!(paused["paused_since"].is_string());
    assert_eq!(
        (&paused["cause"]["kind"], &paused["empty_in"]["state"]),
        (&"paused".into(), &"stopped".into())
    );
    assert_eq!(paused["cause"]["text"], "paused by ann: the relay is down");
    let status = json(&server, &["status", "mail-7"]);
    assert_eq!((&status["state"], &status["queue_cause"]), (&"waiting".into(), &paused["cause"]));
    assert_eq!(ran("mail-7"), 0);
    assert_eq!(json(&server, &["resume", "--queue", "mail"])["changed"], true);
    until_async("the job to run", SOON, async || ran("mail-7") == 1).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_stopped_on_all_workers_without_a_deploy_and_both_ends_are_noted() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let fleets = [(); 2].map(|()| Running::start(&server.url(), quick(1), handler.clone()));
    let pause = ["pause", "--type", "test", "--for", "1h", "--reason", "the relay is down", "--by", "ann"];
    assert_eq!(json(&server, &pause)["gate"], "type:test");
    let gate = || json(&server, &["gates", "list"])["items"][0].clone();
    // Workers may start jobs for less than a second after the pause.
    let id = loop {
        let id = Producer::new(queue.clone()).submit(job("{}")).await.unwrap();
        until("the job to run or wait", SOON, || handler.runs(&id) == 1 || gate()["waiting"] == 1);
        if handler.runs(&id) == 0 {
            break id;
        }
    };
    let gate = gate();
    assert_eq!(
        (&gate["state"], &gate["paused_by"], &gate["reason"]),
        (&"paused".into(), &"ann".into(), &"the relay is down".into())
    );
    assert_eq!(handler.runs(&id), 0);
    assert_eq!(json(&server, &["resume", "--type", "test", "--by", "bob"])["changed"], true);
    until_async("the job to run", SOON, async || handler.runs(&id) == 1).await;
    let noted = json(&server, &["audit"]);
    let actions: Vec<_> =
        noted["items"].as_array().unwrap().iter().map(|one| [&one["what"], &one["who"]]).collect();
    assert_eq!(actions, [[&Value::from("resume"), &"bob".into()], [&"pause".into(), &"ann".into()]]);
    for fleet in fleets {
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_jobs_of_a_customer_are_found_and_cancelled() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    submit(&server, (0..50).map(|nth| nth % 10));
    let select = ["--where", "payload.customer=9"];
    assert_eq!(json(&server, &[&["jobs"], &select[..]].concat())["items"].as_array().unwrap().len(), 5);
    assert_eq!(json(&server, &[&["cancel"], &select[..], &["--dry-run"]].concat())["planned"], 5);
    assert_eq!(
        json(&server, &[&["cancel"], &select[..], &["--yes", "--reason", "left"]].concat())["changed"],
        5
    );
    assert_eq!(json(&server, &[&["cancel"], &select[..], &["--dry-run"]].concat())["planned"], 0);
    assert_eq!(queue.snapshot().await.unwrap().waiting(), 45);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_run_at_once_when_the_third_party_is_back() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let down = Arc::new(AtomicBool::new(true));
    let is_down = Arc::clone(&down);
    let handler = Acts::new(move |_, _| {
        if is_down.load(Ordering::SeqCst) {
            return Err(JobError::retry("connection refused"));
        }
        Ok(Value::Null)
    });
    let hourly = Backoff::Fixed(Duration::from_secs(3600));
    let fleet = Running::start(&server.url(), quick(5).backoff(hourly), handler.clone());
    submit(&server, 0..20);
    until_async("all to be retried later", SOON, async || queue.snapshot().await.unwrap().delayed == 20)
        .await;
    down.store(false, Ordering::SeqCst);
    let run = [
        "run-now",
        "--state",
        "retrying",
        "--error",
        "connection refused",
        "--reason",
        "it is back",
        "--yes",
    ];
    assert_eq!(json(&server, &run)["changed"], 20);
    until_async("all to run", SOON, async || handler.all_runs() == 40).await;
    until_all_dead(&queue, 0).await;
    fleet.stop().await;
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn ten_thousand_letters_of_an_outage_are_mended_and_replayed_once_the_canary_lives() {
        const JOBS: u64 = 10_000;
        let server = RedisServer::start();
        let (queue, relay) = (queue(&server).await, Relay::down());
        submit(&server, 0..JOBS as usize);
        let fleet = Running::start(&server.url(), quick(1), relay.handler());
        until_all_dead(&queue, JOBS).await;

        let group = find_group(&server, JOBS);
        mend_three(&server);
        ask_in_vain(&server, &group);

        // The relay is still down: the canary dies.
        let begin = |rate: &str| {
            let rules = [
                "--rate",
                rate,
                "--canary",
                "5",
                "--stop-at",
                "5%",
                "--reason",
                "the relay is back",
                "--yes",
            ];
            let replay = ["dead", "replay", "--detach", "--group", &group];
            let begun = json(&server, &[&replay[..], &rules[..]].concat());
            begun["id"].as_str().unwrap().to_owned()
        };
        let campaign = |id: &str| json(&server, &["tasks", "show", id]);
        let first = begin("50/s");
        until("the canary to stop the campaign", 2 * SOON, || campaign(&first)["state"] == "stopped");
        assert!(campaign(&first)["replayed"].as_u64().unwrap() <= 5);
        until_all_dead(&queue, JOBS).await;

        // It works, and fails again: the campaign stops itself.
        relay.set_down(false);
        let second = begin("50/s");
        let succeeded = || campaign(&second)["succeeded"].as_u64().unwrap();
        until("some to succeed", 2 * SOON, || succeeded() >= 20);
        relay.set_down(true);
        until("deaths to stop the campaign", 2 * SOON, || campaign(&second)["state"] == "stopped");
        until("its jobs to end", SOON, || campaign(&second)["running"] == 0);
        assert!(campaign(&second)["died"].as_u64().unwrap() > 0 && succeeded() < JOBS / 2);
        until_all_dead(&queue, JOBS - succeeded()).await;

        relay.set_down(false);
        let third = begin("2000/s");
        until("the campaign to be done", 15 * SOON, || campaign(&third)["state"] == "done");
        until_all_dead(&queue, 0).await;
        {
            let got = relay.got.lock().unwrap();
            let fixed = br#"{"customer":1000000}"#.as_slice();
            assert!(got.contains(fixed) && got.len() as u64 == JOBS - 2, "{}", got.len());
        }
        fleet.stop().await;
    }
}
