//! `streamfleet dev`: a private Redis, a worker and, if asked for, a console in one command, to try things out.

mod greeting;
mod variables;
mod watch;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use streamfleet::RedisConfig;
use streamfleet::dev_server::{DevServer, StartError};
use streamfleet::handlers;
use streamfleet::job::Tracking;
use streamfleet_service::Port;
use streamfleet_service::config::{Effective, ProxySection, TypeSection};
use streamfleet_service::telemetry::logs;

use self::greeting::greeting;
use super::console::Console;
use super::exit::Exit;
use super::{Context, Wrong, worker};

/// The type that is served if the configuration has none.
const DEMO: &str = "demo.echo";

/// How `dev` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dev
  streamfleet dev --watch --console
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
    /// Give programs only the variables that `streamfleet worker` gives them: PATH, HOME and the like, and those that
    /// `pass_env` names. Default: all of this terminal, except those for streamfleet itself, where `pass_env` is not set.
    #[arg(long)]
    clean_env: bool,
    /// When the code or the settings of a pool's programs change, start new ones. Looks at the pool's folder and those below,
    /// except `vendor`, `node_modules`, `runtime` and the like.
    #[arg(long, short)]
    watch: bool,
    /// The files of the configuration that the command line names.
    #[arg(skip)]
    pub(crate) files: Vec<PathBuf>,
    /// Log everything, as `STREAMFLEET__TELEMETRY__LOG=debug` does. Default: the end of each attempt, what programs write, and
    /// what a worker logs.
    #[arg(long, short)]
    verbose: bool,
}

/// Runs until stopped.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let mut effective = context.effective.clone();
    let listen = args.console.map(|asked| console_address(asked, &effective)).transpose()?;
    if effective.config.types.is_empty() {
        let mut demo = TypeSection::default();
        demo.handler = Some(handlers::Config::Noop);
        demo.policy.tracking = Some(Tracking::All);
        effective.config.types.insert(DEMO.parse()?, demo);
    }
    // Nothing would restart the worker, and the server would stop with it.
    let worker = &mut effective.config.worker;
    (worker.max_jobs, worker.max_lifetime, worker.max_rss) = (None, None, None);
    // Few may become the users of production.
    effective.keep_user();
    // Before anything is started: an invalid type should not cost a server start.
    effective.fleet().map_err(|invalid| Wrong(invalid.to_string()))?;
    let server = DevServer::builder().port(args.port).start(&args.folder).await;
    let mut server = server.map_err(not_started)?;
    let variables =
        (!args.clean_env).then(|| variables::of_process(&effective.config.redis, server.password()));
    if let Some(variables) = &variables {
        effective.pass_env(&variables.passed);
    }
    let telemetry = &effective.config.telemetry;
    let log = match args.verbose {
        true => "debug",
        false if effective.sets(&["telemetry", "log"]) => telemetry.log.as_str(),
        false => logs::DEVELOPMENT,
    };
    effective.config.telemetry = telemetry.clone().log(log);
    let namespace = effective.config.redis.namespace.clone();
    effective.config.redis = RedisConfig::default().url(server.url()).namespace(namespace);
    let context = with_effective(context, effective);
    let remarks = greeting::remarks(&context.effective, variables.as_ref());
    let worked = Box::pin(work(&context, &mut server, &args, (listen, remarks))).await;
    server.stop().await?;
    worked
}

/// Says what to do about a server that did not start.
fn not_started(error: StartError) -> anyhow::Error {
    let what = if matches!(error, StartError::InUse { .. }) {
        "probably another `streamfleet dev`; stop it, or choose another folder with --folder"
    } else if matches!(error, StartError::PortInUse { .. }) {
        "choose another one, or leave out --port to get one that is free"
    } else {
        return error.into();
    };
    anyhow::anyhow!("{error}: {what}")
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

/// Returns a copy of a context that has another configuration.
fn with_effective(context: &Context, effective: Effective) -> Context {
    let (shutdown, reload) = (context.shutdown.clone(), context.reload.clone());
    Context { shutdown, reload, output: context.output, clock: context.clock.clone(), effective }
}

async fn work(
    context: &Context,
    server: &mut DevServer,
    args: &Args,
    (listen, remarks): (Option<SocketAddr>, Vec<String>),
) -> anyhow::Result<Exit> {
    let process = worker::prepare(context, Port::IfFree).await?;
    let console = match listen {
        Some(listen) => Some(open_console(context, listen).await?),
        None => None,
    };
    let metrics = process.metrics_url().unwrap_or_else(|| "off".to_owned());
    let mut lines = greeting(&context.effective, server, &args.folder, &metrics);
    lines.extend(console.as_ref().map(|console| format!("console:       {}", console.url())));
    let watches = args.watch.then(|| watch::of(&context.effective.config, &args.files));
    lines.extend(watches.as_ref().map(watch::remark));
    lines.extend(remarks);
    context.output.line(&lines.join("\n"))?;
    let shutdown = context.shutdown.clone();
    let working = async {
        let ran = worker::serve(process, &context.effective, shutdown.clone()).await;
        // A worker that failed would leave the console running.
        shutdown.request();
        ran
    };
    let serving = async {
        if let Some(console) = console {
            console.run().await;
        }
    };
    let watching = async {
        let Some(watches) = watches else { return };
        tokio::select! {
            biased;
            () = shutdown.requested() => {}
            () = watch::run(watches, &context.reload) => {}
        }
    };
    let mut running = std::pin::pin!(async { tokio::join!(working, serving, watching).0 });
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
            anyhow::bail!("the redis server exited unexpectedly: {ended}; see {}", args.folder.join("server.log").display())
        }
    }
}
