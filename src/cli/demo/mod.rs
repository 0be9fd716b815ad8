//! `streamfleet demo`: real report jobs over a real table, on a private Redis, by a fleet of two workers of which one is
//! killed in the middle; at the end the account of all jobs.
//!
//! The `plan` says which jobs; the `acts` are played with the `workers` (processes that run `work`), with a producer that
//! speaks plain Redis (`command`) and with an `endpoint`; a `census` asks where all jobs are and the `screen` shows it;
//! `letters` and `account` end it. All of it in the demo's `folder`.

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
use streamfleet::broker::Broker;
use streamfleet::dev_server::DevServer;
use streamfleet::job::{InvalidName, QueueName};
use tokio::time::Instant;
use workers::Workers;

use super::exit::Exit;
use super::{Context, times};

/// The lease of the demo's fleet: short, so that a killed worker's jobs come back while one looks.
const LEASE: Duration = Duration::from_secs(2);

/// The pause before most retries.
const BACKOFF: Duration = Duration::from_millis(300);

/// How many jobs a worker runs at once.
const CONCURRENCY: usize = 8;

/// The longest pause in a report.
const LONGEST_PACE: Duration = Duration::from_secs(2);

/// The dead stream of the demo's queue.
const DEAD: &str = "sf:{default}:dead";

/// What is said first.
const INTRODUCTION: &str = "\
Reports over four years of Seattle's weather, as jobs on a private Redis, by two workers. One of them is killed on the\n\
way, and some jobs fail as jobs do. In the end every job is accounted for. Ctrl-C stops everything.\n";

/// The arguments of `demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where reports, logs and the server's data go. Emptied at the start if it is an earlier demo's.
    #[arg(long, value_name = "FOLDER", default_value = ".streamfleet/demo")]
    output: PathBuf,
    /// Decides the order of the jobs, and what fails by chance. Default: another one each time.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How long each report takes beyond its work, so that there is something to see; at most 2s.
    #[arg(long, default_value = "800ms", value_parser = pace)]
    pace: Duration,
}

fn pace(text: &str) -> Result<Duration, String> {
    let pace = times::duration(text)?;
    if pace <= LONGEST_PACE { Ok(pace) } else { Err("more than 2s would take all day".to_owned()) }
}

/// Plays the demo and stops everything that it started, however it ends.
pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let folder = Folder::open(&args.output)?;
    let shutdown = &context.shutdown;
    let mut server = DevServer::start(&folder.path.join("redis")).await?;
    let mut workers = Workers::new(folder.path.clone(), args.pace);
    let played = {
        let (target, log) = (Target::of(&server), folder.show("redis/server.log"));
        tokio::select! {
            played = play(&args, context, &folder, target, &mut workers) => played,
            () = shutdown.requested() => Err(anyhow::anyhow!("stopped by a signal; nothing of the demo runs any more")),
            ended = server.ended() => match ended {
                Ok(status) => Err(anyhow::anyhow!("the redis server ended by itself: {status}; see {log}")),
                Err(error) => Err(error.into()),
            },
        }
    };
    // In good order where all went well; else nothing is worth waiting for.
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
    screen.say(&format!("a private {name} {version} serves on port {port}; {password} opens it"))?;
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

/// The configuration of the workers, as a person would write it.
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
        r#"# The demo's fleet. Beside these types its workers have Rust handlers, which are compiled in.
[redis]
url = "redis://127.0.0.1:{port}"
password_file = {password}

[worker]
lease = "{lease}"
drain_timeout = "5s"

[queues.default]
concurrency = {CONCURRENCY}

# Runs a program per job: the payload on standard input.
[types."report.year"]
handler = {{ exec = {{ command = ["python3", "report.py"], directory = {directory} }} }}
timeout = "20s"
backoff = {{ fixed = "300ms" }}

# Sends a POST per job: the payload as the body.
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

/// The end, for people.
fn ending(account: &account::Account, folder: &Folder) -> String {
    format!(
        "The account, from Redis and from the disk, after {:.1} s:\n\n{}\n\n\
         reports  {}\nlogs     {}\nseed     {} (--seed repeats it)\n\
         Look around in what is left:  streamfleet dev --folder {}",
        Duration::from_millis(account.took_ms).as_secs_f64(),
        account.text(),
        folder.show("reports"),
        folder.show("logs"),
        account.seed,
        folder.show("redis")
    )
}
