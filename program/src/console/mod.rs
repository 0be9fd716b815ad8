//! `streamfleet console`: the HTTP API under `/api/v1` and the pages for people, in a process of its own.
//!
//! A request passes `access`, which knows who asks, and the rule of its route (`routes`), which says who may. `api` and `pages`
//! then call the same functions as the command line. What goes wrong is a `problem`. Everything shares one `site`.

mod access;
mod api;
mod pages;
mod problem;
mod routes;
mod site;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use tokio::net::TcpListener;

use self::routes::Routes;
use self::site::Site;
use super::Context;
use super::exit::Exit;

/// How long requests in progress may take once the process is asked to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// How `console` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet console
  streamfleet console --listen 127.0.0.1:9000";

/// The arguments of `console`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on, instead of the configured one. Port 0 means any free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// Serves until stopped.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let listen = args.listen.unwrap_or(context.effective.config.console.listen);
    let site = Site::new(context.broker().await?, context.effective.clone());
    let listener = TcpListener::bind(listen).await;
    let listener = listener.with_context(|| {
        format!("console.listen: {listen} cannot be used; choose another port with --listen")
    })?;
    let address = listener.local_addr().context("failed to read the address of the listener")?;
    context.output.line(&format!("console: http://{address}/"))?;
    let stopping = context.shutdown.clone();
    let stopped = async move { stopping.requested().await };
    let serving = axum::serve(listener, router(site)).with_graceful_shutdown(stopped);
    let grace = async {
        context.shutdown.requested().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = async { serving.await } => served.context("the console's listener ended")?,
        () = grace => {}
    }
    Ok(Exit::Done)
}

/// All routes with their rules.
fn routes() -> Routes {
    Routes::default().with(access::routes()).with(api::routes()).with(pages::routes())
}

fn router(site: Site) -> Router {
    access::protected(routes().into_router(), &site).with_state(site)
}
