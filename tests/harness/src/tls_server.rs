//! A Redis server with a TLS port, besides the plain one that the harness uses.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use super::certificates::{Authority, Certified};
use super::process::Launch;
use super::redis_server::{Aof, CLUSTER_PORTS, RedisServer, free_port};
use super::server_program;

/// A server and its TLS port.
pub struct TlsServer {
    pub server: RedisServer,
    pub port: u16,
}

impl TlsServer {
    /// Starts a server with this certificate. It trusts clients whose certificate the authority `clients` has signed. `auth` is the
    /// value of `tls-auth-clients`, which says whether they must present one.
    pub fn start(certified: &Certified, clients: &Authority, auth: &str) -> Self {
        Self::start_with(certified, clients, auth, &[])
    }

    /// Starts a server with TLS and more arguments; see [`start`](Self::start).
    pub fn start_with(certified: &Certified, clients: &Authority, auth: &str, more: &[&str]) -> Self {
        // The nodes of a cluster talk to each other on the port plus 10,000.
        let has_bus = |port: &u16| {
            CLUSTER_PORTS.contains(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port + 10_000)).is_ok()
        };
        let port = std::iter::repeat_with(free_port).take(100).find(has_bus).expect("two free ports");
        let args = arguments(port, certified, &clients.file(), auth);
        let args: Vec<_> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Self { server: RedisServer::builder().aof(Aof::EverySec).args(&args).start(), port }
    }

    /// Returns its TLS address with this host name.
    pub fn url(&self, host: &str) -> String {
        format!("rediss://{host}:{}/0", self.port)
    }
}

/// Returns the arguments that make a server use TLS on this port.
pub fn arguments(port: u16, certified: &Certified, clients: &Path, auth: &str) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    let pairs = [
        ("--tls-port", port.to_string()),
        ("--tls-cert-file", text(&certified.cert)),
        ("--tls-key-file", text(&certified.key)),
        ("--tls-ca-cert-file", text(clients)),
        ("--tls-auth-clients", auth.to_owned()),
    ];
    pairs.into_iter().flat_map(|(key, value)| [key.to_owned(), value]).collect()
}

/// Returns whether the server under test supports TLS; prints a note if it does not.
pub fn speaks_tls() -> bool {
    // Without a certificate it never starts. A server may know the options and still lack TLS support.
    let args = ["--port", "0", "--tls-port", "1", "--tls-cert-file", "/nonexistent"];
    let output = Launch::program(server_program::path(), &args).output(Duration::from_secs(30));
    let known = output.stdout.contains("Failed to configure TLS");
    if !known {
        server_program::skip("this server was built without TLS");
    }
    known
}
