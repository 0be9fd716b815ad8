//! Batches: one more job follows when all members have succeeded.

use streamfleet::job::{BatchId, Encoding, State};
use streamfleet::{JobError, Producer, Submission};

use crate::harness::fleet::{Acts, until_state};
use crate::harness::process::run;
use crate::harness::proxy::Mode;
use crate::traps::scene::{LONG, Scene, job};

fn name() -> BatchId {
    "invoices-2026-11".parse().unwrap()
}

/// `last` is the job that follows; `dies` dies unless it has the header `cured`.
fn handler() -> Acts {
    Acts::new(|context, payload| match payload {
        b"dies" if context.header("cured").is_none() => Err(JobError::fatal("no")),
        _ => Ok(serde_json::Value::Null),
    })
}

fn follow() -> Submission {
    let job = Submission::new("test").unwrap().id("total".parse().unwrap());
    job.payload("last", Encoding::Raw).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_batch_is_submitted_once_when_all_its_members_are_done() {
    let scene = Scene::new().await;
    let handler = handler();
    let producer = Producer::new(scene.queue.clone());
    let members = (0..700).map(|nth| job(format!("{nth}")));
    let ids = producer.submit_batch(&name(), follow(), members).await.unwrap();
    assert_eq!((ids.len(), ids[699].to_string()), (700, "invoices-2026-11.699".to_owned()));
    let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
    assert_eq!(
        (batch.state.as_str(), batch.size, batch.left, batch.waiting_for.len()),
        ("closed", 700, 700, 20)
    );
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let total = "total".parse().unwrap();
    until_state(&scene.queue, &total, State::Done).await;
    scene.until_at_rest().await;
    assert_eq!((handler.all_runs(), handler.runs(&total)), (701, 1));
    let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
    assert_eq!((batch.state.as_str(), batch.left, batch.waiting_for.len()), ("done", 0, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_member_holds_up_its_batch_until_it_is_replayed_with_success() {
    let scene = Scene::new().await;
    let handler = handler();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let producer = Producer::new(scene.queue.clone());
    let ids = producer.submit_batch(&name(), follow(), [job("well"), job("dies")]).await.unwrap();
    let dead = until_state(&scene.queue, &ids[1], State::Dead).await.dead.unwrap();
    until_state(&scene.queue, &ids[0], State::Done).await;
    let shown = run(&["--redis", &scene.server.url(), "batch", "invoices-2026-11"], b"");
    assert!(shown.stdout.ends_with("waiting for: invoices-2026-11.1\n"), "{shown:?}");
    let unknown = run(&["--redis", &scene.server.url(), "batch", "of-nobody", "--json"], b"");
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(4), ""));
    let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
    assert_eq!((batch.left, batch.waiting_for), (1, vec![ids[1].to_string()]));
    let letter = scene.queue.dead_letter(dead).await.unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let fields = letter.fields.fields().flat_map(|(name, value)| [text(name), text(value)]);
    let head = ["XADD", "sf:{default}:jobs", "*"].map(str::to_owned);
    let cured = ["h.cured", "yes"].map(str::to_owned);
    let command: Vec<String> = head.into_iter().chain(fields).chain(cured).collect();
    scene.server.cmd(&command);
    let total = "total".parse().unwrap();
    until_state(&scene.queue, &total, State::Done).await;
    assert_eq!(handler.runs(&total), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_producer_was_cut_off_is_submitted_again_and_followed_once() {
    let scene = Scene::new().await;
    let handler = handler();
    let producer = scene.producer().await;
    // Loads the script, so that the next request with the needle is the call itself.
    let warm_up = job("").id("warm-up".parse().unwrap()).delay(LONG);
    let warm_up = producer.submit(warm_up).await.unwrap();
    let cancelled = scene.queue.cancel(&warm_up, "a test", LONG).await.unwrap();
    assert_eq!(cancelled, streamfleet::broker::Cancellation::Done);
    let lost =
        Mode::DropReplyTo { needle: b"invoices-2026-11.1".to_vec(), holding: b":3\r\n".to_vec(), times: 1 };
    scene.proxy.set(lost);
    let members = || (0..3).map(|nth| job(format!("{nth}")));
    // Whether it hears of the loss or mends it by itself: the answer to its members was lost.
    let _cut_off = producer.submit_batch(&name(), follow(), members()).await;
    assert_eq!(scene.proxy.hits(), 1);
    let fleet = scene.sound_fleet(LONG, handler.clone());
    for _again in 0..2 {
        producer.submit_batch(&name(), follow(), members()).await.unwrap();
    }
    let total = "total".parse().unwrap();
    until_state(&scene.queue, &total, State::Done).await;
    scene.until_at_rest().await;
    assert_eq!(handler.runs(&total), 1);
    let more = producer.submit_batch(&name(), follow(), (0..4).map(|nth| job(format!("{nth}")))).await;
    assert!(more.unwrap_err().to_string().contains("was closed before"));
    fleet.stop().await;
}
