//! Steps that run at the same time: when they start, what one that fails means for the others, and what a crash leaves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use streamfleet::job::{JobId, State, StepState};
use streamfleet::{Fleet, Handler, JobContext, JobError, RawPayload, Steps, StepsBuilder};
use tokio::sync::{Barrier, watch};

use harness::fleet::{Running, config, quick, until_state};
use harness::scene::SOON;
use harness::steps::Scene;
use harness::wait::until_async;

/// What happened to the steps, in order: a step's name, and whether it began or returned.
type Log = Arc<Mutex<Vec<(String, bool)>>>;

/// What a step does between its begin and its end.
type Act =
    dyn Fn(JobContext) -> futures_util::future::BoxFuture<'static, Result<Value, JobError>> + Send + Sync;

/// A handler of all steps, which notes when they begin and end.
#[derive(Clone)]
struct Notes {
    act: Arc<Act>,
    log: Log,
}

impl Notes {
    fn new<F>(act: impl Fn(JobContext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, JobError>> + Send + 'static,
    {
        Self { act: Arc::new(move |context| Box::pin(act(context))), log: Log::default() }
    }

    /// Returns how often a step began.
    fn runs(&self, step: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|(name, is_begin)| name == step && *is_begin).count()
    }

    /// Returns the greatest number of steps that ran at the same time.
    fn most_at_once(&self) -> usize {
        let (mut now, mut most) = (0_usize, 0);
        for (_, is_begin) in self.log.lock().unwrap().iter() {
            now = if *is_begin { now + 1 } else { now - 1 };
            most = most.max(now);
        }
        most
    }

    /// Returns where in the log a step first began, or last returned.
    fn place(&self, step: &str, is_begin: bool) -> Option<usize> {
        let log = self.log.lock().unwrap();
        let is_it = |entry: &(String, bool)| *entry == (step.to_owned(), is_begin);
        if is_begin { log.iter().position(is_it) } else { log.iter().rposition(is_it) }
    }
}

impl Handler for Notes {
    type Payload = RawPayload;
    type Output = Value;

    async fn run(&self, _payload: RawPayload, context: JobContext) -> Result<Value, JobError> {
        let step = context.step().unwrap().to_string();
        self.log.lock().unwrap().push((step.clone(), true));
        let ended = (self.act)(context).await;
        self.log.lock().unwrap().push((step, false));
        ended
    }
}

fn autos(notes: &Notes, names: &[&str]) -> StepsBuilder {
    names.iter().fold(Steps::builder(), |steps, name| steps.auto(name, notes.clone()))
}

fn name_of(context: &JobContext) -> Value {
    context.step().unwrap().as_str().into()
}

/// A handler that returns once this many steps have called it.
fn meeting(count: usize) -> Notes {
    let barrier = Arc::new(Barrier::new(count));
    Notes::new(move |context| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok(name_of(&context))
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_that_are_ready_run_at_the_same_time() {
    let (scene, notes) = (Scene::new().await, meeting(3));
    let fleet = scene.fleet(quick(3), autos(&notes, &["a", "b", "c"]).concurrent(3).build().unwrap());
    let job = scene.submit().await;
    let status = until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(status.result.as_deref(), Some(r#"{"a":"a","b":"b","c":"c"}"#));
    assert_eq!(notes.most_at_once(), 3);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_steps_run_at_once_than_may_and_by_default_that_is_one() {
    for (most, want) in [(None, 1), (Some(2), 2), (Some(99), 5)] {
        let scene = Scene::new().await;
        let notes =
            if want == 1 { Notes::new(async |context| Ok(name_of(&context))) } else { meeting_up_to(want) };
        let steps = autos(&notes, &["a", "b", "c", "d", "e"]);
        let steps = most.into_iter().fold(steps, StepsBuilder::concurrent).build().unwrap();
        let fleet = scene.fleet(quick(3), steps);
        let job = scene.submit().await;
        until_state(&scene.queue, &job, State::Done).await;
        assert_eq!(notes.most_at_once(), want, "{most:?}");
        assert!(["a", "b", "c", "d", "e"].iter().all(|step| notes.runs(step) == 1));
        fleet.stop().await;
    }
}

/// A handler whose first steps, this many, return together; the others at once.
fn meeting_up_to(count: usize) -> Notes {
    let (barrier, came) = (Arc::new(Barrier::new(count)), Arc::new(Mutex::new(0)));
    Notes::new(move |context| {
        let barrier = Arc::clone(&barrier);
        let nth = {
            let mut came = came.lock().unwrap();
            *came += 1;
            *came
        };
        async move {
            if nth <= count {
                barrier.wait().await;
            }
            Ok(name_of(&context))
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_starts_when_those_before_it_are_done_whatever_the_others_do() {
    let scene = Scene::new().await;
    let (open, opened) = watch::channel(false);
    let notes = Notes::new(move |context: JobContext| {
        let mut opened = opened.clone();
        async move {
            if context.step().unwrap().as_str() == "slow" {
                opened.wait_for(|open| *open).await.unwrap();
            }
            let before: Option<Value> = context.step_result("first")?;
            Ok(json!({ "before": before }))
        }
    });
    let steps = autos(&notes, &["slow", "first", "second"]).after("second", ["first"]);
    let fleet = scene.fleet(quick(3), steps.concurrent(2).build().unwrap());
    let job = scene.submit().await;
    scene.until_step(&job, "second", StepState::Done).await;
    assert_eq!(scene.state_of(&job, "slow").await, StepState::Started);
    let result = scene.step(&job, "second").await.result.unwrap();
    assert_eq!(&result[..], br#"{"before":{"before":null}}"#);
    open.send(true).unwrap();
    until_state(&scene.queue, &job, State::Done).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_succeeded_is_kept_when_another_fails_and_does_not_run_again() {
    let scene = Scene::new().await;
    let (barrier, failed) = (Arc::new(Barrier::new(3)), Arc::new(Mutex::new(0)));
    let notes = Notes::new(move |context: JobContext| {
        let (barrier, failed) = (Arc::clone(&barrier), Arc::clone(&failed));
        async move {
            let is_first = context.attempt() == 1;
            if is_first {
                barrier.wait().await;
            }
            if context.step().unwrap().as_str() == "fails" && *failed.lock().unwrap() < 2 {
                *failed.lock().unwrap() += 1;
                return Err(JobError::retry("no"));
            }
            Ok(name_of(&context))
        }
    });
    let steps = autos(&notes, &["fails", "a"]).once("b", notes.clone()).concurrent(3).build().unwrap();
    let fleet = scene.fleet(quick(5), steps);
    let job = scene.submit().await;
    let status = until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(status.result.as_deref(), Some(r#"{"a":"a","b":"b","fails":"fails"}"#));
    assert_eq!(["fails", "a", "b"].map(|step| notes.runs(step)), [3, 1, 1]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_job_starts_no_further_step_and_lets_those_that_run_end() {
    let scene = Scene::new().await;
    let (barrier, drops) = (Arc::new(Barrier::new(2)), Arc::new(tokio::sync::Notify::new()));
    let notes = Notes::new(move |context: JobContext| {
        let (barrier, drops) = (Arc::clone(&barrier), Arc::clone(&drops));
        async move {
            barrier.wait().await;
            if context.step().unwrap().as_str() == "drops" {
                drops.notify_one();
                return Err(JobError::drop_job("nobody wants it"));
            }
            drops.notified().await;
            // Meanwhile, the ledger learns of the other's end, and a third step would have room.
            tokio::task::yield_now().await;
            Ok(name_of(&context))
        }
    });
    let steps = autos(&notes, &["drops", "goes-on", "third"]).concurrent(2).build().unwrap();
    let fleet = scene.fleet(quick(3), steps);
    let job = scene.submit().await;
    until_state(&scene.queue, &job, State::Cancelled).await;
    assert_eq!([notes.runs("third"), notes.runs("goes-on")], [0, 1]);
    assert!(notes.place("goes-on", false).is_some(), "it was cut short");
    fleet.stop().await;
}

/// Runs a fleet in a runtime of its own, which can be ended at once, as by a kill.
fn doomed(scene: &Scene, steps: Steps) -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let fleet = Fleet::builder(config(&scene.server.url())).steps("gift", quick(3), steps).unwrap().build();
    runtime.spawn(async move { fleet.run(streamfleet::Shutdown::new()).await });
    runtime
}

#[tokio::test(flavor = "multi_thread")]
async fn each_step_that_runs_when_its_worker_dies_is_repeated_or_becomes_unknown() {
    let scene = Scene::new().await;
    let hanging = Notes::new(async |_| std::future::pending().await);
    let plan = |notes: &Notes| {
        let steps = autos(notes, &["auto"]).once("once-1", notes.clone()).once("once-2", notes.clone());
        steps.auto("last", notes.clone()).after("last", ["auto"]).concurrent(3).build().unwrap()
    };
    let dies = doomed(&scene, plan(&hanging));
    let job = scene.submit().await;
    for step in ["auto", "once-1", "once-2"] {
        scene.until_step(&job, step, StepState::Started).await;
    }
    until_async("all to run", SOON, async || hanging.most_at_once() == 3).await;
    dies.shutdown_background();
    let notes = Notes::new(async |context| Ok(name_of(&context)));
    let fleet = scene.fleet(quick(3), plan(&notes));
    assert_eq!(scene.reason(&job).await, "needs_decision");
    let mut states = Vec::new();
    for step in ["auto", "last", "once-1", "once-2"] {
        states.push(scene.state_of(&job, step).await);
    }
    assert_eq!(states, [StepState::Done, StepState::Done, StepState::Unknown, StepState::Unknown]);
    assert_eq!(["auto", "last", "once-1", "once-2"].map(|step| notes.runs(step)), [1, 1, 0, 0]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_cuts_all_steps_short_and_says_so() {
    let scene = Scene::new().await;
    let hanging = Notes::new(async |_| std::future::pending().await);
    let plan =
        |notes: &Notes| autos(notes, &["a", "b"]).once("c", notes.clone()).concurrent(3).build().unwrap();
    let mut config = config(&scene.server.url());
    config.worker.drain_timeout = Duration::from_millis(100);
    let fleet = Scene::fleet_with(config, quick(3), plan(&hanging));
    let job = scene.submit().await;
    until_async("all to run", SOON, async || hanging.most_at_once() == 3).await;
    fleet.stop().await;
    let mut states = Vec::new();
    for step in ["a", "b", "c"] {
        states.push(scene.state_of(&job, step).await);
    }
    assert_eq!(states, [StepState::Pending, StepState::Pending, StepState::Unknown]);
}

/// A random plan: for each step its kind, the steps before it, and how often it fails.
fn random_plan(random: &mut StdRng) -> Vec<(String, bool, Vec<String>, u32)> {
    let count = random.random_range(2..9);
    let name = |nth: usize| format!("s{nth}");
    let mut plan: Vec<_> = (0..count)
        .map(|nth| {
            let before = (0..nth).filter(|_| random.random_range(0..10) < 3).map(name).collect();
            let is_once = random.random_range(0..3) == 0;
            (name(nth), is_once, before, if is_once { 0 } else { random.random_range(0..3) })
        })
        .collect();
    // The order in which steps are declared says nothing about what they wait for.
    for at in (1..plan.len()).rev() {
        plan.swap(at, random.random_range(0..=at));
    }
    plan
}

async fn ends_as_planned(scene: &Scene, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let plan = random_plan(&mut random);
    let most = random.random_range(1..5);
    let fails: BTreeMap<String, u32> =
        plan.iter().map(|(name, _, _, fails)| (name.clone(), *fails)).collect();
    let notes = Notes::new(move |context: JobContext| {
        let fails = fails[context.step().unwrap().as_str()];
        async move {
            tokio::task::yield_now().await;
            if context.attempt() <= fails { Err(JobError::retry("not yet")) } else { Ok(name_of(&context)) }
        }
    });
    let mut steps = Steps::builder().concurrent(most);
    for (name, is_once, before, _) in &plan {
        steps = if *is_once { steps.once(name, notes.clone()) } else { steps.auto(name, notes.clone()) };
        steps = steps.after(name, before);
    }
    let fleet: Running = scene.fleet(quick(5), steps.build().unwrap());
    let job: JobId = scene.submit().await;
    let status = until_state(&scene.queue, &job, State::Done).await;
    fleet.stop().await;
    let result: BTreeMap<String, String> = serde_json::from_str(status.result.as_deref().unwrap()).unwrap();
    assert_eq!(result.len(), plan.len(), "SEED={seed}: {result:?}");
    assert!(notes.most_at_once() <= most, "SEED={seed}");
    for (name, _, before, fails) in &plan {
        assert_eq!(notes.runs(name), *fails as usize + 1, "SEED={seed}: {name}");
        for earlier in before {
            assert!(
                notes.place(earlier, false) < notes.place(name, true),
                "SEED={seed}: {name} before {earlier}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_plans_run_each_step_as_often_as_needed_and_never_too_early() {
    let scene = Scene::new().await;
    let first =
        std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random::<u32>);
    println!("SEED={first}");
    for nth in 0..20 {
        ends_as_planned(&scene, u64::from(first) + nth).await;
    }
}
