//! The worker process of a scene: this same test binary, started again. Its handlers do what the payload says.
//!
//! A payload is `<order>` or `@<name> <order>`: `ok` · `sleep <ms>` · `fail <n>` (fails n times) · `fatal` · `weigh <bytes>`
//! (complains about any other size) · `hold <gate>` (does what that file contains, once it exists: `ok`, `fail`, `fatal`,
//! `snooze`) · `block <gate>` (the same, but the first run blocks its thread). A job of the type `gift`, which has the steps
//! `charge` (once) and `mail`, names them in its payload: `charge hold a; mail ok`. The follow-up of a job is called
//! `<the job's id>~<how it ended>`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use streamfleet::hooks::Publish;
use streamfleet::job::{Backoff, Policy};
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError, RawPayload, Shutdown, Steps};

use super::place::Place;
use crate::harness::ledger::{Fence, How, Run, Writer};
use crate::harness::process::{Launch, Worker};
use crate::harness::wait::until;

const TOLD: &str = "STREAMFLEET_TEST_SCENE_WORKER";

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
        let told = serde_json::to_string(self).unwrap();
        let program = std::env::current_exe().unwrap();
        let args = ["sabotage::worker::scene_worker_entry", "--exact", "--nocapture"];
        Launch::program(program, &args).env(TOLD, told).start()
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
        let mut signals = Signals::new([SIGTERM]).unwrap();
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        std::thread::spawn(move || signals.forever().for_each(|_signal| stop.request()));
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

/// A run in the ledger. It ends as interrupted unless something else is recorded.
struct Entered<'a> {
    writer: &'a Writer,
    run: Run,
    how: How,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.writer.ended(&self.run, self.how);
    }
}

impl Handler for Obeys {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<(), JobError> {
        let text = String::from_utf8_lossy(&payload.0);
        let (job, order) = told(&text, &context);
        let fence = Fence(context.fence().ms, context.fence().seq);
        let run = Run { job, attempt: context.attempt(), fence, pid: std::process::id() };
        self.writer.started(&run);
        let mut entered = Entered { writer: &self.writer, run, how: How::Interrupted };
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
            "fail" => {
                entered.how = How::Failed;
                Err(JobError::retry("as ordered"))
            }
            "fatal" => {
                entered.how = How::Fatal;
                Err(JobError::fatal("as ordered"))
            }
            "snooze" => Err(JobError::snooze(SNOOZE)),
            _ => {
                entered.how = How::Ok;
                Ok(())
            }
        }
    }
}

/// Returns the name of the run, and what it must do.
fn told(payload: &str, context: &JobContext) -> (String, String) {
    let id = context.id().to_string();
    if let Ok(facts) = serde_json::from_str::<serde_json::Value>(payload)
        && let (Some(parent), Some(state)) = (facts["id"].as_str(), facts["state"].as_str())
    {
        return (format!("{parent}~{state}"), "ok".to_owned());
    }
    let named = payload.strip_prefix('@').and_then(|rest| rest.split_once(' '));
    let (name, order) = named.map_or((id, payload), |(name, order)| (name.to_owned(), order));
    let Some(step) = context.step() else { return (name, order.to_owned()) };
    let parts = order.split("; ").filter_map(|part| part.split_once(' '));
    let own = parts.filter(|(part, _)| *part == step.as_str()).map(|(_, order)| order).next();
    (format!("{name}/{step}"), own.unwrap_or("ok").to_owned())
}

/// Returns at once unless this process was started by [`Program::start`].
#[test]
fn scene_worker_entry() {
    #[expect(clippy::disallowed_methods, reason = "this is how the process learns what to do")]
    let told = std::env::var(TOLD);
    if let Ok(told) = told {
        serde_json::from_str::<Program>(&told).unwrap().run();
    }
}
