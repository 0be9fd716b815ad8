//! Incidents about databases: they open while the database is away or refuses, and are over afterwards.

use harness::wait::until_async;

use crate::kit::Place;
use crate::scene::{SOON, Scene};

on_all_databases!(
    a_history_is_behind_and_loses_ends_while_its_database_is_away,
    an_outbox_is_stuck_while_it_has_refused_rows,
);

const HISTORY: &str = "[history]\nurl_file = \"{url}\"\njournal_size = \"1MiB\"\nkeys = [\"customer\"]\n";
const OUTBOX: &str = "[outbox]\nurl_file = \"{url}\"\npoll = \"50ms\"\n";
const ALERTS: &str = "[alerts]\nevery = \"200ms\"\nresolve_after = \"0s\"\n";

/// What the open incident of a kind says; `None` if there is none.
fn detail(scene: &Scene, kind: &str) -> Option<String> {
    let listed = scene.json(&["alerts", "list"], "");
    let incident = listed["items"].as_array().unwrap().iter().find(|incident| incident["kind"] == kind)?;
    assert_eq!(incident["state"], "open", "{incident}");
    Some(incident["detail"].as_str().unwrap().to_owned())
}

/// Waits until an incident of a kind is open, and returns what it says.
async fn opened(scene: &Scene, kind: &str) -> String {
    until_async(&format!("the incident {kind}"), SOON, async || detail(scene, kind)).await
}

async fn is_over(scene: &Scene, kind: &str) {
    until_async(&format!("the end of {kind}"), SOON, async || detail(scene, kind).is_none()).await;
}

/// Here, the tables are away: to the writer, it is one of the errors after which it tries again.
async fn a_history_is_behind_and_loses_ends_while_its_database_is_away(place: Place) {
    let scene = Scene::new(place).await;
    let worker = scene.worker(&format!("{HISTORY}{ALERTS}"));
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    scene.hide(true).await;
    until_async("a full journal", SOON, async || {
        scene.submit(200, r#"{"customer": 1}"#).await;
        scene.queue.journal_figures().await.unwrap().lost.is_some()
    })
    .await;
    let said = opened(&scene, "history_behind").await;
    assert!(said.contains("the journal is ") && said.contains("Last error: "), "{said}");
    let said = opened(&scene, "history_lost").await;
    assert!(said.starts_with("the history lacks "), "{said}");

    scene.hide(false).await;
    is_over(&scene, "history_behind").await;
    let is_fine = async || scene.queue.journal_figures().await.unwrap().error.is_none();
    until_async("no error", SOON, is_fine).await;
    assert!(detail(&scene, "history_lost").is_some(), "these ends are still lost");
    scene.queue.forget_lost_ends().await.unwrap();
    is_over(&scene, "history_lost").await;
    worker.term();
    worker.wait_exit(SOON);
}

async fn an_outbox_is_stuck_while_it_has_refused_rows(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let row = "INSERT INTO streamfleet_outbox (job_id, queue, type, payload, options) \
        VALUES ('bad', 'default', 'test', '{}', '{\"color\": \"red\"}')";
    hand.run(row).await;
    let worker = scene.worker(&format!("{OUTBOX}{ALERTS}"));
    let said = opened(&scene, "outbox_stuck").await;
    assert_eq!(said, "1 row was refused and needs a repair");
    hand.run("UPDATE streamfleet_outbox SET options = NULL, refused = NULL").await;
    is_over(&scene, "outbox_stuck").await;
    worker.term();
    worker.wait_exit(SOON);
}
