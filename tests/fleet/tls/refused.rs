//! Errors of TLS connections, one sentence each.

use std::path::Path;
use std::time::Duration;

use super::redis;
use harness::certificates::{Authority, Certified, Valid};
use harness::process::{Launch, Output};
use harness::tls_server::{TlsServer, speaks_tls};

const SOON: Duration = Duration::from_secs(60);

/// Runs `streamfleet check` for this address, with these variables for `[redis.tls]`.
fn check(url: &str, tls: &[(&str, &Path)]) -> Output {
    let mut launch = Launch::new(&["--json", "check"]).env("STREAMFLEET__REDIS__URL", url);
    for (key, value) in tls {
        launch = launch.env(&format!("STREAMFLEET__REDIS__TLS__{key}"), value.display().to_string());
    }
    launch.output(SOON)
}

/// Panics unless this sentence is the only finding.
fn says(output: &Output, sentence: &str) {
    assert_eq!(output.code, Some(3), "{output:?}");
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let found = report["findings"][0]["found"].as_str().unwrap();
    assert!(found.contains(sentence), "{found}\nexpected: {sentence}");
    for word in ["Custom {", "InvalidCertificate", "AlertReceived", "kind:"] {
        assert!(!found.contains(word), "{found}");
    }
}

fn names<'a>(authority: &'a Path, client: &'a Certified) -> [(&'static str, &'a Path); 3] {
    [("CA_FILE", authority), ("CERT_FILE", &client.cert), ("KEY_FILE", &client.key)]
}

#[test]
fn a_bad_server_certificate_is_reported_in_one_sentence() {
    if !speaks_tls() {
        return;
    }
    let (authority, other) = (Authority::new("test"), Authority::new("other"));
    let ca = authority.file();
    let now = TlsServer::start(&authority.server(), &authority, "no");
    let untrusted =
        "the server's certificate comes from an authority that is not trusted here: add it to ca_file";
    says(&check(&now.url("127.0.0.1"), &[("CA_FILE", &other.file())]), untrusted);
    says(&check(&now.url("127.0.0.1"), &[]), untrusted);
    let name = [("CA_FILE", &*ca), ("SERVER_NAME", Path::new("elsewhere"))];
    says(
        &check(&now.url("127.0.0.1"), &name),
        "the server's certificate is for \"127.0.0.1\", \"localhost\", not for \"elsewhere\": correct the address, or set \
         server_name",
    );
    let dated = |valid| authority.issue("dated", &["127.0.0.1"], valid);
    let over = TlsServer::start(&dated(Valid::Over), &authority, "no");
    says(
        &check(&over.url("127.0.0.1"), &[("CA_FILE", &ca)]),
        "the server's certificate expired at 2021-01-01T00:00:00Z",
    );
    let later = TlsServer::start(&dated(Valid::Later), &authority, "no");
    says(
        &check(&later.url("127.0.0.1"), &[("CA_FILE", &ca)]),
        "the server's certificate is not valid before 2090-01-01T00:00:00Z, and the clock here says 20",
    );
}

#[test]
fn a_missing_or_bad_client_certificate_is_reported_in_one_sentence() {
    if !speaks_tls() {
        return;
    }
    let (authority, other) = (Authority::new("test"), Authority::new("other"));
    let ca = authority.file();
    let server = TlsServer::start(&authority.server(), &authority, "yes");
    let url = server.url("127.0.0.1");
    says(
        &check(&url, &[("CA_FILE", &ca)]),
        "the server requires a client certificate: set cert_file and key_file",
    );
    let refused = "certificate in cert_file";
    let foreign = other.issue("client", &["worker"], Valid::Now);
    says(&check(&url, &names(&ca, &foreign)), refused);
    let over = authority.issue("client", &["worker"], Valid::Over);
    says(&check(&url, &names(&ca, &over)), refused);
}

#[test]
fn a_tls_mismatch_between_port_and_address_is_reported() {
    if !speaks_tls() {
        return;
    }
    let authority = Authority::new("test");
    let server = TlsServer::start(&authority.server(), &authority, "yes");
    let plain = format!("rediss://127.0.0.1:{}", server.server.port());
    says(
        &check(&plain, &[("CA_FILE", &authority.file())]),
        "the server does not speak TLS on this port: use its TLS port",
    );
    let encrypted = format!("redis://127.0.0.1:{}", server.port);
    says(&check(&encrypted, &[]), "the server speaks TLS on this port: start redis.url with rediss://");
}

/// Errors that need no server to be found are errors of the configuration: exit code 2, and the key is named.
#[test]
fn invalid_and_incomplete_tls_files_are_reported_with_their_keys() {
    let authority = Authority::new("test");
    let (one, other) =
        (authority.issue("one", &["a"], Valid::Now), authority.issue("other", &["a"], Valid::Now));
    let garbage = authority.folder().join("garbage.pem");
    std::fs::write(&garbage, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let locked = authority.folder().join("locked.key");
    let text = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    std::fs::write(&locked, text).unwrap();
    let (missing, ca) = (Path::new("no/such.pem"), authority.file());
    let locked_pair = Certified { key: locked, ..one.clone() };
    let no_key = Certified { key: one.cert.clone(), ..one.clone() };
    let mixed = Certified { key: other.key, ..one.clone() };
    let cases: [(&[(&str, &Path)], &str); 9] = [
        (&[("CA_FILE", missing)], "redis.tls.ca_file: no/such.pem cannot be read: No such file or directory"),
        (&[("CA_FILE", &one.key)], "one.key contains no certificate in PEM format"),
        (&[("CA_FILE", &garbage)], "garbage.pem contains a certificate that cannot be used"),
        (
            &[("CA_FILE", &ca), ("CERT_FILE", &one.cert)],
            "redis.tls.key_file: is missing: cert_file needs its key",
        ),
        (
            &[("CA_FILE", &ca), ("KEY_FILE", &one.key)],
            "redis.tls.cert_file: is missing: key_file needs its certificate",
        ),
        (&names(&ca, &no_key), "one.pem contains no private key in PEM format"),
        (
            &names(&ca, &locked_pair),
            "locked.key contains no private key in PEM format; it needs a passphrase",
        ),
        (&names(&ca, &mixed), "one.pem"),
        (
            &[("CA_FILE", &ca), ("SERVER_NAME", Path::new("a b"))],
            "redis.tls.server_name: is neither a host name nor an IP address",
        ),
    ];
    for (tls, sentence) in cases {
        let output = check("rediss://127.0.0.1:1", tls);
        assert_eq!(output.code, Some(2), "{sentence}: {output:?}");
        assert!(output.stderr.contains(sentence), "{sentence}: {output:?}");
    }
    let output = check("rediss://127.0.0.1:1?cert=a.pem", &[]);
    assert!(output.stderr.contains("redis.url: the parameter \"cert\" is unknown"), "{output:?}");
    let output = check("redis://127.0.0.1:1", &[("CA_FILE", &ca)]);
    assert!(output.stderr.contains("redis.tls.ca_file: has no effect"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_to_a_silent_server_fails_in_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = Authority::new("test");
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    let connecting = streamfleet::Broker::connect(redis(&url, super::tls(&authority, None)));
    let ended = tokio::time::timeout(Duration::from_secs(25), connecting).await.expect("an end");
    assert!(ended.is_err());
}
