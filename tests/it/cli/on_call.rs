//! The situations of docs/on-call.md, with the commands that a person types.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use streamfleet::{JobError, Producer};

use super::desk::{json, sf, stdout_of, until_dead};
use crate::harness::fleet::{Acts, Running, queue, quick, until_empty};
use crate::harness::redis_server::RedisServer;
use crate::harness::wait::{until, until_async};
use crate::traps::scene::{SOON, job};

/// Submits a job for each of these customers.
fn submit(server: &RedisServer, customers: impl Iterator<Item = usize>) {
    for customer in customers {
        let payload = format!("{{\"customer\":{customer}}}");
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "payload", &payload]);
    }
}

/// A handler that fails for good while a third party is down.
fn depends_on(is_down: &Arc<AtomicBool>) -> Acts {
    let is_down = Arc::clone(is_down);
    Acts::new(move |_, _| {
        if is_down.load(Ordering::SeqCst) {
            return Err(JobError::fatal("connection to 10.0.0.5:443 refused"));
        }
        Ok(Value::Null)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_a_canary_decides_whether_letters_are_replayed() {
    const JOBS: usize = 60;
    let server = RedisServer::start();
    let (queue, is_down) = (queue(&server).await, Arc::new(AtomicBool::new(true)));
    submit(&server, 0..JOBS);
    let fleet = Running::start(&server.url(), quick(1), depends_on(&is_down));
    until_dead(&queue, JOBS as u64).await;
    let groups = json(&server, &["dead", "groups"]);
    assert_eq!((&groups["items"][0]["count"], groups["items"].as_array().unwrap().len()), (&JOBS.into(), 1));
    let group = groups["items"][0]["group"].as_str().unwrap();
    let one = stdout_of(&server, &["dead", "list", "--where", "payload.customer=7", "-o", "name"]);
    let edit = ["dead", "edit", one.trim(), "--set", "payload.customer=8", "--why", "typo"];
    assert_eq!(sf(&server, &edit).code, Some(0));
    let replay =
        ["dead", "replay", "--group", group, "--rate", "50/s", "--canary", "5", "--stop-at", "5%", "--yes"];
    let state = |id: &str| json(&server, &["campaigns", "show", id])["state"].clone();
    let begin = || json(&server, &replay)["campaign"].as_str().unwrap().to_owned();
    let first = begin();
    until("the canary to stop the campaign", SOON, || state(&first) == "stopped");
    until_dead(&queue, JOBS as u64).await;
    is_down.store(false, Ordering::SeqCst);
    let second = begin();
    until("the campaign to be done", 2 * SOON, || state(&second) == "done");
    until_empty(&queue).await;
    assert_eq!(queue.snapshot().await.unwrap().dead, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_paused_for_an_hour_and_resumed_and_both_are_noted() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
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
    assert_eq!(json(&server, &["resume", "--type", "test", "--as", "bob"])["changed"], true);
    until_async("the job to run", SOON, async || handler.runs(&id) == 1).await;
    let noted = json(&server, &["audit"]);
    let actions: Vec<_> =
        noted["items"].as_array().unwrap().iter().map(|one| [&one["what"], &one["who"]]).collect();
    assert_eq!(actions, [[&Value::from("resume"), &"bob".into()], [&"pause".into(), &"ann".into()]]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_jobs_of_a_customer_are_found_and_cancelled() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    submit(&server, (0..50).map(|nth| nth % 10));
    let select = ["--where", "payload.customer=9"];
    assert_eq!(json(&server, &[&["cancel"], &select[..], &["--dry-run"]].concat())["planned"], 5);
    assert_eq!(
        json(&server, &[&["cancel"], &select[..], &["--yes", "--reason", "left"]].concat())["changed"],
        5
    );
    assert_eq!(json(&server, &[&["cancel"], &select[..], &["--dry-run"]].concat())["planned"], 0);
    assert_eq!(queue.snapshot().await.unwrap().waiting(), 45);
}
