//! A server, a fleet whose jobs are made of steps, and a count of what ran.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{JobId, Policy, State, StepName, StepRecord, StepState, Verdict};
use streamfleet::{
    Fleet, FleetConfig, Handler, JobContext, JobError, Producer, Queue, RawPayload, Steps, Submission,
};
use streamfleet_engine::admin::{Action, DecideError, Decided, StepsStatus as Seen};

use crate::fleet::{Running, config, queue, quick};
use crate::redis_server::RedisServer;
use crate::wait::until_async;

/// What a step's handler does.
type Act = dyn Fn(&str, &JobContext) -> Result<Value, JobError> + Send + Sync;

/// A handler of all steps: a closure that gets the step's name. It counts the runs of each step.
#[derive(Clone)]
pub struct Walks {
    act: Arc<Act>,
    runs: Arc<Mutex<BTreeMap<String, u32>>>,
    hangs: bool,
}

impl Walks {
    pub fn new(act: impl Fn(&str, &JobContext) -> Result<Value, JobError> + Send + Sync + 'static) -> Self {
        Self { act: Arc::new(act), runs: Arc::default(), hangs: false }
    }

    /// Returns a handler whose steps all succeed and return their name.
    pub fn well() -> Self {
        Self::new(|step, _| Ok(step.into()))
    }

    /// Returns a handler whose steps all succeed except this one, which always fails.
    pub fn but(fails: &'static str) -> Self {
        Self::new(move |step, _| if step == fails { Err(JobError::retry("no")) } else { Ok(step.into()) })
    }

    /// Returns a handler whose steps run until they are cut off.
    pub fn hanging() -> Self {
        Self { hangs: true, ..Self::well() }
    }

    /// Returns how often this step ran, over all jobs.
    pub fn runs(&self, step: &str) -> u32 {
        self.runs.lock().unwrap().get(step).copied().unwrap_or(0)
    }
}

impl Handler for Walks {
    type Payload = RawPayload;
    type Output = Value;

    async fn run(&self, _payload: RawPayload, context: JobContext) -> Result<Value, JobError> {
        let step = context.step().expect("a step runs").to_string();
        *self.runs.lock().unwrap().entry(step.clone()).or_default() += 1;
        if self.hangs {
            std::future::pending::<()>().await;
        }
        (self.act)(&step, &context)
    }
}

/// Returns the plan of the tests: `charge` is `once`, `mail` comes after it, `render` is independent.
pub fn plan<H: Handler + Clone>(handler: &H) -> Steps {
    let steps = Steps::builder().once("charge", handler.clone()).auto("render", handler.clone());
    steps.auto("mail", handler.clone()).after("mail", ["charge"]).build().unwrap()
}

/// A server with a queue.
pub struct Scene {
    pub server: RedisServer,
    pub queue: Queue,
}

impl Scene {
    pub async fn new() -> Self {
        let server = RedisServer::start();
        let queue = queue(&server).await;
        Self { server, queue }
    }

    /// Starts a process of the fleet whose type `gift` has these steps.
    pub fn fleet(&self, policy: Policy, steps: Steps) -> Running {
        Self::fleet_with(config(&self.server.url()), policy, steps)
    }

    pub fn fleet_with(config: FleetConfig, policy: Policy, steps: Steps) -> Running {
        Running::of(Fleet::builder(config).steps("gift", policy, steps).unwrap().build())
    }

    /// Starts the usual fleet: three attempts, and almost no pause between them.
    pub fn usual(&self, handler: &Walks) -> Running {
        self.fleet(quick(3), plan(handler))
    }

    pub async fn submit(&self) -> JobId {
        Producer::new(self.queue.clone()).submit(Submission::new("gift").unwrap()).await.unwrap()
    }

    /// Returns what the ledger says about a job's steps.
    pub async fn seen(&self, job: &JobId) -> Seen {
        self.queue.steps().of(job).await.unwrap().expect("the job has a ledger")
    }

    pub async fn step(&self, job: &JobId, step: &str) -> StepRecord {
        self.seen(job).await.ledger.get(&name(step)).cloned().unwrap_or_default()
    }

    pub async fn state_of(&self, job: &JobId, step: &str) -> StepState {
        self.step(job, step).await.state
    }

    pub async fn until_step(&self, job: &JobId, step: &str, state: StepState) {
        until_async(&format!("{step} to be {state}"), Duration::from_secs(20), async || {
            let seen = self.queue.steps().of(job).await.unwrap();
            seen.is_some_and(|seen| seen.ledger.state(&name(step)) == state)
        })
        .await;
    }

    /// Waits until the job is dead, and returns the reason.
    pub async fn reason(&self, job: &JobId) -> String {
        let status = crate::fleet::until_state(&self.queue, job, State::Dead).await;
        let letter = self.queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
        letter.text("dead_reason")
    }

    pub async fn decide(&self, job: &JobId, step: &str, verdict: Verdict) -> Result<Decided, DecideError> {
        self.decide_with(job, step, verdict, None).await
    }

    /// Decides, and says what the step's result is.
    pub async fn decide_with(
        &self,
        job: &JobId,
        step: &str,
        verdict: Verdict,
        result: Option<&str>,
    ) -> Result<Decided, DecideError> {
        let action = Action::new("steps decide", "ann").why("asked the bank");
        let kept = Duration::from_secs(60);
        let decided = self.queue.steps().decide(job, (&name(step), verdict), result, &action, kept).await?;
        assert_eq!(decided.unnoted, None);
        Ok(decided.value)
    }
}

pub fn name(step: &str) -> StepName {
    step.parse().unwrap()
}
