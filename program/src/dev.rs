//! `streamfleet dev`: a private Redis and a worker in one command, to try things out.

use std::path::{Path, PathBuf};

use streamfleet::RedisConfig;
use streamfleet::admin::stream_name;
use streamfleet::config::{Effective, TypeSection};
use streamfleet::dev_server::{self, DevServer};
use streamfleet::handlers;
use streamfleet::job::{Lane, Tracking};
use streamfleet::service::Port;

use super::exit::Exit;
use super::output::{listed, shell_word};
use super::{Context, Wrong, worker};

/// The type that is served if the configuration has none.
const DEMO: &str = "demo.echo";

/// How `dev` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dev
  streamfleet dev --folder /tmp/streamfleet --port 6400";

/// The arguments of `dev`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory for the server's data, port and password.
    #[arg(long, value_name = "FOLDER", default_value = ".streamfleet")]
    folder: PathBuf,
    /// The port of the server. Default: the one of the last time, or a free one.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
}

/// Runs until stopped.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let mut effective = context.effective.clone();
    if effective.config.types.is_empty() {
        let mut demo = TypeSection::default();
        demo.handler = Some(handlers::Config::Noop);
        demo.tracking = Some(Tracking::All);
        effective.config.types.insert(DEMO.parse()?, demo);
    }
    // Nothing would restart the worker, and the server would stop with it.
    let worker = &mut effective.config.worker;
    (worker.max_jobs, worker.max_lifetime, worker.max_rss) = (None, None, None);
    // Before anything is started: an invalid type should not cost a server start.
    effective.fleet().map_err(|invalid| Wrong(invalid.to_string()))?;
    let mut server = DevServer::builder().port(args.port).start(&args.folder).await?;
    let namespace = effective.config.redis.namespace.clone();
    effective.config.redis = RedisConfig::default().url(server.url()).namespace(namespace);
    let worked = work(&effective, context, &mut server, &args.folder).await;
    server.stop().await?;
    worked
}

async fn work(
    effective: &Effective,
    context: &Context,
    server: &mut DevServer,
    folder: &Path,
) -> anyhow::Result<Exit> {
    let process = worker::prepare(effective, Port::IfFree).await?;
    let metrics = process.metrics_url().unwrap_or_else(|| "off".to_owned());
    context.output.line(&greeting(effective, server, folder, &metrics))?;
    let shutdown = context.shutdown.clone();
    let mut running = std::pin::pin!(process.run(shutdown.clone()));
    tokio::select! {
        ran = &mut running => {
            ran?;
            Ok(Exit::Done)
        }
        ended = server.ended() => {
            // Without Redis no job can be given back, so there is no point in waiting.
            shutdown.request();
            shutdown.request();
            running.await?;
            let ended = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            anyhow::bail!("the redis server exited unexpectedly: {ended}; see {}", folder.join("server.log").display())
        }
    }
}

/// What to do next, to be pasted into another terminal.
fn greeting(effective: &Effective, server: &DevServer, folder: &Path, metrics: &str) -> String {
    let config = &effective.config;
    let namespace = &config.redis.namespace;
    let types = listed(config.types.keys());
    let job_type = config.types.keys().next().map_or(DEMO, |name| name.as_str());
    let Some(queue) = config.queues.keys().next() else { return String::new() };
    let stream = stream_name(namespace, queue, Lane::Normal);
    let (port, password) = (server.port(), server.password_file());
    let password = shell_word(&password.to_string_lossy());
    let mut variables = format!(
        "STREAMFLEET__REDIS__URL=redis://127.0.0.1:{port} STREAMFLEET__REDIS__PASSWORD_FILE={password} \
         REDISCLI_AUTH=\"$(cat {password})\""
    );
    if *namespace != RedisConfig::default().namespace {
        variables.push_str(&format!(" STREAMFLEET__REDIS__NAMESPACE={namespace}"));
    }
    let queue = if queue.as_str() == "default" { String::new() } else { format!(" --queue {queue}") };
    let (client, payload) = (dev_server::client(), r#"'{"hello":"world"}'"#);
    format!(
        "redis on port {port}, data and password in {}; handlers for {types}; metrics: {metrics}\n\
         log in:        export {variables}\n\
         submit a job:  {client} -p {port} XADD '{stream}' '*' type {job_type} payload {payload}\n\
         or:            streamfleet enqueue{queue} {job_type} {payload}\n\
         inspect it:    streamfleet queues\n\
         Ctrl-C stops both.",
        folder.display()
    )
}
