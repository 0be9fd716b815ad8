//! People: every command of the program, with the login for operators.

use std::fs;

use harness::fleet::{Acts, Running, config, quick, until_state};
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use streamfleet::job::{Envelope, JobId, Lane, State};
use streamfleet::{Broker, JobError, Queue};
use streamfleet_sql::history::{Body, Ended, Ending, write};
use streamfleet_sql::schema::{Part, migrate};
use streamfleet_sql::{Database, Options};

use super::logins::Site;

/// A table of another queue, and how its rows become jobs and dead letters.
const TABLE: &str = "CREATE TABLE tasks (id INTEGER PRIMARY KEY, body TEXT, state INTEGER);
    INSERT INTO tasks (body, state) VALUES ('{}', 0), ('{}', 2);";
const MAPPING: &str = r#"
[[table]]
name = "tasks"
key = "id"
queue = "default"
type = "test"
payload = { column = "body", as = "json" }
waiting = { column = "state", values = [0] }
dead = { column = "state", values = [2] }
"#;

/// Two dead letters and a delayed job.
pub(super) async fn remains(site: &Site) -> Queue {
    let broker = Broker::connect(config(&site.url("worker")).redis).await.unwrap();
    let queue = broker.queue("default".parse().unwrap());
    let fleet = Running::start(&site.url("worker"), quick(1), Acts::new(|_, _| Err(JobError::fatal("no"))));
    for id in ["one", "two", "three"] {
        site.run("operator", &["enqueue", "test", "--id", id]);
        until_state(&queue, &id.parse::<JobId>().unwrap(), State::Dead).await;
    }
    fleet.stop().await;
    queue
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_use_every_command() {
    let site = Site::new();
    remains(&site).await;
    site.run("operator", &["enqueue", "test", "--id", "late", "--delay", "1h"]);
    site.run("operator", &["check"]);
    for line in [
        "queues",
        "queues --memory",
        "jobs",
        "jobs --running",
        "jobs --state done",
        "workers",
        "status one",
        "events",
        "dead list",
        "dead show one",
        "dead groups --recount",
        "dead export --all",
        "dead edit one --set h.tenant=9",
        "dead replay --all --rate 10/s --yes --detach",
        "tasks list",
        "audit",
        "dead replay one",
        "dead drop two",
        "dead replay --all --yes",
        "delayed list",
        "delayed reschedule late --delay 2h",
        "delayed edit late --payload {}",
        "delayed run late",
        "cancel late",
        "enqueue test --id moved",
        "enqueue test --id later --delay 1h",
        "move --to mail --type test --yes --unserved",
        "run-now --queue mail --all --yes",
        "cancel --queue mail --all --yes",
        "queues purge default --waiting --delayed --dead --confirm default",
        "queues delete mail --confirm mail",
        "audit --deletions",
        "cron add nightly --schedule @daily --type test",
        "cron list",
        "cron pause nightly",
        "cron resume nightly",
        "cron run nightly",
        "cron remove nightly",
    ] {
        site.run("operator", &line.split(' ').collect::<Vec<_>>());
    }
    site.nothing_was_refused();
}

/// A job that only the history has.
fn past(id: &str, state: Ending) -> Ended {
    let fields: [(&[u8], &[u8]); 2] = [(b"type", b"test"), (b"payload", b"{}")];
    Ended {
        queue: "default".parse().unwrap(),
        life: format!("1793491200000-{}", id.len()).parse().unwrap(),
        id: id.parse().unwrap(),
        job_type: "test".to_owned(),
        lane: Lane::Normal,
        state,
        created_ms: 1_793_491_200_000,
        ended_ms: 1_793_491_200_000,
        attempts: 1,
        worker: None,
        worker_version: None,
        reason: None,
        fingerprint: None,
        error: None,
        result: None,
        root: None,
        body: Body::Stored(Envelope::new(fields.into_iter())),
        attempted: Vec::new(),
        keys: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_bring_jobs_back_from_the_history_and_import_them() {
    let (site, folder) = (Site::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let url = format!("sqlite:{}", at("test.db"));
    fs::write(at("url"), &url).unwrap();
    fs::write(at("config.toml"), format!("[history]\nurl_file = {:?}\n", at("url"))).unwrap();
    fs::write(at("import.toml"), format!("url_file = {:?}\n{MAPPING}", at("url"))).unwrap();
    let database = Database::connect(&url.as_str().into(), &Options::default()).await.unwrap();
    migrate(&database, &[Part::History]).await.unwrap();
    write(&database, &[past("dead", Ending::Dead), past("succeeded", Ending::Done)]).await.unwrap();
    database.close().await;
    let mut hand = SqliteConnection::connect(&url).await.unwrap();
    hand.execute(sqlx::raw_sql(TABLE)).await.unwrap();
    hand.close().await.unwrap();
    let (file, import) = (at("config.toml"), at("import.toml"));
    for (line, said) in [
        ("history list", "succeeded"),
        ("history stats", ""),
        ("history restore --state dead --dry-run", "1 of 1 job can come back"),
        ("history restore --state dead --yes", "1 job restored"),
        ("history replay --state done --yes --detach", ""),
        ("import IMPORT --dry-run", "tasks"),
        ("import IMPORT --yes", "tasks"),
        ("audit --action history", "history restore"),
    ] {
        let words = line.split(' ').map(|word| if word == "IMPORT" { import.as_str() } else { word });
        let output =
            site.run("operator", &["--config", file.as_str()].into_iter().chain(words).collect::<Vec<_>>());
        assert!(output.stdout.contains(said), "{line}: {output:?}");
    }
    let broker = Broker::connect(config(&site.url("operator")).redis).await.unwrap();
    let snapshot = broker.queue("default".parse().unwrap()).snapshot().await.unwrap();
    assert_eq!(snapshot.waiting(), 1, "the waiting row of the table");
    site.nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_commands_are_refused_to_other_logins() {
    let site = Site::new();
    remains(&site).await;
    for login in ["submitter", "producer", "monitor"] {
        for line in [
            "dead list",
            "dead replay one",
            "dead drop one",
            "queues",
            "workers",
            "jobs",
            "cron list",
            "events",
        ] {
            site.refuses(login, &line.split(' ').collect::<Vec<_>>());
        }
    }
    site.refuses("worker", &["queues"]);
    site.refuses("worker", &["workers"]);
    for login in ["producer", "monitor"] {
        site.refuses(login, &["enqueue", "test"]);
        site.refuses(login, &["status", "one"]);
    }
}
