//! Large fields have their own keys, which exist exactly as long as a job or a dead letter needs them.

use std::time::Duration;

use streamfleet::job::{Encoding, EntryId, JobId, State};
use streamfleet::{JobError, Producer, Submission, SubmitError, UniqueMode, UniqueScope};
use streamfleet_engine::admin::{Cancellation, Due, Filter};

use harness::fleet::{Acts, Running, quick, submit, until_state};
use harness::process::run;
use harness::proxy::Mode;
use harness::scene::{Gate, LONG, SOON, STREAM, Scene, job};
use harness::wait::until_async;

const LARGE: usize = 300 * 1024;
const DEAD: &str = "sf:{default}:dead";
const HOUR: Duration = Duration::from_secs(3600);

/// Returns a large payload that says what its job does.
fn large(word: &str) -> Vec<u8> {
    let mut payload = vec![b' '; LARGE];
    payload[..word.len()].copy_from_slice(word.as_bytes());
    payload
}

/// A handler for large payloads: `ok`, `fatal`, or `once`, which fails the first time.
fn obeys() -> Acts {
    Acts::new(|context, payload| {
        assert_eq!(payload.len(), LARGE, "the payload must be complete");
        match (payload.trim_ascii(), context.attempt()) {
            (b"fatal", _) => Err(JobError::fatal("no")),
            (b"once", 1) => Err(JobError::retry("once more")),
            _ => Ok(serde_json::Value::Null),
        }
    })
}

/// Returns the time to live, in milliseconds, of each key with offloaded fields; -1 for those that stay.
fn offloaded(scene: &Scene) -> Vec<i64> {
    let keys: Vec<String> =
        redis::from_redis_value(scene.server.cmd(&["KEYS", "sf:{default}:offloaded:*"])).unwrap();
    keys.iter().map(|key| scene.int(&["PTTL", key])).collect()
}

fn fleet(scene: &Scene) -> Running {
    scene.sound_fleet(LONG, obeys())
}

/// Appends a large job, or the raw fields of a dead letter.
fn xadd(scene: &Scene, fields: &[Vec<u8>]) {
    let mut command = redis::cmd("XADD");
    command.arg(STREAM).arg("*").arg(fields);
    command.exec(&mut scene.server.client()).unwrap();
}

/// Returns the fields of a large job as another producer sends it.
fn raw(word: &str) -> [Vec<u8>; 6] {
    [b"type".into(), b"test".into(), b"encoding".into(), b"raw".into(), b"payload".into(), large(word)]
}

fn raw_letter(scene: &Scene) -> Vec<Vec<u8>> {
    let page: Vec<(String, Vec<Vec<u8>>)> =
        redis::from_redis_value(scene.server.cmd(&["XRANGE", DEAD, "-", "+"])).unwrap();
    page.into_iter().next().unwrap().1
}

async fn later(scene: &Scene, word: &str) -> JobId {
    Producer::new(scene.queue.clone()).submit(job(large(word)).delay(HOUR)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_that_ends_leaves_no_key() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let delayed = later(&scene, "ok").await;
    assert_eq!(offloaded(&scene), [-1]);
    let own = producer.submit(job(large("once")).id("own".parse().unwrap())).await.unwrap();
    xadd(&scene, &raw("once"));
    producer.run_now(&delayed).await.unwrap();
    let fleet = fleet(&scene);
    until_state(&scene.queue, &own, State::Done).await;
    scene.until_at_rest().await;
    fleet.stop().await;
    assert_eq!((offloaded(&scene), scene.int(&["XLEN", DEAD])), (vec![], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_that_is_cancelled_leaves_no_key() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let delayed = later(&scene, "ok").await;
    let waiting = producer.submit(job(large("ok")).id("waiting".parse().unwrap())).await.unwrap();
    let replaced = |word| {
        job(large(word)).delay(HOUR).unique("k".parse().unwrap(), UniqueScope::Running, UniqueMode::Replace)
    };
    producer.submit(replaced("ok")).await.unwrap();
    assert_eq!(offloaded(&scene), [-1; 3]);
    let last = producer.submit(replaced("once")).await.unwrap();
    assert_eq!(offloaded(&scene), [-1; 3], "one of them replaced another");
    for id in [delayed, waiting, last] {
        assert_eq!(scene.queue.cancel(&id, "a test", HOUR).await.unwrap(), Cancellation::Done);
    }
    assert_eq!(offloaded(&scene), [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_that_is_cancelled_while_it_runs_leaves_no_key() {
    let scene = Scene::new().await;
    let gate = Gate::closed();
    let blob = "x".repeat(8_000);
    let wide = (0..40).fold(job("wait"), |job, nth| job.header(&format!("blob-{nth}"), &blob).unwrap());
    let id = Producer::new(scene.queue.clone()).submit(wide.id("wide".parse().unwrap())).await.unwrap();
    let fleet = scene.sound_fleet(LONG, gate.clone());
    gate.until_started(&id).await;
    assert_eq!(offloaded(&scene), [-1]);
    assert_eq!(scene.queue.cancel(&id, "a test", HOUR).await.unwrap(), Cancellation::Requested);
    until_state(&scene.queue, &id, State::Cancelled).await;
    assert_eq!(offloaded(&scene), [0; 0]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_keeps_its_large_fields_and_a_replay_takes_them_over() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let id = producer.submit(job(large("fatal")).id("own".parse().unwrap())).await.unwrap();
    let running = fleet(&scene);
    let status = until_state(&scene.queue, &id, State::Dead).await;
    running.stop().await;
    assert_eq!(offloaded(&scene), [-1]);
    let letter = scene.queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    assert_eq!(letter.fields.get(b"payload"), Some(&large("fatal")[..]));
    assert!(scene.queue.dead_letters().replay(letter.entry, &id).await.unwrap().is_done());
    assert_eq!(offloaded(&scene), [-1]);
    let running = fleet(&scene);
    let status = until_state(&scene.queue, &id, State::Dead).await;
    running.stop().await;
    // The fields of the new generation, and those of the previous one, of which a copy may exist.
    let mut kept = offloaded(&scene);
    kept.sort_unstable();
    assert!(kept[0] == -1 && kept[1] > 80_000_000 && kept.len() == 2, "{kept:?}");
    assert!(scene.queue.dead_letters().drop(status.dead.unwrap(), &id).await.unwrap());
    assert!(offloaded(&scene).iter().all(|ms| *ms > 80_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_copy_of_a_letter_runs_with_all_its_fields() {
    let scene = Scene::new().await;
    let id = Producer::new(scene.queue.clone()).submit(job(large("fatal"))).await.unwrap();
    let running = fleet(&scene);
    until_async("a letter", SOON, async || scene.int(&["XLEN", DEAD]) == 1).await;
    running.stop().await;
    let letter = raw_letter(&scene);
    assert!(
        letter.iter().map(Vec::len).sum::<usize>() < 4_000,
        "the letter must contain only the key's name"
    );
    xadd(&scene, &letter);
    xadd(&scene, &letter);
    let entry = scene.queue.dead_letters().page(None, 1).await.unwrap()[0].entry;
    scene.queue.dead_letters().drop(entry, &id).await.unwrap();
    // Both die again, and their payloads are intact byte for byte.
    let running = fleet(&scene);
    until_async("two letters", SOON, async || scene.int(&["XLEN", DEAD]) == 2).await;
    running.stop().await;
    for letter in scene.queue.dead_letters().page(None, 10).await.unwrap() {
        assert_eq!(
            (letter.fields.get(b"payload"), letter.text("dead_error")),
            (Some(&large("fatal")[..]), "no".into())
        );
    }
}

/// Returns a dead letter of a large job, with no worker left.
async fn buried(scene: &Scene) -> (JobId, EntryId) {
    let id = Producer::new(scene.queue.clone()).submit(job(large("fatal"))).await.unwrap();
    let running = fleet(scene);
    until_async("a letter", SOON, async || scene.int(&["XLEN", DEAD]) == 1).await;
    running.stop().await;
    (id, scene.queue.dead_letters().page(None, 1).await.unwrap()[0].entry)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_keeps_its_large_fields_whatever_happens_to_its_copies() {
    for is_cancelled in [true, false] {
        let scene = Scene::new().await;
        let (id, letter) = buried(&scene).await;
        let fields = raw_letter(&scene);
        if is_cancelled {
            xadd(&scene, &fields);
            assert_eq!(scene.queue.cancel(&id, "a test", HOUR).await.unwrap(), Cancellation::Done);
        } else {
            // Without the fields that name the letter, it is a separate job, which succeeds.
            let own = fields.chunks_exact(2).filter(|pair| !pair[0].starts_with(b"dead_"));
            xadd(&scene, &own.flatten().cloned().collect::<Vec<_>>());
            let running = scene.sound_fleet(LONG, Acts::well());
            scene.until_at_rest().await;
            running.stop().await;
        }
        assert_eq!((offloaded(&scene), scene.int(&["XLEN", DEAD])), (vec![-1], 1), "{is_cancelled}");
        assert!(scene.queue.dead_letters().replay(letter, &id).await.unwrap().is_done());
        let running = scene.sound_fleet(LONG, Acts::well());
        scene.until_at_rest().await;
        running.stop().await;
        assert_eq!(scene.int(&["XLEN", DEAD]), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_keeps_large_fields_that_were_about_to_expire() {
    let scene = Scene::new().await;
    let (id, letter) = buried(&scene).await;
    let keys: Vec<String> =
        redis::from_redis_value(scene.server.cmd(&["KEYS", "sf:{default}:offloaded:*"])).unwrap();
    scene.server.cmd(&["PEXPIRE", &keys[0], "86400000"]);
    assert!(scene.queue.dead_letters().replay(letter, &id).await.unwrap().is_done());
    assert_eq!(offloaded(&scene), [-1]);
}

/// Lets a day pass since the ends of the letters and jobs that had large fields, and deletes what nobody can need any more.
async fn a_day_later(scene: &Scene) {
    let set_back = "local t = redis.call('TIME') for _, token in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
        redis.call('ZADD', KEYS[1], t[1] * 1000 + math.floor(t[2] / 1000) - 86400000, token) end";
    scene.server.cmd(&["EVAL", set_back, "1", "sf:{default}:dead:offloaded"]);
    scene.queue.dead_letters().discard_copied().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn large_fields_of_a_letter_that_is_gone_stay_as_long_as_a_copy_waits_or_runs() {
    for is_dropped in [true, false] {
        let scene = Scene::new().await;
        let (id, letter) = buried(&scene).await;
        let dead = scene.queue.dead_letters();
        xadd(&scene, &raw_letter(&scene));
        if is_dropped {
            assert!(dead.drop(letter, &id).await.unwrap());
        } else {
            scene.server.cmd(&["XDEL", DEAD, &letter.to_string()]);
            assert_eq!(dead.forget_gone(None).await.unwrap().forgotten, 1);
        }
        a_day_later(&scene).await;
        assert_eq!(offloaded(&scene).len(), 1, "a copy waits; dropped: {is_dropped}");
        if is_dropped {
            scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "gone", "STREAMS", STREAM, ">"]);
            a_day_later(&scene).await;
            assert_eq!(offloaded(&scene).len(), 1, "a copy runs");
            scene.server.cmd(&["DEL", STREAM]);
        } else {
            let running = scene.sound_fleet(
                LONG,
                Acts::new(|_, payload| {
                    assert_eq!(payload.len(), LARGE, "the payload must be complete");
                    Ok(serde_json::Value::Null)
                }),
            );
            scene.until_at_rest().await;
            running.stop().await;
            assert_eq!(
                (offloaded(&scene).len(), scene.int(&["XLEN", DEAD])),
                (1, 0),
                "another copy may wait"
            );
        }
        a_day_later(&scene).await;
        assert_eq!(offloaded(&scene), [0; 0], "nobody can need it; dropped: {is_dropped}");
        assert_eq!(scene.int(&["EXISTS", "sf:{default}:dead:offloaded"]), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_support_for_offloaded_fields_rejects_such_a_job() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    producer.submit(job(large("ok")).id("own".parse().unwrap())).await.unwrap();
    let entries: Vec<(String, Vec<Vec<u8>>)> =
        redis::from_redis_value(scene.server.cmd(&["XRANGE", STREAM, "-", "+"])).unwrap();
    let fields = &entries[0].1;
    let encoding = fields.chunks_exact(2).find(|pair| pair[0] == b"encoding").unwrap();
    assert_eq!(encoding[1], b"offloaded", "an encoding that older workers do not know");
    assert!(!fields.contains(&b"payload".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_large_fields_cannot_be_read_waits_alone() {
    let scene = Scene::new().await;
    scene.queue.join(LONG).await.unwrap();
    Producer::new(scene.queue.clone()).submit(job(large("ok")).id("own".parse().unwrap())).await.unwrap();
    for _ in 0..5 {
        submit(&scene.queue, "1").await;
    }
    scene.server.cmd(&["ACL", "SETUSER", "default", "-get"]);
    let handler = Acts::well();
    let running = scene.sound_fleet(LONG, handler.clone());
    until_async("the others to be done", SOON, async || scene.int(&["XLEN", STREAM]) == 1).await;
    assert_eq!((handler.all_runs(), scene.int(&["XLEN", DEAD]), offloaded(&scene)), (5, 0, vec![-1]));
    scene.server.cmd(&["ACL", "SETUSER", "default", "+get"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_large_fields_are_gone_dies_and_blocks_no_other() {
    let scene = Scene::new().await;
    let lost = [later(&scene, "ok").await, later(&scene, "ok").await];
    let keys: Vec<String> =
        redis::from_redis_value(scene.server.cmd(&["KEYS", "sf:{default}:offloaded:*"])).unwrap();
    scene.server.cmd(&["DEL", &keys[0]]);
    scene.server.cmd(&["DEL", &keys[1]]);
    scene.server.cmd(&["RPUSH", &keys[1], "another type"]);
    for id in &lost {
        Producer::new(scene.queue.clone()).run_now(id).await.unwrap();
    }
    let well = scene.sound_fleet(LONG, Acts::well());
    submit(&scene.queue, "1").await;
    until_async("both to be dead", SOON, async || scene.int(&["XLEN", DEAD]) == 2).await;
    scene.until_at_rest().await;
    well.stop().await;
    for letter in scene.queue.dead_letters().page(None, 10).await.unwrap() {
        let (reason, error) = (letter.text("dead_reason"), letter.text("dead_error"));
        assert!(reason == "malformed" && error.contains(" is gone"), "{reason}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_dropped_without_reading_large_fields_that_nobody_asks_about() {
    const JOBS: u64 = 10;
    let scene = Scene::new().await;
    let running = fleet(&scene);
    for _ in 0..JOBS {
        Producer::new(scene.queue.clone()).submit(job(large("fatal"))).await.unwrap();
    }
    until_async("all to be dead", SOON, async || scene.int(&["XLEN", DEAD]) == JOBS as i64).await;
    running.stop().await;
    let sent = || {
        let info: String = redis::from_redis_value(scene.server.cmd(&["INFO", "stats"])).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).unwrap();
        line.parse::<usize>().unwrap()
    };
    let dead = scene.queue.dead_letters();
    let all = dead.select(Filter::new()).await.unwrap();
    let before = sent();
    assert_eq!(dead.plan(&all, |_| ()).await.unwrap().letters, JOBS);
    assert!(sent() - before < LARGE, "the plan of all letters needs no large field");
    // A filter still sees the fields about which it has conditions.
    let about = dead.select(Filter::new().text("fatal").unwrap()).await.unwrap();
    assert_eq!(dead.plan(&about, |_| ()).await.unwrap().letters, JOBS);
    let whole = dead.selected(&all, None).await.unwrap();
    assert_eq!(whole.letters[0].fields.get(b"payload").map(<[u8]>::len), Some(LARGE));
    let before = sent();
    let output = run(&["--redis", &scene.server.url(), "dead", "drop", "--all", "--yes"], b"");
    assert_eq!((output.code, scene.int(&["XLEN", DEAD])), (Some(0), 0), "{output:?}");
    assert!(sent() - before < LARGE, "{} bytes were read", sent() - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_is_debounced_and_edited_with_all_its_fields() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let debounced = |word| {
        job(large(word)).header("tenant", "9").unwrap().delay(HOUR).unique(
            "k".parse().unwrap(),
            UniqueScope::Running,
            UniqueMode::Debounce,
        )
    };
    let id = producer.submit(debounced("fatal")).await.unwrap();
    producer.submit(debounced("fatal too")).await.unwrap();
    producer.edit(&id, large("once"), Encoding::Raw).await.unwrap().unwrap();
    assert_eq!(offloaded(&scene), [-1], "the key of the second submission was not needed");
    let upcoming = scene.queue.delayed().page(0, 10).await.unwrap();
    let fields = &upcoming[0].fields.as_ref().unwrap().1;
    assert_eq!(
        (fields.get(b"payload"), fields.get(b"h.tenant")),
        (Some(&large("once")[..]), Some(&b"9"[..]))
    );
    producer.reschedule(&id, Due::Now).await.unwrap();
    let running = fleet(&scene);
    until_state(&scene.queue, &id, State::Done).await;
    running.stop().await;
    assert_eq!(offloaded(&scene), [0; 0]);
    // A job that has become small needs no key.
    let small = later(&scene, "ok").await;
    producer.edit(&small, "ok", Encoding::Raw).await.unwrap().unwrap();
    let of_small = scene.queue.delayed().page(0, 10).await.unwrap();
    assert_eq!(of_small[0].fields.as_ref().unwrap().1.get(b"offloaded"), None);
    assert!(offloaded(&scene).iter().all(|ms| *ms > 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_accepted_jobs_keep_their_large_fields() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let own = |id: &str| job(large("ok")).id(id.parse().unwrap()).delay(HOUR);
    let reject = |job: Submission, key: &str| {
        job.unique(key.parse().unwrap(), UniqueScope::Running, UniqueMode::Reject)
    };
    let locked = |id: &str| reject(own(id), "k");
    producer.submit(own("own")).await.unwrap();
    producer.submit(locked("holder")).await.unwrap();
    let small = || job("{}").id("small".parse().unwrap());
    producer.submit(small()).await.unwrap();
    for _ in 0..3 {
        for known in [own("own"), locked("holder"), locked("held")] {
            assert!(producer.submit_or_find(known).await.unwrap().existing().is_some());
        }
        // Known jobs beside others.
        producer.submit_all([own("own"), small()]).await.unwrap();
        producer.submit_all([own("own"), locked("held")]).await.unwrap();
    }
    assert_eq!(offloaded(&scene), [-1; 2]);
    let full = producer.clone().max_depth(3);
    for _ in 0..3 {
        for refused in [own("more"), reject(own("more"), "l"), job(large("ok")).delay(HOUR)] {
            let answer = full.submit(refused).await;
            assert!(matches!(answer, Err(SubmitError::Full { .. })), "{answer:?}");
        }
    }
    assert_eq!(offloaded(&scene), [-1; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_that_was_sent_again_keeps_its_fields() {
    let scene = Scene::new().await;
    let jobs = |payload: Vec<u8>, name: &str| {
        let unique =
            job(payload.clone()).unique(name.parse().unwrap(), UniqueScope::Running, UniqueMode::Reject);
        [job(payload.clone()).id(name.parse().unwrap()), job(payload).delay(HOUR), unique]
    };
    // No more than these fit, so a call that was taken for another one would be refused.
    let producer = scene.producer().await.max_depth(6);
    // Loads the scripts, so that the lost replies are those of calls that were carried out.
    for small in jobs(b"{}".to_vec(), "small") {
        producer.submit(small).await.unwrap();
    }
    for (nth, job) in jobs(large("ok"), "large").into_iter().enumerate() {
        scene.proxy.set(Mode::drop_reply_to("EVALSHA", 1));
        producer.submit(job).await.unwrap();
        assert_eq!((scene.proxy.hits(), offloaded(&scene)), (1, vec![-1; nth + 1]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_is_settled_on_a_server_without_waitlist_or_rights_for_a_copy() {
    for setting in [["CONFIG", "SET", "maxmemory", "1"], ["ACL", "SETUSER", "default", "-set"]] {
        let scene = Scene::new().await;
        let running = fleet(&scene);
        until_async("a leader", SOON, async || scene.int(&["EXISTS", "sf:{default}:leader"]) == 1).await;
        // No command of the fleet runs between the two.
        let mut both = redis::pipe();
        both.cmd("XADD").arg(STREAM).arg("*").arg(&raw("once")).cmd(setting[0]).arg(&setting[1..]);
        both.exec(&mut scene.server.client()).unwrap();
        scene.until_at_rest().await;
        let (done, of_none) = (scene.int(&["XLEN", DEAD]) == 0, offloaded(&scene).is_empty());
        assert!(done && of_none, "{setting:?}");
        scene.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_given_back_keep_the_large_fields() {
    let scene = Scene::new().await;
    let blob = "x".repeat(8_000);
    let wide = (0..40).fold(job("wait"), |job, nth| job.header(&format!("blob-{nth}"), &blob).unwrap());
    let id = Producer::new(scene.queue.clone()).submit(wide).await.unwrap();
    for _ in 0..2 {
        let gate = Gate::closed();
        let mut config = scene.config(LONG);
        config.worker.drain_timeout = Duration::from_millis(50);
        let fleet = Running::start_with(config, quick(1), gate.clone());
        gate.until_started(&id).await;
        fleet.stop().await;
        assert_eq!(offloaded(&scene), [-1]);
    }
    let gate = Gate::closed();
    gate.open();
    let fleet = scene.sound_fleet(LONG, gate.clone());
    gate.until_ended(&id).await;
    scene.until_at_rest().await;
    fleet.stop().await;
    assert_eq!(offloaded(&scene), [0; 0]);
}
