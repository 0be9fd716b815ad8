//! The scenes: small stories with every kind of job, in which each run, each end and each answer is known in advance.

use std::time::Duration;

use streamfleet::{Accepted, Producer, RedisError, SubmitError, UniqueMode, UniqueScope};
use streamfleet_engine::admin::Cancellation;

use super::judge::{ANSWERS, End, ask};
use super::scene::{GaveUp, Report, Scene, Step};
use super::worker::LEASE;
use harness::cron::each_second;
use harness::ledger::How;
use harness::proxy::{Mode, Proxy};
use harness::redis_server::RedisServer;
use harness::wait::{pause_for, until_async};

const OK: Option<How> = Some(How::Ok);
const FAILED: Option<How> = Some(How::Failed);
const FATAL: Option<How> = Some(How::Fatal);
const CUT: Option<How> = Some(How::Interrupted);
const KEPT: Duration = Duration::from_secs(60);
/// More than any worker has to do at once.
const MANY: usize = 16;
/// The recurring job.
const TICKING: &str = "tick";

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Story {
    /// Workers work, and nothing else happens.
    Calm,
    /// A worker dies.
    Killed,
    /// A worker is frozen, for less than its lease and for more.
    Frozen,
    /// A worker is asked to stop.
    Stopped,
    /// Keys that cannot be read, a lost reply, and a clock that steps.
    Hostile,
}

impl Story {
    pub(super) const ALL: [Self; 5] = [Self::Calm, Self::Killed, Self::Frozen, Self::Stopped, Self::Hostile];

    pub(super) fn run(self) -> Report {
        let server = RedisServer::builder();
        let server = if self == Self::Hostile { server.clock_shifts() } else { server };
        let mut scene = Scene::new(server.start());
        let (step, ticking) = match self {
            Self::Calm => (calm(&mut scene), Some(TICKING)),
            Self::Killed => (killed(&mut scene), None),
            Self::Frozen => (frozen(&mut scene), None),
            Self::Stopped => (stopped(&mut scene), None),
            Self::Hostile => (hostile(&mut scene), None),
        };
        // The complaints say why it gave up.
        step.ok();
        scene.finish(ticking)
    }
}

fn calm(scene: &mut Scene) -> Step {
    scene.hire(MANY)?;
    scene.hire(MANY)?;
    scene.runtime.block_on(scene.queue.cron().put(&ticking())).map_err(|_| GaveUp)?;
    work(scene);
    let started =
        [waiting(scene), replayed(scene), generations(scene), unique(scene), cancelled(scene), steps(scene)];
    started.into_iter().collect::<Step>()?;
    scene.until_ended("long", 1)?;
    scene.runtime.block_on(scene.queue.cron().remove(&harness::cron::named(TICKING))).map_err(|_| GaveUp)?;
    Ok(())
}

fn ticking() -> streamfleet::cron::Entry {
    each_second(TICKING).payload(b"ok", streamfleet::job::Encoding::Raw).unwrap()
}

/// Jobs that succeed, fail, and take long.
fn work(scene: &mut Scene) {
    scene.send("test", "plain", "ok");
    scene.expect("plain", &[(1, OK)], End::Done);
    scene.send("test", "twice", "fail 2");
    scene.expect("twice", &[(1, FAILED), (2, FAILED), (3, OK)], End::Done);
    scene.send("test", "never", "fail 99");
    scene.expect("never", &[(1, FAILED), (2, FAILED), (3, FAILED)], End::Dead("exhausted"));
    let long = (LEASE * 8 / 5).as_millis();
    scene.send("test", "long", &format!("sleep {long}"));
    scene.expect("long", &[(1, OK)], End::Done);
}

/// Jobs that wait, for their due time or because their handler snoozes.
fn waiting(scene: &mut Scene) -> Step {
    let delay = Duration::from_millis(2_000);
    let due = Scene::due_in(delay);
    let later = scene.job("@later ok").delay(delay);
    submitted(scene, later, Accepted::New);
    scene.expect("later", &[(1, OK)], End::Done).not_before = due;
    let bytes = 200_000;
    let order = format!("@large weigh {bytes} ");
    let large = format!("{order}{}", "x".repeat(bytes - order.len()));
    submitted(scene, scene.job(&large).delay(Duration::from_millis(100)), Accepted::New);
    scene.expect("large", &[(1, OK)], End::Done);
    scene.open("snooze", "snooze");
    scene.send("test", "snoozing", "hold snooze");
    scene.expect("snoozing", &[(1, CUT), (1, OK)], End::Done);
    scene.until_ended("snoozing", 1)?;
    scene.open("snooze", "ok");
    Ok(())
}

/// Submits, and compares the answer.
fn submitted(scene: &Scene, submission: streamfleet::Submission, want: Accepted) {
    let answer = scene.runtime.block_on(scene.producer.submit_or_find(submission));
    if answer.as_ref().ok().map(|answer| &answer.accepted) != Some(&want) {
        scene.place.complain(ANSWERS, &format!("expected {want:?}, got {answer:?}"));
    }
}

/// Jobs that die and are replayed.
fn replayed(scene: &mut Scene) -> Step {
    let called = scene.job("fatal").id("called".parse().unwrap()).on_failure("test").unwrap();
    submitted(scene, called, Accepted::New);
    scene.expect("called", &[(1, FATAL), (1, FATAL)], End::Dead("fatal"));
    scene.expect("called~dead", &[(1, OK)], End::Done);
    scene.open("repair", "fatal");
    scene.send("test", "repaired", "hold repair");
    scene.expect("repaired", &[(1, FATAL), (1, OK)], End::Done);
    // Both letters exist before the gate opens for the replays: a handler that had not looked at it yet would succeed at once.
    let letters = [scene.until_dead("called")?, scene.until_dead("repaired")?];
    scene.open("repair", "ok");
    for letter in letters {
        scene
            .runtime
            .block_on(scene.queue.dead_letters().replay(letter.entry, &letter.job()))
            .map_err(|_| GaveUp)?;
    }
    scene.until_ended("called", 2)
}

/// Several generations of one id.
fn generations(scene: &mut Scene) -> Step {
    scene.gate("twins");
    for _ in 0..2 {
        scene.send("test", "twins", "hold twins");
    }
    scene.expect("twins", &[(1, FAILED), (1, FAILED), (2, OK), (2, OK)], End::Done);
    scene.until_started("twins", 2)?;
    scene.open("twins", "fail-first");
    scene.until_ended("twins", 4)?;
    // One generation runs while another one ends.
    scene.gate("shared");
    let sent = |scene: &Scene| scene.job("hold shared").id("shared".parse().unwrap());
    submitted(scene, sent(scene), Accepted::New);
    scene.until_started("shared", 1)?;
    let other = scene.send("test", "shared", "ok");
    scene.expect("shared", &[(1, OK), (1, OK)], End::Done);
    scene.until_settled(&other)?;
    submitted(scene, sent(scene), Accepted::Existing(streamfleet::job::State::Running));
    scene.open("shared", "ok");
    // A generation that has ended.
    let sent = |scene: &Scene| scene.job("ok").id("again".parse().unwrap());
    submitted(scene, sent(scene), Accepted::New);
    scene.expect("again", &[(1, OK)], End::Done);
    scene.until_ended("again", 1)?;
    scene.wait("again to be done", || state(scene, "again") == "done")?;
    submitted(scene, sent(scene), Accepted::Existing(streamfleet::job::State::Done));
    Ok(())
}

fn state(scene: &Scene, id: &str) -> String {
    let state: Option<String> = ask(&scene.server, &["HGET", &format!("sf:{{default}}:job:{id}"), "state"]);
    state.unwrap_or_default()
}

/// A unique key whose holder dies.
fn unique(scene: &mut Scene) -> Step {
    let holder = |scene: &Scene, id: &str, order: &str| {
        let job = scene.job(order).id(id.parse().unwrap());
        job.unique("key".parse().unwrap(), UniqueScope::Running, UniqueMode::Reject)
    };
    submitted(scene, holder(scene, "first", "fatal"), Accepted::New);
    scene.expect("first", &[(1, FATAL)], End::Dead("fatal"));
    scene.until_dead("first")?;
    submitted(scene, holder(scene, "second", "ok"), Accepted::New);
    scene.expect("second", &[(1, OK)], End::Done);
    Ok(())
}

/// A generation that is cancelled, and one with the same id that is not.
fn cancelled(scene: &mut Scene) -> Step {
    scene.gate("unwanted");
    scene.send("test", "unwanted", "hold unwanted");
    scene.expect("unwanted", &[(1, CUT), (1, OK)], End::Done);
    scene.until_started("unwanted", 1)?;
    let id = "unwanted".parse().unwrap();
    let answer = scene.runtime.block_on(scene.queue.cancel(&id, "ann", KEPT));
    if !matches!(answer, Ok(Cancellation::Requested)) {
        scene.place.complain(ANSWERS, &format!("cancelling a running job returned {answer:?}"));
    }
    scene.wait("it to be cancelled", || state(scene, "unwanted") == "cancelled")?;
    scene.send("test", "unwanted", "ok");
    scene.until_started("unwanted", 2)
}

/// Two generations of one id, with a step that must not run twice.
fn steps(scene: &mut Scene) -> Step {
    let first = scene.send("gift", "gift", "charge ok");
    scene.expect("gift", &[], End::Done).reported = 2;
    scene.expect("gift/charge", &[(1, OK)], End::Done);
    scene.expect("gift/mail", &[(1, OK)], End::Done);
    scene.until_settled(&first)?;
    let second = scene.send("gift", "gift", "charge ok");
    scene.until_settled(&second)
}

fn killed(scene: &mut Scene) -> Step {
    // This worker is the leader and holds the oldest entry.
    scene.hire(1)?;
    scene.gate("old");
    scene.send("test", "old", "hold old");
    scene.expect("old", &[(1, OK)], End::Done);
    scene.until_started("old", 1)?;
    let dies = scene.hire(MANY)?;
    scene.gate("held");
    scene.send("test", "plain", "hold held");
    scene.expect("plain", &[(1, None), (1, OK)], End::Done);
    scene.send("gift", "gift", "charge hold held");
    scene.expect("gift/charge", &[(1, None)], End::Done);
    scene.expect("gift", &[], End::Dead("needs_decision"));
    scene.until_started("plain", 1)?;
    scene.until_started("gift/charge", 1)?;
    scene.workers[dies].kill9();
    scene.hire(MANY)?;
    scene.until_started("plain", 2)?;
    scene.until_dead("gift").map(drop)
}

fn frozen(scene: &mut Scene) -> Step {
    // This worker is the leader and is busy for now.
    scene.hire(2)?;
    for name in ["busy-1", "busy-2"] {
        scene.gate("busy");
        scene.send("test", name, "hold busy");
        scene.expect(name, &[(1, OK)], End::Done);
        scene.until_started(name, 1)?;
    }
    let freezes = scene.hire(MANY)?;
    let mut entries = Vec::new();
    for (gate, name) in [("short", "short"), ("long", "late"), ("dies", "dies")] {
        scene.gate(gate);
        let verb = if gate == "short" { "hold" } else { "block" };
        let entry =
            scene.xadd(&["type", "test", "encoding", "raw", "payload", &format!("@{name} {verb} {gate}")]);
        scene.name(&entry, name);
        scene.until_started(name, 1)?;
        entries.push(entry);
    }
    scene.expect("short", &[(1, OK)], End::Done);
    scene.expect("late", &[(1, OK), (1, OK)], End::Done).reported = 1;
    scene.expect("dies", &[(1, FATAL), (1, FATAL)], End::Dead("fatal"));
    scene.open("busy", "ok");
    scene.until_ended("busy-2", 1)?;
    // Less than three quarters of the lease, so nothing is lost, and long enough for a claim that comes early.
    scene.freeze(freezes);
    pause_for(LEASE * 2 / 3);
    scene.workers[freezes].thaw();
    scene.open("short", "ok");
    scene.until_ended("short", 1)?;
    // A worker that freezes before Redis has its success leaves the job to others.
    scene.until_settled(&entries[0])?;
    // Until other workers have done all of it.
    scene.freeze(freezes);
    scene.until_started("late", 2)?;
    scene.until_started("dies", 2)?;
    scene.open("long", "ok");
    scene.open("dies", "fatal");
    scene.until_ended("late", 1)?;
    scene.until_dead("dies")?;
    scene.workers[freezes].thaw();
    scene.until_ended("late", 2)?;
    scene.until_ended("dies", 2)
}

fn stopped(scene: &mut Scene) -> Step {
    let stops = scene.hire(MANY)?;
    scene.gate("held");
    scene.send("test", "running", "hold held");
    scene.expect("running", &[(1, CUT), (1, OK)], End::Done);
    scene.gate("refused");
    scene.send("test", "refused", "hold refused");
    scene.expect("refused", &[(1, FAILED), (1, OK)], End::Done);
    scene.until_started("running", 1)?;
    scene.until_started("refused", 1)?;
    // Redis refuses its retry until this is repaired, and by then the worker is gone.
    spoil(scene, "refused");
    scene.open("refused", "fail");
    scene.until_ended("refused", 1)?;
    scene.workers[stops].term();
    scene.wait("the worker to stop", || scene.workers[stops].exit_status().is_some())?;
    repair(scene, "refused");
    scene.open("refused", "ok");
    scene.hire(MANY)?;
    scene.open("held", "ok");
    scene.until_ended("running", 2)?;
    scene.until_ended("refused", 2)
}

/// Replaces a job's record with a string.
fn spoil(scene: &Scene, id: &str) {
    let record = format!("sf:{{default}}:job:{id}");
    scene.server.cmd(&["SET", &record, "no record"]);
}

/// Whether a call of this command has failed, from a script or not.
fn was_refused(scene: &Scene, command: &str) -> bool {
    let stats: String = ask(&scene.server, &["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    line.is_some_and(|line| !line.trim_end().ends_with("failed_calls=0"))
}

fn repair(scene: &Scene, id: &str) {
    scene.server.cmd(&["DEL", &format!("sf:{{default}}:job:{id}")]);
}

fn hostile(scene: &mut Scene) -> Step {
    scene.hire(MANY)?;
    scene.gate("held");
    scene.send("test", "held", "hold held");
    scene.expect("held", &[(1, OK)], End::Done);
    // An unreadable job, due before a readable one.
    scene.server.cmd(&[&b"HSET"[..], b"sf:{default}:delayed:fields", b"bad", b"\xc1\xc1"]);
    scene.server.cmd(&["ZADD", "sf:{default}:delayed", "1", "bad"]);
    scene.expect("bad", &[], End::Dead("malformed"));
    submitted(scene, scene.job("@behind ok").delay(Duration::from_millis(100)), Accepted::New);
    scene.expect("behind", &[(1, OK)], End::Done);
    // A retry that Redis refuses for a while.
    scene.gate("refused");
    scene.send("test", "refused", "hold refused");
    scene.expect("refused", &[(1, FAILED), (2, OK)], End::Done);
    scene.until_started("refused", 1)?;
    spoil(scene, "refused");
    scene.open("refused", "fail");
    scene.wait("redis to refuse to read the record", || was_refused(scene, "hmget"))?;
    scene.until_ended("refused", 1)?;
    scene.open("refused", "ok");
    lost_reply(scene);
    repair(scene, "refused");
    scene.until_ended("behind", 1)?;
    scene.until_ended("refused", 2)?;
    // A clock that steps while a job runs.
    scene.until_started("held", 1)?;
    // It steps faster than owners renew, so that most looks at it find silent entries.
    for _ in 0..40 {
        scene.server.shift_clock(10_000);
        pause_for(LEASE / 12);
    }
    scene.open("held", "ok");
    Ok(())
}

/// A producer whose reply is lost resends only what was certainly not accepted.
fn lost_reply(scene: &mut Scene) {
    let proxy = Proxy::start(scene.server.addr());
    let config = harness::fleet::config(&scene.server.url_through(proxy.addr()));
    let job = |name: &str| scene.job(&format!("@{name} ok"));
    let (before, lost) = (job("before"), job("lost"));
    scene.runtime.block_on(async {
        let broker = streamfleet::Broker::connect(config.redis).await.unwrap();
        let producer = Producer::new(broker.queue("default".parse().unwrap()));
        if let Err(error) = producer.submit(before).await {
            scene.place.complain(ANSWERS, &format!("a submission failed though no reply was lost: {error}"));
        }
        proxy.set(Mode::drop_reply_to("@lost", 1));
        match producer.submit(lost.clone()).await {
            Err(SubmitError::Broker(RedisError::Refused { .. } | RedisError::Unreachable(_))) => {
                let again = async || producer.submit(lost.clone()).await.ok();
                until_async("the refused submission to be accepted", Duration::from_secs(8), again).await;
            }
            Err(SubmitError::Broker(RedisError::Unknown { .. })) => {}
            other => scene
                .place
                .complain(ANSWERS, &format!("a submission whose reply was lost returned {other:?}")),
        }
    });
    for name in ["before", "lost"] {
        scene.expect(name, &[(1, OK)], End::Done);
    }
}
