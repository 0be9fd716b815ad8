//! `streamfleet worker`: runs the configured types' handlers until a signal stops it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use rustix::process::{getppid, setsid};
use serde::Serialize;
use streamfleet::Shutdown;
use streamfleet::job::QueueName;
use streamfleet_service::config::Effective;
use streamfleet_service::{Port, Process};

use super::exit::Exit;
use super::output::listed;
use super::sql::Databases;
use super::{Context, Flags, Wrong};

/// How `worker` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet worker
  streamfleet worker --queues mail,default --concurrency 16
  streamfleet worker --parent $$";

/// How often a worker looks whether its parent is still there.
const LOOK: Duration = Duration::from_millis(250);

/// The arguments of `worker`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Serve only these of the configured queues.
    #[arg(long, short, value_delimiter = ',', value_name = "QUEUE,…")]
    queues: Vec<QueueName>,
    /// How many jobs of each queue run at once.
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// Stop, as after SIGTERM, once the process with this id is no longer the parent: for programs that start a worker and watch
    /// it. The worker then has a session of its own, so what a terminal sends only reaches the parent.
    #[arg(long, value_name = "PID")]
    parent: Option<i32>,
}

impl Args {
    /// Leaves the session of the parent, if there is one to follow.
    pub(super) fn leave_session(&self) {
        if self.parent.is_some() {
            // It fails if this process leads a session or a group already, which no terminal of the parent reaches.
            setsid().ok();
        }
    }

    /// Passes on the arguments that override the configuration.
    pub(super) fn apply_to(&self, flags: &mut Flags) {
        flags.queues = self.queues.iter().map(ToString::to_string).collect();
        flags.concurrency = self.concurrency;
    }
}

/// What is printed at startup.
#[derive(Serialize)]
struct Serving {
    redis: String,
    queues: BTreeMap<String, usize>,
    types: Vec<String>,
    metrics: Option<String>,
}

/// Creates the configured handlers, and prepares the process that runs them.
pub(super) async fn prepare(context: &Context, port: Port) -> anyhow::Result<Process> {
    let fleet = context.effective.fleet().map_err(|invalid| Wrong(invalid.to_string()))?;
    Ok(Process::prepare(fleet.reload(&context.reload), &context.effective, port).await?)
}

/// Runs a process until `shutdown` is requested, and beside it what it does with databases.
pub(super) async fn serve(
    process: Process,
    effective: &Effective,
    shutdown: Shutdown,
) -> Result<(), streamfleet_service::Error> {
    let databases = Databases::start(effective, &process.events());
    let ran = process.run(shutdown).await;
    databases.stop().await;
    ran
}

/// Runs until stopped, or until the parent has ended.
pub(crate) async fn run(Args { parent, .. }: Args, context: &Context) -> anyhow::Result<Exit> {
    let Some(parent) = parent else { return work(context).await };
    tokio::select! {
        ended = work(context) => ended,
        never = follow(parent, &context.shutdown) => match never {},
    }
}

/// Requests to stop once the parent has ended, unless somebody has before: a second request would cut jobs short.
async fn follow(parent: i32, shutdown: &Shutdown) -> Infallible {
    let mut look = tokio::time::interval(LOOK);
    loop {
        look.tick().await;
        let is_there = getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent);
        if !is_there && !shutdown.is_requested() {
            tracing::info!(parent, "the parent has ended: running jobs may end");
            shutdown.request();
        }
    }
}

async fn work(context: &Context) -> anyhow::Result<Exit> {
    let config = &context.effective.config;
    if config.types.is_empty() {
        let why = "no types are configured, so this worker has nothing to run: \
            add [types.\"<type>\"] with a handler to the configuration, or try `streamfleet dev`";
        return Err(Wrong(why.to_owned()).into());
    }
    let process = tokio::select! {
        prepared = prepare(context, Port::Required) => prepared?,
        () = context.shutdown.requested() => return Ok(Exit::Done),
    };
    let slots = config.queues.iter();
    let serving = Serving {
        redis: config.redis.shown(),
        queues: slots.map(|(name, queue)| (name.to_string(), queue.served.concurrency)).collect(),
        types: config.types.keys().map(ToString::to_string).collect(),
        metrics: process.metrics_url(),
    };
    context.output.print(&serving, Serving::line)?;
    serve(process, &context.effective, context.shutdown.clone()).await?;
    Ok(Exit::Done)
}

impl Serving {
    fn line(&self) -> String {
        let queues = self.queues.iter().map(|(name, slots)| format!("{name} ({slots} at once)"));
        let metrics = self.metrics.as_deref().unwrap_or("off");
        let (queues, types) = (listed(queues), listed(&self.types));
        format!("serving {queues} at {} with handlers for {types}; metrics: {metrics}", self.redis)
    }
}
