//! `streamfleet console`: the HTTP API under `/api/v1`, and the console in the browser, in a process of its own.
//!
//! A request passes `access`, which knows who asks, and the rule of its route (`routes`), which says who may. `api` then calls the same
//! functions as the command line. `app` serves the console in the browser, a client of `api`. What goes wrong is a `problem`.
//! Everything shares one `app`.

mod access;
mod alerting;
mod api;
mod app;
mod app_state;
mod directory;
mod field_error;
mod problem;
mod problem_kind;
mod routes;
mod server;

use std::io::{self, IsTerminal as _, Read as _};
use std::net::SocketAddr;

use anyhow::Context as _;
use axum::Router;
use axum::http::{Method, Uri};
use secrecy::SecretString;
use streamfleet_service::config::{self, Effective};
use streamfleet_service::telemetry::logs;

use self::access::{Accounts, Gatekeeper};
use self::app_state::{AppState, Shared};
use self::problem::Problem;
use self::problem_kind::ProblemKind;
use self::routes::Routes;
use self::server::Server;
use super::exit::Exit;
use super::{Context, Wrong};

/// The longest password.
const MAX_PASSWORD_BYTES: u64 = 1024;

/// How `console` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet console
  streamfleet console --listen 127.0.0.1:9000
  streamfleet console password < password.txt
  streamfleet console token";

/// The arguments of `console`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// The address to listen on, instead of the configured one. Port 0 means any free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// What to do instead of serving.
#[derive(clap::Subcommand)]
enum What {
    /// Read a password from standard input, and print its hash for the file of accounts.
    #[command(after_help = "Example:\n  streamfleet console password < password.txt")]
    Password,
    /// Draw a token for a program, and print it with its hash for the file of accounts.
    #[command(after_help = "Example:\n  streamfleet console token")]
    Token,
}

impl Args {
    /// Whether a signal stops it gracefully.
    pub(crate) fn serves(&self) -> bool {
        self.what.is_none()
    }
}

/// Serves until stopped.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.what {
        Some(What::Password) => return password(context),
        Some(What::Token) => return token(context),
        None => {}
    }
    let _logs = logs::start(&context.effective.config.telemetry, None).map_err(Wrong)?;
    let listen = args.listen.unwrap_or(context.effective.config.console.listen);
    let console = Console::open(context, listen).await?;
    context.output.line(&format!("console: {}", console.url()))?;
    tokio::join!(console.run(), alerting::run(context));
    Ok(Exit::Done)
}

/// A console with an open port.
pub(crate) struct Console {
    app: AppState,
    server: Server,
}

impl Console {
    /// Opens the port, and connects to Redis.
    ///
    /// # Errors
    ///
    /// If the configuration is wrong, Redis cannot be reached, or the address cannot be used.
    pub(crate) async fn open(context: &Context, listen: SocketAddr) -> anyhow::Result<Self> {
        let effective = context.effective.clone();
        let gatekeeper = Gatekeeper::open(&effective.config.console, listen);
        let gatekeeper = gatekeeper.map_err(|error| Wrong(error.to_string()))?;
        let configured = (effective, context.schemas()?);
        let app = Shared::new(context.broker().await?, configured, gatekeeper, context.shutdown.clone());
        Ok(Self { app, server: Server::open(listen).await? })
    }

    /// Where the console is. If nobody has an account, the address logs its reader in.
    pub(crate) fn url(&self) -> String {
        let (app, address) = (&self.app, self.server.address());
        let public = app.effective.config.console.public_url.as_deref();
        match (app.gatekeeper.link(), public) {
            (Some(key), _) => format!("http://{address}/login?key={key}"),
            (None, Some(public)) => format!("{}/", public.trim_end_matches('/')),
            (None, None) => format!("http://{address}/"),
        }
    }

    /// Serves until the shutdown is requested.
    pub(crate) async fn run(self) {
        let Self { app, server } = self;
        server.run(router(app.clone()), app.stopping.clone()).await;
        app.work_limits.finish().await;
    }
}

/// Returns what is wrong with the file of accounts, if one is configured.
pub(crate) fn problem_with_accounts(effective: &Effective) -> Option<config::Problem> {
    let path = effective.config.console.accounts_file.as_deref()?;
    let invalid = Accounts::read(path).err()?;
    Some(effective.problem(&["console", "accounts_file"], &invalid.reason()))
}

/// All routes with their rules.
fn routes() -> Routes {
    Routes::default().with(api::routes()).with(app::routes())
}

fn router(app: AppState) -> Router {
    let router = routes().into_router().fallback(app::page).method_not_allowed_fallback(impossible);
    access::protected(router, &app).with_state(app)
}

/// Answers requests with a method that a path does not have.
async fn impossible(method: Method, uri: Uri) -> Problem {
    let why = format!("{} does not work with {method}; the header Allow has the methods that do", uri.path());
    Problem::new(ProblemKind::MethodNotAllowed, why)
}

/// Prints the hash of a password.
fn password(context: &Context) -> anyhow::Result<Exit> {
    if io::stdin().is_terminal() {
        let how = "standard input is a terminal, which would show the password; use: streamfleet console password < FILE";
        return Err(Wrong(how.to_owned()).into());
    }
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_PASSWORD_BYTES + 1).read_to_string(&mut text);
    let bytes = read.context("failed to read the password")? as u64;
    let password = text.trim_end_matches(['\r', '\n']);
    if bytes > MAX_PASSWORD_BYTES || password.chars().count() < 8 {
        return Err(Wrong(format!(
            "a password has at least 8 characters and at most {MAX_PASSWORD_BYTES} bytes"
        ))
        .into());
    }
    context.output.line(&access::hash_password(&SecretString::from(password.to_owned()))?)?;
    Ok(Exit::Done)
}

/// Prints a new token and its hash.
fn token(context: &Context) -> anyhow::Result<Exit> {
    let token = access::random_text();
    let digest: String = access::digest(&token).iter().map(|byte| format!("{byte:02x}")).collect();
    context.output.line(&format!("token:  {token}\nsha256: {digest}"))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests;
