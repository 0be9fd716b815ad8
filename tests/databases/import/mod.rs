//! Importing tables: each row becomes one job or one dead letter, whatever dies.

mod examples;
mod scene;

use harness::wait::until_async;
use serde_json::{Value, json};
use streamfleet_sql::Dialect;

use crate::kit::Place;
use crate::scene::SOON;
use scene::ImportScene;

on_all_databases!(
    each_row_is_one_job_although_the_import_is_killed_and_stopped,
    rows_are_read_in_the_order_of_keys_that_are_texts,
    dead_rows_are_letters_with_error_and_time_and_can_be_replayed,
    rows_that_cannot_be_jobs_are_named_and_the_others_go_on,
    a_plan_changes_nothing,
    a_full_queue_is_waited_for,
    what_a_mapping_gets_wrong_is_told_before_anything_is_changed,
);

const TABLE: &str = r#"
[[table]]
name = "tasks"
key = "id"
queue = "default"
type = { column = "kind", map = { Test = "test" } }
payload = { column = "body", as = "json" }
attempts = "tries"
error = "why"
died_at = { column = "died", unit = "ms" }
waiting = { column = "state", values = [0] }
dead = { column = "state", values = [2] }
"#;

const CREATE: &str = "CREATE TABLE tasks (id {id}, kind VARCHAR(20), body {longtext}, state {tiny}, tries INT, why {longtext}, died BIGINT)";

/// Inserts this many rows in one state.
async fn insert(scene: &ImportScene, count: usize, state: u8) {
    let mut hand = scene.place().hand().await;
    for first in (0..count).step_by(500) {
        let row = |nth: usize| format!("('Test', '{{\"n\": {nth}}}', {state}, 3, 'it broke', 1764547200250)");
        let rows: Vec<String> = (first..count.min(first + 500)).map(row).collect();
        hand.run(&format!(
            "INSERT INTO tasks (kind, body, state, tries, why, died) VALUES {}",
            rows.join(", ")
        ))
        .await;
    }
}

async fn each_row_is_one_job_although_the_import_is_killed_and_stopped(place: Place) {
    let scene = ImportScene::new(place, TABLE, &[CREATE]).await;
    insert(&scene, 10_000, 0).await;
    // Done rows are between the others, and nothing becomes of them.
    scene.place().hand().await.run("UPDATE tasks SET state = 1 WHERE id % 10 = 0").await;
    for round in 1..5 {
        let import = scene.launch(&["--yes", "--rate", "1000/s"]).start();
        let far = |key: i64| key >= 1500 * round;
        until_async("some rows", SOON, async || scene.passed("tasks").is_some_and(far)).await;
        if round < 4 {
            import.kill9();
        } else {
            import.term();
            assert_eq!(import.wait_exit(SOON).code(), Some(6), "{}", import.stderr());
            assert!(import.stderr().contains("the same command goes on"), "{}", import.stderr());
        }
    }
    let (code, _) = scene.import(&["--yes"]);
    assert_eq!(code, Some(0));
    let snapshot = scene.queue().snapshot().await.unwrap();
    assert_eq!((snapshot.waiting(), snapshot.delayed, snapshot.dead), (9000, 0, 0));
    // What was submitted is found, and not submitted again.
    let (code, report) = scene.import(&["--yes", "--restart"]);
    let table = &report["tables"][0];
    assert_eq!(code, Some(0));
    assert_eq!(
        (&table["looked"], &table["submitted"], &table["existing"]),
        (&json!(10_000), &json!(0), &json!(9000))
    );
    assert_eq!(scene.queue().snapshot().await.unwrap().waiting(), 9000);
}

async fn rows_are_read_in_the_order_of_keys_that_are_texts(place: Place) {
    let kind = if place.dialect == Dialect::Postgres { "UUID" } else { "CHAR(36)" };
    let create = format!("CREATE TABLE tasks (id {kind} PRIMARY KEY, body {{longtext}})");
    let mapping = "[[table]]\nname = \"tasks\"\nkey = \"id\"\nqueue = \"default\"\ntype = \"test\"\nall = \"waiting\"\npayload = [\"body\"]\n";
    let scene = ImportScene::new(place, mapping, &[&create]).await;
    let mut hand = scene.place().hand().await;
    for first in (0..2500_u64).step_by(500) {
        // Multiplying by an odd number mixes the order.
        let id = |nth: u64| {
            format!("{:08x}-0000-4000-8000-{nth:012x}", nth.wrapping_mul(2_654_435_761) & 0xffff_ffff)
        };
        let rows: Vec<String> = (first..first + 500).map(|nth| format!("('{}', 'text')", id(nth))).collect();
        hand.run(&format!("INSERT INTO tasks (id, body) VALUES {}", rows.join(", "))).await;
    }
    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, &report["tables"][0]["submitted"]), (Some(0), &json!(2500)));
    assert_eq!(scene.queue().snapshot().await.unwrap().waiting(), 2500);
    let (_, report) = scene.import(&["--yes"]);
    assert_eq!(report["tables"][0]["looked"], 0, "the next run begins behind the last row");
}

async fn dead_rows_are_letters_with_error_and_time_and_can_be_replayed(place: Place) {
    let scene = ImportScene::new(place, TABLE, &[CREATE]).await;
    insert(&scene, 3, 2).await;
    insert(&scene, 1, 0).await;
    let (code, report) = scene.import(&["--yes", "--by", "ann", "--reason", "we move"]);
    let table = &report["tables"][0];
    assert_eq!((code, &table["submitted"], &table["filed"]), (Some(0), &json!(1), &json!(3)));
    let list = scene.json(&["dead", "list", "--oldest-first"]);
    let letters = list["items"].as_array().unwrap();
    assert_eq!(letters.len(), 3);
    let first = &letters[0];
    assert_eq!(
        (&first["id"], &first["type"], &first["error"]),
        (&json!("tasks-1"), &json!("test"), &json!("it broke"))
    );
    assert_eq!((&first["died_ms"], &first["attempts"]), (&json!(1_764_547_200_250_u64), &json!(3)));
    let audit = scene.json(&["audit"]);
    let note = &audit["items"][0];
    assert_eq!(
        (&note["what"], &note["who"], &note["why"]),
        (&json!("import"), &json!("ann"), &json!("we move"))
    );
    assert_eq!((&note["count"], &note["outcome"]), (&json!(4), &json!("done")));
    // Filing them again changes nothing.
    let (_, report) = scene.import(&["--yes", "--restart"]);
    assert_eq!((&report["tables"][0]["filed"], &report["tables"][0]["existing"]), (&json!(0), &json!(4)));
    scene.json(&["dead", "replay", "tasks-1"]);
    let worker = scene.scene.worker("[queues.default]\ntracking = \"all\"\n");
    until_async("the replayed job", SOON, async || scene.json(&["status", "tasks-1"])["state"] == "done")
        .await;
    worker.term();
    worker.wait_exit(SOON);
}

async fn rows_that_cannot_be_jobs_are_named_and_the_others_go_on(place: Place) {
    let scene = ImportScene::new(place, TABLE, &[CREATE]).await;
    insert(&scene, 30, 0).await;
    let mut hand = scene.place().hand().await;
    hand.run("UPDATE tasks SET body = '{\"n\": ' WHERE id <= 25").await;
    hand.run("UPDATE tasks SET kind = 'Other' WHERE id = 26").await;
    hand.run("UPDATE tasks SET body = NULL WHERE id = 27").await;
    hand.run("UPDATE tasks SET state = 2, tries = -1 WHERE id = 28").await;
    let refused = scene.path("refused.ndjson");
    let (code, report) = scene.import(&["--yes", "--refused", &refused]);
    let table = &report["tables"][0];
    assert_eq!((code, &table["submitted"], &table["refused"]), (Some(5), &json!(2), &json!(28)));
    assert_eq!(table["refused_rows"].as_array().unwrap().len(), 20);
    let lines = std::fs::read_to_string(refused).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 28);
    for (at, why) in
        [(0, "body is not JSON"), (25, "does not have \"Other\""), (26, "body is NULL"), (27, "attempts")]
    {
        let line = &lines[at];
        assert_eq!((&line["table"], &line["key"]), (&json!("tasks"), &json!((at + 1).to_string())));
        assert!(line["error"].as_str().unwrap().contains(why), "{line}");
    }
}

async fn a_plan_changes_nothing(place: Place) {
    let scene = ImportScene::new(place, TABLE, &[CREATE]).await;
    insert(&scene, 1200, 0).await;
    let keys = scene.scene.redis.cmd(&["DBSIZE"]);
    let (code, report) = scene.import(&["--dry-run"]);
    let table = &report["tables"][0];
    assert_eq!((code, &report["dry_run"]), (Some(0), &json!(true)));
    assert_eq!(
        (&table["looked"], &table["submitted"], &table["more"]),
        (&json!(1000), &json!(1000), &json!(true))
    );
    assert_eq!(table["types"], json!({"test": 1000}));
    assert_eq!(scene.scene.redis.cmd(&["DBSIZE"]), keys);
    assert_eq!(scene.passed("tasks"), None);
    let output = scene.launch(&[]).output(SOON);
    assert!(output.code == Some(2) && output.stderr.contains("add --yes"), "{output:?}");
}

async fn a_full_queue_is_waited_for(place: Place) {
    let scene = ImportScene::new(place, TABLE, &[CREATE]).await;
    insert(&scene, 300, 0).await;
    let sections = "[queues.default]\nmax_depth = 100\n";
    let import = scene.launch_with(&["--yes"], sections).start();
    until_async("the queue to be full", SOON, async || import.stderr().contains("waits and tries again"))
        .await;
    assert_eq!(scene.queue().snapshot().await.unwrap().waiting(), 100);
    let worker = scene.scene.worker(sections);
    assert_eq!(import.wait_exit(SOON).code(), Some(0), "{}", import.stderr());
    let report: Value = serde_json::from_str(&import.stdout()).unwrap();
    assert_eq!(report["tables"][0]["submitted"], 300);
    worker.term();
    worker.wait_exit(SOON);
}

async fn what_a_mapping_gets_wrong_is_told_before_anything_is_changed(place: Place) {
    let scene = ImportScene::new(place, TABLE, &[CREATE]).await;
    insert(&scene, 3, 0).await;
    for (from, to, why) in [
        ("column = \"body\"", "column = \"bodi\"", "bodi"),
        ("name = \"tasks\"", "name = \"task\"", "the table task cannot be read"),
        ("key = \"id\"", "key = \"kind\"", "must be unique"),
        ("key = \"id\"", "keys = \"id\"", "did you mean \"key\"?"),
    ] {
        scene.write(&TABLE.replace(from, to));
        let output = scene.launch(&["--yes"]).output(SOON);
        assert!(
            output.code.is_some_and(|code| code != 0) && output.stderr.contains(why),
            "{why}: {output:?}"
        );
    }
    assert_eq!(scene.queue().snapshot().await.unwrap().waiting(), 0);
}
