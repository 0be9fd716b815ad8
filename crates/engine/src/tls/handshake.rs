//! A handshake that is made only to learn why another one failed: the client reports no reason, or one for programmers.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore, SignatureScheme, Stream};

use super::explain::ClientCert;
use super::{explain, ring};

const PATIENCE: Duration = Duration::from_secs(2);

/// The result of the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// The server speaks TLS and answered.
    Well,
    /// The server speaks TLS but refused the connection, or was refused, for this reason.
    Refused(String),
    /// The server answered without TLS.
    Plain,
    /// The server does not speak TLS.
    Foreign,
    /// Nobody answered.
    Unknown,
}

/// Connects to `host:port` with `config`. Without one it trusts nobody, which is enough to learn whether the server
/// speaks TLS. Sends `hello` and discards the answer. Takes at most about 8 s.
pub async fn probe(
    host: &str,
    port: u16,
    config: Option<&ClientConfig>,
    name: Option<ServerName<'static>>,
    hello: &'static [u8],
) -> ProbeResult {
    let (host, config) = (host.to_owned(), config.cloned());
    let result = tokio::task::spawn_blocking(move || {
        let Some(config) = config.or_else(trusting_nobody) else { return ProbeResult::Unknown };
        let Some(name) = name.or_else(|| ServerName::try_from(host.clone()).ok()) else {
            return ProbeResult::Unknown;
        };
        handshake(&host, port, config, name, hello)
    });
    result.await.unwrap_or(ProbeResult::Unknown)
}

fn trusting_nobody() -> Option<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(ring()).with_safe_default_protocol_versions().ok()?;
    Some(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn handshake(
    host: &str,
    port: u16,
    mut config: ClientConfig,
    name: ServerName<'static>,
    hello: &[u8],
) -> ProbeResult {
    let inner = Arc::clone(&config.client_auth_cert_resolver);
    let asked = Arc::new(CertRequestRecorder { inner, requested: AtomicBool::new(false) });
    config.client_auth_cert_resolver = Arc::clone(&asked) as Arc<dyn ResolvesClientCert>;
    let Ok(mut socket) = connect(host, port) else { return ProbeResult::Unknown };
    let Ok(mut session) = ClientConnection::new(Arc::new(config), name) else { return ProbeResult::Unknown };
    let mut stream = Stream::new(&mut session, &mut socket);
    let answered = stream.write_all(hello).and_then(|()| stream.read(&mut [0; 16]));
    let sent = match (asked.requested.load(Ordering::Relaxed), asked.inner.has_certs()) {
        (false, _) => ClientCert::NotAsked,
        (true, false) => ClientCert::NotSent,
        (true, true) => ClientCert::Sent,
    };
    let tls_error = match &answered {
        Ok(1..) => return ProbeResult::Well,
        Ok(0) => None,
        Err(error) => error.get_ref().and_then(|error| error.downcast_ref::<Error>()),
    };
    match tls_error {
        Some(Error::AlertReceived(alert)) => ProbeResult::Refused(explain::alert_received(*alert, sent)),
        Some(Error::InvalidMessage(_)) if answers_plainly(host, port, hello) => ProbeResult::Plain,
        Some(Error::InvalidMessage(_)) => ProbeResult::Foreign,
        Some(error) => ProbeResult::Refused(explain::tls_error(error)),
        None => match explain::closed_connection(sent) {
            // The alert with the reason may be lost if the server closes the connection at once.
            Some(why) => ProbeResult::Refused(why),
            None if answers_plainly(host, port, hello) => ProbeResult::Plain,
            None => ProbeResult::Unknown,
        },
    }
}

fn answers_plainly(host: &str, port: u16, hello: &[u8]) -> bool {
    let Ok(mut socket) = connect(host, port) else { return false };
    let mut first = [0];
    let answered = socket.write_all(hello).and_then(|()| socket.read(&mut first));
    // A status or an error in Redis's protocol.
    answered.is_ok_and(|length| length == 1 && matches!(first, [b'+' | b'-']))
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for addr in (host, port).to_socket_addrs()?.take(2) {
        match TcpStream::connect_timeout(&addr, PATIENCE) {
            Ok(socket) => {
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Records whether the server asks for a client certificate.
#[derive(Debug)]
struct CertRequestRecorder {
    inner: Arc<dyn ResolvesClientCert>,
    requested: AtomicBool,
}

impl ResolvesClientCert for CertRequestRecorder {
    fn resolve(&self, authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.requested.store(true, Ordering::Relaxed);
        self.inner.resolve(authorities, schemes)
    }

    fn has_certs(&self) -> bool {
        self.inner.has_certs()
    }
}
