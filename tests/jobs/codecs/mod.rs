//! Payloads that codecs encode: what a fleet in Rust makes of them, and what its schemas and edits say.

use std::sync::{Arc, Mutex};

use streamfleet::codecs::{Codecs, Directory, Keys};
use streamfleet::job::{Encoding, JobId, State};
use streamfleet::schema::{Schema, Schemas};
use streamfleet::{
    Fleet, Handled, Handler, JobContext, JobError, Middleware, Next, Producer, RawPayload, Steps, Submission,
};
use streamfleet_engine::admin::{DeadLetter, DelayedEdit};

use harness::fleet::{Acts, Running, config, queue, quick, until_state};
use harness::redis_server::RedisServer;
use harness::scene::{SOON, STREAM};
use harness::schema::{GOOD, TEXT};
use harness::wait::until_async;

fn keys(names: &[&str]) -> Codecs {
    let all = names.iter().map(|name| (*name, [name.len() as u8 + name.as_bytes()[0]; 32]));
    Codecs::new().keys(Keys::new(all).unwrap())
}

fn job(payload: &str) -> Submission {
    Submission::new("test").unwrap().payload(payload.to_owned(), Encoding::Json).unwrap()
}

/// All bytes of a reply, as text.
fn text_of(reply: &redis::Value) -> String {
    match reply {
        redis::Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        redis::Value::Array(items) => items.iter().map(|item| text_of(item) + "\n").collect(),
        redis::Value::Map(pairs) => {
            pairs.iter().map(|(name, value)| text_of(name) + &text_of(value)).collect()
        }
        _ => String::new(),
    }
}

/// What handlers and middleware saw, in this order.
#[derive(Clone, Default)]
struct Sees(Arc<Mutex<Vec<String>>>);

impl Sees {
    fn note(&self, who: &str, payload: &[u8], context: &JobContext) {
        let headers: Vec<_> = context.headers().map(|(name, value)| format!("{name}={value}")).collect();
        let (encoding, text) = (context.encoding().as_str(), String::from_utf8_lossy(payload));
        self.0.lock().unwrap().push(format!("{who} {encoding} {headers:?} {text}"));
    }

    fn told(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Handler for Sees {
    type Payload = RawPayload;
    type Output = usize;

    async fn run(&self, RawPayload(payload): RawPayload, context: JobContext) -> Result<usize, JobError> {
        let step = context.step().map_or("handler", |step| step.as_str()).to_owned();
        self.note(&step, &payload, &context);
        Ok(payload.len())
    }
}

impl Middleware for Sees {
    async fn handle(&self, context: &JobContext, next: Next<'_>) -> Handled {
        self.note("middleware", b"", context);
        next.run().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_steps_and_middleware_see_no_difference() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let (queue, sees) = (queue(&server).await, Sees::default());
    let codecs = keys(&["a"]).compress(true).claims(Directory::new(folder.path())).claim_above(100);
    let producer = Producer::new(queue.clone()).codecs(codecs.clone());
    let steps = Steps::builder().once("charge", sees.clone()).build().unwrap();
    let builder = Fleet::builder(config(&server.url())).middleware(sees.clone());
    let builder = builder.handler_with("test", quick(1), sees.clone()).unwrap();
    // What is registered after the codecs gets them, too.
    let fleet = builder.codecs(codecs).steps("order", quick(1), steps).unwrap().build();
    let ids: Vec<JobId> = ["one", "two", "three"].map(|id| id.parse().unwrap()).to_vec();
    let large =
        format!("\"{}\"", (0..400).map(|n| char::from(b'a' + (n * n % 23) as u8)).collect::<String>());
    let header = |job: Submission| job.header("tenant", "9").unwrap();
    producer.submit(header(job("{}")).id(ids[0].clone())).await.unwrap();
    producer.submit(header(job(&large)).id(ids[1].clone())).await.unwrap();
    let order = Submission::new("order").unwrap().payload("[1]", Encoding::Json).unwrap();
    producer.submit(header(order).id(ids[2].clone())).await.unwrap();
    let sent = text_of(&server.cmd(&["XRANGE", STREAM, "-", "+"]));
    assert!(!sent.contains(&large) && sent.contains("claim;sha256="), "{sent}");
    let running = Running::of(fleet);
    for id in &ids {
        until_state(&queue, id, State::Done).await;
    }
    running.stop().await;
    let mut told = sees.told();
    told.sort();
    let seen = |who: &str, text: &str| format!("{who} json [\"tenant=9\"] {text}");
    let mut want = vec![seen("handler", "{}"), seen("handler", &large), seen("charge", "[1]")];
    want.extend(vec![seen("middleware", ""); 3]);
    want.sort();
    assert_eq!(told, want);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_jobs_of_a_batch_are_encoded() {
    let server = RedisServer::start();
    let (queue, sees) = (queue(&server).await, Sees::default());
    let producer = Producer::new(queue.clone()).codecs(keys(&["a"]));
    let follow = job("\"follow\"").id("last".parse().unwrap());
    let batch = "batch-7".parse().unwrap();
    let members = producer.submit_batch(&batch, follow, [job("\"member\"")]).await.unwrap();
    let kept = text_of(&server.cmd(&["HGETALL", "sf:{default}:batch:batch-7"]));
    assert!(kept.contains("aes-256-gcm;key=a") && !kept.contains("\"follow\""), "{kept}");
    let fleet = Fleet::builder(config(&server.url())).codecs(keys(&["a"]));
    let fleet = Running::of(fleet.handler_with("test", quick(1), sees.clone()).unwrap().build());
    for id in members.iter().chain([&"last".parse().unwrap()]) {
        until_state(&queue, id, State::Done).await;
    }
    fleet.stop().await;
    assert_eq!(sees.told(), ["handler json [] \"member\"", "handler json [] \"follow\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_key_is_unknown_is_retried_until_a_fleet_has_it() {
    let server = RedisServer::start();
    let (queue, sees) = (queue(&server).await, Sees::default());
    let id: JobId = "one".parse().unwrap();
    let new = Producer::new(queue.clone()).codecs(keys(&["new"]));
    new.submit(job("{}").id(id.clone())).await.unwrap();
    let fleet = |names: &[&str]| {
        let builder = Fleet::builder(config(&server.url())).codecs(keys(names));
        Running::of(builder.handler_with("test", quick(1000), sees.clone()).unwrap().build())
    };
    let old = fleet(&["old"]);
    let error = until_async("a failed attempt", SOON, async || queue.status(&id).await.unwrap()?.error).await;
    let why = "CodecError: the payload is encrypted with the key new, which this program does not have";
    assert_eq!(error, why);
    old.stop().await;
    let both = fleet(&["new", "old"]);
    until_state(&queue, &id, State::Done).await;
    both.stop().await;
    assert_eq!(sees.told(), ["handler json [] {}"]);
}

async fn letter_of(queue: &streamfleet::Queue, job: &JobId) -> DeadLetter {
    let status = until_state(queue, job, State::Dead).await;
    queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_checked_as_far_as_a_worker_can_see() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let schemas = Schemas::default().with("test", Schema::parse(TEXT.as_bytes()).unwrap()).unwrap();
    let gzip = Codecs::new().compress(true).compress_above(0);
    let padded = |text: &str| format!("{text}{}", " ".repeat(2000));
    let start = |codecs: Option<Codecs>| {
        let builder = Fleet::builder(config(&server.url())).schemas(schemas.clone());
        let builder = match codecs {
            Some(codecs) => builder.codecs(codecs),
            None => builder.handler_with("other", quick(1), Acts::well()).unwrap(),
        };
        Running::of(builder.handler_with("test", quick(1), Sees::default()).unwrap().build())
    };
    let submit = async |codecs: &Codecs, payload: &str, id: &str| {
        let id: JobId = id.parse().unwrap();
        let producer = Producer::new(queue.clone()).codecs(codecs.clone());
        producer.submit(job(&padded(payload)).id(id.clone())).await.unwrap();
        id
    };
    let blind = start(None);
    let bad = submit(&gzip, "[]", "bad").await;
    assert!(letter_of(&queue, &bad).await.text("dead_error").contains("does not fit the schema of test"));
    let sealed = submit(&keys(&["a"]), GOOD, "sealed").await;
    let letter = letter_of(&queue, &sealed).await;
    assert_eq!(letter.text("dead_reason"), "invalid");
    let why = "the payload cannot be checked by the schema of test: it is encrypted with the key a, ";
    assert!(letter.text("dead_error").starts_with(why), "{}", letter.text("dead_error"));
    blind.stop().await;
    let seeing = start(Some(keys(&["a"])));
    let good = submit(&keys(&["a"]), GOOD, "good").await;
    until_state(&queue, &good, State::Done).await;
    let wrong = submit(&keys(&["a"]), "[]", "wrong").await;
    assert!(letter_of(&queue, &wrong).await.text("dead_error").contains("does not fit the schema of test"));
    seeing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payload_of_a_delayed_job_that_was_encoded_is_not_replaced() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone()).codecs(keys(&["a"]));
    let id: JobId = "later".parse().unwrap();
    let hour = std::time::Duration::from_secs(3600);
    producer.submit(job("{}").id(id.clone()).delay(hour)).await.unwrap();
    let read = queue.delayed().get(&id).await.unwrap().unwrap();
    let edit = DelayedEdit::default().payload("[]", Encoding::Json);
    let refused = [
        producer.amend(&read, &edit).await.map(|_| ()).unwrap_err().to_string(),
        producer.edit(&id, "[]", Encoding::Json).await.map(|_| ()).unwrap_err().to_string(),
    ];
    for why in refused {
        assert!(why.contains("has the header codec (json aes-256-gcm;key=a), which would not fit"), "{why}");
    }
    assert!(producer.run_now(&id).await.unwrap().is_some());
}
