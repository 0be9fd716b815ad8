//! `dead groups`, `watch`, `export` and `edit`, filters, plans, and the `audit`.

use serde_json::Value;

use super::form::Person;
use harness::cli::{bury, json, launch, sf, stdout_of, until_dead};
use harness::fleet::{Acts, Running, queue, quick, submit, until_empty};
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::wait::until;

const DEAD: &str = "sf:{default}:dead";

/// Writes letters by hand: this many for each type.
fn write(server: &RedisServer, types: &[(&str, usize)]) {
    for (job_type, count) in types {
        for nth in 0..*count {
            let payload = format!("{{\"customer\":{nth}}}");
            let fields = ["type", job_type, "payload", &payload, "dead_reason", "fatal", "dead_error", "no"];
            server.cmd(&[&["XADD", DEAD, "*"], &fields[..]].concat());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_listed_and_counted_again() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 3).await;
    let page = json(&server, &["dead", "groups"]);
    let group = &page["items"][0];
    assert_eq!((&page["total"], &page["uncounted"], &page["groups"]), (&3.into(), &0.into(), &1.into()));
    assert_eq!(
        (&group["count"], &group["type"], &group["reason"]),
        (&3.into(), &"test".into(), &"fatal".into())
    );
    let name = group["group"].as_str().unwrap();
    assert_eq!(stdout_of(&server, &["dead", "groups", "-o", "name"]), format!("{name}\n"));
    assert_eq!(json(&server, &["dead", "list", "--group", name])["items"].as_array().unwrap().len(), 3);
    write(&server, &[("old", 2)]);
    let told = sf(&server, &["dead", "groups"]);
    assert!(told.stderr.contains("2 dead letters are not counted"), "{told:?}");
    let counted = json(&server, &["dead", "groups", "--recount"]);
    assert_eq!((&counted["uncounted"], counted["items"].as_array().unwrap().len()), (&0.into(), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_selects_what_is_listed_exported_replayed_and_dropped() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, &[("mail.send", 1200), ("report", 3)]);
    let listed = json(&server, &["dead", "list", "--type", "mail.*", "--limit", "5000"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1200);
    let one = json(&server, &["dead", "list", "--where", "payload.customer=7", "--oldest-first"]);
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    let exported = stdout_of(&server, &["dead", "export", "--type", "report"]);
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["type"]), (3, &"report".into()));
    assert!(lines[0]["fields"].as_array().unwrap().iter().any(|field| field["name"] == "payload"));
    let dropped =
        json(&server, &["dead", "drop", "--where", "payload.customer<1000", "--type", "mail.send", "--yes"]);
    assert_eq!(dropped["dropped"], 1000);
    let replayed =
        json(&server, &["dead", "replay", "--type", "report", "--yes", "--as", "ann", "--why", "it is back"]);
    assert_eq!(replayed["replayed"], 3);
    let snapshot = queue.snapshot().await.unwrap();
    assert_eq!((snapshot.dead, snapshot.waiting()), (200, 3));
    let noted = json(&server, &["audit", "--limit", "3"]);
    let last = &noted["items"][0];
    assert_eq!((&last["who"], &last["why"]), (&"ann".into(), &"it is back".into()));
    let campaign = format!("campaign {}", replayed["id"].as_str().unwrap());
    assert_eq!(
        (&last["what"], &last["target"], &last["outcome"]),
        (&"dead replay".into(), &"--type report".into(), &campaign.into())
    );
    let (end, begin) = (&noted["items"][1], &noted["items"][2]);
    let task = format!("task {}", dropped["task"].as_str().unwrap());
    assert_eq!(
        (&begin["what"], &begin["count"], &begin["outcome"]),
        (&"dead drop".into(), &Value::Null, &task.as_str().into()),
        "a task about many letters begins before they are counted"
    );
    assert_eq!(
        (&end["what"], &end["count"], &end["target"]),
        (&"task done".into(), &1000.into(), &task.into())
    );
    let all = json(&server, &["audit"]);
    assert_eq!(
        all["items"].as_array().unwrap().len(),
        3,
        "a task is noted at its beginning and its end, and a replay has not ended before its jobs"
    );
}

/// Writes a letter by hand for a job of its own, and returns the letter's id.
fn write_one(server: &RedisServer, job: &str, lane: &str) -> String {
    let fields = ["type", "test", "id", job, "payload", "1", "dead_reason", "fatal", "dead_error", "no"];
    let command = [&["XADD", DEAD, "*"], &fields[..], &["dead_origin", lane]].concat();
    redis::from_redis_value(server.cmd(&command)).unwrap()
}

#[test]
fn the_status_of_a_letter_names_its_job() {
    let server = RedisServer::start();
    let letter = write_one(&server, "order-7", "normal");
    let output = sf(&server, &["status", &letter]);
    let want = format!("{letter} is the id of a dead letter of the queue default; its job is order-7");
    assert_eq!((output.code, output.stderr.contains(&want)), (Some(4), true), "{output:?}");
}

#[test]
fn a_letter_that_redis_refuses_stays_and_the_others_are_replayed() {
    let server = RedisServer::start();
    let letters: Vec<String> =
        (0..300).map(|nth| write_one(&server, &format!("D{nth:03}"), "normal")).collect();
    server.cmd(&["SET", "sf:{default}:job:D005", "oops"]);
    let replay = |more: &[&str]| {
        let output = sf(&server, &[&["dead", "replay", "--json"], more].concat());
        (output.code, serde_json::from_str::<Value>(&output.stdout).unwrap_or_default(), output.stderr)
    };
    let (code, swept, told) = replay(&["--all", "--yes"]);
    assert_eq!((code, &swept["replayed"], &swept["failed"]), (Some(1), &299.into(), &1.into()), "{told}");
    let why = swept["error"].as_str().unwrap();
    assert!(why.contains(&letters[5]) && why.contains("WRONGTYPE"), "{why}");
    let length = |key: &str| redis::from_redis_value::<u64>(server.cmd(&["XLEN", key])).unwrap();
    assert_eq!((length(DEAD), length("sf:{default}:jobs")), (1, 299));
    // Among letters that are named.
    let more = write_one(&server, "E000", "normal");
    let (code, swept, told) = replay(&[&letters[5], "D005", &more]);
    assert_eq!((code, &swept["replayed"], &swept["failed"]), (Some(1), &1.into(), &2.into()), "{told}");
    let why = swept["errors"][0].as_str().unwrap();
    for named in [&letters[5], "D005", "WRONGTYPE", "sf:{default}:job:D005"] {
        assert!(why.contains(named), "{named}: {why}");
    }
    // Alone: Redis refuses all that was asked for.
    let shown = sf(&server, &["dead", "replay", &letters[5]]);
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(3), "0 replayed, 1 failed\n"), "{shown:?}");
    let want = format!("the dead letter {} of the job D005: redis refused replay", letters[5]);
    assert!(shown.stderr.starts_with(&want), "{want}: {shown:?}");
    server.cmd(&["DEL", "sf:{default}:job:D005"]);
    assert_eq!(json(&server, &["dead", "replay", "--all", "--yes"])["replayed"], 1);
}

#[test]
fn a_replay_that_redis_refuses_for_all_letters_skips_none_and_goes_on_later() {
    let server = RedisServer::start();
    for nth in 0..40 {
        write_one(&server, &format!("D{nth:03}"), "normal");
    }
    server.cmd(&["SET", "sf:{default}:jobs:low", "oops"]);
    let output = sf(&server, &["dead", "replay", "--all", "--yes"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(3), ""), "{output:?}");
    assert!(
        output.stderr.contains("failed to carry on the task") && output.stderr.contains("WRONGTYPE"),
        "{output:?}"
    );
    assert_eq!(server.cmd(&["XLEN", DEAD]), redis::Value::Int(40));
    let id = json(&server, &["tasks", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    server.cmd(&["DEL", "sf:{default}:jobs:low"]);
    json(&server, &["tasks", "pause", &id]);
    let resumed = json(&server, &["tasks", "resume", &id]);
    assert_eq!(
        (&resumed["replayed"], &resumed["failed"], &resumed["left"]),
        (&40.into(), &0.into(), &0.into())
    );
    assert_eq!(server.cmd(&["XLEN", DEAD]), redis::Value::Int(0));
}

#[test]
fn a_signal_leaves_a_task_that_drops_letters_running() {
    const LETTERS: u64 = 10_000;
    let server = RedisServer::start();
    let add = "for nth = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'payload', nth) end";
    server.cmd(&["EVAL", add, "1", DEAD, &LETTERS.to_string()]);
    let left = || redis::from_redis_value::<u64>(server.cmd(&["XLEN", DEAD])).unwrap();
    let command = launch(&server, &["dead", "drop", "--all", "--yes", "--json"]).start();
    until("the first letters to be dropped", SOON, || left() < LETTERS);
    command.term();
    let status = command.wait_exit(SOON);
    let swept: Value = serde_json::from_str(&command.stdout()).unwrap();
    let dropped = swept["dropped"].as_u64().unwrap();
    assert_eq!((status.code(), &swept["interrupted"]), (Some(6), &true.into()), "{}", command.stderr());
    assert_eq!(dropped + left(), LETTERS, "{swept}");
    let task = json(&server, &["tasks", "show", swept["task"].as_str().unwrap()]);
    assert_eq!((&task["state"], &task["done"]), (&"running".into(), &dropped.into()));
    let audit = json(&server, &["audit"])["items"].clone();
    assert_eq!((audit.as_array().map(Vec::len), &audit[0]["what"]), (Some(1), &"dead drop".into()));
}

#[test]
fn a_signal_leaves_the_task_of_a_replay_running_and_somebody_else_ends_it() {
    const LETTERS: u64 = 3_000;
    let server = RedisServer::start();
    let add = "for nth = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'payload', nth) end";
    server.cmd(&["EVAL", add, "1", DEAD, &LETTERS.to_string()]);
    let left = || redis::from_redis_value::<u64>(server.cmd(&["XLEN", DEAD])).unwrap();
    let command = launch(&server, &["dead", "replay", "--all", "--yes", "--json"]).start();
    until("the first letters to be replayed", SOON, || left() < LETTERS);
    command.term();
    let status = command.wait_exit(SOON);
    let task: Value = serde_json::from_str(&command.stdout()).unwrap();
    let replayed = task["replayed"].as_u64().unwrap();
    assert_eq!((status.code(), replayed + left()), (Some(6), LETTERS), "{task}: {}", command.stderr());
    let id = task["id"].as_str().unwrap();
    assert!(command.stderr().contains(&format!("streamfleet tasks stop {id}")), "{}", command.stderr());
    assert_eq!((&task["state"], &task["rate"]), (&"running".into(), &Value::Null));
    assert_eq!(json(&server, &["tasks", "pause", id])["state"], "paused");
    assert_eq!(json(&server, &["tasks", "resume", id])["replayed"], LETTERS);
    assert_eq!((left(), server.cmd(&["XLEN", "sf:{default}:jobs"])), (0, redis::Value::Int(3_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_nobody_carries_on_says_so_until_a_worker_starts() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    write(&server, &[("test", 3)]);
    let hint = "no worker of the queue default is up";
    let says = |task: &Value| task["hint"].as_str().is_some_and(|told| told.starts_with(hint));
    let begun = json(&server, &["dead", "replay", "--all", "--yes", "--detach"]);
    let id = begun["id"].as_str().unwrap().to_owned();
    let listed = json(&server, &["tasks", "list"])["items"][0].take();
    assert!(says(&begun) && says(&listed), "{begun}: {listed}");
    assert!(stdout_of(&server, &["tasks", "show", &id]).contains(hint));
    let paused = json(&server, &["tasks", "pause", &id]);
    assert_eq!(paused.get("hint"), None, "somebody wants it to rest");
    json(&server, &["tasks", "resume", &id, "--detach"]);
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let done = until("the task to be done", SOON, || {
        let task = json(&server, &["tasks", "show", &id]);
        (task["state"] == "done").then_some(task)
    });
    assert_eq!((&done["succeeded"], done.get("hint")), (&3.into(), None));
    fleet.stop().await;
    assert_eq!(queue.snapshot().await.unwrap().dead, 0);
}

#[test]
fn a_full_redis_begins_no_task_and_changes_no_letter_and_says_so() {
    let server = RedisServer::start();
    let letter = write_one(&server, "order-7", "normal");
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    for args in [&["replay", "--all", "--yes"][..], &["edit", &letter, "--set", "h.tenant=9"]] {
        let refused = sf(&server, &[&["dead"], args].concat());
        assert_eq!(refused.code, Some(3), "{refused:?}");
        for part in ["Redis is full: nothing was begun or changed", "raise its maxmemory", "OOM"] {
            assert!(refused.stderr.contains(part), "{part}: {refused:?}");
        }
        assert!(!refused.stderr.contains("may or may not"), "{refused:?}");
    }
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(server.cmd(&["KEYS", "sf:{default}:campaign*"]), redis::Value::Array(vec![]));
    let begun = json(&server, &["dead", "replay", "--all", "--yes", "--detach"]);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let waiting = json(&server, &["tasks", "show", begun["id"].as_str().unwrap()]);
    assert!(waiting["hint"].as_str().unwrap().starts_with("Redis is full: this task goes on"), "{waiting}");
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(json(&server, &["dead", "replay", "--all", "--yes"])["replayed"], 1);
}

#[test]
fn all_edits_of_a_letter_are_taken_back() {
    let server = RedisServer::start();
    let fields = ["type", "mail.send", "id", "order-7", "payload", r#"{"to":"ann"}"#, "h.tenant", "9"];
    server.cmd(&[&["XADD", DEAD, "1700000000000-0"], &fields[..], &["dead_reason", "fatal"]].concat());
    let newest = || json(&server, &["dead", "list"])["items"][0]["letter"].as_str().unwrap().to_owned();
    let shown = || {
        let shown = json(&server, &["dead", "show", &newest()]);
        let of = |name: &str| {
            let fields = shown["fields"].as_array().unwrap();
            fields.iter().find(|field| field["name"] == name).map(|field| field["value"].clone())
        };
        ["type", "payload", "h.tenant", "max_attempts"].map(of)
    };
    let first = shown();
    let edit = |more: &[&str]| sf(&server, &[&["dead", "edit", &newest()], more].concat());
    assert!(edit(&["--undo"]).stderr.contains("nobody has edited"), "there is nothing to take back");
    for change in ["payload.to=bob", "h.tenant=8", "max_attempts=5", "payload.to=eve"] {
        assert_eq!(edit(&["--set", change]).code, Some(0), "{change}");
    }
    assert!(shown().iter().zip(&first).skip(1).all(|(now, then)| now != then));
    let undone = edit(&["--undo", "--reason", "the wrong customer"]);
    assert_eq!((undone.code, shown()), (Some(0), first), "{undone:?}");
    assert_eq!(edit(&["--undo"]).code, Some(1), "it already is like this");
    assert_eq!(edit(&["--undo", "--set", "h.tenant=1"]).code, Some(2));
    assert_eq!(json(&server, &["audit", "--limit", "1"])["items"][0]["why"], "the wrong customer");
}

#[test]
fn the_pages_of_a_list_count_each_unreadable_letter_once() {
    let server = RedisServer::start();
    for payload in ["1", "{", "{\"a\":1}", "{", "{", "{\"a\":1}", "{"] {
        server.cmd(&["XADD", DEAD, "*", "type", "test", "payload", payload, "dead_error", "no"]);
    }
    let head = ["dead", "list", "--where", "payload.a=1", "--oldest-first", "--limit", "1"];
    let first = json(&server, &head);
    let second = json(&server, &[&head[..], &["--after", first["next"].as_str().unwrap()]].concat());
    assert_eq!((&first["undecided"], &second["undecided"]), (&1.into(), &3.into()));
}

#[test]
fn a_letter_with_the_last_sequence_number_is_passed() {
    let server = RedisServer::start();
    for entry in ["5-18446744073709551615", "6-0"] {
        server.cmd(&["XADD", DEAD, entry, "type", "test", "dead_error", "no"]);
    }
    let listed = json(&server, &["dead", "list", "--oldest-first", "--after", "5-18446744073709551615"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(json(&server, &["dead", "drop", "--all", "--yes"])["dropped"], 2);
}

#[test]
fn a_replay_says_how_many_letters_somebody_else_has_taken() {
    let server = RedisServer::start();
    write(&server, &[("test", 3)]);
    let begun = json(&server, &["dead", "replay", "--all", "--yes", "--detach"]);
    let id = begun["id"].as_str().unwrap();
    assert_eq!(begun.get("gone"), None);
    assert_eq!(json(&server, &["dead", "replay", "--all", "--yes"])["gone"], 0);
    assert_eq!(json(&server, &["tasks", "pause", id])["state"], "paused");
    let shown = stdout_of(&server, &["tasks", "resume", id]);
    assert!(shown.contains("0 of 3, 3 gone already"), "{shown}");
    assert_eq!(json(&server, &["tasks", "show", id])["gone"], 3);
}

#[test]
fn what_selects_nothing_or_cannot_be_confirmed_is_refused() {
    let server = RedisServer::start();
    write(&server, &[("mail", 2)]);
    let refused: [&[&str]; 10] = [
        &["dead", "replay"],
        &["dead", "drop"],
        &["dead", "export"],
        &["dead", "replay", "--type", "mail"],
        &["dead", "replay", "--all"],
        &["dead", "drop", "--dead-reason", "fatal"],
        &["dead", "replay", "--type", "", "--yes"],
        &["dead", "replay", "--all", "--canary", "0", "--yes"],
        &["dead", "replay", "--where", "payload.customer=", "--yes"],
        &["dead", "replay", "1-1", "--type", "mail", "--yes"],
    ];
    for args in refused {
        let output = sf(&server, args);
        assert_eq!(output.code, Some(2), "{args:?}: {output:?}");
    }
    assert_eq!(server.cmd(&["XLEN", DEAD]), redis::Value::Int(2));
    for way in ["replay", "drop"] {
        let none = sf(&server, &["dead", way, "--type", "other", "--yes"]);
        assert_eq!((none.code, none.stderr.as_str()), (Some(0), "no dead letter matches\n"), "{none:?}");
        for more in ["--yes", "--dry-run"] {
            let unknown = sf(&server, &["dead", way, "--all", more, "--queue", "defualt"]);
            let is_told = unknown.stderr.contains("has no queue defualt");
            let is_near = unknown.stderr.ends_with("; did you mean default?\n");
            assert_eq!((unknown.code, is_told, is_near), (Some(4), true, true), "{unknown:?}");
        }
    }
    assert_eq!(json(&server, &["tasks", "list"])["items"], Value::Array(Vec::new()), "no task has begun");
}

#[test]
fn a_reason_that_once_was_a_filter_is_refused_with_a_hint() {
    let server = RedisServer::start();
    write(&server, &[("mail", 2)]);
    for args in [
        &["replay", "--all", "--yes", "--reason", "fatal"][..],
        &["drop", "--all", "--yes", "--reason", "exhausted"],
        &["replay", "--all", "--rate", "1/h", "--yes", "--reason", "lost"],
        &["edit", "1-1", "--set", "h.tenant=9", "--reason", "invalid"],
    ] {
        let refused = sf(&server, &[&["dead"], args].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains("use --dead-reason"), "{refused:?}");
    }
    assert_eq!(server.cmd(&["XLEN", DEAD]), redis::Value::Int(2));
    let dropped = json(&server, &["dead", "drop", "--all", "--yes", "--reason", "a fatal mistake"]);
    assert_eq!(dropped["dropped"], 2);
}

#[test]
fn a_letter_whose_record_redis_refuses_does_not_keep_a_queue_from_being_purged() {
    let server = RedisServer::start();
    let letters: Vec<String> = (0..5).map(|nth| write_one(&server, &format!("D{nth}"), "normal")).collect();
    // The script deletes the letter, and then stumbles over the last of these fields.
    let fields = ["state", "dead", "dead_id", &letters[1], "holds", "x"];
    server.cmd(&[&["HSET", "sf:{default}:job:D1"], &fields[..]].concat());
    let output = sf(&server, &["queues", "purge", "default", "--dead", "--confirm", "default", "--json"]);
    let purged: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.code, &purged["changed"], &purged["failed"]), (Some(0), &5.into(), &0.into()));
    assert_eq!(server.cmd(&["XLEN", DEAD]), redis::Value::Int(0));
}

#[test]
fn a_letter_is_edited_in_an_editor_on_a_terminal() {
    let server = RedisServer::start();
    let letter = ["type", "mail.send", "id", "order-7", "payload", r#"{"to":"ann"}"#, "dead_reason", "fatal"];
    server.cmd(&[&["XADD", DEAD, "1700000000000-0"], &letter[..]].concat());
    let edited = |editor: &str| {
        let command = Person::new().runs(&server, &["dead", "edit", "1700000000000-0"]);
        command.env("VISUAL", "").env("EDITOR", editor).output(SOON)
    };
    let payload = || {
        let listed = json(&server, &["dead", "list"]);
        let shown = json(&server, &["dead", "show", listed["items"][0]["letter"].as_str().unwrap()]);
        let fields = shown["fields"].as_array().unwrap().clone();
        fields.into_iter().find(|field| field["name"] == "payload").unwrap()["value"].take()
    };
    let unchanged = edited("true");
    assert!(unchanged.code == Some(0) && unchanged.stdout.contains("nothing was changed"), "{unchanged:?}");
    // What was written is not lost if the editor fails.
    let failed = edited("sh -c 'sed -i s/ann/cat/ \"$1\"; false' sh");
    assert!(failed.code == Some(1) && failed.stdout.contains("the editor ended with"), "{failed:?}");
    let kept = failed.stdout.split("what you wrote is in ").nth(1).unwrap().lines().next().unwrap().trim();
    let kept = std::path::Path::new(kept);
    assert_eq!(std::fs::read_to_string(kept).unwrap(), r#"{"to":"cat"}"#);
    std::fs::remove_dir_all(kept.parent().unwrap()).unwrap();
    assert_eq!(payload(), r#"{"to":"ann"}"#);
    let done = edited("sed -i s/ann/bob/");
    assert!(done.code == Some(0) && done.stdout.contains("order-7 is now the dead letter"), "{done:?}");
    assert_eq!(payload(), r#"{"to":"bob"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_letter_is_replayed_and_its_old_id_is_explained() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 1).await;
    let old = json(&server, &["dead", "list"])["items"][0]["letter"].as_str().unwrap().to_owned();
    let edited = json(
        &server,
        &["dead", "edit", &old, "--set", "payload.to=bob", "--set", "h.tenant=9", "--as", "ann"],
    );
    let new = edited["letter"].as_str().unwrap();
    let shown = stdout_of(&server, &["dead", "show", new]);
    assert!(
        shown.contains("\"to\":\"bob\"") && shown.contains("h.tenant") && shown.contains("dead_before"),
        "{shown}"
    );
    for command in ["replay", "drop", "edit", "show"] {
        let stale = sf(&server, &["dead", command, &old]);
        assert_eq!(stale.code, Some(4), "{stale:?}");
        assert!(stale.stderr.contains(&format!("its dead letter is now {new}")), "{stale:?}");
    }
    for args in [&["--set", "payload.a.b=1"][..], &["--set", "life=1"], &["--set", "x"], &[]] {
        let refused = sf(&server, &[&["dead", "edit", new], args].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    assert_eq!(json(&server, &["dead", "replay", new])["replayed"], 1);
    let stale = sf(&server, &["dead", "show", &old]);
    assert!(
        stale.stderr.contains(&format!("the dead letter {new} took its place, and is gone")),
        "{stale:?}"
    );
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    until_empty(&queue).await;
    fleet.stop().await;
    let what: Vec<Value> = json(&server, &["audit"])["items"].as_array().unwrap().clone();
    assert_eq!(what.iter().filter(|noted| noted["what"] == "dead edit" && noted["who"] == "ann").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deaths_are_watched_live() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, 2).await;
    let watch = launch(&server, &["dead", "watch", "--interval", "100ms", "--json"]).start();
    until("the first look", SOON, || watch.stdout().contains("\"items\": []"));
    let fleet = Running::start(&server.url(), quick(1), harness::cli::doomed());
    for _ in 0..3 {
        submit(&queue, "{}").await;
    }
    until_dead(&queue, 5).await;
    until("the deaths", SOON, || watch.stdout().contains("\"deaths\": 3,"));
    fleet.stop().await;
    watch.kill9();
}
