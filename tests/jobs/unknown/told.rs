//! What the leader reports about types that no live worker knows.

use std::sync::{Arc, Mutex};

use streamfleet::Fleet;
use streamfleet::event::{Event, Events, QueueEvent};

use super::start;
use harness::fleet::{Acts, Running, quick};
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_reports_a_type_that_no_live_worker_knows_once() {
    let scene = Scene::new().await;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let counted: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let (names, counts) = (Arc::clone(&told), Arc::clone(&counted));
    let events = Events::new(vec![Arc::new(move |event: &Event<'_>| match event {
        Event::Queue { event: QueueEvent::TypeUnserved { job_type, .. }, .. } => {
            names.lock().unwrap().push(job_type.to_string())
        }
        Event::Queue { event: QueueEvent::UnservedTypes { types, jobs, .. }, .. } => {
            counts.lock().unwrap().push((*types, *jobs))
        }
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
