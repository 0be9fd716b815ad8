//! Payloads that codecs have encoded: what commands show of them, find in them, and refuse to change.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use harness::cli::{json as told, sf, stdout_of};
use harness::redis_server::RedisServer;

const LANE: &str = "sf:{default}:jobs";
const DEAD: &str = "sf:{default}:dead";
const SEALED: &str = "json gzip aes-256-gcm;key=2026-11";

/// JSON with the member `to`, as gzip.
fn packed() -> Vec<u8> {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/codecs/vectors.json");
    let vectors: Value = serde_json::from_slice(&std::fs::read(vectors).unwrap()).unwrap();
    let vector =
        vectors["opened"].as_array().unwrap().iter().find(|vector| vector["what"] == "gzip").unwrap();
    BASE64_STANDARD.decode(vector["payload"].as_str().unwrap()).unwrap()
}

/// Writes an entry with an encoded payload, and returns its id.
fn write(server: &RedisServer, stream: &str, (header, payload): (&str, &[u8])) -> String {
    let mut command: Vec<&[u8]> =
        vec![b"XADD", stream.as_bytes(), b"*", b"type", b"mail.send", b"encoding", b"raw"];
    command.extend([&b"payload"[..], payload, b"h.codec", header.as_bytes(), b"h.tenant", b"9"]);
    command.extend([&b"dead_reason"[..], b"fatal", b"dead_error", b"no"]);
    redis::from_redis_value(server.cmd(&command)).unwrap()
}

fn claim() -> String {
    format!("json claim;sha256={}", "9f".repeat(32))
}

#[test]
fn a_job_is_shown_as_far_as_anybody_can_see_it() {
    let server = RedisServer::start();
    let gzip = write(&server, LANE, ("json gzip", &packed()));
    let status = told(&server, &["status", &gzip]);
    assert_eq!((&status["payload"]["to"], &status["encoding"]), (&"ann@example.com".into(), &"json".into()));
    assert_eq!(status["payload_bytes"], packed().len());
    assert!(status.get("payload_unseen").is_none() && status["headers"]["codec"] == "json gzip");
    for (header, payload, why) in [
        (SEALED, &[7_u8; 1229][..], "encrypted with the key 2026-11, 1.2 KiB: not shown".to_owned()),
        (&claim(), b"", format!("stored apart, sha256 {}: not shown", "9f".repeat(32))),
        ("json gzip", b"no gzip", "compressed, 7 bytes, and the compressed payload".to_owned()),
    ] {
        let id = write(&server, LANE, (header, payload));
        let unseen = told(&server, &["status", &id])["payload_unseen"].as_str().unwrap().to_owned();
        assert!(unseen.starts_with(&why) && unseen.ends_with(": not shown"), "{unseen}");
        assert!(stdout_of(&server, &["status", &id]).contains(&unseen));
    }
    let other = write(&server, LANE, ("h264", b"frame"));
    assert_eq!(told(&server, &["status", &other])["payload"], "frame");
}

#[test]
fn a_filter_says_that_it_does_not_look_into_such_payloads() {
    let server = RedisServer::start();
    for header in ["json gzip", SEALED] {
        write(&server, LANE, (header, &packed()));
        write(&server, DEAD, (header, &packed()));
    }
    let found = sf(&server, &["jobs", "--state", "waiting", "--where", "payload.to=ann@example.com"]);
    assert!(
        found.stderr.contains(
            "2 more jobs may match, but their payload is not valid JSON or MessagePack, is encoded by codecs"
        ),
        "{found:?}"
    );
    let found = told(&server, &["jobs", "--state", "waiting", "--where", "h.codec~2026-11"]);
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    let letters = sf(&server, &["dead", "list", "--where", "payload.to=ann@example.com"]);
    assert!(format!("{letters:?}").contains("the filter cannot read their payloads"), "{letters:?}");
}

#[test]
fn a_letter_is_shown_exported_and_not_edited() {
    let server = RedisServer::start();
    let gzip = write(&server, DEAD, ("json gzip", &packed()));
    let sealed = write(&server, DEAD, (SEALED, b"secret"));
    let apart = write(&server, DEAD, (&claim(), b""));
    let field = |letter: &str, name: &str| {
        let shown = told(&server, &["dead", "show", letter]);
        let fields = shown["fields"].as_array().unwrap().clone();
        fields.into_iter().find(|field| field["name"] == name).unwrap_or_default()
    };
    assert_eq!(
        (&field(&gzip, "payload")["form"], &field(&gzip, "encoding")["value"]),
        (&"utf8".into(), &"json".into())
    );
    assert!(field(&gzip, "payload")["value"].as_str().unwrap().contains("ann@example.com"));
    let why = "encrypted with the key 2026-11, 6 bytes: not shown";
    assert_eq!(field(&sealed, "payload"), json!({"name": "payload", "form": "unseen", "value": why}));
    assert!(stdout_of(&server, &["dead", "show", &sealed]).contains(why));
    assert!(field(&apart, "payload")["value"].as_str().unwrap().starts_with("stored apart, sha256 9f9f"));
    let exported = stdout_of(&server, &["dead", "export", "--all"]);
    assert!(exported.contains(r#""value":"secret""#) && !exported.contains("ann@example.com"), "{exported}");
    for (letter, change, what) in [
        (&gzip, "payload.to=bob", "compressed"),
        (&sealed, "payload.to=bob", "encrypted with the key 2026-11"),
        (&apart, "h.codec=json gzip", "stored apart"),
    ] {
        let refused = sf(&server, &["dead", "edit", letter, "--set", change]);
        assert!(
            refused.code != Some(0)
                && refused.stderr.contains(&format!("the payload is {what}, so neither it")),
            "{refused:?}"
        );
    }
    let refused = sf(&server, &["dead", "edit", &sealed, "--type", "mail.other"]);
    assert!(refused.stderr.contains("of an encrypted one not the type"), "{refused:?}");
}
