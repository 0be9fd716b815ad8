//! `make demo`: runs real report jobs over a real table, on a private Redis. Two workers run them, and one of them is
//! killed midway. At the end, the demo accounts for every job.
//!
//! `plan` defines the jobs. `acts` runs the demo with `workers` (processes of this same program that run `worker`), a
//! producer that uses plain Redis commands (`command`) and an `endpoint`. A `census` looks up where all jobs are, and
//! `screen` shows it. `letters` and `account` conclude the demo. All files are in the demo's `folder`.

mod account;
mod acts;
mod census;
mod command;
mod endpoint;
mod folder;
mod letters;
mod plan;
mod screen;
mod worker;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use acts::Stage;
use anyhow::{Result, anyhow};
use clap::Parser;
use command::Sender;
use endpoint::Endpoint;
use folder::Folder;
use screen::Screen;
use secrecy::ExposeSecret;
use streamfleet::dev_server::DevServer;
use streamfleet::{Broker, Shutdown};
use streamfleet_service::Signals;
use tokio::time::Instant;
use workers::Workers;

/// The lease of the demo's fleet: short, so that a killed worker's jobs come back while somebody watches.
const LEASE: Duration = Duration::from_secs(2);

/// How many jobs a worker runs at once.
const CONCURRENCY: usize = 8;

/// What is printed first.
const INTRODUCTION: &str = "\
Two workers write reports about four years of Seattle's weather, as jobs on a private Redis. One of them is killed\n\
midway, and some jobs fail. At the end, every job is accounted for. Ctrl-C stops everything.\n";

/// Runs 300 report jobs with two workers, one of which is killed midway, then accounts for every job. Exit code 0: no
/// job was lost.
#[derive(Parser)]
#[command(max_term_width = 110)]
struct Args {
    /// The directory for reports, logs and the server's data. Emptied at the start if it is from an earlier demo.
    #[arg(long, value_name = "FOLDER", default_value = ".streamfleet/demo")]
    output: PathBuf,
    /// The port of the private Redis. Default: a free one.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The random seed for the order of the jobs and for random failures. Default: a new one each time.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Extra time that each report takes, in milliseconds, so that there is something to see.
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=2000))]
    pace: u64,
    /// Be one worker of the demo whose folder is the current directory.
    #[arg(long, hide = true)]
    worker: bool,
}

fn main() -> Result<ExitCode> {
    // First of all: an earlier signal would end the process, and look like a failure.
    let shutdown = Signals::shutdown()?;
    let args = Args::parse();
    let runtime = tokio::runtime::Runtime::new()?;
    if args.worker {
        runtime.block_on(worker::run(Duration::from_millis(args.pace), shutdown))?;
        return Ok(ExitCode::SUCCESS);
    }
    let holds = runtime.block_on(run(&args, shutdown))?;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the demo and stops everything that it started, however it ends. Returns true if no job was lost.
async fn run(args: &Args, shutdown: Shutdown) -> Result<bool> {
    let folder = Folder::open(&args.output)?;
    let mut server = DevServer::builder().port(args.port).start(&folder.path.join("redis")).await?;
    let broker = Broker::connect(server.url().expose_secret()).await?;
    let sender = Sender::to(&server).await;
    let mut workers = Workers::new(folder.path.clone(), args.pace);
    let played = tokio::select! {
        played = play(args, &folder, broker, sender, &mut workers) => played,
        () = shutdown.requested() => Err(anyhow!("stopped by a signal; all processes of the demo are stopped")),
        ended = server.ended() => {
            let ended = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(anyhow!("the redis server exited unexpectedly: {ended}; see {}", folder.show("redis/server.log")))
        }
    };
    // Gracefully if all went well; otherwise nothing is worth waiting for.
    let stopped = if played.is_ok() { workers.stop().await } else { workers.kill_all().await };
    let server_stopped = server.stop().await;
    let holds = played?;
    stopped?;
    server_stopped?;
    Ok(holds)
}

async fn play(
    args: &Args,
    folder: &Folder,
    broker: Broker,
    sender: Sender,
    workers: &mut Workers,
) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(rand::random);
    let has_python = command::runs("python3").await;
    let plan = plan::jobs(seed, has_python);
    let screen = Screen::new(plan.len() as u64);
    screen.print(INTRODUCTION)?;
    let server = broker.server().await?;
    let (name, version) = server.product().unwrap_or(("server", "of unknown version"));
    let (port, password) = (sender.port, folder.show("redis/password"));
    screen
        .log(&format!("a private {name} {version} listens on port {port}; its password is in {password}"))?;
    if !has_python {
        screen.log("python3 is not installed, so the jobs that run it (report.year) are left out")?;
    }
    let endpoint = Endpoint::open(seed, Duration::from_millis(args.pace)).await?;
    std::fs::write(folder.path.join("fleet.toml"), fleet_toml(port, &endpoint.url()))?;
    let stage = Stage {
        folder,
        queue: broker.queue("default".parse()?),
        broker,
        endpoint,
        sender,
        seed,
        plan,
        screen,
        workers,
        ids: Vec::new(),
        submitted: std::collections::BTreeSet::new(),
        deadline: Instant::now(),
    };
    Box::pin(stage.play()).await
}

/// Returns the configuration of the workers, as a person would write it.
fn fleet_toml(port: u16, url: &str) -> String {
    let lease = LEASE.as_secs();
    format!(
        r#"# The demo's fleet, which runs in this folder. In addition to these types, its workers have Rust handlers, which are
# compiled in.
[redis]
url = "redis://127.0.0.1:{port}"
password_file = "redis/password"

[worker]
lease = "{lease}s"
drain_timeout = "5s"

[queues.default]
concurrency = {CONCURRENCY}

# Runs one program per job, with the payload on standard input.
[types."report.year"]
handler = {{ exec = {{ command = ["python3", "report.py"] }} }}
timeout = "20s"
backoff = {{ fixed = "300ms" }}

# Sends one POST per job, with the payload as the body.
[types."report.notify"]
handler = {{ http = {{ url = "{url}" }} }}
timeout = "5s"
max_attempts = 3
backoff = {{ list = ["500ms", "1s"] }}

[telemetry]
listen = "off"
log_format = "human"
"#
    )
}
