//! A worker process of an audit: this same binary, started again. Its handlers obey the payload and keep the diary.
//!
//! A payload is `@<mark> <verb>`: `ok` · `sleep <ms>` · `fail <n>` (fails n times) · `fatal` · `mend` (fatal until the file
//! `<mark>` exists in the folder of fixed jobs). The payload of a job made of steps names them: `@<mark> charge sleep 9; mail fail 1`.
//! The mark of a job that follows another is `<id of that job>~<how it ended>`; the mark of a recurring job is its id.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use streamfleet::job::{Backoff, Limits, Policy, Rate};
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError, RawPayload, Steps};
use streamfleet_service::Signals;

use super::diary::{Pen, Span, Stall};
use super::payload::orders_of;
use harness::clock::{monotonic_ns, note_stalls, wall_ms};
use harness::ledger::{Fence, How};
use harness::payload::{followed, order_of_step};
use harness::process::{Launch, orders};

/// How long the records of ended jobs are kept: until after the judgement.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);
/// A pause of the process that is this long is worth a line.
const STALLED: Duration = Duration::from_millis(250);

/// The instructions of a worker process.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Program {
    pub url: String,
    pub diary: PathBuf,
    /// The folder with a file for each fixed job.
    pub mended: PathBuf,
    pub lease_ms: u64,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
}

impl Program {
    pub const MAX_ATTEMPTS: u32 = 4;
    pub const MAX_LOSSES: u32 = 6;
    /// The threads of a worker's runtime.
    pub const THREADS: usize = 2;
    /// The attempts of jobs that hang.
    pub const MAX_HANGS: u32 = 2;
    /// How many jobs of the type `gated` may run at once.
    pub const MAX_GATED: u32 = 8;
    pub const TIMEOUT: Duration = Duration::from_millis(700);
    const DRAIN: Duration = Duration::from_millis(1_500);

    pub fn launch(&self) -> Launch {
        let launch = Launch::this_program("audit", self);
        self.env.iter().fold(launch, |launch, (name, value)| launch.env(name, value.as_str()))
    }

    fn run(self) {
        let shutdown = Signals::shutdown().unwrap();
        let pen = Arc::new(Pen::new(&self.diary));
        let theirs = Arc::clone(&pen);
        note_stalls(STALLED, move |from, until| {
            theirs.stalled(&Stall { pid: std::process::id(), from, until });
        });
        let mut config = FleetConfig::default();
        config.redis.url = self.url.as_str().into();
        config.worker.lease = Duration::from_millis(self.lease_ms);
        // Records are kept until the judgement.
        config.worker.retention = KEPT;
        config.worker.drain_timeout = Self::DRAIN;
        config.worker.type_limits.insert("gated".parse().unwrap(), gated());
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
        let fleet = fleet.handler_with("gated", policy.clone(), obeys.clone()).unwrap();
        let fleet = fleet.handler_with("hang", impatient, obeys).unwrap();
        let fleet = fleet.steps("gift", policy, steps).unwrap().build();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(Self::THREADS).enable_all().build();
        runtime.unwrap().block_on(fleet.run(shutdown)).unwrap();
    }
}

/// Returns what the gate of the type `gated` lets through.
fn gated() -> Limits {
    Limits::default().concurrency(Program::MAX_GATED).rate("100/s".parse::<Rate>().unwrap())
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
    how: How,
}

impl Entered<'_> {
    fn end(mut self, how: How) {
        self.how = how;
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.pen.ended(&self.span, monotonic_ns(), self.how);
    }
}

/// Returns the mark and the order of a payload.
fn mark_and_order(payload: &str, context: &JobContext) -> (String, String) {
    if let Some(mark) = followed(payload) {
        return (mark, "ok".to_owned());
    }
    let id = context.id().to_string();
    let own = payload.trim_matches('"').strip_prefix('@').and_then(|rest| rest.split_once(' '));
    let Some((mark, orders)) = own else { return (id, "ok".to_owned()) };
    let orders = orders_of(orders);
    let mark = if mark == "cron" { id } else { mark.to_owned() };
    let Some(step) = context.step() else { return (mark, orders.to_owned()) };
    (mark, order_of_step(orders, step.as_str()).to_owned())
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
        let entered = Entered { pen: &self.pen, span, how: How::Interrupted };
        let (verb, rest) = order.split_once(' ').unwrap_or((&order, ""));
        match verb {
            "sleep" => tokio::time::sleep(Duration::from_millis(rest.parse().unwrap())).await,
            "fail" if context.attempt() <= rest.parse().unwrap() => {
                entered.end(How::Failed);
                return Err(JobError::retry("as ordered"));
            }
            "fatal" => {
                entered.end(How::Fatal);
                return Err(JobError::fatal("as ordered"));
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

/// Runs a worker and returns true if [`Program::launch`] started this process; otherwise returns false immediately.
pub fn run_if_launched() -> bool {
    orders::<Program>().map(Program::run).is_some()
}
