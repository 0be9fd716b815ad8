//! Jobs with more fields than an entry can have: refused when they are submitted, and buried if an older producer has left one
//! in Redis.

use std::fmt::Write as _;

use redis::Value;
use streamfleet::job::{Encoding, Envelope, Lane, State};
use streamfleet::{Producer, Submission, SubmitError};

use harness::fleet::{Acts, queue, until_state};
use harness::process::run;
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON, Scene, job};
use harness::scripts::Scripts;
use harness::scripts::source;
use harness::wait::until_async;

const DELAYED: &str = "sf:{default}:delayed";
const FIELDS: &str = "sf:{default}:delayed:fields";
const BATCH: &str = "sf:{default}:batch:nightly";

/// Returns a job with this many headers.
fn with_headers(count: usize) -> Submission {
    (0..count).fold(job("{}"), |job, nth| job.header(&nth.to_string(), "x").unwrap())
}

/// Returns the fields of such a job, as an older producer packed them.
fn packed(headers: usize) -> Vec<u8> {
    let names: Vec<String> = (0..headers).map(|nth| format!("h.{nth}")).collect();
    let head = [(b"type".as_slice(), b"test".as_slice())].into_iter();
    let all: Vec<_> = head.chain(names.iter().map(|name| (name.as_bytes(), b"x".as_slice()))).collect();
    Envelope::new(all.into_iter()).pack(Lane::Normal)
}

fn is_refused<T: std::fmt::Debug>(answer: &Result<T, SubmitError>) -> bool {
    matches!(answer, Err(SubmitError::TooManyFields { fields: 1001.., limit: 1000, .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_too_many_fields_is_refused_on_every_path() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    // Type, payload, encoding and a trace are fields too.
    producer.submit(with_headers(996)).await.unwrap();
    let refused = producer.submit(with_headers(997)).await;
    assert!(is_refused(&refused), "{refused:?}");
    let refused = producer.submit(with_headers(996).delay(LONG)).await;
    assert!(is_refused(&refused), "a job that gets an id: {refused:?}");
    let refused = producer.submit(with_headers(996).id("own".parse().unwrap())).await;
    assert!(is_refused(&refused), "{refused:?}");
    let message = refused.unwrap_err().to_string();
    assert!(message.starts_with("the job own has 1003 fields"), "{message}");
    let refused = producer.submit_all([job("{}"), with_headers(4100)]).await;
    assert!(is_refused(&refused), "{refused:?}");
    let snapshot = queue.snapshot().await.unwrap();
    assert_eq!((snapshot.waiting(), snapshot.delayed), (1, 0), "a refused call accepted something");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_too_many_fields_is_refused_before_it_begins() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    let name = "nightly".parse().unwrap();
    let refused = producer.submit_batch(&name, with_headers(4100), [job("{}")]).await;
    assert!(is_refused(&refused), "{refused:?}");
    let refused = producer.submit_batch(&name, job("last"), [job("{}"), with_headers(4100)]).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(queue.batch_status(&name).await.unwrap(), None);
    assert_eq!(queue.snapshot().await.unwrap().waiting(), 0);
}

#[test]
fn a_line_with_too_many_fields_is_named() {
    let server = RedisServer::start();
    let mut line = r#"{"type": "test", "delay": "1h", "headers": {"#.to_owned();
    for nth in 0..4100 {
        write!(line, r#""{nth}": "x", "#).unwrap();
    }
    line += r#""last": "x"}}"#;
    let lines = format!("{{\"type\": \"test\"}}\n{line}\n");
    let output = run(&["--redis", &server.url(), "enqueue", "--bulk"], lines.as_bytes());
    assert_eq!(output.code, Some(1), "{output:?}");
    let want = "line 2 is not a valid job: the job of type test has 4105 fields";
    assert!(output.stderr.contains(want), "{output:?}");
    assert_eq!(server.cmd(&["EXISTS", DELAYED]), Value::Int(0));
}

#[test]
fn a_script_that_finds_too_many_fields_appends_no_job() {
    let scripts = Scripts::start();
    let keys = ["sf:{q}:control", DELAYED, "sf:{q}:jobs:high", "sf:{q}:jobs", "sf:{q}:jobs:low"];
    let good = ["normal", "1", "2", "type", "test"].map(str::to_owned).to_vec();
    let flat = (0..4100).flat_map(|nth| [format!("h.{nth}"), "x".to_owned()]);
    let bad: Vec<String> = ["normal", "1", "8200"].map(str::to_owned).into_iter().chain(flat).collect();
    let args = [["", "2", "", ""].map(str::to_owned).to_vec(), good, bad].concat();
    let head = ["EVAL", source("enqueue"), "5"].into_iter().chain(keys).map(str::to_owned);
    let refused = format!("{:?}", scripts.server.try_cmd(&head.chain(args).collect::<Vec<_>>()));
    assert!(refused.contains("job 2 of this call has 8200 names and values"), "{refused}");
    assert_eq!(scripts.int(&["XLEN", "sf:{q}:jobs"]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_refused_whole_if_a_queue_key_has_the_wrong_type() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    server.cmd(&["SET", DELAYED, "no set"]);
    let own = |id: &str| job("{}").id(id.parse().unwrap());
    producer.submit_all([job("{}").delay(LONG), job("{}").delay(LONG)]).await.unwrap_err();
    producer.submit_all([own("now"), own("later").delay(LONG)]).await.unwrap_err();
    server.cmd(&["DEL", DELAYED]);
    assert_eq!(server.cmd(&["EXISTS", FIELDS, "sf:{default}:jobs", "sf:{default}:job:now"]), Value::Int(0));
    producer.submit(own("later").delay(LONG)).await.unwrap();
    assert_eq!(server.cmd(&["ZCARD", DELAYED]), Value::Int(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_with_too_many_fields_is_buried_and_blocks_no_other() {
    let scene = Scene::new().await;
    let bad = packed(4100);
    // A value that is not text cannot be a field either.
    let odd = [&[0x93, 0xa6][..], b"normal", &[0xa4][..], b"type", &[0x90]].concat();
    for (nth, (id, fields)) in [("bad", &bad), ("odd", &odd)].into_iter().enumerate() {
        let score = (1 + nth).to_string();
        scene.server.cmd(&["ZADD", DELAYED, &score, id]);
        scene.server.cmd(&[b"HSET".as_slice(), FIELDS.as_bytes(), id.as_bytes(), fields]);
    }
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let producer = Producer::new(scene.queue.clone());
    let good = producer.submit(job("{}").delay(std::time::Duration::from_millis(50))).await.unwrap();
    until_async("the job behind it to run", SOON, async || handler.runs(&good) == 1).await;
    scene.until_at_rest().await;
    let letters = scene.queue.dead_letters().page(None, 10).await.unwrap();
    let found: Vec<_> =
        letters.iter().map(|letter| (letter.text("dead_job"), letter.text("dead_reason"))).collect();
    let malformed = |id: &str| (id.to_owned(), "malformed".to_owned());
    assert_eq!(found, [malformed("bad"), malformed("odd")]);
    assert_eq!(letters[0].fields.get(b"raw"), Some(&bad[..]), "byte for byte");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_follower_that_cannot_be_appended_is_buried() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let name = "nightly".parse().unwrap();
    let last = Submission::new("test").unwrap().payload("last", Encoding::Raw).unwrap();
    let ids = producer.submit_batch(&name, last, [job("{}")]).await.unwrap();
    // The format of an older producer.
    let follow = packed(4100);
    scene.server.cmd(&[b"HSET".as_slice(), BATCH.as_bytes(), b"follow", &follow]);
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    until_state(&scene.queue, &ids[0], State::Done).await;
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs(), 1);
    let letters = scene.queue.dead_letters().page(None, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (letters[0].text("dead_job"), letters[0].fields.get(b"raw")),
        ("nightly".to_owned(), Some(&follow[..]))
    );
    let batch = scene.queue.batch_status(&name).await.unwrap().unwrap();
    assert_eq!((batch.state.as_str(), batch.left), ("done", 0));
    fleet.stop().await;
}
