//! What is inside an attempt's span, and where its trace continues: handlers' own spans, jobs submitted from a job, programs,
//! endpoints.

use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use streamfleet::handlers::{Exec, ExecConfig, Http, HttpConfig};
use streamfleet::job::{Policy, State, Tracking};
use streamfleet::{Handler, JobContext, JobError, Producer, Queue, RawPayload, Steps, Submission};
use tracing::Instrument;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use super::collector::{attribute, parent, place, trace};
use super::scene::{SPAN, SUBMITTER, Scene, TRACE};
use harness::fleet::{Acts, until_empty, until_state};
use harness::wait::until_async;

/// Works in its own span, and submits another job from there.
struct Works(Queue);

impl Handler for Works {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, _context: JobContext) -> Result<(), JobError> {
        tracing::info!(room = 7, "looking");
        let inner = tracing::info_span!("resize", width = 40);
        async {
            tokio::task::yield_now().await;
            tracing::error!("{}", "x".repeat(5000));
            tracing::debug!("not of interest");
            let mail = Submission::new("other")?;
            Producer::new(self.0.clone()).submit(mail).await?;
            Ok(())
        }
        .instrument(inner)
        .await
    }
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name}"))
}

#[tokio::test]
async fn a_handlers_spans_log_lines_and_jobs_are_children_of_its_attempt() {
    let scene = Scene::start().await;
    let builder = scene.builder(Works(scene.queue.clone())).handler_for("other", Acts::well()).unwrap();
    let fleet = harness::fleet::Running::of(builder.traced().build());
    let job = Submission::new("test").unwrap().traceparent(SUBMITTER).tracestate("shop=1");
    Producer::new(scene.queue.clone()).submit(job).await.unwrap();
    until_empty(&scene.queue).await;
    let spans = scene.collector.spans(3).await;
    assert!(spans.iter().all(|span| trace(span) == TRACE));
    let (attempt, inner, other) =
        (named(&spans, "process test"), named(&spans, "resize"), named(&spans, "process other"));
    assert_eq!((parent(attempt), parent(inner)), (SPAN, place(attempt).span_id()));
    assert_eq!(parent(other), place(inner).span_id());
    assert!([attempt, inner, other].iter().all(|span| span.trace_state == "shop=1"), "{spans:?}");
    assert_eq!(attribute(&inner.attributes, "width").as_deref(), Some("40"));
    assert_eq!((attempt.events.len(), attempt.events[0].name.as_str()), (1, "looking"));
    assert_eq!(attribute(&attempt.events[0].attributes, "room").as_deref(), Some("7"));
    assert_eq!((inner.events.len(), inner.events[0].name.len()), (1, 1024), "long lines must be truncated");
    assert_eq!(
        attempt.status.as_ref().unwrap().code,
        1,
        "an error that the handler recovered from must not mark the attempt"
    );
    scene.end(fleet).await;
}

#[tokio::test]
async fn a_follow_up_job_is_a_child_of_the_attempt_it_follows() {
    let scene = Scene::start().await;
    let builder = scene.builder(Acts::well()).handler_for("after", Acts::well()).unwrap();
    let fleet = harness::fleet::Running::of(builder.traced().build());
    let job = Submission::new("test").unwrap().on_success("after").unwrap();
    let job = job.traceparent(SUBMITTER).tracestate("shop=1,desk=2");
    Producer::new(scene.queue.clone()).submit(job).await.unwrap();
    let spans = scene.collector.spans(2).await;
    let (attempt, after) = (named(&spans, "process test"), named(&spans, "process after"));
    assert_eq!(parent(after), place(attempt).span_id());
    assert_eq!([attempt, after].map(|span| span.trace_state.as_str()), ["shop=1,desk=2"; 2]);
    scene.end(fleet).await;
}

#[tokio::test]
async fn each_step_is_a_span_inside_its_attempts() {
    let scene = Scene::start().await;
    let says = Acts::new(|context, _| Err(JobError::fatal(context.traceparent().unwrap())));
    let steps = Steps::builder().auto("look", Acts::well()).auto("say", says).build().unwrap();
    let builder = scene.builder(Acts::well()).steps("stepped", Policy::default(), steps).unwrap();
    let fleet = harness::fleet::Running::of(builder.traced().build());
    let job = Submission::new("stepped").unwrap().traceparent(SUBMITTER);
    let job = Producer::new(scene.queue.clone()).submit(job).await.unwrap();
    until_state(&scene.queue, &job, State::Dead).await;
    let spans = scene.collector.spans(3).await;
    let attempt = place(named(&spans, "process stepped")).span_id();
    let (look, say) = (named(&spans, "step look"), named(&spans, "step say"));
    assert_eq!([parent(look), parent(say)], [attempt; 2]);
    assert_eq!([look, say].map(|span| span.status.as_ref().unwrap().code), [1, 2]);
    let said = scene.dead("dead_error").await;
    assert!(said.contains(place(say).as_str()), "{said}");
    scene.end(fleet).await;
}

#[tokio::test]
async fn a_program_gets_the_trace_of_its_attempt() {
    let scene = Scene::start().await;
    let exec = Exec::new(ExecConfig::new(["sh", "-c", "echo $TRACEPARENT $TRACESTATE"])).unwrap();
    let fleet = scene.fleet(exec);
    let job = Submission::new("test").unwrap().tracking(Tracking::All);
    let job = job.traceparent(SUBMITTER).tracestate("shop=1");
    let job = Producer::new(scene.queue.clone()).submit(job).await.unwrap();
    let status = until_state(&scene.queue, &job, State::Done).await;
    let span = scene.collector.spans(1).await.remove(0);
    assert_eq!(status.result.unwrap(), format!("\"{} shop=1\"", place(&span).as_str()));
    scene.end(fleet).await;
}

#[tokio::test]
async fn an_endpoint_gets_the_trace_of_its_attempt() {
    let scene = Scene::start().await;
    let endpoint = MockServer::start().await;
    Mock::given(matchers::method("POST")).respond_with(ResponseTemplate::new(200)).mount(&endpoint).await;
    let http = Http::open(HttpConfig::new(endpoint.uri())).unwrap();
    let fleet = scene.fleet(http);
    scene.submit(Some(SUBMITTER)).await;
    let posted = until_async("the POST", Duration::from_secs(20), async || {
        endpoint.received_requests().await.unwrap().pop()
    })
    .await;
    let span = scene.collector.spans(1).await.remove(0);
    assert_eq!(posted.headers["traceparent"], place(&span).as_str());
    scene.end(fleet).await;
}
