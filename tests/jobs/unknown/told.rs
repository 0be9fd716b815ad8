//! What people are told about types that no live worker knows.

use std::sync::{Arc, Mutex};

use streamfleet::Fleet;
use streamfleet::event::{Event, Events};

use super::{start, until_parked};
use harness::desk::{json, sf, sf_with};
use harness::fleet::{Acts, Running, quick};
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn commands_name_the_types_that_no_live_worker_knows() {
    let scene = Scene::new().await;
    let fleet = start(scene.config(LONG), &["tests"], &Acts::well());
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "odd"]);
    until_parked(&scene, 1).await;
    let listed = until_async("the type to be listed", SOON, async || {
        let items = json(&scene.server, &["queues"])["items"].take();
        let types = items[0]["unserved_types"].clone();
        types[0]["did_you_mean"].is_string().then_some(types)
    })
    .await;
    assert_eq!((&listed[0]["type"], &listed[0]["jobs"]), (&"test".into(), &1.into()));
    assert_eq!(listed[0]["did_you_mean"], "tests");
    let table = sf(&scene.server, &["queues"]).stdout;
    let line = "1 job waits in the queue default: no live worker knows the type test; did you mean tests?";
    assert!(table.contains(line), "{table}");
    let warned = sf(&scene.server, &["enqueue", "test"]);
    let remark = "no live worker of the queue default knows the type test; did you mean tests?";
    assert!(warned.code == Some(0) && warned.stderr.contains(remark), "{warned:?}");
    assert_eq!(sf(&scene.server, &["enqueue", "tests"]).stderr, "");
    let status = json(&scene.server, &["status", "odd"]);
    assert!(status["unserved"].as_str().is_some_and(|told| told.contains(remark)), "{status}");
    // Once for each type of many jobs.
    let lines = "{\"type\":\"test\"}\n".repeat(300) + "{\"type\":\"tests\"}\n{\"type\":\"mail\"}\n";
    let warned = sf_with(&scene.server, &["enqueue", "--bulk"], lines.as_bytes());
    let other = "jobs wait: no live worker of the queue default knows the type mail\n";
    assert_eq!(
        (warned.code, warned.stderr.as_str()),
        (Some(0), format!("{other}jobs wait: {remark}\n").as_str())
    );
    let known = sf_with(&scene.server, &["enqueue", "--bulk"], b"{\"type\":\"tests\"}\n");
    assert_eq!((known.code, known.stderr.as_str()), (Some(0), ""));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_reports_a_type_that_no_live_worker_knows_once() {
    let scene = Scene::new().await;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let counted: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let (names, counts) = (Arc::clone(&told), Arc::clone(&counted));
    let events = Events::new(vec![Arc::new(move |event: &Event<'_>| match event {
        Event::TypeUnserved { job_type, .. } => names.lock().unwrap().push(job_type.to_string()),
        Event::UnservedTypes { types, jobs, .. } => counts.lock().unwrap().push((*types, *jobs)),
        _ => {}
    })]);
    let builder = Fleet::builder(scene.config(LONG)).events(events);
    let fleet = Running::of(builder.handler_with("other", quick(3), Acts::well()).unwrap().build());
    for _ in 0..2 {
        scene.server.cmd(&["XADD", STREAM, "*", "type", "test"]);
    }
    let count = || counted.lock().unwrap().iter().filter(|counts| **counts == (1, 2)).count();
    until_async("the jobs to be counted in two walks", 2 * SOON, async || count() >= 2).await;
    assert_eq!(*told.lock().unwrap(), ["test"]);
    let knowing = start(scene.config(LONG), &["test"], &Acts::well());
    until_async("none to be counted", 2 * SOON, async || counted.lock().unwrap().last() == Some(&(0, 0)))
        .await;
    fleet.stop().await;
    knowing.stop().await;
}
