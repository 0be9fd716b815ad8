//! The history: each end is in the database once, whatever dies.

use std::collections::{BTreeMap, BTreeSet};

use harness::wait::until_async;
use serde_json::Value;
use streamfleet_engine::JournalFields;
use streamfleet_sql::Dialect;
use streamfleet_sql::history::questions::{self, Filter};
use streamfleet_sql::history::{Body, Key};

use crate::kit::Place;
use crate::scene::{SOON, Scene};

on_all_databases!(
    both_doors_show_the_same,
    a_list_of_ended_jobs_goes_on_with_those_that_only_the_history_has,
    lists_of_redis_name_the_command_for_what_only_the_history_has,
    jobs_in_the_catch_all_are_reported,
    jobs_that_ended_are_written_with_their_attempts_and_found,
    a_killed_writer_loses_nothing_and_writes_nothing_twice,
    a_database_that_is_away_keeps_no_job_from_ending,
    partitions_are_made_while_the_journal_is_never_empty,
);

/// How many jobs the database has.
pub(crate) const ENDED: &str = "SELECT COUNT(*) FROM sf_jobs";

pub(crate) const HISTORY: &str =
    "[history]\nurl_file = \"{url}\"\npayloads = \"failed\"\nkeys = [\"customer\"]\n";

async fn both_doors_show_the_same(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    let dead = scene.submit(3, r#"{"customer": 9, "it": "dies"}"#).await;
    scene.submit(4, "{}").await;
    until_async("all ends", SOON, async || hand.number(ENDED).await == 7).await;
    worker.term();
    worker.wait_exit(SOON);
    let console = scene.console(HISTORY).await;
    let get = |path: &str| console.get(&format!("/api/v1/queues/default/{path}"));
    let list = scene.json(&["history", "list", "--state", "dead", "--key", "customer=9"], HISTORY);
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    assert_eq!(list, get("history?state=dead&key=customer%3D9"));
    let id = dead[0].to_string();
    let shown = scene.json(&["history", "show", &id], HISTORY);
    assert_eq!((&shown[0]["state"], &shown[0]["input"]["payload"]["it"]), (&"dead".into(), &"dies".into()));
    assert_eq!(shown, get(&format!("history/{id}")));
    let counts = scene.json(&["history", "stats"], HISTORY);
    assert_eq!(counts["counts"], get("history-stats")["counts"]);
    // Redis forgets the job, and these commands go on to know it.
    for key in [format!("sf:{{default}}:job:{id}"), "sf:{default}:dead".to_owned()] {
        scene.redis.cmd(&["DEL", &key]);
    }
    for command in [&["status"][..], &["dead", "show"]] {
        let asked = [command, &[&id, "--queue", "default"]].concat();
        assert_eq!(scene.json(&asked, HISTORY), shown, "{command:?}");
    }
}

async fn lists_of_redis_name_the_command_for_what_only_the_history_has(place: Place) {
    let scene = Scene::new(place).await;
    scene.submit(1, "{}").await;
    let shown = |command: &str, sections: &str| {
        let output = scene.launch(&command.split(' ').collect::<Vec<_>>(), sections).output(SOON);
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    };
    let kept = format!("{HISTORY}[queues.default]\nretention = \"3h\"\ndead_retention = \"2d\"\n");
    for (command, wanted) in [
        (
            "dead list",
            "letters that were replayed or dropped, and those older than 2d, are in the history: \
             streamfleet history list --queue default --state dead",
        ),
        (
            "stats default",
            "jobs that ended more than 24h ago are in the history: \
             streamfleet history stats --queue default --since 7d",
        ),
    ] {
        assert!(shown(command, &kept).contains(wanted), "{command}: {}", shown(command, &kept));
        assert!(!shown(command, "").contains("history"), "{command}");
    }
    for command in ["jobs", "jobs --state waiting"] {
        assert!(!shown(command, &kept).contains("history"), "{command}: these are all in Redis");
    }
}

async fn a_list_of_ended_jobs_goes_on_with_those_that_only_the_history_has(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    let dead = scene.submit(3, r#"{"it": "dies"}"#).await;
    let done = scene.submit(4, r#"{"it": "ends"}"#).await;
    until_async("all ends", SOON, async || hand.number(ENDED).await == 7).await;
    worker.term();
    worker.wait_exit(SOON);
    let jobs = |more: &[&str]| scene.json(&[&["jobs", "--state", "done,dead"], more].concat(), HISTORY);
    let whole = jobs(&[]);
    assert_eq!(sources(&whole), BTreeMap::from([("redis", 7)]), "{whole}");

    let forgotten = dead.iter().chain(&done[..2]).map(|id| format!("sf:{{default}}:job:{id}"));
    for key in forgotten.chain(["sf:{default}:dead".to_owned()]) {
        scene.redis.cmd(&["DEL", &key]);
    }
    let listed = jobs(&[]);
    assert_eq!(sources(&listed), BTreeMap::from([("history", 5), ("redis", 2)]), "{listed}");
    assert_eq!((ids(&listed), &listed["complete"]), (ids(&whole), &true.into()));
    let console = scene.console(HISTORY).await;
    let page = console.get("/api/v1/queues/default/jobs?state=done,dead");
    assert_eq!((ids(&page), sources(&page)), (ids(&listed), sources(&listed)));

    let (mut paged, mut next) = (Vec::new(), None::<String>);
    loop {
        let after = next.iter().flat_map(|next| ["--after", next]);
        let page = jobs(&["--limit", "2"].into_iter().chain(after).collect::<Vec<_>>());
        paged.extend(page["items"].as_array().unwrap().iter().map(|row| row["id"].to_string()));
        next = page["next"].as_str().map(str::to_owned);
        if next.is_none() {
            break;
        }
    }
    paged.sort();
    assert_eq!(paged, ids(&whole));

    // The history has the payloads of those that died.
    let found = jobs(&["--where", "payload.it=dies"]);
    let wanted: BTreeSet<_> = dead.iter().map(|id| format!("\"{id}\"")).collect();
    assert_eq!(ids(&found), wanted.into_iter().collect::<Vec<_>>());
    assert_eq!(jobs(&["--type", "other"])["items"], serde_json::json!([]));
    assert_eq!(scene.json(&["jobs"], HISTORY)["items"], serde_json::json!([]), "they are not there any more");

    // Without the history, what Redis has is listed, and said to be a part.
    scene.hide(true).await;
    let output = scene.launch(&["jobs", "--state", "done,dead"], HISTORY).output(SOON);
    assert_eq!(output.stdout.matches("record").count(), 2, "{output:?}");
    assert!(output.stderr.contains("the history of the queue default is not shown"), "{output:?}");
    assert_ne!(output.code, Some(0));
}

/// The ids of listed jobs, in order.
fn ids(list: &Value) -> Vec<String> {
    let mut ids: Vec<_> = list["items"].as_array().unwrap().iter().map(|row| row["id"].to_string()).collect();
    ids.sort();
    ids
}

/// How many jobs of a list come from where.
fn sources(list: &Value) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for row in list["items"].as_array().unwrap() {
        *counts.entry(row["source"].as_str().unwrap()).or_default() += 1;
    }
    counts
}

async fn jobs_in_the_catch_all_are_reported(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    hand.run(
        "INSERT INTO sf_jobs (day, queue, life, id, type, lane, state, created_ms, ended_ms, attempts, payload_state) \
         VALUES ('2099-01-01', 'default', 'x', 'x', 'x', 'normal', 'done', 1, 1, 1, 'none')",
    )
    .await;
    let worker = scene.worker(HISTORY);
    let error = async || scene.queue.journal_figures().await.unwrap().error.map(|(error, _)| error);
    if scene.place.dialect == Dialect::Sqlite {
        until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
        scene.submit(1, "{}").await;
        until_async("the end", SOON, async || hand.number(ENDED).await == 2).await;
        assert_eq!(error().await, None, "SQLite has no partitions");
    } else {
        let said = until_async("a report", SOON, error).await;
        assert!(said.starts_with("jobs in the catch-all, without a partition of their day: 1;"), "{said}");
    }
    worker.term();
    worker.wait_exit(SOON);
}

async fn jobs_that_ended_are_written_with_their_attempts_and_found(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    scene.submit(20, r#"{"customer": 9}"#).await;
    let late = scene.submit(5, r#"{"customer": 8, "fails": "once"}"#).await;
    let dead = scene.submit(3, r#"{"customer": "x y", "it": "dies"}"#).await;
    until_async("all ends", SOON, async || hand.number(ENDED).await == 28).await;
    assert_eq!(scene.lives().await.get("dead"), Some(&3));
    let customer = |value: &str| Filter {
        key: Some(Key { name: "customer".to_owned(), value: value.to_owned() }),
        ..Filter::of(scene.queue.name().clone())
    };
    for (value, count) in [("9", 20), ("8", 5), ("x y", 3), ("7", 0)] {
        let page = questions::jobs(&scene.database, &customer(value), None, 500).await.unwrap();
        assert_eq!(page.rows.len(), count, "{value}");
    }
    let lives = questions::job(&scene.database, scene.queue.name(), &late[0]).await.unwrap();
    let story = questions::life(&scene.database, &lives[0].key()).await.unwrap().unwrap();
    let outcomes: Vec<_> = story.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
    assert_eq!((outcomes, story.row.attempts), (vec!["error", "done"], 2));
    let lives = questions::job(&scene.database, scene.queue.name(), &dead[0]).await.unwrap();
    let story = questions::life(&scene.database, &lives[0].key()).await.unwrap().unwrap();
    assert!(story.row.error.unwrap().contains('7') && story.row.worker_version.is_some());
    let Body::Stored(fields) = story.body else { panic!("{:?}", story.body) };
    assert_eq!(fields.get(b"payload"), Some(&br#"{"customer": "x y", "it": "dies"}"#[..]));
    assert_eq!(scene.queue.journal_figures().await.unwrap().waiting, 0);
    worker.term();
    worker.wait_exit(SOON);
}

async fn a_killed_writer_loses_nothing_and_writes_nothing_twice(place: Place) {
    kill_writers(place, 4, 60).await;
}

/// Kills this many writers, each while it writes this many ends.
pub(crate) async fn kill_writers(place: Place, kills: i64, ends: i64) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let mut worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    let (dead, all) = (ends / 6, kills * ends);
    for kill in 0..kills {
        scene.submit(usize::try_from(ends - dead).unwrap(), r#"{"customer": 1}"#).await;
        scene.submit(usize::try_from(dead).unwrap(), r#"{"customer": 2, "it": "dies"}"#).await;
        // Each time somewhere else within reading, writing and deleting.
        let at = kill * ends + 9 * kill % ends;
        until_async("some ends", SOON, async || hand.number(ENDED).await >= at).await;
        worker.kill9();
        worker = scene.worker(HISTORY);
    }
    until_async("all ends", SOON, async || hand.number(ENDED).await == all).await;
    until_async("an empty journal", SOON, async || scene.queue.journal_figures().await.unwrap().waiting == 0)
        .await;
    assert_eq!(scene.lives().await.get("dead"), Some(&usize::try_from(kills * dead).unwrap()));
    worker.term();
    worker.wait_exit(SOON);
}

/// Here, the tables are away: to the writer, it is one of the errors after which it tries again.
async fn a_database_that_is_away_keeps_no_job_from_ending(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let sections = format!("{HISTORY}journal_size = \"1MiB\"\nspill = \"{{folder}}/spill\"\n");
    let worker = scene.worker(&sections);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    scene.hide(true).await;
    scene.submit(800, r#"{"customer": 1}"#).await;
    until_async("the end of all jobs", SOON, async || {
        let snapshot = scene.queue.snapshot().await.unwrap();
        snapshot.waiting() + snapshot.running() + snapshot.delayed == 0
    })
    .await;
    let figures = scene.queue.journal_figures().await.unwrap();
    assert!(figures.bytes <= 1 << 20, "{figures:?}");
    scene.hide(false).await;
    until_async("all ends", SOON, async || hand.number(ENDED).await == 800).await;
    let figures = scene.queue.journal_figures().await.unwrap();
    assert_eq!((figures.waiting, figures.lost), (0, None));
    worker.term();
    worker.wait_exit(SOON);
}

/// Here, because the database refuses an end, which stays in the journal.
async fn partitions_are_made_while_the_journal_is_never_empty(place: Place) {
    let partitions = match place.dialect {
        Dialect::MySql => {
            "SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = 'sf_jobs'"
        }
        Dialect::Postgres => "SELECT COUNT(*) FROM pg_inherits WHERE inhparent = to_regclass('sf_jobs')",
        Dialect::Sqlite => return,
    };
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    hand.run("ALTER TABLE sf_jobs ADD CONSTRAINT no_test CHECK (type <> 'test')").await;
    scene.queue.keep_journal(1 << 20, JournalFields::All).await.unwrap();
    let worker = scene.worker("");
    scene.submit(1, "{}").await;
    until_async("the end", SOON, async || scene.queue.journal_figures().await.unwrap().waiting == 1).await;
    worker.kill9();
    let worker = scene.worker(HISTORY);
    until_async("partitions", SOON, async || hand.number(partitions).await > 1).await;
    assert_eq!(scene.queue.journal_figures().await.unwrap().waiting, 1);
    worker.term();
    worker.wait_exit(SOON);
}
