//! The mapping files of `examples/import`, on tables as the migrations of their frameworks make them.

use std::path::Path;

use serde_json::{Value, json};
use streamfleet_sql::Dialect;

use super::scene::ImportScene;
use crate::kit::Place;

on_all_databases!(
    the_tables_of_laravel,
    a_table_that_hyperf_fills,
    report_tasks_and_their_dead_letters,
    compensation_tables_with_sub_tasks,
);

fn example(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/import").join(name))
        .unwrap()
}

/// A text in a statement.
fn literal(dialect: Dialect, text: &str) -> String {
    let text = if dialect == Dialect::MySql { text.replace('\\', "\\\\") } else { text.to_owned() };
    format!("'{}'", text.replace('\'', "''"))
}

/// Bytes in a statement.
fn binary(dialect: Dialect, bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if dialect == Dialect::Postgres { format!("decode('{digits}', 'hex')") } else { format!("X'{digits}'") }
}

/// A message of Laravel 8 with a job of this class, which has one property besides those of `Queueable`.
fn laravel(class: &str, property: &str, value: &str) -> String {
    let text = |text: &str| format!("s:{}:\"{text}\";", text.len());
    let queueable = [
        "connection",
        "queue",
        "chainConnection",
        "chainQueue",
        "chainCatchCallbacks",
        "delay",
        "afterCommit",
    ];
    let queueable: String = queueable.iter().map(|name| format!("{}N;", text(name))).collect();
    let lists = format!("{}a:0:{{}}{}a:0:{{}}", text("middleware"), text("chained"));
    let own = format!("{}{}", text(&format!("\0*\0{property}")), text(value));
    let command = format!("O:{}:\"{class}\":11:{{{own}{}N;{queueable}{lists}}}", class.len(), text("job"));
    let data = json!({"commandName": class, "command": command});
    let call = "Illuminate\\Queue\\CallQueuedHandler@call";
    json!({"uuid": "1", "displayName": class, "job": call, "maxTries": null, "timeout": null, "data": data})
        .to_string()
}

fn counts(report: &Value) -> Vec<[u64; 4]> {
    let tables = report["tables"].as_array().unwrap().iter();
    tables
        .map(|table| ["submitted", "filed", "existing", "refused"].map(|name| table[name].as_u64().unwrap()))
        .collect()
}

/// The payload of a job as handlers get it.
fn payload(scene: &ImportScene, queue: &str, id: &str) -> Value {
    scene.json(&["status", id, "--queue", queue])["payload"].clone()
}

async fn the_tables_of_laravel(place: Place) {
    let dialect = place.dialect;
    let create = [
        "CREATE TABLE jobs (id {id}, queue VARCHAR(255) NOT NULL, payload {longtext} NOT NULL, attempts {tiny} NOT NULL, reserved_at {int}, available_at {int} NOT NULL, created_at {int} NOT NULL)",
        "CREATE INDEX jobs_queue_index ON jobs (queue)",
        "CREATE TABLE failed_jobs (id {id}, uuid VARCHAR(255) NOT NULL UNIQUE, connection {longtext} NOT NULL, queue {longtext} NOT NULL, payload {longtext} NOT NULL, exception {longtext} NOT NULL, failed_at {datetime})",
    ];
    let scene = ImportScene::new(place, &example("laravel.toml"), &create).await;
    let mut hand = scene.place().hand().await;
    let report = literal(dialect, &laravel("App\\Jobs\\BuildReport", "month", "2026-11"));
    let unknown = literal(dialect, &laravel("App\\Jobs\\Other", "a", "b"));
    hand.run(&format!(
        "INSERT INTO jobs (queue, payload, attempts, reserved_at, available_at, created_at) VALUES \
         ('default', {report}, 0, NULL, 1764547200, 1764547200), ('default', {report}, 0, NULL, 2000000000, 1764547200), \
         ('mail', {report}, 0, NULL, 1764547200, 1764547200), ('default', {unknown}, 0, NULL, 1764547200, 1764547200)"
    ))
    .await;
    let exception = literal(
        dialect,
        "RuntimeException: the printer is out of paper in /srv/app\\Jobs\\BuildReport.php:12",
    );
    hand.run(&format!(
        "INSERT INTO failed_jobs (uuid, connection, queue, payload, exception, failed_at) VALUES \
         ('u-1', 'database', 'default', {report}, {exception}, '2025-12-01 00:00:00')"
    ))
    .await;
    let (code, imported) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&imported)), (Some(5), vec![[2, 0, 0, 1], [0, 1, 0, 0]]), "{imported}");
    let states =
        ["jobs-1", "jobs-2"].map(|id| scene.json(&["status", id, "--queue", "report"])["state"].clone());
    assert_eq!(states, [json!("waiting"), json!("scheduled")]);
    assert_eq!(payload(&scene, "report", "jobs-1"), json!({"month": "2026-11"}));
    let letters = scene.json(&["dead", "list", "--queue", "report"]);
    let letter = &letters["items"][0];
    assert_eq!((&letter["id"], &letter["type"]), (&json!("failed_jobs-1"), &json!("report.build")));
    assert_eq!(letter["died_ms"], 1_764_547_200_000_u64);
    assert!(letter["error"].as_str().unwrap().contains("out of paper"));
}

async fn a_table_that_hyperf_fills(place: Place) {
    let dialect = place.dialect;
    let create = [
        "CREATE TABLE failed_jobs (id {id}, queue VARCHAR(255), class VARCHAR(255), payload {blob}, attempts INT, error {longtext}, failed_at {datetime})",
    ];
    let scene = ImportScene::new(place, &example("hyperf-failed.toml"), &create).await;
    let job = "O:17:\"App\\Job\\ReportJob\":2:{s:6:\"params\";a:2:{s:5:\"month\";i:11;s:4:\"user\";s:4:\"zoé\";}s:14:\"\0*\0maxAttempts\";i:2;}";
    let message =
        format!("O:28:\"Hyperf\\AsyncQueue\\JobMessage\":2:{{s:3:\"job\";{job}s:8:\"attempts\";i:2;}}");
    let payload_bytes = binary(dialect, message.as_bytes());
    scene
        .place()
        .hand()
        .await
        .run(&format!(
            "INSERT INTO failed_jobs (queue, class, payload, attempts, error, failed_at) VALUES \
             ('default', 'ReportJob', {payload_bytes}, 3, 'timed out', '2025-12-01 00:00:00')"
        ))
        .await;
    let (code, imported) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&imported)), (Some(0), vec![[0, 1, 0, 0]]), "{imported}");
    let letters = scene.json(&["dead", "list", "--queue", "report"]);
    let letter = &letters["items"][0];
    assert_eq!((&letter["id"], &letter["error"]), (&json!("hyperf-failed-1"), &json!("timed out")));
    assert_eq!((&letter["attempts"], &letter["died_ms"]), (&json!(3), &json!(1_764_547_200_000_u64)));
    let shown = scene.json(&["dead", "show", "hyperf-failed-1", "--queue", "report"]);
    assert!(shown.to_string().contains("zoé"), "{shown}");
}

async fn report_tasks_and_their_dead_letters(place: Place) {
    let create = [
        "CREATE TABLE report_tasks (task_id VARCHAR(64) NOT NULL PRIMARY KEY, params {json}, status VARCHAR(16) NOT NULL, attempt INT NOT NULL DEFAULT 0, max_retry INT NOT NULL DEFAULT 3, last_error {longtext}, output_path VARCHAR(255), created_at {datetime})",
        "CREATE TABLE dead_letter_tasks (id {id}, task_id VARCHAR(64) NOT NULL, params {json}, error {longtext}, created_at {datetime}, expire_at {datetime})",
    ];
    let scene = ImportScene::new(place, &example("report-tasks.toml"), &create).await;
    let mut hand = scene.place().hand().await;
    hand.run(
        "INSERT INTO report_tasks (task_id, params, status) VALUES ('rpt_b', '{\"month\": 11}', 'pending'), \
         ('rpt_a', '{\"month\": 10}', 'retrying'), ('rpt_c', '{}', 'done'), ('rpt_d', '{}', 'running'), ('rpt_e', '{}', 'dead')",
    )
    .await;
    hand.run(
        "INSERT INTO dead_letter_tasks (task_id, params, error, created_at, expire_at) VALUES \
         ('rpt_e', '{\"month\": 9}', 'no disk', '2025-12-01 00:00:00', '2025-12-08 00:00:00')",
    )
    .await;
    let (code, imported) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&imported)), (Some(0), vec![[2, 0, 0, 0], [0, 1, 0, 0]]), "{imported}");
    assert_eq!(payload(&scene, "report", "report_tasks-rpt_b"), json!({"month": 11}));
    let shown = scene.json(&["dead", "show", "dead_letter_tasks-1", "--queue", "report"]);
    assert!(shown.to_string().contains("rpt_e") && shown.to_string().contains("no disk"), "{shown}");
}

async fn compensation_tables_with_sub_tasks(place: Place) {
    let mapping = example("compensation.toml");
    // The view is in the comment that tells to make it.
    let (_, view) = mapping.split_once("# CREATE VIEW").unwrap();
    let view = format!("CREATE VIEW{}", view.split_once(';').unwrap().0.replace("\n#", "\n"));
    let create = [
        "CREATE TABLE queue (id {id}, queue_id VARCHAR(64) NOT NULL UNIQUE, class_name VARCHAR(255) NOT NULL, params {json}, status {tiny} NOT NULL DEFAULT 0, times INT NOT NULL DEFAULT 0, is_warn {tiny} NOT NULL DEFAULT 0, error_info VARCHAR(255), run_time BIGINT NOT NULL DEFAULT 0, update_time BIGINT NOT NULL DEFAULT 0)",
        "CREATE TABLE queue_task (id {id}, queue_id VARCHAR(64) NOT NULL, method VARCHAR(64) NOT NULL, type VARCHAR(16) NOT NULL, status {tiny} NOT NULL DEFAULT 0, times INT NOT NULL DEFAULT 0, error_info VARCHAR(255))",
        view.as_str(),
    ];
    let dialect = place.dialect;
    let scene = ImportScene::new(place, &mapping, &create).await;
    let mut hand = scene.place().hand().await;
    let class = literal(dialect, "App\\Queue\\OrderPaid");
    hand.run(&format!(
        "INSERT INTO queue (queue_id, class_name, params, status, run_time, update_time) VALUES \
         ('q1', {class}, '{{\"order\": 1}}', 0, 0, 1764547200), ('q2', {class}, '{{\"order\": 2}}', 2, 0, 1764547200), \
         ('q3', {class}, '{{\"order\": 3}}', 1, 0, 1764547200)"
    ))
    .await;
    hand.run(
        "INSERT INTO queue_task (queue_id, method, type, status, times, error_info) VALUES \
         ('q2', 'sendCoupon', 'auto', 2, 1, 'slow'), ('q2', 'deductMoney', 'manual', 2, 1, 'unknown'), \
         ('q3', 'sendCoupon', 'auto', 1, 1, NULL), ('q3', 'deductMoney', 'manual', 1, 1, NULL)",
    )
    .await;
    let (code, imported) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&imported)), (Some(0), vec![[1, 0, 0, 0], [1, 1, 0, 0]]), "{imported}");
    assert_eq!(payload(&scene, "order", "open_tasks-1"), json!({"order": 2}));
    let letters = scene.json(&["dead", "list", "--queue", "order"]);
    let letter = &letters["items"][0];
    assert_eq!((&letter["id"], &letter["type"]), (&json!("open_tasks-2"), &json!("order.deduct")));
    assert_eq!((&letter["error"], &letter["attempts"]), (&json!("unknown"), &json!(1)));
}
