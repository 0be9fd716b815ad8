//! What commands say about types that no live worker knows.

use std::collections::BTreeSet;

use streamfleet::Fleet;
use streamfleet_engine::LiveTypes;

use harness::cli::{json, sf, sf_with};
use harness::fleet::{Acts, Running, quick};
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn commands_name_the_types_that_no_live_worker_knows() {
    let scene = Scene::new().await;
    let builder = Fleet::builder(scene.config(LONG)).handler_with("tests", quick(3), Acts::well());
    let fleet = Running::of(builder.unwrap().build());
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "odd"]);
    let waitlist = ["XLEN", "sf:{default}:room:unknown:test"];
    until_async("the job to be in its waiting list", SOON, async || scene.int(&waitlist) == 1).await;
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
    let shown = sf(&scene.server, &["status", "odd"]).stdout;
    assert!(shown.contains("a worker that knows the type test\n"), "{shown}");
    // Once for each type of many jobs.
    let lines = "{\"type\":\"test\"}\n".repeat(300) + "{\"type\":\"tests\"}\n{\"type\":\"mail\"}\n";
    let warned = sf_with(&scene.server, &["enqueue", "--bulk"], lines.as_bytes());
    let other = "jobs wait: no live worker of the queue default knows the type mail\n";
    assert_eq!(
        (warned.code, warned.stderr.as_str()),
        (Some(0), format!("{other}jobs wait: {remark}\n").as_str())
    );
    let remark = "no live worker serves the queue defualt; did you mean default?";
    let lost = sf(&scene.server, &["enqueue", "tests", "--queue", "defualt", "--id", "lost"]);
    assert_eq!((lost.code, lost.stderr), (Some(0), format!("the job waits: {remark}\n")));
    assert_eq!(json(&scene.server, &["status", "lost"])["unserved"], remark);
    let lost = sf_with(&scene.server, &["enqueue", "--bulk", "-q", "else"], b"{\"type\":\"tests\"}\n");
    assert_eq!(lost.stderr, "jobs wait: no live worker serves the queue else\n");
    let known = sf_with(&scene.server, &["enqueue", "--bulk"], b"{\"type\":\"tests\"}\n");
    assert_eq!((known.code, known.stderr.as_str()), (Some(0), ""));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_says_that_no_worker_knows_a_type_right_after_one_that_does_has_started() {
    let scene = Scene::new().await;
    let former = BTreeSet::from(["tests".parse().unwrap()]);
    let live = LiveTypes { types: Some(former), ..LiveTypes::default() };
    scene.queue.set_known_types(&live, LONG).await.unwrap();
    let builder = Fleet::builder(scene.config(LONG)).handler_with("mail", quick(3), Acts::well());
    let fleet = Running::of(builder.unwrap().build());
    assert_eq!(sf(&scene.server, &["enqueue", "mail", "--wait=20s"]).code, Some(0));
    assert_eq!(sf(&scene.server, &["enqueue", "mail"]).stderr, "");
    fleet.stop().await;
}
