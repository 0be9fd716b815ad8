//! TLS as part of the client's configuration, so that every copy of it uses the same TLS for every server; and
//! explanations of TLS failures in words.

use std::net::IpAddr;
use std::sync::Arc;

use fred::types::config::{
    Config, HostMapping, Server, ServerConfig, TlsConfig, TlsConnector, TlsHostMapping,
};
use rustls::pki_types::ServerName;

use crate::client::error::Error;
use crate::tls::{Files, ProbeResult, probe};

/// How many of several servers are asked for the reason.
const MAX_ASKED: usize = 3;

/// Returns the client's TLS configuration.
///
/// # Errors
///
/// The key of `[redis.tls]` that is wrong, and why.
pub(crate) fn connector(files: &Files) -> Result<TlsConfig, Error> {
    let config = files.client().map_err(|(key, reason)| wrong(key, &reason))?;
    let name = files.name().map_err(|(key, reason)| wrong(key, &reason))?;
    let hostnames = name.map_or(TlsHostMapping::None, |name| TlsHostMapping::Custom(Arc::new(OneName(name))));
    Ok(TlsConfig { connector: TlsConnector::from(config), hostnames })
}

/// Refuses settings that would silently protect nothing.
pub(crate) fn unused(files: &Files) -> Result<(), Error> {
    let why = "has no effect, because the address does not use TLS: start it with rediss://";
    files.keys().next().map_or(Ok(()), |key| Err(wrong(key, why)))
}

fn wrong(key: &str, reason: &str) -> Error {
    Error::Address(format!("redis.tls.{key}: {reason}"))
}

/// The name for all servers, which is also sent in the handshake (SNI). The client looks it up by IP address.
#[derive(Debug)]
struct OneName(ServerName<'static>);

impl HostMapping for OneName {
    fn map(&self, _ip: &IpAddr, _default_host: &str) -> Option<String> {
        Some(self.0.to_str().into_owned())
    }
}

/// Sets the name that the server's certificate must be for, if one is configured.
fn named(server: &mut Server, tls: Option<&TlsConfig>) {
    if let Some(TlsHostMapping::Custom(mapping)) = tls.map(|tls| &tls.hostnames) {
        let any = IpAddr::from([0, 0, 0, 0]);
        server.tls_server_name = mapping.map(&any, &server.host).map(Into::into);
    }
}

/// Sets the name of the certificates for all servers of a configuration.
pub(crate) fn name_servers(config: &mut Config) {
    let tls = config.tls.clone();
    match &mut config.server {
        ServerConfig::Centralized { server } => named(server, tls.as_ref()),
        ServerConfig::Clustered { hosts, .. } | ServerConfig::Sentinel { hosts, .. } => {
            hosts.iter_mut().for_each(|server| named(server, tls.as_ref()));
        }
        ServerConfig::Unix { .. } => {}
    }
}

/// Explains the error of a failed connection if the reason is TLS: the client reports it in a library programmer's
/// terms, or as silence.
pub(crate) async fn explained(error: Error, config: &Config) -> Error {
    let Error::Unreachable(detail) = &error else { return error };
    // A server that expects TLS closes a plain connection; it neither refuses it nor stays silent.
    let foregone: &[&str] =
        if config.tls.is_some() { &["lookup"] } else { &["lookup", "efused", "timed out", "within"] };
    if foregone.iter().any(|word| detail.contains(word)) {
        return error;
    }
    let servers = match &config.server {
        ServerConfig::Centralized { server } => std::slice::from_ref(server),
        ServerConfig::Clustered { hosts, .. } | ServerConfig::Sentinel { hosts, .. } => hosts,
        ServerConfig::Unix { .. } => return error,
    };
    for server in servers.iter().take(MAX_ASKED) {
        let mut server = server.clone();
        named(&mut server, config.tls.as_ref());
        if let Some(why) = reason(&server, config.tls.as_ref()).await {
            return Error::Unreachable(format!("TLS with {}:{}: {why}", server.host, server.port));
        }
    }
    error
}

async fn reason(server: &Server, tls: Option<&TlsConfig>) -> Option<String> {
    const HELLO: &[u8] = b"PING\r\n";
    let name = server.tls_server_name.as_deref().unwrap_or(&server.host);
    let name = ServerName::try_from(name.to_owned()).ok();
    let config = tls.map(|TlsConfig { connector: TlsConnector::Rustls(connector), .. }| connector.config());
    let result = probe(&server.host, server.port, config.map(|config| &**config), name, HELLO).await;
    let why = match (result, tls.is_some()) {
        (ProbeResult::Refused(why), true) => why,
        (ProbeResult::Plain, true) => {
            "the server does not speak TLS on this port: use its TLS port, or start redis.url with redis:// \
             for an unencrypted connection"
                .to_owned()
        }
        (ProbeResult::Foreign, true) => "the service on this port does not speak TLS".to_owned(),
        (ProbeResult::Well | ProbeResult::Refused(_), false) => {
            "the server speaks TLS on this port: start redis.url with rediss://, or use its port without TLS"
                .to_owned()
        }
        _ => return None,
    };
    Some(why)
}
