//! What the end of a job triggers, as commands set and show it.

use serde_json::{Value, json};
use streamfleet::job::{BatchId, JobId, State};
use streamfleet::{Producer, UniqueMode, UniqueScope};

use harness::callbacks::Seen;
use harness::cli::{doomed, sf, sf_with};
use harness::fleet::until_state;
use harness::process::run;
use harness::scene::{LONG, Scene, job};

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_and_chains_can_be_set_by_flags_and_in_bulk_lines() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = scene.sound_fleet(LONG, seen.handler());
    let then = r#"[{"type":"test","payload":{"say":2}}]"#;
    let flags = ["--on-success", "test", "--then", then];
    let head = ["enqueue", "test", r#"{"say":1}"#];
    let one = sf(&scene.server, &[&head[..], &flags].concat());
    let line = r#"{"type":"test","payload":{"act":"die","say":3},"on_failure":"test"}"#;
    let many = sf_with(&scene.server, &["enqueue", "--bulk"], line.as_bytes());
    assert_eq!((one.code, many.code), (Some(0), Some(0)), "{one:?} {many:?}");
    scene.until_at_rest().await;
    let mut said = seen.said();
    said.sort_by_key(ToString::to_string);
    assert_eq!(said, [json!(1), json!(2), json!(3), Value::Null, Value::Null]);
    let wrong = sf(&scene.server, &[&head[..], &["--then", r#"[{"type":"Test"}]"#]].concat());
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("--then") && wrong.stderr.contains("a type must match"),
        "{}",
        wrong.stderr
    );
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_opened_from_lines_and_not_at_all_if_one_is_invalid() {
    let (scene, seen) = (Scene::new().await, Seen::default());
    let fleet = scene.sound_fleet(LONG, seen.handler());
    let follow = r#"{"type":"test","payload":{"say":"all"}}"#;
    let open = |follow: &str, lines: &str| {
        let args = ["enqueue", "--bulk", "--batch", "rents", "--follow", follow, "--json"];
        sf_with(&scene.server, &args, lines.as_bytes())
    };
    let member = "{\"type\":\"test\",\"payload\":{\"say\":1}}\n";
    let wrong = open(follow, &format!("{member}{{\"tpye\":\"test\"}}\n"));
    assert!(wrong.code == Some(2) && wrong.stderr.contains("line 2 is not a valid job"), "{wrong:?}");
    let wrong = open("{}", member);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("--follow is not a valid job"), "{wrong:?}");
    assert_eq!(sf(&scene.server, &["batch", "rents"]).code, Some(4), "nothing was opened");
    let lines = member.repeat(300) + r#"{"type":"test","id":"own","payload":{"say":2}}"#;
    let (first, again) = (open(follow, &lines), open(follow, &lines));
    assert_eq!((first.code, &first.stdout), (Some(0), &again.stdout), "{first:?} {again:?}");
    let opened: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!(
        (&opened["members"], &opened["ids"][299], &opened["ids"][300]),
        (&json!(301), &json!("rents.299"), &json!("own"))
    );
    scene.until_at_rest().await;
    let count = |what: Value| seen.said().into_iter().filter(|said| *said == what).count();
    assert_eq!([count(json!(1)), count(json!(2)), count(json!("all"))], [300, 1, 1]);
    fleet.stop().await;
}

#[test]
fn a_type_that_names_itself_is_refused_by_config_check() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    let toml = "[types.\"mail.send\"]\nhandler = \"noop\"\non_failure = \"mail.send\"\non_success = \"ok\"\n";
    std::fs::write(&file, toml).unwrap();
    let output = run(&["--config", file.to_str().unwrap(), "config", "check"], b"");
    assert_eq!(output.code, Some(2), "{output:?}");
    let want = "types.\"mail.send\".on_failure: is the type itself";
    assert!(output.stdout.contains(want) && !output.stdout.contains("on_success"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_shown_with_the_jobs_that_it_waits_for() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let unknown = sf(&scene.server, &["batch", "of-nobody", "--json"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(4), ""));
    let (held, dead): (BatchId, BatchId) =
        ("rents-2026-11".parse().unwrap(), "invoices-2026-11".parse().unwrap());
    let unique = |mode| job("{}").unique("ann".parse().unwrap(), UniqueScope::Running, mode).delay(LONG);
    let shows = |holder: &JobId| {
        let shown = sf(&scene.server, &["batch", "rents-2026-11"]);
        assert!(shown.stdout.contains(&format!("(replaced by {holder}: scheduled)")), "{shown:?}");
    };
    let holder = producer.submit(unique(UniqueMode::Reject)).await.unwrap();
    producer.submit_batch(&held, job("after"), [unique(UniqueMode::Reject)]).await.unwrap();
    shows(&holder);
    shows(&producer.submit(unique(UniqueMode::Replace)).await.unwrap());
    let fleet = scene.sound_fleet(LONG, doomed());
    let members = producer.submit_batch(&dead, job("after"), [job("{}")]).await.unwrap();
    until_state(&scene.queue, &members[0], State::Dead).await;
    let shown = sf(&scene.server, &["batch", "invoices-2026-11"]);
    assert!(shown.stdout.ends_with("waiting for: invoices-2026-11.0 (dead)\n"), "{shown:?}");
    fleet.stop().await;
}
