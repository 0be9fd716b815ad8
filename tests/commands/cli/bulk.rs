//! `cancel`, `run-now` and `move` with a filter, `queues purge` and `queues delete`.

use redis::Value as Reply;
use serde_json::Value;
use streamfleet::job::Encoding;
use streamfleet::{Producer, Submission};

use super::form::Person;
use harness::cli::{json, launch, sf, sf_with, stdout_of};
use harness::fleet::queue;
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::wait::until;

const STREAM: &str = "sf:{default}:jobs";

/// Submits a job for each of these customers, by hand.
fn submit(server: &RedisServer, customers: impl Iterator<Item = usize>) {
    for customer in customers {
        let payload = format!("{{\"customer\":{customer}}}");
        server.cmd(&["XADD", STREAM, "*", "type", "test", "payload", &payload]);
    }
}

/// Submits this many delayed jobs of a type.
fn delay(server: &RedisServer, job_type: &str, count: usize) {
    let line = format!("{{\"type\":\"{job_type}\",\"delay\":\"1h\"}}\n");
    assert_eq!(sf_with(server, &["enqueue", "--bulk"], line.repeat(count).as_bytes()).code, Some(0));
}

fn int(server: &RedisServer, command: &[&str]) -> i64 {
    redis::from_redis_value(server.cmd(command)).unwrap()
}

/// Returns all keys of a queue.
fn keys(server: &RedisServer, queue: &str) -> Vec<String> {
    redis::from_redis_value(server.cmd(&["KEYS", &format!("sf:{{{queue}}}:*")])).unwrap()
}

/// Returns the newest notes of the audit, the last one first.
fn noted(server: &RedisServer) -> Vec<Value> {
    json(server, &["audit"])["items"].as_array().unwrap().clone()
}

#[test]
fn what_selects_nothing_or_cannot_be_confirmed_changes_nothing() {
    let server = RedisServer::start();
    submit(&server, 0..3);
    let refused: [&[&str]; 14] = [
        &["cancel"],
        &["cancel", "--yes"],
        &["cancel", "--state", "waiting", "--yes"],
        &["cancel", "--type", "test"],
        &["cancel", "--all"],
        &["cancel", "--all", "--yes", "--state", "dead"],
        &["cancel", "order-7", "--type", "test", "--yes"],
        &["run-now", "--yes"],
        &["run-now", "order-7", "--type", "test", "--yes"],
        &["run-now", "--all"],
        &["move", "--to", "mail", "--yes"],
        &["move", "--to", "mail", "--all"],
        &["move", "--to", "default", "--all", "--yes"],
        &["queues", "purge", "default", "--confirm", "default"],
    ];
    for args in refused {
        let output = sf(&server, args);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{args:?}: {output:?}");
    }
    let unconfirmed = sf(&server, &["cancel", "--all"]);
    assert!(unconfirmed.stderr.contains("add --yes"), "{unconfirmed:?}");
    let unnamed = sf(&server, &["queues", "purge", "default", "--waiting", "--confirm", "mail"]);
    assert_eq!(unnamed.code, Some(2), "{unnamed:?}");
    assert_eq!((int(&server, &["XLEN", STREAM]), keys(&server, "default").len()), (3, 1));
}

#[test]
fn a_dry_run_shows_the_plan_and_changes_nothing() {
    let server = RedisServer::start();
    submit(&server, (0..30).map(|nth| nth % 10));
    delay(&server, "report", 2);
    let digest = int(&server, &["DBSIZE"]);
    let plan = json(&server, &["cancel", "--all", "--dry-run"]);
    assert_eq!((&plan["planned"], &plan["dry_run"], &plan["changed"]), (&32.into(), &true.into(), &0.into()));
    assert_eq!((&plan["types"][0]["name"], &plan["types"][0]["jobs"]), (&"test".into(), &30.into()));
    assert_eq!(plan["sample"].as_array().unwrap().len(), 5);
    let shown = stdout_of(&server, &["move", "--to", "mail", "--where", "payload.customer=9", "--dry-run"]);
    assert!(shown.contains("3 jobs of the queue default would be moved to the queue mail"), "{shown}");
    assert!(shown.contains("no worker serves the queue mail, and it has no jobs"), "{shown}");
    assert_eq!((int(&server, &["XLEN", STREAM]), int(&server, &["DBSIZE"])), (30, digest));
    assert!(noted(&server).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_jobs_of_a_customer_are_cancelled_wherever_they_are_and_no_others() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    // A worker holds the first one.
    submit(&server, std::iter::once(9));
    server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "0"]);
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "w", "STREAMS", STREAM, ">"]);
    submit(&server, (0..50).map(|nth| nth % 10));
    let nine = r#"{"customer":9}"#;
    server.cmd(&["XADD", "sf:{default}:jobs:high", "*", "type", "test", "id", "h-1", "payload", nine]);
    assert_eq!(sf(&server, &["enqueue", "test", nine, "--delay", "1h", "--id", "d-1"]).code, Some(0));
    let parked =
        ["type", "test", "id", "r-1", "life", "5-1", "created_ms", "5", "lane", "low", "payload", nine];
    let entry = server.cmd(&[&["XADD", "sf:{default}:room:type:test", "*"][..], &parked].concat());
    let entry: String = redis::from_redis_value(entry).unwrap();
    server.cmd(&["HSET", "sf:{default}:rooms:places", "r-1", &format!("{entry} type:test")]);
    server.cmd(&["HSET", "sf:{default}:rooms", "type:test", "1700000000000"]);
    let cancel = ["cancel", "--where", "payload.customer=9", "--yes", "--by", "ann", "--reason", "they left"];
    let done = json(&server, &cancel);
    assert_eq!(
        (&done["planned"], &done["changed"], &done["requested"]),
        (&9.into(), &8.into(), &1.into()),
        "{done}"
    );
    let snapshot = queue.snapshot().await.unwrap();
    assert_eq!((snapshot.waiting(), snapshot.running(), snapshot.delayed), (45, 1, 0));
    let status = json(&server, &["status", "d-1"]);
    assert_eq!((&status["state"], &status["cancelled_by"]), (&"cancelled".into(), &"ann".into()));
    let notes = noted(&server);
    let (begin, end) = (&notes[1], &notes[0]);
    let task = format!("task {}", done["task"].as_str().unwrap());
    assert_eq!(
        (&begin["who"], &begin["what"], &begin["why"], &begin["count"], &begin["outcome"]),
        (&"ann".into(), &"cancel".into(), &"they left".into(), &9.into(), &task.as_str().into())
    );
    assert_eq!(begin["target"], "--where payload.customer=9");
    assert_eq!(
        (&end["who"], &end["what"], &end["target"], &end["count"]),
        (&"ann".into(), &"task done".into(), &task.as_str().into(), &9.into())
    );
    assert_eq!(notes.len(), 2, "noted at its beginning and at its end: {notes:?}");
}

#[test]
fn delayed_jobs_with_one_due_time_are_all_made_due_once() {
    let server = RedisServer::start();
    delay(&server, "report", 450);
    delay(&server, "other", 3);
    let done = json(&server, &["run-now", "--type", "report", "--yes"]);
    assert_eq!((&done["planned"], &done["changed"]), (&450.into(), &450.into()), "{done}");
    assert_eq!(json(&server, &["run-now", "--type", "report", "--yes"])["planned"], 0);
    let due = int(&server, &["ZCOUNT", "sf:{default}:delayed", "-inf", "9000000000000"]);
    let now = server.now_ms().to_string();
    assert_eq!((due, int(&server, &["ZCOUNT", "sf:{default}:delayed", "-inf", &now])), (453, 450));
    assert_eq!(noted(&server)[1]["what"], "run-now");
}

#[test]
fn jobs_are_moved_with_their_records_payloads_and_due_times() {
    let server = RedisServer::start();
    submit(&server, 0..3);
    let large = format!(r#"{{"customer":1,"text":"{}"}}"#, "x".repeat(300 * 1024));
    assert_eq!(sf_with(&server, &["enqueue", "test", "-", "--id", "l-1"], large.as_bytes()).code, Some(0));
    let delayed = ["enqueue", "test", "-", "--id", "d-1", "--delay", "1h"];
    assert_eq!(sf_with(&server, &delayed, large.as_bytes()).code, Some(0));
    delay(&server, "test", 250);
    let due = json(&server, &["status", "d-1"])["due_ms"].clone();
    let done = json(&server, &["move", "--to", "mail", "--all", "--yes", "--unserved", "--by", "ann"]);
    assert_eq!((&done["planned"], &done["changed"], &done["to"]), (&255.into(), &255.into(), &"mail".into()));
    assert_eq!((int(&server, &["XLEN", STREAM]), int(&server, &["ZCARD", "sf:{default}:delayed"])), (0, 0));
    assert_eq!(
        (int(&server, &["XLEN", "sf:{mail}:jobs"]), int(&server, &["ZCARD", "sf:{mail}:delayed"])),
        (4, 251)
    );
    let moved = json(&server, &["status", "l-1", "--queue", "mail", "--full"]);
    assert_eq!(
        (&moved["state"], moved["payload"]["text"].as_str().unwrap().len()),
        (&"waiting".into(), 300 * 1024)
    );
    let moved = json(&server, &["status", "d-1", "--queue", "mail", "--full"]);
    assert_eq!((&moved["state"], &moved["due_ms"]), (&"scheduled".into(), &due));
    assert_eq!(moved["payload"]["text"].as_str().unwrap().len(), 300 * 1024);
    assert!(
        keys(&server, "default").iter().all(|key| !key.contains("offloaded")),
        "{:?}",
        keys(&server, "default")
    );
    let notes = noted(&server);
    for target in ["--to mail --all", "--from default --to mail --all"] {
        assert!(notes.iter().any(|note| note["target"] == target), "{notes:?}");
    }
    // The producer sends the id again, and learns that it is known.
    let again = sf(&server, &["enqueue", "test", "{}", "--id", "l-1"]);
    assert_eq!(int(&server, &["XLEN", STREAM]), 0, "{again:?}");
    // Nobody is told that a job is cancelled that goes on elsewhere.
    let cancelled = sf(&server, &["cancel", "l-1"]);
    assert_eq!((cancelled.code, cancelled.stdout.as_str()), (Some(1), ""), "{cancelled:?}");
    assert!(cancelled.stderr.contains("streamfleet cancel l-1 --queue mail"), "{cancelled:?}");
    assert_eq!(json(&server, &["cancel", "l-1", "--queue", "mail"])["state"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_ends_members_of_batches_and_leaves_what_was_not_named() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let submission =
        |nth: usize| Submission::new("test").unwrap().payload(format!("{nth}"), Encoding::Json).unwrap();
    let batch = "b".parse().unwrap();
    let ids = Producer::new(queue.clone())
        .submit_batch(&batch, submission(9), (0..3).map(submission))
        .await
        .unwrap();
    submit(&server, 0..300);
    delay(&server, "test", 2);
    server.cmd(&["XADD", "sf:{default}:dead", "*", "type", "test", "payload", "1", "dead_error", "no"]);
    let plan = json(&server, &["queues", "purge", "default", "--waiting", "--dry-run"]);
    assert_eq!(
        (&plan["waiting"], &plan["delayed"], &plan["changed"]),
        (&303.into(), &Value::Null, &0.into())
    );
    let waiting = ["queues", "purge", "default", "--waiting", "--confirm", "default", "--as", "ann"];
    assert_eq!(json(&server, &waiting)["changed"], 303);
    let snapshot = queue.snapshot().await.unwrap();
    assert_eq!((snapshot.waiting(), snapshot.delayed, snapshot.dead), (0, 2, 1));
    for id in ids {
        let status = json(&server, &["status", &id.to_string()]);
        assert_eq!((&status["state"], &status["cancelled_by"]), (&"cancelled".into(), &"ann".into()));
    }
    let begin = &noted(&server)[1];
    assert_eq!(
        (&begin["what"], &begin["target"], &begin["count"]),
        (&"queues purge".into(), &"--waiting".into(), &303.into())
    );
    let rest = ["queues", "purge", "default", "--delayed", "--dead", "--confirm", "default"];
    let rest = json(&server, &rest);
    assert_eq!((&rest["changed"], &rest["dead"]), (&3.into(), &1.into()));
    assert_eq!(queue.snapshot().await.unwrap().jobs(), 0);
}

#[test]
fn a_deleted_queue_leaves_no_key_and_others_keep_theirs() {
    let server = RedisServer::start();
    submit(&server, 0..700);
    delay(&server, "test", 50);
    assert_eq!(sf(&server, &["pause", "--type", "test", "--reason", "x"]).code, Some(0));
    for nth in 0..1500 {
        server.cmd(&["HSET", &format!("sf:{{default}}:job:j{nth}"), "state", "done"]);
    }
    server.cmd(&["HSET", "sf:{default}:counts", "done", "5"]);
    server.cmd(&["XADD", "sf:{default}:samples", "*", "done", "5"]);
    server.cmd(&["HSET", "sf:{default}:types:1h:486111", "test", "x"]);
    server.cmd(&["XADD", "sf:{default2}:jobs", "*", "type", "test"]);
    server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "0"]);
    server.cmd(&["XREADGROUP", "GROUP", "fleet", "w", "COUNT", "1", "STREAMS", STREAM, ">"]);
    let delete = ["queues", "delete", "default", "--confirm", "default", "--as", "ann", "--reason", "gone"];
    let refused = sf(&server, &delete);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("in use") && refused.stderr.contains("force"), "{refused:?}");
    assert_eq!(
        sf(&server, &["queues", "delete", "default", "--force"]).code,
        Some(2),
        "nobody can confirm it"
    );
    let plan = json(&server, &["queues", "delete", "default", "--dry-run"]);
    assert_eq!((&plan["waiting"], &plan["running"], &plan["keys"]), (&699.into(), &1.into(), &0.into()));
    let before = keys(&server, "default");
    // The receipts of calls expire by themselves.
    let stays = |key: &&String| server.cmd(&["PTTL", key]) == Reply::Int(-1);
    let least = before.iter().filter(stays).count();
    let deleted = json(&server, &[&delete[..], &["--force"]].concat());
    let deleted = usize::try_from(deleted["keys"].as_u64().unwrap()).unwrap();
    assert!((least..=before.len()).contains(&deleted), "{deleted} of {}", before.len());
    assert_eq!((keys(&server, "default"), keys(&server, "default2").len()), (Vec::<String>::new(), 1));
    let notes = json(&server, &["audit", "--deletions"])["items"].clone();
    assert_eq!(
        (&notes[0]["who"], &notes[0]["target"], &notes[0]["outcome"]),
        (&"ann".into(), &"default".into(), &"done".into())
    );
    assert_eq!((&notes[0]["why"], &notes[0]["count"]), (&"gone".into(), &750.into()));
    assert_eq!(notes.as_array().unwrap().len(), 1);
    assert_eq!(sf(&server, &["queues", "delete", "nowhere", "--confirm", "nowhere"]).code, Some(4));
}

#[test]
fn a_queue_whose_delayed_jobs_were_all_purged_can_be_deleted() {
    let server = RedisServer::start();
    // No configuration names this queue.
    let line = "{\"type\":\"test\",\"delay\":\"1h\"}\n".repeat(3);
    assert_eq!(sf_with(&server, &["enqueue", "--bulk", "-q", "mail"], line.as_bytes()).code, Some(0));
    let purge = ["queues", "purge", "mail", "--delayed", "--confirm", "mail"];
    assert_eq!(json(&server, &purge)["changed"], 3);
    assert!(!keys(&server, "mail").is_empty());
    let deleted = sf(&server, &["queues", "delete", "mail", "--confirm", "mail"]);
    assert_eq!((deleted.code, keys(&server, "mail")), (Some(0), Vec::new()), "{deleted:?}");
}

#[test]
fn a_queue_that_is_used_or_grows_while_its_name_is_typed_is_not_deleted() {
    let server = RedisServer::start();
    submit(&server, 0..3);
    server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "0"]);
    let refused = |meanwhile: &dyn Fn(), why: &str| {
        let person = Person::new();
        let command = person.runs(&server, &["queues", "delete", "default"]).start();
        until("the question", SOON, || command.stdout().contains("Type the name of the queue"));
        meanwhile();
        person.types("default");
        assert_eq!(command.wait_exit(SOON).code(), Some(1), "{}", command.stdout());
        assert!(command.stdout().contains(why), "{}", command.stdout());
    };
    refused(&|| submit(&server, 3..4), "1 more jobs and dead letters");
    let read = ["XREADGROUP", "GROUP", "fleet", "w", "COUNT", "1", "STREAMS", STREAM, ">"];
    refused(&|| drop(server.cmd(&read)), "1 job runs");
    assert_eq!(int(&server, &["XLEN", STREAM]), 4);
    assert!(json(&server, &["audit", "--deletions"])["items"].as_array().unwrap().is_empty());
}

#[test]
fn no_more_jobs_are_moved_than_the_other_queue_accepts() {
    let server = RedisServer::start();
    submit(&server, 0..40);
    delay(&server, "test", 10);
    server.cmd(&["HSET", "sf:{mail}:control", "max_depth", "25"]);
    server.cmd(&["XADD", "sf:{mail}:jobs", "*", "type", "test"]);
    let moving = ["move", "--to", "mail", "--all", "--yes", "--unserved"];
    let plan = stdout_of(&server, &["move", "--to", "mail", "--all", "--dry-run"]);
    assert!(plan.contains("the queue mail accepts 24 further jobs at the moment"), "{plan}");
    let done = json(&server, &moving);
    assert_eq!((&done["changed"], &done["kept"]["full"]), (&24.into(), &26.into()), "{done}");
    let own = "queues.mail.max_depth = 30\n";
    let url = server.url();
    let args = [&["-c", "{config}", "--redis", &url, "--json"][..], &moving].concat();
    assert_eq!(Launch::new(&args).config(own).output(SOON).code, Some(0));
    let depth = || int(&server, &["XLEN", "sf:{mail}:jobs"]) + int(&server, &["ZCARD", "sf:{mail}:delayed"]);
    assert_eq!(depth(), 25, "the lower limit counts");
    server.cmd(&["HDEL", "sf:{mail}:control", "max_depth"]);
    assert_eq!(Launch::new(&args).config(own).output(SOON).code, Some(0));
    assert_eq!(depth(), 30);
    assert_eq!(json(&server, &moving)["changed"], 21);
}

#[test]
fn a_signal_leaves_the_task_of_a_command_running_and_it_says_how_far_it_came() {
    const JOBS: i64 = 10_000;
    let server = RedisServer::start();
    let add = "for nth = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'payload', nth) end";
    server.cmd(&["EVAL", add, "1", STREAM, &JOBS.to_string()]);
    let args = ["cancel", "--all", "--yes", "--json"];
    let command = launch(&server, &args).start();
    until("the first jobs to be cancelled", SOON, || int(&server, &["XLEN", STREAM]) < JOBS);
    command.term();
    let status = command.wait_exit(SOON);
    let done: Value = serde_json::from_str(&command.stdout()).unwrap();
    let left = int(&server, &["XLEN", STREAM]);
    assert_eq!(done["changed"].as_i64().unwrap() + left, JOBS, "{done}");
    let stderr = command.stderr();
    assert_eq!((status.code(), &done["interrupted"]), (Some(6), &true.into()), "{stderr}");
    let id = done["task"].as_str().unwrap();
    assert!(stderr.contains(&format!("streamfleet tasks stop {id}")), "{stderr}");
    let show = || json(&server, &["tasks", "show", id]);
    assert_eq!((&show()["state"], &show()["done"]), (&"running".into(), &done["changed"]));
    assert_eq!(json(&server, &["tasks", "stop", id, "--reason", "enough"])["state"], "stopped");
    assert_eq!(
        (int(&server, &["XLEN", STREAM]), noted(&server)[0]["what"].as_str()),
        (left, Some("tasks stop"))
    );
    let rest = json(&server, &args[..3]);
    assert_eq!((rest["changed"].as_i64(), int(&server, &["XLEN", STREAM])), (Some(left), 0));
}

#[test]
fn a_key_of_another_type_keeps_only_its_own_job_from_being_cancelled() {
    let server = RedisServer::start();
    submit(&server, 0..3);
    server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "j", "payload", "1"]);
    server.cmd(&["SET", "sf:{default}:job:j", "x"]);
    let output = sf(&server, &["cancel", "--all", "--yes", "--json"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let done: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&done["changed"], &done["failed"]), (&3.into(), &1.into()), "{done}");
    assert!(matches!(server.cmd(&["XLEN", STREAM]), Reply::Int(1)));
}
