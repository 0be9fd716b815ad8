//! `streamfleet demo`: runs real report jobs over a real table, on a private Redis. Two workers run them, and one of them is
//! killed midway. At the end, the demo accounts for every job.
//!
//! `plan` defines the jobs. `acts` runs the demo with `workers` (processes that run `work`), a producer that uses plain
//! Redis commands (`command`) and an `endpoint`. A `census` looks up where all jobs are, and `screen` shows it. `letters`
//! and `account` conclude the demo. All files are in the demo's `folder`.

mod account;
mod acts;
mod census;
mod command;
mod endpoint;
mod folder;
mod letters;
mod plan;
mod screen;
pub(super) mod work;
mod workers;

use std::path::PathBuf;
use std::time::Duration;

use acts::Stage;
use anyhow::{Result, bail};
use command::{Sender, Target};
use endpoint::Endpoint;
use folder::Folder;
use plan::Python;
use screen::Screen;
use streamfleet::Broker;
use streamfleet::dev_server::DevServer;
use streamfleet::job::{InvalidName, QueueName};
use tokio::time::Instant;
use workers::Workers;

use super::exit::Exit;
use super::{Context, times};

/// The lease of the demo's fleet: short, so that a killed worker's jobs come back while somebody watches.
const LEASE: Duration = Duration::from_secs(2);

/// The pause before most retries.
const BACKOFF: Duration = Duration::from_millis(300);

/// How many jobs a worker runs at once.
const CONCURRENCY: usize = 8;

/// The maximum of `--pace`.
const LONGEST_PACE: Duration = Duration::from_secs(2);

/// The dead stream of the demo's queue.
const DEAD: &str = "sf:{default}:dead";

/// What is printed first.
const INTRODUCTION: &str = "\
Two workers write reports about four years of Seattle's weather, as jobs on a private Redis. One of them is killed\n\
midway, and some jobs fail. At the end, every job is accounted for. Ctrl-C stops everything.\n";

/// The arguments of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory for reports, logs and the server's data. Emptied at the start if it is from an earlier demo.
    #[arg(long, value_name = "FOLDER", default_value = ".streamfleet/demo")]
    output: PathBuf,
    /// The random seed for the order of the jobs and for random failures. Default: a new one each time.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Extra time that each report takes, so that there is something to see; at most 2s.
    #[arg(long, default_value = "800ms", value_parser = pace)]
    pace: Duration,
}

fn pace(text: &str) -> Result<Duration, String> {
    let pace = times::duration(text)?;
    if pace <= LONGEST_PACE { Ok(pace) } else { Err("a pace must be at most 2s".to_owned()) }
}

/// Runs the demo and stops everything that it started, however it ends.
pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let folder = Folder::open(&args.output)?;
    let shutdown = &context.shutdown;
    let mut server = DevServer::start(&folder.path.join("redis")).await?;
    let mut workers = Workers::new(folder.path.clone(), args.pace);
    let played = {
        let (target, log) = (Target::of(&server), folder.show("redis/server.log"));
        tokio::select! {
            played = play(&args, context, &folder, target, &mut workers) => played,
            () = shutdown.requested() => Err(anyhow::anyhow!("stopped by a signal; all processes of the demo are stopped")),
            ended = server.ended() => match ended {
                Ok(status) => Err(anyhow::anyhow!("the redis server exited unexpectedly: {status}; see {log}")),
                Err(error) => Err(error.into()),
            },
        }
    };
    // Gracefully if all went well; otherwise nothing is worth waiting for.
    let stopped = if played.is_ok() { workers.stop().await } else { workers.kill_all().await };
    let server_stopped = server.stop().await;
    let account = played?;
    stopped?;
    server_stopped?;
    context.output.print(&account, |account| ending(account, &folder))?;
    Ok(if account.holds { Exit::Done } else { Exit::Failed })
}

async fn play(
    args: &Args,
    context: &Context,
    folder: &Folder,
    target: Target,
    workers: &mut Workers,
) -> Result<account::Account> {
    let seed = args.seed.unwrap_or_else(rand::random);
    let python = if command::runs("python3").await { Python::Installed } else { Python::Missing };
    let plan = plan::jobs(seed, python);
    let screen = Screen::new(context.output, plan.len() as u64);
    screen.print(INTRODUCTION)?;
    let broker = Broker::connect(target.config()).await?;
    let server = broker.server().await?;
    let (name, version) = server.product().unwrap_or(("server", "of unknown version"));
    let (port, password) = (target.port, folder.show("redis/password"));
    screen
        .say(&format!("a private {name} {version} listens on port {port}; its password is in {password}"))?;
    if python == Python::Missing {
        screen.say("python3 is not installed, so the jobs that run it (report.year) are left out")?;
    }
    let endpoint = Endpoint::open(seed, args.pace).await?;
    std::fs::write(folder.path.join("fleet.toml"), fleet_toml(&target, &endpoint, folder)?)?;
    let stage = Stage {
        folder,
        target,
        queue: broker.queue(queue()?),
        broker,
        endpoint,
        sender: Sender::find().await,
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

fn queue() -> Result<QueueName, InvalidName> {
    "default".parse()
}

/// Returns the configuration of the workers, as a person would write it.
fn fleet_toml(target: &Target, endpoint: &Endpoint, folder: &Folder) -> Result<String> {
    let Some(path) = folder.path.to_str() else { bail!("{} is not UTF-8", folder.path.display()) };
    let directory = toml::Value::from(path);
    let Some(password) = target.password_file.to_str() else {
        bail!("{} is not UTF-8", folder.path.display())
    };
    let (port, password) = (target.port, toml::Value::from(password));
    let lease = format!("{}s", LEASE.as_secs());
    let url = endpoint.url();
    Ok(format!(
        r#"# The demo's fleet. In addition to these types, its workers have Rust handlers, which are compiled in.
[redis]
url = "redis://127.0.0.1:{port}"
password_file = {password}

[worker]
lease = "{lease}"
drain_timeout = "5s"

[queues.default]
concurrency = {CONCURRENCY}

# Runs one program per job, with the payload on standard input.
[types."report.year"]
handler = {{ exec = {{ command = ["python3", "report.py"], directory = {directory} }} }}
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
    ))
}

/// Returns the final text for people.
fn ending(account: &account::Account, folder: &Folder) -> String {
    format!(
        "The account, from Redis and the disk, after {:.1} s:\n\n{}\n\n\
         reports  {}\nlogs     {}\nseed     {} (--seed repeats it)\n\
         Inspect what is left:  streamfleet dev --folder {}",
        Duration::from_millis(account.took_ms).as_secs_f64(),
        account.text(),
        folder.show("reports"),
        folder.show("logs"),
        account.seed,
        folder.show("redis")
    )
}
