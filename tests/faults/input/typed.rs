//! Payloads that do not match what a typed handler expects: the job is buried as fatal, with the reason.

use std::time::Duration;

use streamfleet::job::{Encoding, State};
use streamfleet::{Handler, JobContext, JobError, Producer, Submission};

use harness::fleet::{Running, config, queue, quick, until_state};
use harness::redis_server::RedisServer;

#[derive(serde::Deserialize)]
struct Mail {
    to: String,
}

struct Sends;

impl Handler for Sends {
    type Payload = Mail;
    type Output = String;

    async fn run(&self, mail: Mail, _context: JobContext) -> Result<String, JobError> {
        Ok(mail.to)
    }
}

struct Anything;

impl Handler for Anything {
    type Payload = serde_json::Value;
    type Output = ();

    async fn run(&self, _payload: serde_json::Value, _context: JobContext) -> Result<(), JobError> {
        Ok(())
    }
}

/// Returns arrays in arrays, this deep.
fn deep(depth: usize) -> Vec<u8> {
    [vec![0x91; depth], vec![0xc0]].concat()
}

/// Returns a map with the key `to` and an unused field that is this deep.
fn deep_beside(depth: usize) -> Vec<u8> {
    [&b"\x82\xa2to\xa1a\xa1x"[..], &deep(depth)].concat()
}

async fn is_fatal(handler: impl Handler, payload: Vec<u8>, encoding: Encoding, want: &str) {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut config = config(&server.url());
    config.worker.lease = Duration::from_secs(60);
    let fleet = Running::start_with(config, quick(3), handler);
    let submission = Submission::new("test").unwrap().payload(payload.clone(), encoding).unwrap();
    let job = Producer::new(queue.clone()).submit(submission).await.unwrap();
    let status = until_state(&queue, &job, State::Dead).await;
    let letter = queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    let error = letter.text("dead_error");
    assert_eq!((letter.text("dead_reason").as_str(), status.attempts.len()), ("fatal", 1), "{error}");
    assert!(error.contains(want), "{error}");
    assert_eq!(letter.fields.get(b"payload"), Some(payload.as_slice()));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messagepack_a_hundred_thousand_levels_deep_is_fatal() {
    is_fatal(Anything, deep(100_000), Encoding::Msgpack, "MessagePack").await;
    is_fatal(Sends, deep(100_000), Encoding::Msgpack, "MessagePack").await;
    is_fatal(Sends, deep_beside(100_000), Encoding::Msgpack, "MessagePack").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messagepack_that_is_shorter_than_it_declares_is_fatal() {
    // An array of 2^32 - 1 items, a text of 4 GB, a map of 2^32 - 1 pairs: none of that data follows.
    for promise in [&b"\xdd\xff\xff\xff\xff"[..], b"\xdb\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"] {
        is_fatal(Anything, promise.to_vec(), Encoding::Msgpack, "MessagePack").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trailing_bytes_after_the_payload_are_fatal() {
    is_fatal(Sends, b"\x81\xa2to\xa1a\x00\x00".to_vec(), Encoding::Msgpack, "2 bytes follow").await;
    is_fatal(Sends, b"{\"to\":\"a\"} x".to_vec(), Encoding::Json, "trailing characters").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_or_mismatched_json_is_fatal() {
    for (payload, want) in [
        (&b"{\"to\":"[..], "EOF"),
        (b"\xff\xfe", "expected"),
        (b"", "invalid type: null"),
        (b"{}", "missing field `to`"),
        (b"{\"to\":7}", "expected a string"),
    ] {
        is_fatal(Sends, payload.to_vec(), Encoding::Json, want).await;
    }
    is_fatal(Anything, b"[".repeat(100_000), Encoding::Json, "recursion limit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_bytes_for_a_typed_handler_are_fatal() {
    is_fatal(Sends, b"{\"to\":\"a\"}".to_vec(), Encoding::Raw, "the encoding is raw").await;
}
