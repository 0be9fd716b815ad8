//! The spans of attempts: their parents, their links and their attributes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use streamfleet::job::State;
use streamfleet::{Handler, JobContext, JobError, RawPayload};

use super::collector::{attribute, attributes, links, parent, place, trace};
use super::scene::{SPAN, SUBMITTER, Scene, TRACE};
use harness::fleet::{Acts, until_empty, until_state};
use harness::wait::until_async;

const CONSUMER: i32 = 5;
const OK: i32 = 1;
const ERROR: i32 = 2;

/// Returns a handler that fails in its first attempts.
fn fails(times: u32) -> Acts {
    Acts::new(move |context, _| match context.attempt() > times {
        true => Ok(serde_json::Value::Null),
        false => Err(JobError::retry("canary")),
    })
}

#[tokio::test]
async fn a_job_that_fails_twice_is_three_linked_spans_in_its_submitters_trace() {
    let scene = Scene::start().await;
    let fleet = scene.fleet(fails(2));
    let job = scene.submit(Some(SUBMITTER)).await;
    until_state(&scene.queue, &job, State::Done).await;
    let spans = scene.collector.spans(3).await;
    let places: Vec<_> = spans.iter().map(|span| (trace(span), parent(span), span.kind)).collect();
    assert_eq!(places, [(TRACE, SPAN, CONSUMER); 3]);
    let before = |nth: usize| vec![(TRACE, place(&spans[nth]).span_id())];
    assert_eq!(spans.iter().map(links).collect::<Vec<_>>(), [vec![], before(0), before(1)]);
    let codes: Vec<_> = spans.iter().map(|span| span.status.as_ref().unwrap().code).collect();
    assert_eq!(codes, [ERROR, ERROR, OK]);
    assert!(spans.iter().all(|span| span.end_time_unix_nano >= span.start_time_unix_nano));
    let bytes: Vec<u8> = scene.collector.raw().await.into_iter().flat_map(|request| request.body).collect();
    assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "a span contains the text of an error");
    scene.end(fleet).await;
}

#[tokio::test]
async fn a_span_has_exactly_the_documented_attributes() {
    let scene = Scene::start().await;
    let fleet = scene.fleet(fails(1));
    let job = scene.submit(Some(SUBMITTER)).await;
    until_state(&scene.queue, &job, State::Done).await;
    let spans = scene.collector.spans(2).await;
    assert_eq!(spans[0].name, "process test");
    let worker = attribute(&spans[0].attributes, "messaging.client.id").unwrap();
    let waited = attribute(&spans[0].attributes, "streamfleet.wait_ms").unwrap();
    let shown = attributes(&spans[0]).join("\n").replace(&worker, "[worker]");
    let shown = shown.replace(&job.to_string(), "[job]").replace(&format!("ms={waited}"), "ms=[ms]");
    insta::assert_snapshot!(shown, @r"
    messaging.system=streamfleet
    messaging.operation.name=process
    messaging.operation.type=process
    messaging.destination.name=default
    messaging.message.id=[job]
    messaging.client.id=[worker]
    streamfleet.job_type=test
    streamfleet.lane=normal
    streamfleet.attempt=1
    streamfleet.lost=0
    streamfleet.wait_ms=[ms]
    streamfleet.outcome=retried
    error.type=error
    ");
    assert_eq!(attribute(&spans[1].attributes, "streamfleet.attempt").as_deref(), Some("2"));
    assert_eq!(attribute(&spans[1].attributes, "streamfleet.outcome").as_deref(), Some("succeeded"));
    let requests = scene.collector.requests().await;
    let resource = requests[0].resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(attribute(&resource.attributes, "service.name").as_deref(), Some("streamfleet"));
    assert_eq!(
        attribute(&resource.attributes, "service.version").as_deref(),
        Some(env!("CARGO_PKG_VERSION"))
    );
    scene.end(fleet).await;
}

#[tokio::test]
async fn attempts_of_a_job_without_a_submitters_trace_share_one_trace() {
    let scene = Scene::start().await;
    let fleet = scene.fleet(fails(1));
    let job = scene.submit(None).await;
    until_state(&scene.queue, &job, State::Done).await;
    let spans = scene.collector.spans(2).await;
    assert_eq!((parent(&spans[0]), links(&spans[0])), (0, vec![]));
    let first = place(&spans[0]);
    assert_eq!((trace(&spans[1]), parent(&spans[1])), (first.trace_id(), first.span_id()));
    assert_eq!(links(&spans[1]), [(first.trace_id(), first.span_id())]);
    scene.end(fleet).await;
}

#[tokio::test]
async fn a_replayed_dead_letter_links_to_the_attempt_that_killed_it() {
    let scene = Scene::start().await;
    let fleet = scene.fleet(Acts::new(|context, _| match context.header("well") {
        Some(_) => Ok(serde_json::Value::Null),
        None => Err(JobError::fatal("canary")),
    }));
    let job = scene.submit(Some(SUBMITTER)).await;
    until_state(&scene.queue, &job, State::Dead).await;
    let died = scene.collector.spans(1).await.remove(0);
    assert_eq!(scene.dead("trace_link").await, place(&died).to_string());
    // Appending a copy of the letter's fields is a replay, as any client could do it.
    let letter = scene.queue.dead_letters().page(None, 1).await.unwrap().remove(0);
    let mut copy = vec![b"XADD".to_vec(), b"sf:{default}:jobs".to_vec(), b"*".to_vec()];
    copy.extend(letter.fields.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]));
    copy.extend([b"h.well".to_vec(), b"yes".to_vec()]);
    scene.server.cmd(&copy);
    let spans = scene.collector.spans(2).await;
    assert_eq!((trace(&spans[1]), parent(&spans[1])), (TRACE, SPAN));
    assert_eq!(links(&spans[1]), [(TRACE, place(&died).span_id())]);
    scene.end(fleet).await;
}

#[tokio::test]
async fn an_unsampled_trace_is_not_exported_but_passed_on() {
    let scene = Scene::sampling(0.0).await;
    let fleet = scene.fleet(Acts::new(|context, _| Err(JobError::fatal(context.traceparent().unwrap()))));
    scene.submit(Some(&SUBMITTER.replace("-01", "-00"))).await;
    until_empty(&scene.queue).await;
    let handed_on = scene.dead("dead_error").await;
    assert!(handed_on.starts_with(&SUBMITTER[..36]) && handed_on.ends_with("-00"), "{handed_on}");
    assert_ne!(handed_on[..52], SUBMITTER[..52], "the attempt has its own span");
    scene.submit(None).await;
    scene.submit(Some(SUBMITTER)).await;
    let spans = scene.collector.spans(1).await;
    assert_eq!((spans.len(), trace(&spans[0]), parent(&spans[0])), (1, TRACE, SPAN));
    assert_eq!(spans[0].flags & 1, 1);
    scene.end(fleet).await;
}

#[tokio::test]
async fn a_malformed_traceparent_is_ignored_and_kept_unchanged() {
    let scene = Scene::start().await;
    let fleet = scene.fleet(Acts::new(|_, _| Err(JobError::fatal("no"))));
    let upper = SUBMITTER.to_uppercase();
    let job = scene.submit(Some(&upper)).await;
    until_state(&scene.queue, &job, State::Dead).await;
    let span = scene.collector.spans(1).await.remove(0);
    assert_eq!(parent(&span), 0);
    assert_ne!(trace(&span), TRACE);
    assert_eq!(scene.dead("traceparent").await, upper);
    scene.end(fleet).await;
}

#[tokio::test]
async fn without_tracing_a_job_keeps_its_submitters_trace_unchanged() {
    let scene = Scene::start().await;
    let acts = Acts::new(|context, _| Err(JobError::fatal(context.traceparent().unwrap_or("none"))));
    let fleet = harness::fleet::Running::of(scene.builder(acts).build());
    let job = scene.submit(Some("00-as-it-came")).await;
    until_state(&scene.queue, &job, State::Dead).await;
    assert_eq!(
        (scene.dead("dead_error").await, scene.dead("trace_link").await),
        ("00-as-it-came".into(), String::new())
    );
    assert!(scene.collector.requests().await.is_empty());
    scene.end(fleet).await;
}

/// Runs until it is cut off.
#[derive(Clone, Default)]
struct Waits {
    begun: Arc<AtomicBool>,
}

impl Handler for Waits {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        self.begun.store(true, Relaxed);
        std::future::pending().await
    }
}

#[tokio::test]
async fn an_interrupted_attempt_has_a_span_and_the_next_one_links_to_it() {
    let scene = Scene::start().await;
    let mut config = harness::fleet::config(&scene.server.url());
    config.worker.drain_timeout = Duration::ZERO;
    let handler = Waits::default();
    let builder = streamfleet::Fleet::builder(config).handler_for("test", handler.clone()).unwrap();
    let fleet = harness::fleet::Running::of(builder.traced().build());
    scene.submit(Some(SUBMITTER)).await;
    until_async("the job to run", Duration::from_secs(20), async || handler.begun.load(Relaxed)).await;
    fleet.stop().await;
    let cut = scene.collector.spans(1).await.remove(0);
    assert_eq!(attribute(&cut.attributes, "streamfleet.outcome").as_deref(), Some("interrupted"));
    assert_eq!(cut.status.as_ref().unwrap().code, 0);
    let fleet = scene.fleet(Acts::well());
    let spans = scene.collector.spans(2).await;
    assert_eq!(links(&spans[1]), [(TRACE, place(&cut).span_id())]);
    scene.end(fleet).await;
}
