//! Batches: another job follows when all members have succeeded.

use streamfleet::job::{BatchId, Encoding, JobId, State};
use streamfleet::{JobError, Producer, Submission, UniqueMode, UniqueScope};
use streamfleet_engine::admin::Batch;

use harness::fleet::{Acts, until_state};
use harness::proxy::Mode;
use harness::scene::{LONG, Scene, job};

/// The key of the batch.
const BATCH: &str = "sf:{default}:batch:invoices-2026-11";

fn name() -> BatchId {
    "invoices-2026-11".parse().unwrap()
}

/// Returns a handler. `last` is the job that follows the batch; `dies` dies unless it has the header `cured`.
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

/// Returns the members, the jobs that they wait for, and the states of those jobs.
fn awaited(batch: &Batch) -> Vec<(String, String, Option<State>)> {
    let awaited = batch.waiting_for.iter().cloned();
    awaited.map(|awaited| (awaited.member, awaited.job, awaited.state)).collect()
}

fn of(member: &JobId, job: &JobId, state: State) -> (String, String, Option<State>) {
    (member.to_string(), job.to_string(), Some(state))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_after_a_batch_is_submitted_once_when_all_members_are_done() {
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
async fn a_batch_waits_for_a_dead_member_until_its_replay_succeeds() {
    let scene = Scene::new().await;
    let handler = handler();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let producer = Producer::new(scene.queue.clone());
    let ids = producer.submit_batch(&name(), follow(), [job("well"), job("dies")]).await.unwrap();
    let dead = until_state(&scene.queue, &ids[1], State::Dead).await.dead.unwrap();
    until_state(&scene.queue, &ids[0], State::Done).await;
    assert!(scene.queue.batch_status(&"of-nobody".parse().unwrap()).await.unwrap().is_none());
    let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
    assert_eq!((batch.left, awaited(&batch)), (1, vec![of(&ids[1], &ids[1], State::Dead)]));
    let letter = scene.queue.dead_letters().get(dead).await.unwrap().unwrap();
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
async fn a_batch_submitted_again_after_a_lost_reply_is_followed_once() {
    let scene = Scene::new().await;
    let handler = handler();
    let producer = scene.producer().await;
    // Loads the script, so that the next request with the needle is the call itself.
    let warm_up = producer.submit(unique("", UniqueMode::Reject).delay(LONG)).await.unwrap();
    let cancelled = scene.queue.cancel(&warm_up, "a test", LONG).await.unwrap();
    assert_eq!(cancelled, streamfleet_engine::admin::Cancellation::Done);
    let lost =
        Mode::DropReplyTo { needle: b"invoices-2026-11.1".to_vec(), holding: b":3\r\n".to_vec(), times: 1 };
    scene.proxy.set(lost);
    let members = || (0..3).map(|nth| job(format!("{nth}")));
    // The reply to the members was lost, whether the producer reports that or reconnects on its own.
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
    assert!(more.unwrap_err().to_string().contains("is already closed"));
    fleet.stop().await;
}

fn id(text: &str) -> JobId {
    text.parse().unwrap()
}

fn unique(payload: &str, mode: UniqueMode) -> Submission {
    job(payload).unique("ann".parse().unwrap(), UniqueScope::Running, mode)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_a_known_id_is_done_when_the_existing_job_is() {
    let scene = Scene::new().await;
    let handler = handler();
    let producer = Producer::new(scene.queue.clone());
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let (well, later) = (id("well"), id("later"));
    producer.submit(job("well").id(well.clone())).await.unwrap();
    until_state(&scene.queue, &well, State::Done).await;
    producer.submit(job("later").id(later.clone()).delay(LONG)).await.unwrap();
    for _again in 0..2 {
        let members = [job("well").id(well.clone()), job("later").id(later.clone()), job("own")];
        producer.submit_batch(&name(), follow(), members).await.unwrap();
    }
    until_state(&scene.queue, &id("invoices-2026-11.2"), State::Done).await;
    let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
    assert_eq!((batch.size, batch.left), (3, 1));
    assert_eq!(awaited(&batch), [of(&later, &later, State::Scheduled)]);
    producer.run_now(&later).await.unwrap();
    let total = id("total");
    until_state(&scene.queue, &total, State::Done).await;
    scene.until_at_rest().await;
    assert_eq!(handler.runs(&total), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_with_a_held_key_wait_for_the_holder_or_its_replacement() {
    for replaces in [false, true] {
        let scene = Scene::new().await;
        let handler = handler();
        let producer = Producer::new(scene.queue.clone());
        let holder = producer.submit(unique("{}", UniqueMode::Reject).delay(LONG)).await.unwrap();
        let members = [UniqueMode::Reject, UniqueMode::Reject, UniqueMode::Debounce];
        let members = members.map(|mode| unique("{}", mode).delay(LONG));
        let ids = producer.submit_batch(&name(), follow(), members).await.unwrap();
        assert_eq!(ids, [holder.clone(), holder.clone(), holder.clone()]);
        let mut there = holder;
        for _ in 0..if replaces { 3 } else { 0 } {
            there = producer.submit(unique("{}", UniqueMode::Replace).delay(LONG)).await.unwrap();
        }
        let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
        let mut waiting = awaited(&batch);
        waiting.sort_by(|one, other| one.0.cmp(&other.0));
        let member = |nth: usize| id(&format!("invoices-2026-11.{nth}"));
        assert_eq!(waiting, [0, 1, 2].map(|nth| of(&member(nth), &there, State::Scheduled)));
        producer.run_now(&there).await.unwrap();
        let fleet = scene.sound_fleet(LONG, handler.clone());
        let total = id("total");
        until_state(&scene.queue, &total, State::Done).await;
        scene.until_at_rest().await;
        assert_eq!((handler.runs(&total), handler.all_runs()), (1, 2));
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_waits_for_the_job_that_replaced_its_member() {
    let scene = Scene::new().await;
    let handler = handler();
    let producer = Producer::new(scene.queue.clone());
    let members = [unique("{}", UniqueMode::Reject).delay(LONG), job("other")];
    let ids = producer.submit_batch(&name(), follow(), members).await.unwrap();
    let newer = producer.submit(unique("{}", UniqueMode::Replace)).await.unwrap();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let total = id("total");
    until_state(&scene.queue, &total, State::Done).await;
    scene.until_at_rest().await;
    assert_eq!((handler.runs(&ids[0]), handler.runs(&newer), handler.runs(&total)), (0, 1, 1));
    let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
    assert_eq!((batch.state.as_str(), batch.left, batch.waiting_for.len()), ("done", 0, 0));
    fleet.stop().await;
}

/// The members of a batch: one with a unique key, and another one.
fn pair() -> [Submission; 2] {
    [unique("{}", UniqueMode::Reject).delay(LONG), job("other").delay(LONG)]
}

/// Starts both members' jobs, waits for the job that follows them, and checks that it ran once.
async fn ends_once(scene: &Scene, handler: &Acts, members: [&JobId; 2]) {
    let total = id("total");
    for member in members {
        assert_eq!(handler.runs(&total), 0);
        Producer::new(scene.queue.clone()).run_now(member).await.unwrap();
        until_state(&scene.queue, member, State::Done).await;
    }
    until_state(&scene.queue, &total, State::Done).await;
    scene.until_at_rest().await;
    assert_eq!(handler.runs(&total), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_submitted_again_counts_the_replacement_of_a_holder_once() {
    for is_cancelled in [false, true] {
        let scene = Scene::new().await;
        let (handler, producer) = (handler(), Producer::new(scene.queue.clone()));
        producer.submit(unique("{}", UniqueMode::Reject).delay(LONG)).await.unwrap();
        producer.submit_batch(&name(), follow(), pair()).await.unwrap();
        let newer = producer.submit(unique("{}", UniqueMode::Replace).delay(LONG)).await.unwrap();
        if is_cancelled {
            scene.queue.cancel(&newer, "a test", LONG).await.unwrap();
        }
        let ids = producer.submit_batch(&name(), follow(), pair()).await.unwrap();
        assert_eq!(ids[0] == newer, !is_cancelled);
        producer.submit_batch(&name(), follow(), pair()).await.unwrap();
        let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
        assert_eq!((batch.size, batch.left), (2, 2));
        let fleet = scene.sound_fleet(LONG, handler.clone());
        ends_once(&scene, &handler, [&ids[0], &ids[1]]).await;
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_behind_very_many_replacements_counts() {
    const REPLACEMENTS: usize = 2500;
    let scene = Scene::new().await;
    let (handler, producer) = (handler(), Producer::new(scene.queue.clone()));
    let holder = producer.submit(unique("{}", UniqueMode::Reject).delay(LONG)).await.unwrap();
    producer.submit_batch(&name(), follow(), pair()).await.unwrap();
    let mut chain = redis::pipe();
    let mut from = holder.to_string();
    for nth in 0..REPLACEMENTS {
        let to = format!("holder-{nth}");
        chain.hset(BATCH, format!("w:{from}"), format!(">{to}")).ignore();
        from = to;
    }
    chain.hset(BATCH, format!("w:{from}"), 1).ignore();
    chain.exec(&mut scene.server.client()).unwrap();
    scene.queue.cancel(&holder, "a test", LONG).await.unwrap();
    let ids = producer.submit_batch(&name(), follow(), pair()).await.unwrap();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    ends_once(&scene, &handler, [&ids[0], &ids[1]]).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_submitted_again_counts_the_replacement_of_a_member_once() {
    for is_done in [false, true] {
        let scene = Scene::new().await;
        let (handler, producer) = (handler(), Producer::new(scene.queue.clone()));
        let ids = producer.submit_batch(&name(), follow(), pair()).await.unwrap();
        let newer = producer.submit(unique("{}", UniqueMode::Replace).delay(LONG)).await.unwrap();
        let fleet = scene.sound_fleet(LONG, handler.clone());
        if is_done {
            producer.run_now(&newer).await.unwrap();
            until_state(&scene.queue, &newer, State::Done).await;
        }
        producer.submit_batch(&name(), follow(), pair()).await.unwrap();
        let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
        assert_eq!((batch.size, batch.left), (2, if is_done { 1 } else { 2 }));
        if is_done {
            assert_eq!(handler.runs(&id("total")), 0);
            producer.run_now(&ids[1]).await.unwrap();
            until_state(&scene.queue, &id("total"), State::Done).await;
        } else {
            ends_once(&scene, &handler, [&newer, &ids[1]]).await;
        }
        assert_eq!(handler.runs(&ids[0]), 0);
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_member_is_refused_and_not_awaited() {
    let scene = Scene::new().await;
    let handler = handler();
    let producer = Producer::new(scene.queue.clone());
    let gone = id("gone");
    producer.submit(job("{}").id(gone.clone()).delay(LONG)).await.unwrap();
    scene.queue.cancel(&gone, "a test", LONG).await.unwrap();
    let refused = producer.submit_batch(&name(), follow(), [job("{}"), job("{}").id(gone)]).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("the job gone (cancelled) is cancelled"), "{message}");
    let batch = scene.queue.batch_status(&name()).await.unwrap().unwrap();
    assert_eq!((batch.state.as_str(), batch.size, batch.left), ("open", 1, 1));
    producer.submit_batch(&name(), follow(), [job("{}")]).await.unwrap();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    until_state(&scene.queue, &id("total"), State::Done).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_nothing_can_follow_yet_is_closed_later() {
    let scene = Scene::new().await;
    let handler = handler();
    let producer = Producer::new(scene.queue.clone());
    let close = async || producer.submit_batch(&name(), follow(), std::iter::empty::<Submission>()).await;
    scene.server.cmd(&["SET", "sf:{default}:jobs", "x"]);
    close().await.unwrap_err();
    scene.server.cmd(&["DEL", "sf:{default}:jobs"]);
    close().await.unwrap();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    until_state(&scene.queue, &id("total"), State::Done).await;
    assert_eq!(handler.runs(&id("total")), 1);
    fleet.stop().await;
}
