//! Decisions by people, and their consequences.

use std::time::Duration;

use serde_json::{Value, json};
use streamfleet::JobError;
use streamfleet::Steps;
use streamfleet::job::{DeadReason, JobId, State, StepRecord, StepState, Verdict};
use streamfleet_engine::admin::{DecideError, Decided};

use harness::fleet::{Running, config, quick, until_state};
use harness::steps::{Scene, Walks, plan};

/// Returns a job that waits for a decision on `charge`, which fails the first time.
async fn undecided() -> (Scene, Walks, Running, JobId) {
    let scene = Scene::new().await;
    let handler = Walks::new(|step, context| match (step, context.attempt()) {
        ("charge", 1) => Err(JobError::retry("no answer")),
        _ => Ok(Value::Null),
    });
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "needs_decision");
    (scene, handler, fleet, job)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_marked_done_is_not_run_and_the_rest_are() {
    let (scene, handler, fleet, job) = undecided().await;
    let decided = scene.decide(&job, "charge", Verdict::Done).await.unwrap();
    assert!(matches!(decided, Decided::Replayed(Some(_))), "{decided:?}");
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 1, 1]);
    let decision = scene.step(&job, "charge").await.decision.unwrap();
    assert_eq!(
        (decision.verdict, &*decision.by, &*decision.reason),
        (Verdict::Done, "ann", "asked the bank")
    );
    assert_eq!(scene.queue.snapshot().await.unwrap().dead, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_noted_in_the_audit_with_the_job_the_step_and_the_verdict() {
    let (scene, _handler, fleet, job) = undecided().await;
    scene.decide(&job, "charge", Verdict::Run).await.unwrap();
    let refused = scene.decide(&job, "render", Verdict::Run).await;
    assert!(refused.is_err(), "{refused:?}");
    let notes = scene.queue.audit().recent(None, 10).await.unwrap();
    let [note] = &notes[..] else { panic!("{notes:?}") };
    let action = &note.action;
    assert_eq!(
        [&action.what, &action.who, &action.why, &action.target].map(String::as_str),
        ["steps decide", "ann", "asked the bank", &format!("{job} charge run")]
    );
    // What workers continue by themselves is nobody's decision.
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(scene.queue.audit().recent(None, 10).await.unwrap().len(), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn later_steps_get_the_result_that_a_decision_names() {
    for (result, seen) in [(Some(r#"{"receipt":17}"#), json!({"receipt": 17})), (None, Value::Null)] {
        let scene = Scene::new().await;
        let handler = Walks::new(|step, context| match (step, context.attempt()) {
            ("charge", _) => Err(JobError::retry("no answer")),
            ("mail", _) => Ok(json!({"seen": context.step_result::<Value>("charge").unwrap()})),
            _ => Ok(Value::Null),
        });
        let fleet = scene.usual(&handler);
        let job = scene.submit().await;
        assert_eq!(scene.reason(&job).await, "needs_decision");
        for (verdict, wrong) in [
            (Verdict::Run, "17".to_owned()),
            (Verdict::Done, "{17".to_owned()),
            (Verdict::Done, "1".repeat(StepRecord::MAX_RESULT_BYTES + 1)),
        ] {
            let refused = scene.decide_with(&job, "charge", verdict, Some(&wrong)).await;
            assert!(matches!(refused, Err(DecideError::BadResult(_))), "{refused:?}");
        }
        scene.decide_with(&job, "charge", Verdict::Done, result).await.unwrap();
        until_state(&scene.queue, &job, State::Done).await;
        let mailed = scene.step(&job, "mail").await.result.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&mailed).unwrap(), json!({"seen": seen}));
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_may_follow_its_decision_until_a_later_step_is_done() {
    let scene = Scene::new().await;
    let handler = Walks::new(|step, context| match step {
        "charge" => Err(JobError::retry("no answer")),
        "mail" => {
            context.step_result::<Value>("charge").unwrap().ok_or_else(|| JobError::fatal("no receipt"))
        }
        _ => Ok(Value::Null),
    });
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "needs_decision");
    scene.decide(&job, "charge", Verdict::Done).await.unwrap();
    scene.until_step(&job, "mail", StepState::Exhausted).await;
    assert_eq!(scene.reason(&job).await, "exhausted");
    let receipt = Some(r#"{"receipt":17}"#);
    for (step, result) in [("charge", None), ("render", receipt)] {
        let refused = scene.decide_with(&job, step, Verdict::Done, result).await;
        assert!(matches!(refused, Err(DecideError::Refused { .. })), "{step} {refused:?}");
    }
    let decided = scene.decide_with(&job, "charge", Verdict::Done, receipt).await.unwrap();
    assert!(matches!(decided, Decided::Replayed(Some(_))), "{decided:?}");
    until_state(&scene.queue, &job, State::Done).await;
    let mailed = scene.step(&job, "mail").await.result.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&mailed).unwrap(), json!({"receipt": 17}));
    let late = scene.decide_with(&job, "charge", Verdict::Done, Some("18")).await;
    assert!(matches!(late, Err(DecideError::Refused { .. })), "{late:?}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_marked_to_run_again_runs_once_more() {
    let (scene, handler, fleet, job) = undecided().await;
    assert!(matches!(scene.decide(&job, "charge", Verdict::Run).await, Ok(Decided::Replayed(_))));
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [2, 1, 1]);
    assert_eq!(scene.step(&job, "charge").await.attempts, 2);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_up_a_step_skips_the_steps_after_it() {
    let (scene, handler, fleet, job) = undecided().await;
    assert_eq!(scene.decide(&job, "charge", Verdict::GiveUp).await.unwrap(), Decided::Written);
    assert_eq!(scene.queue.snapshot().await.unwrap().dead, 1);
    assert_eq!(scene.reason(&job).await, "fatal", "nothing is left to decide");
    let again = scene.decide(&job, "charge", Verdict::Run).await;
    assert!(matches!(again, Err(DecideError::Refused { .. })), "{again:?}");
    let seen = scene.seen(&job).await;
    let standing = seen.ledger.plan.as_ref().unwrap().standing(&seen.ledger, &harness::steps::name("mail"));
    assert_eq!(standing, streamfleet::job::Standing::Skipped);
    // A replay does not run it either.
    scene.queue.dead_letters().replay(seen.dead.unwrap(), &job).await.unwrap();
    assert_eq!(scene.reason(&job).await, "fatal");
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 1, 0]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_decision_says_so_in_the_letter() {
    let scene = Scene::new().await;
    let handler = Walks::new(|_, _| Err(JobError::retry("no answer")));
    let steps = ["charge", "ship"]
        .into_iter()
        .fold(Steps::builder(), |steps, name| steps.once(name, handler.clone()));
    let fleet = scene.fleet(quick(3), steps.build().unwrap());
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "needs_decision");
    fleet.stop().await;
    let letters = scene.queue.dead_letters();
    let died = letters.recent(None, 1).await.unwrap().remove(0);
    assert_eq!(scene.decide(&job, "charge", Verdict::GiveUp).await.unwrap(), Decided::Written);
    assert_eq!(scene.seen(&job).await.dead, Some(died.entry), "another step needs a decision");
    assert_eq!(scene.decide(&job, "ship", Verdict::GiveUp).await.unwrap(), Decided::Written);
    let now = letters.get(scene.seen(&job).await.dead.unwrap()).await.unwrap().unwrap();
    assert_eq!(
        ["dead_reason", "dead_steps"].map(|name| now.text(name)),
        ["fatal", "charge=given_up ship=given_up"]
    );
    assert!(now.text("dead_before").contains("needs_decision"), "{}", now.text("dead_before"));
    for name in ["type", "payload", "dead_error", "dead_at_ms", "dead_life"] {
        assert_eq!(now.text(name), died.text(name), "{name}");
    }
    assert_eq!(letters.edited(died.entry).await.unwrap(), Some(now.entry));
    let groups = letters.groups().await.unwrap();
    let counted: Vec<_> =
        groups.groups.iter().map(|group| (group.reason, group.count, group.deaths)).collect();
    assert_eq!((counted, groups.letters), (vec![(Some(DeadReason::Fatal), 1, 0)], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn marking_the_last_open_step_done_completes_the_job() {
    let scene = Scene::new().await;
    let handler = Walks::but("charge");
    let steps = Steps::builder().once("charge", handler.clone()).auto("render", handler.clone());
    let fleet = scene.fleet(quick(2), steps.build().unwrap());
    let add = ["XADD", "sf:{default}:jobs", "*", "type", "gift", "id", "j", "on_success", "thanks"];
    scene.server.cmd(&add);
    let job: JobId = "j".parse().unwrap();
    assert_eq!(scene.reason(&job).await, "needs_decision");
    fleet.stop().await;
    assert_eq!(scene.decide(&job, "charge", Verdict::Done).await.unwrap(), Decided::Done);
    let status = scene.queue.status(&job).await.unwrap().unwrap();
    assert_eq!((status.state, status.dead), (State::Done, None));
    let snapshot = scene.queue.snapshot().await.unwrap();
    assert_eq!((snapshot.dead, snapshot.waiting()), (0, 1), "the callback waits");
    for key in ["sf:{default}:job:j", "sf:{default}:steps:j"] {
        let ttl: i64 = redis::from_redis_value(scene.server.cmd(&["PTTL", key])).unwrap();
        assert!(ttl > 0, "{key} {ttl}");
    }
    let again = scene.decide(&job, "charge", Verdict::Done).await;
    assert!(matches!(again, Err(DecideError::Refused { .. })), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_never_both_decide() {
    let (scene, handler, fleet, job) = undecided().await;
    fleet.stop().await;
    let (one, two) =
        tokio::join!(scene.decide(&job, "charge", Verdict::Done), scene.decide(&job, "charge", Verdict::Run));
    let first = scene.state_of(&job, "charge").await;
    match (one, two) {
        (Ok(_), Err(_)) => assert_eq!(first, StepState::Done),
        (Err(_), Ok(_)) => assert_eq!(first, StepState::Pending),
        both => panic!("{both:?}"),
    }
    assert_eq!(scene.queue.snapshot().await.unwrap().waiting(), 1);
    assert_eq!(handler.runs("charge"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_decision_is_possible_on_a_running_or_unknown_step() {
    let scene = Scene::new().await;
    let handler = Walks::hanging();
    let mut config = config(&scene.server.url());
    config.worker.drain_timeout = Duration::ZERO;
    let fleet = Scene::fleet_with(config, quick(3), plan(&handler));
    let job = scene.submit().await;
    scene.until_step(&job, "charge", StepState::Started).await;
    let running = scene.decide(&job, "charge", Verdict::Run).await;
    assert!(matches!(running, Err(DecideError::Refused { .. })), "{running:?}");
    let unknown = scene.decide(&job, "refund", Verdict::Run).await.unwrap_err().to_string();
    assert_eq!(unknown, "the job has no step refund; it has charge, render, mail");
    let none = scene.decide(&"nobody".parse().unwrap(), "charge", Verdict::Run).await;
    assert!(matches!(none, Err(DecideError::NoLedger { .. })), "{none:?}");
    fleet.stop().await;
}
