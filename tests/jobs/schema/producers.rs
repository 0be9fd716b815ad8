//! The library's producer refuses what does not fit before it sends anything.

use streamfleet::job::{Encoding, JobId, State};
use streamfleet::{Producer, Submission, SubmitError};
use streamfleet_engine::admin::{Amended, DelayedEdit, Due};

use super::schemas;
use harness::fleet::queue;
use harness::redis_server::RedisServer;
use harness::scene::STREAM;
use harness::schema::{BAD, GOOD, WRONG};

fn job(payload: &str) -> Submission {
    Submission::new("test").unwrap().payload(payload.to_owned(), Encoding::Json).unwrap()
}

async fn producer(server: &RedisServer) -> Producer {
    Producer::new(queue(server).await).schemas(schemas())
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, SubmitError>) {
    match answer {
        Err(SubmitError::InvalidPayload { job_type, invalid, .. }) => {
            assert_eq!((job_type.as_str(), invalid.problems[0].pointer.as_str()), ("test", "/items/0/sku"));
        }
        other => panic!("{other:?}"),
    }
}

fn keys(server: &RedisServer) -> redis::Value {
    server.cmd(&["DBSIZE"])
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_refused_call_is_submitted() {
    let server = RedisServer::start();
    let producer = producer(&server).await;
    let error = producer.submit(job(BAD)).await.unwrap_err();
    assert_eq!(error.to_string(), WRONG);
    let own: JobId = "order-7".parse().unwrap();
    is_refused(producer.submit(job(BAD).id(own.clone())).await);
    is_refused(producer.submit_all([job(GOOD), job(GOOD), job(BAD)]).await);
    is_refused(producer.submit_batch(&"batch-7".parse().unwrap(), job(GOOD), [job(GOOD), job(BAD)]).await);
    is_refused(producer.submit_batch(&"batch-8".parse().unwrap(), job(BAD), [job(GOOD)]).await);
    assert_eq!(keys(&server), redis::Value::Int(0));
    producer.submit(job(GOOD).id(own)).await.unwrap();
    // Another type takes any payload.
    let other = Submission::new("other").unwrap().payload(BAD, Encoding::Json).unwrap();
    producer.submit_all([job(GOOD), other]).await.unwrap();
    assert_eq!(server.cmd(&["XLEN", STREAM]), redis::Value::Int(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_batch_is_refused_too() {
    let server = RedisServer::start();
    let producer = producer(&server).await;
    let large = format!(r#"{{"to":"{}"}}"#, "x".repeat(300_000));
    is_refused(producer.submit_all([job(&large), job(&large), job(BAD)]).await);
    producer.submit_all([job(&large), job(&large)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_new_payload_of_a_delayed_job_must_fit_its_type() {
    let server = RedisServer::start();
    let producer = producer(&server).await;
    let hour = std::time::Duration::from_secs(3600);
    let (own, other) = ("order-7".parse::<JobId>().unwrap(), "other-7".parse::<JobId>().unwrap());
    producer.submit(job(GOOD).id(own.clone()).delay(hour)).await.unwrap();
    let untyped = Submission::new("other").unwrap().payload("1", Encoding::Json).unwrap();
    producer.submit(untyped.id(other.clone()).delay(hour)).await.unwrap();
    is_refused(producer.edit(&own, BAD, Encoding::Json).await);
    let fields = producer_fields(&server, "order-7").await;
    assert!(fields.contains(r#""sku":7"#), "{fields}");
    let better = r#"{"to":"bob"}"#;
    assert!(producer.edit(&own, better, Encoding::Json).await.unwrap().is_some());
    assert!(producer.edit(&other, BAD, Encoding::Json).await.unwrap().is_some());
    let unknown = "nobody".parse().unwrap();
    assert_eq!(producer.edit(&unknown, BAD, Encoding::Json).await.unwrap(), None);
    assert!(producer.reschedule(&own, Due::In(hour)).await.unwrap().is_some());
    let status = queue(&server).await.status(&own).await.unwrap().unwrap();
    assert_eq!(status.state, State::Scheduled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_job_as_it_was_read_must_fit_its_type() {
    let server = RedisServer::start();
    let (producer, queue) = (producer(&server).await, queue(&server).await);
    let hour = std::time::Duration::from_secs(3600);
    let own: JobId = "order-7".parse().unwrap();
    producer.submit(job(GOOD).id(own.clone()).delay(hour)).await.unwrap();
    let read = queue.delayed().get(&own).await.unwrap().unwrap();
    let edit =
        |payload: &'static str| DelayedEdit::default().due(Due::In(hour)).payload(payload, Encoding::Json);
    is_refused(producer.amend(&read, &edit(BAD)).await);
    assert_eq!(queue.delayed().get(&own).await.unwrap().unwrap(), read, "nothing is changed");
    let done = producer.amend(&read, &edit(r#"{"to":"bob"}"#)).await.unwrap();
    assert!(matches!(done, Amended::Done(_)), "{done:?}");
    let read = queue.delayed().get(&own).await.unwrap().unwrap();
    let later = DelayedEdit::default().due(Due::In(hour));
    assert!(matches!(producer.amend(&read, &later).await, Ok(Amended::Done(_))));
    // Without schemas, anything fits.
    let read = queue.delayed().get(&own).await.unwrap().unwrap();
    assert!(matches!(Producer::new(queue).amend(&read, &edit(BAD)).await, Ok(Amended::Done(_))));
}

/// The payload of a delayed job.
async fn producer_fields(server: &RedisServer, id: &str) -> String {
    let page = queue(server).await.delayed().page(0, 10).await.unwrap();
    let job = page.into_iter().find(|job| job.id == id).unwrap();
    let (_, fields) = job.fields.unwrap();
    String::from_utf8(fields.get(b"payload").unwrap().to_vec()).unwrap()
}
