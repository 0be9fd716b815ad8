//! Certificates that are replaced while a process runs.

use std::fs;
use std::time::Duration;

use streamfleet::Broker;

use super::{redis, tls};
use harness::certificates::{Authority, Valid};
use harness::tls_server::{TlsServer, speaks_tls};
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(60);

/// Everything is replaced: the authority, the server's certificate and the client's. In between, the client's key is only
/// half written.
#[tokio::test(flavor = "multi_thread")]
async fn rotated_certificates_are_used_by_the_next_connection() {
    if !speaks_tls() {
        return;
    }
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (certified, client) = (old.server(), old.issue("client", &["worker"], Valid::Now));
    let server = TlsServer::start(&certified, &old, "yes");
    let broker = Broker::connect(redis(&server.url("127.0.0.1"), tls(&old, Some(&client)))).await.unwrap();
    broker.ping().await.unwrap();

    fs::write(&client.key, "half").unwrap();
    server.server.restart();
    until_async("a connection with the previous key", SOON, async || broker.ping().await.ok()).await;

    let (fresh, fresh_client) = (new.server(), new.issue("client", &["worker"], Valid::Now));
    for (from, to) in [
        (&new.file(), &old.file()),
        (&fresh.cert, &certified.cert),
        (&fresh.key, &certified.key),
        (&fresh_client.cert, &client.cert),
        (&fresh_client.key, &client.key),
    ] {
        fs::copy(from, to).unwrap();
    }
    server.server.restart();
    until_async("a connection with the new certificates", SOON, async || broker.ping().await.ok()).await;
}
