//! `streamfleet dev`: a private Redis, a worker and, if asked for, a console in one command, to try things out.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use streamfleet::RedisConfig;
use streamfleet::dev_server::{self, DevServer};
use streamfleet::handlers;
use streamfleet::job::{Lane, Tracking};
use streamfleet_engine::admin::stream_name;
use streamfleet_service::Port;
use streamfleet_service::config::{Effective, ProxySection, TypeSection};

use super::console::Console;
use super::exit::Exit;
use super::output::{listed, shell_word};
use super::{Context, Wrong, worker};

/// The type that is served if the configuration has none.
const DEMO: &str = "demo.echo";

/// How `dev` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dev
  streamfleet dev --console
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
    /// Also serve the console, and print the link that opens it. Default: at the configured port, or at a free one.
    #[arg(long, value_name = "ADDRESS")]
    console: Option<Option<SocketAddr>>,
}

/// Runs until stopped.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let mut effective = context.effective.clone();
    let listen = args.console.map(|asked| console_address(asked, &effective)).transpose()?;
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
    let context = with_effective(context, effective);
    let worked = Box::pin(work(&context, &mut server, &args.folder, listen)).await;
    server.stop().await?;
    worked
}

/// Where the console listens. Its link needs no account, so nobody elsewhere may reach it.
fn console_address(asked: Option<SocketAddr>, effective: &Effective) -> Result<SocketAddr, Wrong> {
    let Some(asked) = asked else {
        let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, effective.config.console.listen.port()));
        let is_free = TcpListener::bind(usual).is_ok();
        return Ok(if is_free { usual } else { SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) });
    };
    if asked.ip().is_loopback() {
        return Ok(asked);
    }
    Err(Wrong(format!(
        "--console: others can reach {asked}; use an address of this machine only, such as 127.0.0.1:9470"
    )))
}

/// Opens the console. The configured accounts and addresses are for a console that others use.
async fn open_console(context: &Context, listen: SocketAddr) -> anyhow::Result<Console> {
    let mut effective = context.effective.clone();
    let console = &mut effective.config.console;
    (console.accounts_file, console.public_url, console.session_key_file) = (None, None, None);
    console.proxy = ProxySection::default();
    Console::open(&with_effective(context, effective), listen).await
}

/// The same context with another configuration.
fn with_effective(context: &Context, effective: Effective) -> Context {
    let (shutdown, reload) = (context.shutdown.clone(), context.reload.clone());
    Context { shutdown, reload, output: context.output, clock: context.clock.clone(), effective }
}

async fn work(
    context: &Context,
    server: &mut DevServer,
    folder: &Path,
    listen: Option<SocketAddr>,
) -> anyhow::Result<Exit> {
    let process = worker::prepare(context, Port::IfFree).await?;
    let console = match listen {
        Some(listen) => Some(open_console(context, listen).await?),
        None => None,
    };
    let metrics = process.metrics_url().unwrap_or_else(|| "off".to_owned());
    let mut greeting = greeting(&context.effective, server, folder, &metrics);
    if let Some(console) = &console {
        greeting.push_str(&format!("\nconsole:       {}", console.url()));
    }
    context.output.line(&format!("{greeting}\nCtrl-C stops everything."))?;
    let shutdown = context.shutdown.clone();
    let working = async {
        let ran = process.run(shutdown.clone()).await;
        // A worker that failed would leave the console running.
        shutdown.request();
        ran
    };
    let serving = async {
        if let Some(console) = console {
            console.run().await;
        }
    };
    let mut running = std::pin::pin!(async { tokio::join!(working, serving).0 });
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
         inspect it:    streamfleet queues",
        folder.display()
    )
}
