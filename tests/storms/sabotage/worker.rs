//! The worker process of a scene: this same test binary, started again. Its handlers do what the payload says.
//!
//! A payload is `<order>` or `@<name> <order>`: `ok` · `sleep <ms>` · `fail <n>` (fails n times) · `fatal` · `weigh <bytes>`
//! (complains about any other size) · `hold <gate>` (does what that file contains, once it exists: `ok`, `fail`,
//! `fail-first`, `fatal`, `snooze`) · `block <gate>` (the same, but the first run blocks its thread). A job of the type `gift`, which has the steps
//! `charge` (once) and `mail`, names them in its payload: `charge hold a; mail ok`. The follow-up of a job is called
//! `<the job's id>~<how it ended>`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use streamfleet::hooks::Publish;
use streamfleet::job::{Backoff, Policy};
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError, RawPayload, Steps};
use streamfleet_service::Signals;

use super::place::Place;
use harness::ledger::{Fence, How, Run, Writer};
use harness::payload::{followed, order_of_step};
use harness::process::{Launch, Worker, orders};
use harness::wait::until;

pub(super) const LEASE: Duration = Duration::from_secs(2);
pub(super) const MAX_ATTEMPTS: u32 = 3;
const SNOOZE: Duration = Duration::from_secs(1);
/// Longer than any scene.
const LONG: Duration = Duration::from_secs(60);

/// What a worker process gets from its environment.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Program {
    pub(super) url: String,
    pub(super) place: PathBuf,
    pub(super) concurrency: usize,
}

impl Program {
    pub(super) fn start(&self) -> Worker {
        Launch::this_program("sabotage::worker::scene_worker_entry", self).start()
    }

    fn config(&self) -> FleetConfig {
        let mut config = FleetConfig::default();
        config.redis.url = self.url.as_str().into();
        config.worker.lease = LEASE;
        config.worker.retention = LONG;
        config.worker.drain_timeout = Duration::from_millis(300);
        config.events.publish = Publish::All;
        for queue in config.worker.queues.values_mut() {
            queue.concurrency = self.concurrency;
        }
        config
    }

    fn run(self) {
        let shutdown = Signals::shutdown().unwrap();
        let place = Arc::new(Place::new(&self.place));
        place.watch_the_clock();
        let writer = Arc::new(place.ledger().writer(&format!("worker-{}", std::process::id())));
        let backoff = Backoff::Fixed(Duration::from_millis(300));
        let policy = Policy::default().max_attempts(MAX_ATTEMPTS).backoff(backoff).jitter(0.0);
        let obeys = Obeys { place, writer };
        let steps = Steps::builder().once("charge", obeys.clone()).auto("mail", obeys.clone());
        let steps = steps.after("mail", ["charge"]).build().unwrap();
        let fleet = Fleet::builder(self.config()).handler_with("test", policy.clone(), obeys).unwrap();
        let fleet = fleet.steps("gift", policy, steps).unwrap().build();
        // Two handlers may block a thread each.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
        runtime.unwrap().block_on(fleet.run(shutdown)).unwrap();
    }
}

#[derive(Clone)]
struct Obeys {
    place: Arc<Place>,
    writer: Arc<Writer>,
}

impl Handler for Obeys {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<(), JobError> {
        let text = String::from_utf8_lossy(&payload.0);
        let (job, order) = name_and_order(&text, &context);
        let fence = Fence(context.fence().ms, context.fence().seq);
        let run = Run { job, attempt: context.attempt(), fence, pid: std::process::id() };
        let entered = self.writer.enter(run);
        let (verb, rest) = order.split_once(' ').unwrap_or((&order, ""));
        let word = match verb {
            "sleep" => {
                tokio::time::sleep(Duration::from_millis(rest.parse().unwrap())).await;
                "ok".to_owned()
            }
            "fail" if context.attempt() > rest.parse().unwrap() => "ok".to_owned(),
            "weigh" => {
                let bytes: usize = rest.split(' ').next().unwrap().parse().unwrap();
                if text.len() != bytes {
                    self.place
                        .complain(super::judge::WHOLE, &format!("{} of {bytes} bytes arrived", text.len()));
                }
                "ok".to_owned()
            }
            "block" if !context.is_redelivered() => {
                until("the gate to open", LONG, || self.place.word_at(rest))
            }
            "hold" | "block" => loop {
                if let Some(word) = self.place.word_at(rest) {
                    break word;
                }
                if context.cancellation().is_cancelled() {
                    return Err(JobError::retry("cut short"));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            },
            verb => verb.to_owned(),
        };
        match word.as_str() {
            "fail" | "fail-first" if word == "fail" || context.attempt() == 1 => {
                entered.end(How::Failed);
                Err(JobError::retry("as ordered"))
            }
            "fatal" => {
                entered.end(How::Fatal);
                Err(JobError::fatal("as ordered"))
            }
            "snooze" => Err(JobError::snooze(SNOOZE)),
            _ => {
                entered.end(How::Ok);
                Ok(())
            }
        }
    }
}

/// Returns the name of the run, and what it must do.
fn name_and_order(payload: &str, context: &JobContext) -> (String, String) {
    if let Some(name) = followed(payload) {
        return (name, "ok".to_owned());
    }
    let id = context.id().to_string();
    let named = payload.strip_prefix('@').and_then(|rest| rest.split_once(' '));
    let (name, order) = named.map_or((id, payload), |(name, order)| (name.to_owned(), order));
    let Some(step) = context.step() else { return (name, order.to_owned()) };
    (format!("{name}/{step}"), order_of_step(order, step.as_str()).to_owned())
}

/// Returns at once unless this process was started by [`Program::start`].
#[test]
fn scene_worker_entry() {
    if let Some(program) = orders::<Program>() {
        program.run();
    }
}
