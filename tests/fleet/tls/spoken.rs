//! Jobs over TLS.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use streamfleet::Broker;

use super::{redis, tls};
use harness::certificates::{Authority, Valid};
use harness::fleet::{Acts, Running, config, quick, submit, until_empty};
use harness::process::Launch;
use harness::tls_server::{TlsServer, speaks_tls};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_with_a_private_authority_and_a_client_certificate() {
    if !speaks_tls() {
        return;
    }
    let authority = Authority::new("test");
    let client = authority.issue("client", &["worker"], Valid::Now);
    let server = TlsServer::start(&authority.server(), &authority, "yes");
    let mut config = config("");
    config.redis = redis(&server.url("127.0.0.1"), tls(&authority, Some(&client)));
    let broker = Broker::connect(config.redis.clone()).await.unwrap();
    let handler = Acts::well();
    let fleet = Running::start_with(config, quick(1), handler.clone());
    let queue = broker.queue("default".parse().unwrap());
    let job = submit(&queue, "{}").await;
    until_empty(&queue).await;
    assert_eq!(handler.runs(&job), 1);
    fleet.stop().await;
}

#[test]
fn every_key_can_be_set_by_the_environment_and_is_shown() {
    if !speaks_tls() {
        return;
    }
    let authority = Authority::new("test");
    let client = authority.issue("client", &["worker"], Valid::Now);
    let certified = authority.issue("server", &["redis.internal"], Valid::Now);
    let server = TlsServer::start(&certified, &authority, "yes");
    let run = |args: &[&str]| {
        let path = |path: &std::path::Path| path.display().to_string();
        Launch::new(args)
            .env("STREAMFLEET__REDIS__URL", server.url("localhost"))
            .env("STREAMFLEET__REDIS__TLS__CA_FILE", path(&authority.file()))
            .env("STREAMFLEET__REDIS__TLS__CERT_FILE", path(&client.cert))
            .env("STREAMFLEET__REDIS__TLS__KEY_FILE", path(&client.key))
            .env("STREAMFLEET__REDIS__TLS__SERVER_NAME", "redis.internal")
            .output(SOON)
    };
    let checked = run(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let shown = run(&["config", "show"]).stdout;
    let lines =
        ["[redis.tls]", "ca_file = ", "cert_file = ", "key_file = ", "server_name = \"redis.internal\""];
    for line in lines {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert_eq!(run(&["--json", "config", "check"]).code, Some(0));
}

/// A proxy in front of Redis chooses its target by this name.
#[tokio::test(flavor = "multi_thread")]
async fn the_handshake_asks_for_the_configured_server_name() {
    let authority = Authority::new("test");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        let mut acceptor = rustls::server::Acceptor::default();
        loop {
            assert!(acceptor.read_tls(&mut socket.by_ref()).unwrap() > 0);
            if let Some(accepted) = acceptor.accept().unwrap_or_else(|(error, _)| panic!("{error}")) {
                return accepted.client_hello().server_name().map(str::to_owned);
            }
        }
    });
    let mut tls = tls(&authority, None);
    tls.server_name = Some("redis.internal".to_owned());
    let connecting = Broker::connect(redis(&format!("rediss://127.0.0.1:{port}"), tls));
    assert!(connecting.await.is_err());
    assert_eq!(name.join().unwrap().as_deref(), Some("redis.internal"));
}
