//! Ended jobs come back from the history: dead ones under their ids, others as new jobs; each once, whatever dies.

use std::collections::BTreeSet;

use harness::wait::until_async;
use serde_json::{Value, json};
use streamfleet::job::{Envelope, JobId, Lane, State};
use streamfleet_sql::history::{Body, Ended, Ending, write};

use crate::kit::Place;
use crate::scene::{SOON, Scene, ask};

on_all_databases!(
    both_doors_restore_the_same,
    dead_letters_that_only_the_history_has_are_replayed,
    a_canary_stops_the_second_run_of_jobs_that_were_done,
    a_restore_that_is_killed_and_repeated_files_each_job_once,
);

const HISTORY: &str = "[history]\nurl_file = \"{url}\"\npayloads = \"all\"\n";

/// The first millisecond of 2026-11-01.
const MS: u64 = 1_793_491_200_000;

/// A life of a queue that ended this many milliseconds after [`MS`], on this version.
fn life(queue: &str, number: u64, state: Ending, version: &str) -> Ended {
    let fields: [(&[u8], &[u8]); 4] = [
        (b"type", b"test"),
        (b"payload", br#"{"it": "dies"}"#),
        (b"tracking", b"all"),
        (b"dead_at_ms", b"5"),
    ];
    let dead = |text: &str| (state == Ending::Dead).then(|| text.to_owned());
    Ended {
        queue: queue.parse().unwrap(),
        life: format!("{}-0", MS + number).parse().unwrap(),
        id: format!("order-{number}").parse().unwrap(),
        job_type: "test".to_owned(),
        lane: Lane::Normal,
        state,
        created_ms: MS + number,
        ended_ms: MS + number,
        attempts: 1,
        worker: Some("host-1-abc".to_owned()),
        worker_version: Some(version.to_owned()),
        reason: dead("exhausted"),
        fingerprint: dead("0123456789abcdef"),
        error: dead("exit code 7"),
        result: None,
        root: None,
        body: Body::Stored(Envelope::new(fields.into_iter())),
        attempted: Vec::new(),
        keys: Vec::new(),
    }
}

/// The ids of the jobs of all dead letters.
async fn dead_ids(scene: &Scene) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = scene.queue.dead_letters().later(after, 500).await.unwrap();
        let Some(last) = page.last() else { return ids };
        after = Some(last.entry);
        ids.extend(page.iter().map(|letter| letter.job().to_string()));
    }
}

async fn is_done(scene: &Scene, id: &JobId) -> bool {
    scene.queue.status(id).await.unwrap().is_some_and(|status| status.state == State::Done)
}

/// A report without what differs between the queues `typed` and `asked`.
fn comparable(value: &Value) -> Value {
    let text = value.to_string().replace("\"typed\"", "\"queue\"").replace("\"asked\"", "\"queue\"");
    let mut value: Value = serde_json::from_str(&text).unwrap();
    for item in value["items"].as_array_mut().into_iter().flatten() {
        for own in ["at", "at_ms", "entry", "letter"] {
            item.as_object_mut().unwrap().remove(own);
        }
    }
    value
}

/// How the restores of the queue `default` ended, the latest first.
fn outcomes(scene: &Scene) -> Vec<String> {
    let audit = scene.json(&["audit", "--queue", "default"], HISTORY);
    let notes = audit["items"].as_array().unwrap().iter().filter(|note| note["what"] == "history restore");
    notes.map(|note| note["outcome"].as_str().unwrap().to_owned()).collect()
}

async fn both_doors_restore_the_same(place: Place) {
    let scene = Scene::new(place).await;
    for queue in ["typed", "asked"] {
        let mut lives: Vec<Ended> = (0..6)
            .map(|number| life(queue, number, Ending::ALL[usize::try_from(number % 3).unwrap()], "1"))
            .collect();
        lives[0].body = Body::None;
        lives[1].body = Body::TooLarge;
        let later = Ended { id: lives[4].id.clone(), ..life(queue, 9, Ending::Cancelled, "1") };
        lives.push(Ended { body: Body::Masked(Envelope::default()), ..later });
        write(&scene.database, &lives).await.unwrap();
    }
    let console = scene.console(HISTORY).await;
    let group = "0b5ff10951f305e7";
    let command =
        ["history", "restore", "--queue", "typed", "--state", "done,dead,cancelled", "--into", group];
    let more = ["--by", "all", "--reason", "a test", "--yes"];
    let plan = scene.json(&[&command[..], &["--dry-run"]].concat(), HISTORY);
    assert_eq!((&plan["looked"], &plan["planned"]), (&json!(7), &json!(3)), "{plan}");
    let path = "/api/v1/queues/asked/history/restore";
    let asked_plan = json!({"filter": {"state": "done,dead,cancelled"}, "group": group, "dry_run": true});
    let asked_plan = ask(&console.address, "POST", path, &asked_plan);
    assert_eq!(comparable(&plan), comparable(&asked_plan));
    let typed = scene.json(&[&command[..], &more].concat(), HISTORY);
    let kept = json!({"no_payload": 1, "too_large": 1, "masked": 1, "ended_later": 1});
    assert_eq!((&typed["filed"], &typed["kept"]), (&json!(3), &kept), "{typed}");
    let sent = json!({"filter": {"state": "done,dead,cancelled"}, "group": group, "reason": "a test"});
    let asked = ask(&console.address, "POST", path, &sent);
    assert_eq!(comparable(&typed), comparable(&asked));
    for lists in ["dead", "audit"] {
        let [typed, asked] =
            ["typed", "asked"].map(|queue| console.get(&format!("/api/v1/queues/{queue}/{lists}")));
        assert!(!typed["items"].as_array().unwrap().is_empty(), "{lists}");
        assert_eq!(comparable(&typed), comparable(&asked), "{lists}");
    }
    let again = ask(&console.address, "POST", path, &sent);
    assert_eq!((&again["filed"], &again["kept"]["exists"]), (&json!(0), &json!(3)));
}

async fn dead_letters_that_only_the_history_has_are_replayed(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    let ids = scene.submit(3, r#"{"it": "heals"}"#).await;
    until_async("all ends", SOON, async || hand.number("SELECT COUNT(*) FROM sf_jobs").await == 3).await;
    worker.term();
    worker.wait_exit(SOON);
    scene.redis.cmd(&["FLUSHALL"]);
    scene.heal();
    let worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    let restored = scene.json(&["history", "restore", "--state", "dead", "--yes"], HISTORY);
    assert_eq!((&restored["filed"], &restored["looked"]), (&json!(3), &json!(3)), "{restored}");
    let group = restored["group"].as_str().unwrap();
    assert_eq!(dead_ids(&scene).await.iter().collect::<BTreeSet<_>>().len(), 3);
    let replayed = scene.json(&["dead", "replay", "--group", group, "--yes"], HISTORY);
    assert_eq!(replayed["replayed"], 3, "{replayed}");
    for id in &ids {
        until_async("the job to be done", SOON, async || is_done(&scene, id).await).await;
    }
    until_async("their ends", SOON, async || hand.number("SELECT COUNT(*) FROM sf_jobs").await == 6).await;
    // What was dead and then done does not come back as dead, even if Redis has forgotten both.
    scene.redis.cmd(&["FLUSHALL"]);
    let again = scene.json(&["history", "restore", "--state", "dead", "--yes"], HISTORY);
    assert_eq!((&again["filed"], &again["kept"]), (&json!(0), &json!({"ended_later": 3})), "{again}");
    worker.term();
    worker.wait_exit(SOON);
}

async fn a_canary_stops_the_second_run_of_jobs_that_were_done(place: Place) {
    let scene = Scene::new(place).await;
    let lives: Vec<Ended> = (0..330_u64)
        .map(|number| life("default", number, Ending::Done, if number % 11 == 0 { "1.5.0" } else { "1.4.2" }))
        .collect();
    // A worker that starts makes partitions, which take rows from the catch-all. In PostgreSQL, a read at that time was seen to miss some, once.
    let worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    write(&scene.database, &lives).await.unwrap();
    let command = ["history", "replay", "--state", "done", "--type", "test", "--worker-version", "1.4.2"];
    let more = ["--until", "2026-11-02", "--canary", "5", "--yes", "-o", "json"];
    let output = scene.launch(&[&command[..], &more].concat(), HISTORY).output(SOON);
    assert_eq!(output.code, Some(1), "{output:?}");
    let task: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&task["state"], &task["planned"]), (&"stopped".into(), &json!(300)), "{task}");
    assert!((1..=5).contains(&task["replayed"].as_u64().unwrap()), "{task}");
    let ids = dead_ids(&scene).await;
    assert!(ids.iter().all(|id| id.starts_with("again-")), "{ids:?}");
    let letter = scene.json(&["dead", "show", "again-1793491200001-0"], HISTORY).to_string();
    assert!(
        letter.contains("order-1") && letter.contains("it was done 2026-11-01T00:00:00.001Z"),
        "{letter}"
    );
    worker.term();
    worker.wait_exit(SOON);
}

async fn a_restore_that_is_killed_and_repeated_files_each_job_once(place: Place) {
    const JOBS: u64 = 1800;
    let scene = Scene::new(place).await;
    let state = |number| if number % 2 == 0 { Ending::Done } else { Ending::Dead };
    let lives: Vec<Ended> = (0..JOBS).map(|number| life("default", number, state(number), "1")).collect();
    write(&scene.database, &lives).await.unwrap();
    let command = ["history", "restore", "--state", "done,dead", "--limit", "5000", "--yes", "--into"];
    let command = [&command[..], &["0b5ff10951f305e7", "-o", "json"]].concat();
    for part in [1, 700] {
        let restore = scene.launch(&command, HISTORY).start();
        until_async("some letters", SOON, async || {
            let dead = scene.queue.snapshot().await.unwrap().dead;
            dead >= part || restore.exit_status().is_some()
        })
        .await;
        restore.kill9();
    }
    assert!(outcomes(&scene).ends_with(&["started".to_owned()]), "the audit knows of a killed restore");
    let known = scene.queue.snapshot().await.unwrap().dead;
    let restored = scene.json(&command[..command.len() - 2], HISTORY);
    assert_eq!(outcomes(&scene)[..2], ["done", "started"]);
    let [filed, exist] =
        [&restored["filed"], &restored["kept"]["exists"]].map(|count| count.as_u64().unwrap_or(0));
    assert_eq!(
        (filed + exist, exist >= known, &restored["looked"]),
        (JOBS, true, &json!(JOBS)),
        "{restored}"
    );
    let ids = dead_ids(&scene).await;
    assert_eq!((ids.len() as u64, ids.iter().collect::<BTreeSet<_>>().len() as u64), (JOBS, JOBS));
}
