//! `workers drain` and `workers resume`, with a worker of the program.

use serde_json::Value;

use harness::cli::{json, launch, sf};
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::wait::until;

const CONFIG: &str = "[types.note]\nhandler = \"noop\"\n[telemetry]\nlisten = \"off\"\n";

/// Starts a worker, and returns it with its name.
fn worker(server: &RedisServer) -> (Worker, String) {
    let args = ["--config", "{config}", "--redis", &server.url(), "worker"];
    let worker = Launch::new(&args).config(CONFIG).start();
    let name = until("the worker to be listed", SOON, || {
        let listed = json(server, &["workers", "list"]);
        listed["items"][0]["consumer"].as_str().map(str::to_owned)
    });
    (worker, name)
}

fn listed(server: &RedisServer) -> Value {
    json(server, &["workers"])["items"][0].clone()
}

#[test]
fn a_worker_is_drained_resumed_and_ended() {
    let server = RedisServer::start();
    let (worker, name) = worker(&server);
    let drained = json(&server, &["workers", "drain", &name, "--by", "ann", "--reason", "its disk"]);
    assert_eq!(
        (&drained["asked"], &drained["changed"], &drained["state"]),
        (&"drain".into(), &true.into(), &"drained".into())
    );
    let shown = listed(&server);
    assert_eq!((&shown["state"], &shown["drain"]["by"]), (&"drained".into(), &"ann".into()));
    assert!(shown["started_ms"].is_u64() && shown["config"].is_string() && shown["drain"]["heard"] == true);
    let line = sf(&server, &["workers"]).stdout;
    assert!(
        line.contains(&format!("{name} was asked to drain by ann at ")) && line.contains(": its disk\n"),
        "{line}"
    );
    for who in ["bob", "ann"] {
        let again = sf(&server, &["workers", "drain", &name, "--by", who, "--reason", "its disk"]);
        assert!(again.stdout.ends_with("; ann had asked for that before: its disk\n"), "{again:?}");
    }
    let again = json(&server, &["workers", "drain", &name, "--by", "ann"]);
    let told = (&again["changed"], &again["asked_by"], &again["asked_why"]);
    assert_eq!(told, (&false.into(), &"ann".into(), &"its disk".into()));
    sf(&server, &["enqueue", "note"]);
    assert_eq!(json(&server, &["queues"])["items"][0]["waiting"], 1);
    let resumed = sf(&server, &["workers", "resume", &name, "--by", "bob"]);
    assert_eq!((resumed.code, resumed.stdout), (Some(0), format!("{name} takes jobs\n")));
    let again = sf(&server, &["workers", "resume", &name]);
    assert!(again.stdout.ends_with("; bob had asked for that before\n"), "{again:?}");
    until("the job to be done", SOON, || json(&server, &["queues"])["items"][0]["waiting"] == 0);
    let ended = json(&server, &["workers", "drain", &name, "--exit"]);
    assert_eq!(ended["state"], "gone");
    assert_eq!(worker.wait_exit(SOON).code(), Some(0), "{}", worker.stderr());
    assert!(worker.stderr().contains("drained"), "{}", worker.stderr());
    let noted = json(&server, &["audit", "--action", "workers", "--target", &name]);
    let noted: Vec<_> =
        noted["items"].as_array().unwrap().iter().map(|note| note["outcome"].clone()).collect();
    let want = ["asked to drain and end", "asked to take jobs", "asked to drain"];
    assert_eq!(noted, want, "what changes nothing is not noted");
}

#[test]
fn a_signal_ends_the_wait_and_the_drain_goes_on() {
    let server = RedisServer::start();
    // A worker that runs a job for ever, as far as its reports tell.
    let busy = ["HSET", "sf:worker:busy-1", "queues", "default", "running", "1", "capabilities", "drain"];
    server.cmd(&[&busy[..], &["state", "draining"]].concat());
    for (stop, who) in [(Worker::term as fn(&Worker), "ann"), (Worker::interrupt, "bob")] {
        let waiting = launch(&server, &["workers", "drain", "busy-1", "--by", who]).start();
        until("the request to be noted", SOON, || listed(&server)["drain"]["by"] == who);
        stop(&waiting);
        assert_eq!(waiting.wait_exit(SOON).code(), Some(6), "{}", waiting.stderr());
        let told = waiting.stderr();
        assert!(told.contains("interrupted; busy-1 goes on draining\n"), "{told}");
        assert_eq!(waiting.stdout(), "busy-1 drains: it takes no further job, and 1 still run\n");
        assert_eq!(listed(&server)["drain"]["by"], who, "the request stays");
        sf(&server, &["workers", "resume", "busy-1", "--detach"]);
    }
}

#[test]
fn what_cannot_be_drained_is_named() {
    let server = RedisServer::start();
    let (_worker, name) = worker(&server);
    let unknown = sf(&server, &["workers", "drain", &format!("{name}0")]);
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
    assert!(unknown.stderr.ends_with(&format!("; did you mean {name}?\n")), "{unknown:?}");
    server.cmd(&["HSET", "sf:worker:old-1", "version", "0.0.9", "queues", "default", "state", "running"]);
    let old = sf(&server, &["workers", "drain", "old-1"]);
    assert_eq!((old.code, old.stdout.as_str()), (Some(1), ""), "{old:?}");
    assert!(old.stderr.contains("has the version 0.0.9") && old.stderr.contains("SIGTERM"), "{old:?}");
    let silent =
        ["HSET", "sf:worker:silent-1", "queues", "default", "state", "running", "capabilities", "drain"];
    server.cmd(&silent);
    let late = sf(&server, &["workers", "drain", "silent-1", "--timeout", "300ms"]);
    assert_eq!(late.code, Some(6), "{late:?}");
    assert!(late.stderr.contains("has not confirmed that after 300ms"), "{late:?}");
    let detached = sf(&server, &["workers", "drain", "silent-1", "--detach"]);
    assert_eq!(detached.code, Some(0), "{detached:?}");
}

#[test]
fn a_drain_is_noted_in_each_queue_of_the_worker_and_found_once() {
    let server = RedisServer::start();
    let worker =
        ["HSET", "sf:worker:two-1", "queues", "mail,sms", "state", "running", "capabilities", "drain"];
    server.cmd(&worker);
    for verb in ["drain", "resume"] {
        assert_eq!(sf(&server, &["workers", verb, "two-1", "--detach"]).code, Some(0), "{verb}");
    }
    for of in [&[][..], &["--queue", "mail"], &["--queue", "sms"]] {
        let noted = json(&server, &[&["audit"], of].concat());
        let what: Vec<_> = noted["items"].as_array().unwrap().iter().map(|note| &note["what"]).collect();
        assert_eq!(what, ["workers resume", "workers drain"], "{of:?}: {noted}");
    }
}
