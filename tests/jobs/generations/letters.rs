//! Dead letters and the generations that follow them. A raw replay moves its letter when it begins; nothing that happens to the
//! letter before that lets a `once` step run twice.

use std::time::Duration;

use streamfleet::Steps;
use streamfleet::job::{JobId, State};
use streamfleet_engine::admin::{DeadLetter, Evicted, LetterLimits, Replayed};

use harness::fleet::{Running, config, quick, until_state};
use harness::scripts::{jobs_args, reply, source};
use harness::steps::{Scene, Walks};
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);

/// `charge` succeeds; `mail` fails permanently, but only in the first generation.
fn handler() -> Walks {
    let first = std::sync::atomic::AtomicBool::new(true);
    Walks::new(move |step, _| {
        let fails = step == "mail" && first.swap(false, std::sync::atomic::Ordering::SeqCst);
        if fails { Err(streamfleet::JobError::fatal("no such mailbox")) } else { Ok(step.into()) }
    })
}

fn steps(handler: &Walks) -> Steps {
    let steps = Steps::builder().once("charge", handler.clone()).auto("mail", handler.clone());
    steps.after("mail", ["charge"]).build().unwrap()
}

/// Returns a job that was charged and whose mail is exhausted, with no worker left.
async fn dead(handler: &Walks) -> (Scene, JobId, DeadLetter) {
    let scene = Scene::new().await;
    let fleet = scene.fleet(quick(3), steps(handler));
    let job = scene.submit().await;
    let status = until_state(&scene.queue, &job, State::Dead).await;
    fleet.stop().await;
    let letter = scene.queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    assert_eq!(letter.text("dead_steps"), "charge=done mail=exhausted");
    (scene, job, letter)
}

/// Appends a letter's fields to the main stream, as the wire contract says.
fn xadd(scene: &Scene, letter: &DeadLetter, takes: impl Fn(&str) -> bool) {
    let fields = letter
        .fields
        .fields()
        .map(|(name, value)| [name, value].map(|text| String::from_utf8_lossy(text).into_owned()));
    let fields: Vec<String> = fields.filter(|[name, _]| takes(name)).flatten().collect();
    let head = ["XADD", "sf:{default}:jobs", "*"].map(str::to_owned);
    let command: Vec<String> = head.into_iter().chain(fields).collect();
    scene.server.cmd(&command.iter().map(String::as_str).collect::<Vec<_>>());
}

async fn ends_charged_once(scene: &Scene, job: &JobId, handler: &Walks) -> Running {
    let fleet = scene.fleet(quick(3), steps(handler));
    until_state(&scene.queue, job, State::Done).await;
    assert_eq!((handler.runs("charge"), handler.runs("mail")), (1, 2));
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_dropped_after_a_replay_by_xadd_charges_nobody_twice() {
    for dead_fields in [true, false] {
        let handler = handler();
        let (scene, job, letter) = dead(&handler).await;
        xadd(&scene, &letter, |name| dead_fields || !name.starts_with("dead_"));
        assert!(scene.queue.dead_letters().drop(letter.entry, &job).await.unwrap());
        let fleet = ends_charged_once(&scene, &job, &handler).await;
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_evicted_after_a_replay_by_xadd_charges_nobody_twice() {
    let handler = handler();
    let (scene, job, letter) = dead(&handler).await;
    xadd(&scene, &letter, |_| true);
    let none = LetterLimits::default().most(0);
    assert_eq!(scene.queue.dead_letters().evict(letter.entry, &job, none).await.unwrap(), Evicted::Dropped);
    // Even if the ledger of the steps is deleted, the replay brings it along.
    scene.server.cmd(&["DEL", &format!("sf:{{default}}:steps:{job}")]);
    let fleet = ends_charged_once(&scene, &job, &handler).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_by_xadd_moves_its_letter_when_it_begins() {
    let handler = handler();
    let (scene, job, letter) = dead(&handler).await;
    xadd(&scene, &letter, |_| true);
    let fleet = ends_charged_once(&scene, &job, &handler).await;
    assert_eq!(scene.queue.dead_letters().get(letter.entry).await.unwrap(), None);
    let again = scene.queue.dead_letters().replay(letter.entry, &job).await.unwrap();
    assert_eq!(again, Replayed::Gone(Some(State::Done)), "it returns the state of the job");
    // Nor later, when the job's record is gone.
    for key in ["job", "steps"] {
        scene.server.cmd(&["DEL", &format!("sf:{{default}}:{key}:{job}")]);
    }
    assert_eq!(scene.queue.dead_letters().replay(letter.entry, &job).await.unwrap(), Replayed::Gone(None));
    assert_eq!((handler.runs("charge"), scene.queue.snapshot().await.unwrap().waiting()), (1, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_also_moves_a_letter_of_an_older_version() {
    let handler = handler();
    let (scene, job, letter) = dead(&handler).await;
    // The format from before generations had names.
    let record = format!("sf:{{default}}:job:{job}");
    let generation = letter.text("dead_life");
    scene.server.cmd(&["HDEL", &record, "life", "holds", &format!("dead:{generation}")]);
    scene.server.cmd(&["HDEL", &record, &format!("letter:{}", letter.entry)]);
    xadd(&scene, &letter, |name| !matches!(name, "dead_life" | "dead_steps"));
    let fleet = ends_charged_once(&scene, &job, &handler).await;
    assert_eq!(scene.queue.dead_letters().get(letter.entry).await.unwrap(), None);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_one_generation_keeps_what_another_lifes_letter_needs() {
    let handler = handler();
    let (scene, job, letter) = dead(&handler).await;
    // The producer sends the id again; this generation has only its mail to do.
    let head = ["XADD", "sf:{default}:jobs", "*", "type", "gift", "id"];
    let id = job.to_string();
    scene.server.cmd(&[&head[..], &[&id]].concat());
    let mut short = config(&scene.server.url());
    short.worker.retention = Duration::from_secs(1);
    let fleet = Scene::fleet_with(short, quick(3), steps(&handler));
    until_async("both lives to have ended", SOON, async || {
        scene.queue.snapshot().await.unwrap().waiting() + scene.queue.snapshot().await.unwrap().running() == 0
            && handler.runs("mail") == 2
    })
    .await;
    let ttl = |key: &str| scene.server.cmd(&["PTTL", &format!("sf:{{default}}:{key}:{job}")]);
    until_async("the record to be kept", SOON, async || ttl("job") == redis::Value::Int(-1)).await;
    assert_eq!(ttl("steps"), redis::Value::Int(-1), "the letter still exists");
    assert!(scene.queue.dead_letters().drop(letter.entry, &job).await.unwrap());
    until_async("the record to go", SOON, async || ttl("job") == redis::Value::Int(-2)).await;
    assert_eq!(handler.runs("charge"), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_keeps_the_producers_times_and_the_start_of_the_generation() {
    let scene = Scene::new().await;
    let handler = Walks::new(|_, _| Err(streamfleet::JobError::fatal("no")));
    let entry = scene.server.cmd(&[
        "XADD",
        "sf:{default}:jobs",
        "*",
        "type",
        "gift",
        "delay_ms",
        "1",
        "run_at_ms",
        "7",
    ]);
    let entry: String = redis::from_redis_value(entry).unwrap();
    let fleet = scene.fleet(quick(1), Steps::builder().auto("mail", handler).build().unwrap());
    let status = until_state(&scene.queue, &entry.parse().unwrap(), State::Dead).await;
    let letter = scene.queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    let found =
        ["dead_created_ms", "dead_delay_ms", "dead_run_at_ms", "delay_ms"].map(|name| letter.text(name));
    assert_eq!(found, [entry.split('-').next().unwrap(), "1", "7", ""]);
    fleet.stop().await;
}

/// The handler drops the job, and its worker dies before it cancels the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_dropped_by_a_once_step_is_cancelled_though_its_worker_died() {
    let scene = Scene::new().await;
    scene.queue.join(Duration::from_secs(1)).await.unwrap();
    let job = scene.submit().await;
    let (stream, ledger) = ("sf:{default}:jobs", format!("sf:{{default}}:steps:{job}"));
    scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", stream, ">"]);
    let id = job.to_string();
    let (keys, as_ghost) = ([stream, &ledger], |values: &[&str]| jobs_args("ghost", "normal", &[values]));
    let begin = as_ghost(&[&id, &id, "1", "charge", "once", "charge once\nmail auto charge", "0"]);
    reply(&scene.server, source("step_begin"), &keys, &begin);
    let end = as_ghost(&["0-0", &id, "charge", "1", "pending", "0", "", "", "", "", "a duplicate", "", ""]);
    reply(&scene.server, source("step_end"), &keys, &end);
    let handler = Walks::well();
    let fleet = scene.fleet(quick(3), steps(&handler));
    let status = until_state(&scene.queue, &job, State::Cancelled).await;
    assert_eq!(status.error.as_deref(), Some("a duplicate"));
    assert_eq!((handler.runs("charge"), handler.runs("mail")), (0, 0));
    fleet.stop().await;
}

/// One generation of an id is done and its data expires soon; the other has charged and waits for its mail.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_stays_while_a_generation_with_a_started_step_is_alive() {
    let scene = Scene::new().await;
    scene.queue.join(Duration::from_secs(1)).await.unwrap();
    let handler = Walks::new(|step, context| match step {
        "mail" if context.attempt() == 1 => Err(streamfleet::JobError::snooze(Duration::from_secs(3600))),
        _ => Ok(step.into()),
    });
    let mut short = config(&scene.server.url());
    short.worker.retention = Duration::from_secs(1);
    let fleet = Scene::fleet_with(short, quick(3), steps(&handler));
    let head = ["XADD", "sf:{default}:jobs", "*", "type", "gift", "id", "j"];
    scene.server.cmd(&head);
    let job: JobId = "j".parse().unwrap();
    until_state(&scene.queue, &job, State::Scheduled).await;
    assert_eq!((handler.runs("charge"), handler.runs("mail")), (1, 1));
    // The other generation is cancelled while it waits.
    fleet.shutdown.request();
    fleet.stop().await;
    let other: String = redis::from_redis_value(scene.server.cmd(&head)).unwrap();
    let cancelled =
        scene.queue.cancel(&other.parse().unwrap(), "ann", Duration::from_millis(1)).await.unwrap();
    assert_eq!(cancelled, streamfleet_engine::admin::Cancellation::Done);
    let ledger = "sf:{default}:steps:j";
    until_async("the other life to end", SOON, async || {
        scene.server.cmd(&["PTTL", ledger]) == redis::Value::Int(-1)
    })
    .await;
    assert_eq!(scene.queue.snapshot().await.unwrap().delayed, 1, "the first life still waits");
    assert_eq!(scene.server.cmd(&["HGET", ledger, "lives"]), redis::Value::BulkString(b"1".to_vec()));
}
