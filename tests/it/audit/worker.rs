//! A worker process of an audit: this same binary, started again. Its handlers obey the payload and keep the diary.
//!
//! A payload is `@<mark> <verb>`: `ok` · `sleep <ms>` · `fail <n>` (fails n times) · `fatal` · `mend` (fatal until the file
//! `<mark>` exists in the folder of fixed jobs). The payload of a job made of steps names them: `@<mark> charge sleep 9; mail fail 1`.
//! The mark of a job that follows another is `<id of that job>~<how it ended>`; the mark of a recurring job is its id.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use streamfleet::job::{Backoff, Policy};
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError, RawPayload, Shutdown, Steps};

use super::diary::{Pen, Span, Stall};
use super::payload::orders_of;
use crate::harness::clock::{monotonic_ns, wall_ms};
use crate::harness::ledger::{Fence, How};
use crate::harness::process::Launch;
use crate::harness::wait::pause_for;

const TOLD: &str = "STREAMFLEET_TEST_AUDIT_WORKER";
/// How long the records of ended jobs are kept: until after the judgement.
pub(crate) const KEPT: Duration = Duration::from_secs(24 * 3600);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A look that is this late is worth a line.
const STALLED: Duration = Duration::from_millis(250);

/// The instructions of a worker process.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Program {
    pub(crate) url: String,
    pub(crate) diary: PathBuf,
    /// The folder with a file for each fixed job.
    pub(crate) mended: PathBuf,
    pub(crate) lease_ms: u64,
    /// Additional environment variables.
    pub(crate) env: Vec<(String, String)>,
}

impl Program {
    pub(crate) const MAX_ATTEMPTS: u32 = 4;
    pub(crate) const MAX_LOSSES: u32 = 6;
    /// The threads of a worker's runtime.
    pub(crate) const THREADS: usize = 2;
    /// The attempts of jobs that hang.
    pub(crate) const MAX_HANGS: u32 = 2;
    pub(crate) const TIMEOUT: Duration = Duration::from_millis(700);
    const DRAIN: Duration = Duration::from_millis(1_500);

    pub(crate) fn launch(&self) -> Launch {
        let told = serde_json::to_string(self).unwrap();
        let program = std::env::current_exe().unwrap();
        let args = ["audit::worker::audit_worker_entry", "--exact", "--nocapture"];
        let launch = Launch::program(program, &args).env(TOLD, told);
        self.env.iter().fold(launch, |launch, (name, value)| launch.env(name, value.as_str()))
    }

    fn run(self) {
        let mut signals = Signals::new([SIGTERM]).unwrap();
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        std::thread::spawn(move || signals.forever().for_each(|_signal| stop.request()));
        let pen = Arc::new(Pen::new(&self.diary));
        let theirs = Arc::clone(&pen);
        std::thread::spawn(move || watch_the_clock(&theirs));
        let mut config = FleetConfig::default();
        config.redis.url = self.url.as_str().into();
        config.worker.lease = Duration::from_millis(self.lease_ms);
        // Records are kept until the judgement.
        config.worker.retention = KEPT;
        config.worker.drain_timeout = Self::DRAIN;
        let policy = Policy::default()
            .max_attempts(Self::MAX_ATTEMPTS)
            .max_losses(Self::MAX_LOSSES)
            .backoff(Backoff::Fixed(Duration::from_millis(100)))
            .jitter(0.0);
        let impatient = policy.clone().timeout(Self::TIMEOUT).max_attempts(Self::MAX_HANGS);
        let obeys = Obeys { pen, mended: self.mended };
        let steps = Steps::builder().auto("audit", obeys.clone()).once("charge", obeys.clone());
        let steps = steps.auto("mail", obeys.clone()).after("mail", ["charge"]).build().unwrap();
        let fleet = Fleet::builder(config).handler_with("storm", policy.clone(), obeys.clone()).unwrap();
        let fleet = fleet.handler_with("hang", impatient, obeys).unwrap();
        let fleet = fleet.steps("gift", policy, steps).unwrap().build();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(Self::THREADS).enable_all().build();
        runtime.unwrap().block_on(fleet.run(shutdown)).unwrap();
    }
}

/// Writes down each period in which this process did not run.
fn watch_the_clock(pen: &Pen) {
    let (pid, mut before) = (std::process::id(), monotonic_ns());
    loop {
        pause_for(LOOK_EVERY);
        let now = monotonic_ns();
        if now - before >= u64::try_from((LOOK_EVERY + STALLED).as_nanos()).unwrap() {
            pen.stalled(&Stall { pid, from: before, until: now });
        }
        before = now;
    }
}

#[derive(Clone)]
struct Obeys {
    pen: Arc<Pen>,
    mended: PathBuf,
}

/// A run that counts as interrupted unless it ends in another way.
struct Entered<'a> {
    pen: &'a Pen,
    span: Span,
    ended: bool,
}

impl Entered<'_> {
    fn end(mut self, how: How) {
        self.ended = true;
        self.pen.ended(&self.span, monotonic_ns(), how);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.pen.ended(&self.span, monotonic_ns(), How::Interrupted);
        }
    }
}

/// Returns the mark and the order of a payload.
fn mark_and_order(payload: &str, context: &JobContext) -> (String, String) {
    let id = context.id().to_string();
    if let Ok(facts) = serde_json::from_str::<serde_json::Value>(payload)
        && let (Some(parent), Some(state)) = (facts["id"].as_str(), facts["state"].as_str())
    {
        return (format!("{parent}~{state}"), "ok".to_owned());
    }
    let own = payload.trim_matches('"').strip_prefix('@').and_then(|rest| rest.split_once(' '));
    let Some((mark, orders)) = own else { return (id, "ok".to_owned()) };
    let orders = orders_of(orders);
    let mark = if mark == "cron" { id } else { mark.to_owned() };
    let Some(step) = context.step() else { return (mark, orders.to_owned()) };
    let parts = orders.split("; ").filter_map(|part| part.split_once(' '));
    let order = parts.filter(|(name, _)| *name == step.as_str()).map(|(_, order)| order).next();
    (mark, order.unwrap_or("ok").to_owned())
}

impl Handler for Obeys {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<(), JobError> {
        let (mark, order) = mark_and_order(&String::from_utf8_lossy(&payload.0), &context);
        let is_mended = self.mended.join(&mark).exists();
        let span = Span {
            mark,
            step: context.step().map_or_else(|| "-".to_owned(), ToString::to_string),
            id: context.id().to_string(),
            attempt: context.attempt(),
            again: context.is_redelivered(),
            fence: Fence(context.fence().ms, context.fence().seq),
            pid: std::process::id(),
            from: monotonic_ns(),
            wall_ms: wall_ms(),
            end: None,
        };
        self.pen.started(&span);
        let entered = Entered { pen: &self.pen, span, ended: false };
        let (verb, rest) = order.split_once(' ').unwrap_or((&order, ""));
        match verb {
            "sleep" => tokio::time::sleep(Duration::from_millis(rest.parse().unwrap())).await,
            "fail" if context.attempt() <= rest.parse().unwrap() => {
                entered.end(How::Failed);
                return Err(JobError::retry("as told"));
            }
            "fatal" => {
                entered.end(How::Fatal);
                return Err(JobError::fatal("as told"));
            }
            "mend" if !is_mended => {
                entered.end(How::Fatal);
                return Err(JobError::fatal("not fixed yet"));
            }
            _ => {}
        }
        entered.end(How::Ok);
        Ok(())
    }
}

/// Runs a worker if [`Program::launch`] started this process; otherwise returns immediately.
pub(crate) fn run_as_told() -> bool {
    #[expect(clippy::disallowed_methods, reason = "this is how the process is told what to do")]
    let told = std::env::var(TOLD);
    let is_told = told.is_ok();
    if let Ok(told) = told {
        serde_json::from_str::<Program>(&told).unwrap().run();
    }
    is_told
}

#[test]
fn audit_worker_entry() {
    run_as_told();
}
