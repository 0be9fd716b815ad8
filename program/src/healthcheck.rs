//! `streamfleet healthcheck`: asks the local worker or console for its health, for service managers that run a command for that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;
use streamfleet_service::config::Config;
use streamfleet_service::telemetry::Listen;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::exit::Exit;
use super::output::harmless;
use super::times;
use super::{Context, Wrong};

/// The longest response of a probe, in bytes.
const ANSWER_MAX: u64 = 16 * 1024;

/// How `healthcheck` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet healthcheck
  streamfleet healthcheck --probe ready --address 127.0.0.1:9464
  streamfleet healthcheck --probe console";

/// The arguments of `healthcheck`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The probe.
    #[arg(long, value_enum, default_value_t = Probe::Live)]
    probe: Probe,
    /// The address to ask, instead of the configured telemetry.listen or console.listen.
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<SocketAddr>,
    /// How long the response may take.
    #[arg(long, default_value = "3s", value_parser = times::duration, value_name = "LENGTH")]
    timeout: Duration,
}

/// A probe of the worker, or of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Probe {
    /// Are its loops running? Fails if only a restart helps.
    Live,
    /// Is it connected to Redis, and not stopping?
    Ready,
    /// Has it started?
    Startup,
    /// Does the console answer, and does Redis answer it?
    Console,
}

/// The result.
#[derive(Serialize)]
struct Health {
    probe: &'static str,
    address: SocketAddr,
    healthy: bool,
    said: String,
}

/// Asks the process. The exit code is always 0 or 1: programs that run health checks know no others.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let address = match args.address {
        Some(address) => address,
        None => args.probe.configured(&context.effective.config)?,
    };
    let asked = tokio::time::timeout(args.timeout, ask(address, args.probe.path())).await;
    let (healthy, said) = match asked {
        Ok(Ok((status, said))) => (status == 200, said),
        Ok(Err(error)) => (false, format!("{error:#}")),
        Err(_) => (false, format!("no response within {}", times::short(args.timeout))),
    };
    let health = Health { probe: args.probe.name(), address: reachable(address), healthy, said };
    context.output.print(&health, |health| {
        let state = if health.healthy { health.probe.to_owned() } else { format!("not {}", health.probe) };
        format!("{state}: {} ({})", harmless(&health.said), health.address)
    })?;
    Ok(if healthy { Exit::Done } else { Exit::Failed })
}

impl Probe {
    fn path(self) -> &'static str {
        match self {
            Self::Live => "/livez",
            Self::Ready => "/readyz",
            Self::Startup => "/startupz",
            Self::Console => "/healthz",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Ready => "ready",
            Self::Startup => "started",
            Self::Console => "serving",
        }
    }

    /// The address of the process with this configuration.
    fn configured(self, config: &Config) -> Result<SocketAddr, Wrong> {
        match self {
            Self::Console => known("console.listen", config.console.listen),
            Self::Live | Self::Ready | Self::Startup => listening(config.telemetry.listen),
        }
    }
}

/// The address of the worker that listens here.
fn listening(listen: Listen) -> Result<SocketAddr, Wrong> {
    match listen {
        Listen::Off => {
            Err(Wrong("telemetry.listen is \"off\", so the worker has no probes to ask".to_owned()))
        }
        Listen::At(address) => known("telemetry.listen", address),
    }
}

/// Refuses a port that the system chooses.
fn known(key: &str, address: SocketAddr) -> Result<SocketAddr, Wrong> {
    if address.port() == 0 {
        let why = "has port 0, so only the process knows its port: pass the address with --address";
        return Err(Wrong(format!("{key} {why}")));
    }
    Ok(address)
}

/// A process that listens on all interfaces is reachable on the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Returns the status and the body of a page.
async fn ask(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let address = reachable(address);
    let mut stream = TcpStream::connect(address).await.context("failed to connect")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.context("failed to send the request")?;
    let mut reply = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut reply).await.context("failed to read the response")?;
    let reply = String::from_utf8_lossy(&reply);
    let (head, body) = reply.split_once("\r\n\r\n").context("the response is not HTTP")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("the response is not HTTP")?, body.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_listens_on_all_interfaces_is_asked_on_loopback() {
        let asked = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(asked("0.0.0.0:9464"), "127.0.0.1:9464");
        assert_eq!(asked("[::]:9464"), "[::1]:9464");
        assert_eq!(asked("10.1.2.3:80"), "10.1.2.3:80");
    }

    #[test]
    fn a_worker_without_a_known_address_is_refused() {
        assert!(listening(Listen::Off).unwrap_err().0.contains("off"));
        let random = Listen::At("127.0.0.1:0".parse().unwrap());
        assert!(listening(random).unwrap_err().0.contains("--address"));
    }

    #[test]
    fn the_console_is_asked_at_its_own_address() {
        let mut config = Config::default();
        assert_eq!(Probe::Console.configured(&config).unwrap(), config.console.listen);
        config.console.listen.set_port(0);
        let refused = Probe::Console.configured(&config).unwrap_err().0;
        assert!(refused.starts_with("console.listen has port 0"), "{refused}");
    }
}
