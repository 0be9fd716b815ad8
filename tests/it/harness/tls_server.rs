//! A Redis that speaks TLS on a port of its own, beside the one without that the harness uses.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use super::certificates::{Authority, Certified};
use super::redis_server::{Aof, RedisServer, free_port};
use super::server_program;

/// A server, and its port for TLS.
pub(crate) struct TlsServer {
    pub(crate) server: RedisServer,
    pub(crate) port: u16,
}

impl TlsServer {
    /// A server with this certificate. It trusts clients that the authority has signed; `clients`, Redis's `tls-auth-clients`,
    /// says whether they must prove it.
    pub(crate) fn start(certified: &Certified, clients: &Authority, auth: &str) -> Self {
        Self::start_with(certified, clients, auth, &[])
    }

    /// The same with more arguments.
    pub(crate) fn start_with(certified: &Certified, clients: &Authority, auth: &str, more: &[&str]) -> Self {
        // The nodes of a cluster talk with each other on the port that is 10,000 higher.
        let has_bus = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port + 10_000)).is_ok();
        let port = std::iter::repeat_with(free_port).take(100).find(has_bus).expect("two free ports");
        let args = arguments(port, certified, &clients.file(), auth);
        let args: Vec<_> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Self { server: RedisServer::builder().aof(Aof::EverySec).args(&args).start(), port }
    }

    /// Its address for TLS, by this host name.
    pub(crate) fn url(&self, host: &str) -> String {
        format!("rediss://{host}:{}/0", self.port)
    }
}

/// What makes a server speak TLS on this port.
pub(crate) fn arguments(port: u16, certified: &Certified, clients: &Path, auth: &str) -> Vec<String> {
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

/// False, with a word about it, where the server under test was built without TLS.
pub(crate) fn speaks_tls() -> bool {
    // It has no certificate, so it does not start either way. One that knows the keys may still lack what they ask for.
    let args = ["--port", "0", "--tls-port", "1", "--tls-cert-file", "/nonexistent"];
    let output = server_program::command().args(args).output().unwrap();
    let known = String::from_utf8_lossy(&output.stdout).contains("Failed to configure TLS");
    if !known {
        server_program::skip("this server was built without TLS");
    }
    known
}
