//! Metrics that are pushed to a collector: they are what `/metrics` says, and a collector that is away costs nothing.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use prost::Message;
use streamfleet::{Producer, Submission};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use harness::fleet::queue;
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;
use harness::scrape::{address, get, series};
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

fn launch(server: &RedisServer, listen: &str, metrics: &str) -> Launch {
    let toml = format!(
        "[redis]\nurl = \"{}\"\n[types.test]\nhandler = \"noop\"\n[telemetry]\nlisten = \"{listen}\"\n\
         [telemetry.metrics]\n{metrics}\n",
        server.url()
    );
    Launch::new(&["--config", "{config}", "--json", "worker"]).config(&toml)
}

/// Starts a worker that pushes to this address each second.
fn worker(server: &RedisServer, endpoint: &str) -> Worker {
    launch(server, "127.0.0.1:0", &format!("endpoint = \"{endpoint}\"\ninterval = \"1s\"")).start()
}

async fn collector(answer: u16) -> MockServer {
    collector_on(TcpListener::bind("127.0.0.1:0").unwrap(), answer).await
}

async fn collector_on(listener: TcpListener, answer: u16) -> MockServer {
    let server = MockServer::builder().listener(listener).start().await;
    let posted = Mock::given(method("POST")).and(path("/v1/metrics"));
    let posted = posted.and(header("content-type", "application/x-protobuf"));
    posted.respond_with(ResponseTemplate::new(answer)).mount(&server).await;
    server
}

async fn pushes(collector: &MockServer) -> Vec<ExportMetricsServiceRequest> {
    let requests = collector.received_requests().await.unwrap();
    requests.iter().map(|request| ExportMetricsServiceRequest::decode(&*request.body).unwrap()).collect()
}

fn metrics(push: &ExportMetricsServiceRequest) -> &[Metric] {
    &push.resource_metrics[0].scope_metrics[0].metrics
}

/// The values of a push, under the names that Prometheus's text has.
fn pushed(push: &ExportMetricsServiceRequest) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for Metric { name, data, .. } in metrics(push) {
        let numbers = match data.as_ref().unwrap() {
            metric::Data::Sum(sum) => &sum.data_points,
            metric::Data::Gauge(gauge) => &gauge.data_points,
            metric::Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    let (mut up_to, labels) = (0, labels(&point.attributes));
                    for (at, count) in point.bucket_counts.iter().enumerate() {
                        up_to += count;
                        let bound =
                            point.explicit_bounds.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
                        let all = [labels.clone(), vec![format!("le=\"{bound}\"")]].concat().join(",");
                        values.insert(format!("{name}_bucket{{{all}}}"), up_to as f64);
                    }
                    values.insert(series_name(&format!("{name}_sum"), &labels), point.sum.unwrap());
                    values.insert(series_name(&format!("{name}_count"), &labels), point.count as f64);
                }
                continue;
            }
            other => panic!("{other:?}"),
        };
        for point in numbers {
            let Some(number_data_point::Value::AsDouble(value)) = point.value else { panic!("{point:?}") };
            values.insert(series_name(name, &labels(&point.attributes)), value);
        }
    }
    values
}

fn labels(attributes: &[KeyValue]) -> Vec<String> {
    attributes.iter().map(|pair| format!("{}=\"{}\"", pair.key, text(pair))).collect()
}

fn text(pair: &KeyValue) -> &str {
    match pair.value.as_ref() {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => text,
        other => panic!("{other:?}"),
    }
}

fn series_name(name: &str, labels: &[String]) -> String {
    if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
}

/// The values at `/metrics`.
fn scraped(address: &str) -> BTreeMap<String, f64> {
    let (_, body) = get(address, "/metrics").unwrap();
    let lines = body.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let value = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    lines.map(value).collect()
}

async fn run_jobs(server: &RedisServer, count: usize) {
    let jobs = (0..count).map(|_| Submission::new("test").unwrap());
    Producer::new(queue(server).await).submit_all(jobs).await.unwrap();
    until_async("all jobs to be done", SOON, async || jobs_left(server) == 0).await;
}

/// Stops a worker, which must not wait too long for the collector.
fn stop(worker: &Worker) {
    let asked = Instant::now();
    worker.term();
    assert!(worker.wait_exit(Duration::from_secs(10)).success());
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(5), "stopping took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pushed_is_what_the_metrics_page_says() {
    let (server, collector) = (RedisServer::start(), collector(200).await);
    let worker = worker(&server, &collector.uri());
    let address = address(&worker);
    run_jobs(&server, 7).await;
    // What belongs to jobs changes only when they do.
    let of_jobs = |values: &BTreeMap<String, f64>| -> BTreeMap<String, f64> {
        let of_jobs = values.iter().filter(|(name, _)| name.starts_with("streamfleet_job"));
        of_jobs.map(|(name, value)| (name.clone(), *value)).collect()
    };
    let last = until_async("a push that equals the page", SOON, async || {
        let last = pushes(&collector).await.pop()?;
        let (pushed, scraped) = (pushed(&last), scraped(&address));
        assert_eq!(pushed.keys().collect::<Vec<_>>(), scraped.keys().collect::<Vec<_>>());
        (of_jobs(&pushed) == of_jobs(&scraped)).then_some(last)
    })
    .await;
    let values = pushed(&last);
    let succeeded =
        "streamfleet_jobs_finished_total{queue=\"default\",job_type=\"test\",outcome=\"succeeded\"}";
    assert_eq!(values[succeeded], 7.0);
    assert_eq!(values["streamfleet_job_attempts_bucket{queue=\"default\",job_type=\"test\",le=\"1\"}"], 7.0);
    assert!(values.len() > 300, "{}", values.len());
    stop(&worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_are_cumulative_since_the_start_of_the_process_and_gauges_are_of_now() {
    let (server, collector) = (RedisServer::start(), collector(200).await);
    let worker = worker(&server, &collector.uri());
    run_jobs(&server, 1).await;
    until_async("three pushes", SOON, async || pushes(&collector).await.len() >= 3).await;
    stop(&worker);
    let (pushes, mut starts, mut before) = (pushes(&collector).await, Vec::new(), 0);
    for push in &pushes {
        for Metric { data, name, .. } in metrics(push) {
            let points = match data.as_ref().unwrap() {
                metric::Data::Sum(sum) => {
                    assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{name}");
                    sum.data_points
                        .iter()
                        .map(|point| (point.start_time_unix_nano, point.time_unix_nano))
                        .collect()
                }
                metric::Data::Histogram(histogram) => {
                    assert_eq!(histogram.aggregation_temporality, 2, "{name}");
                    let points = histogram.data_points.iter();
                    points.map(|point| (point.start_time_unix_nano, point.time_unix_nano)).collect()
                }
                _ => Vec::new(),
            };
            starts.extend(points.iter().map(|(start, _)| *start));
            assert!(points.iter().all(|(start, now)| start <= now && before <= *now), "{name}");
        }
        let total: f64 = pushed(push)["streamfleet_metric_pushes_total{result=\"accepted\"}"];
        before = before.max(starts[0]);
        assert!(total < pushes.len() as f64);
    }
    starts.dedup();
    assert_eq!(starts.len(), 1, "all sums of a process begin at the same time");
    let resource = pushes[0].resource_metrics[0].resource.as_ref().unwrap();
    let found: Vec<_> = resource.attributes.iter().map(|pair| (pair.key.as_str(), text(pair))).collect();
    assert_eq!(found[..2], [("service.name", "streamfleet"), ("service.version", env!("CARGO_PKG_VERSION"))]);
    assert!(found[2].0 == "service.instance.id" && found[2].1.contains('-'), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_is_told_once_and_gets_the_sums_when_it_is_back() {
    let server = RedisServer::start();
    // Bound, so that nobody else gets the port, and closed to connections as soon as its queue is dropped.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap();
    drop(held);
    let worker = worker(&server, &format!("http://{port}"));
    let address = address(&worker);
    run_jobs(&server, 50).await;
    let unreachable = "streamfleet_metric_pushes_total{result=\"unreachable\"}";
    let failed = async || series(&address, unreachable).is_some_and(|count| count >= 3.0);
    until_async("three failed pushes", SOON, failed).await;
    let back = until_async("the port to be free", SOON, async || TcpListener::bind(port).ok()).await;
    let collector = collector_on(back, 200).await;
    let succeeded =
        "streamfleet_jobs_finished_total{queue=\"default\",job_type=\"test\",outcome=\"succeeded\"}";
    let has_sums =
        async || pushes(&collector).await.last().is_some_and(|push| pushed(push)[succeeded] == 50.0);
    until_async("the sums", SOON, has_sums).await;
    let accepted = "streamfleet_metric_pushes_total{result=\"accepted\"}";
    until_async("it to be counted", SOON, async || series(&address, accepted) > Some(0.0)).await;
    stop(&worker);
    let said = worker.stderr();
    let times = |line: &str| said.matches(line).count();
    assert_eq!(times("metrics do not reach the collector"), 1, "{said}");
    assert_eq!(times("metrics reach the collector again"), 1, "{said}");
    assert!(said.contains("\"reason\":\"unreachable\""), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_collector_holds_nothing_up() {
    let server = RedisServer::start();
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let worker = worker(&server, &format!("http://{}", silent.local_addr().unwrap()));
    let address = address(&worker);
    let (_connection, _) = tokio::task::spawn_blocking(move || silent.accept().unwrap()).await.unwrap();
    run_jobs(&server, 500).await;
    let succeeded =
        "streamfleet_jobs_finished_total{queue=\"default\",job_type=\"test\",outcome=\"succeeded\"}";
    until_async("them to be counted", SOON, async || series(&address, succeeded) == Some(500.0)).await;
    stop(&worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_variables_of_opentelemetry_say_where_how_often_and_with_which_headers() {
    let (server, collector) = (RedisServer::start(), collector(401).await);
    let launch = launch(&server, "127.0.0.1:0", "")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        .env("OTEL_TRACES_EXPORTER", "none")
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", collector.uri())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "1000")
        .env("OTEL_SERVICE_NAME", "mail");
    let worker = launch.start();
    let refused = "streamfleet_metric_pushes_total{result=\"refused\"}";
    let address = address(&worker);
    until_async("two refusals", SOON, async || series(&address, refused).is_some_and(|count| count >= 2.0))
        .await;
    let requests = collector.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.headers["authorization"] == "Bearer canary"));
    let push = &pushes(&collector).await[0];
    let resource = push.resource_metrics[0].resource.as_ref().unwrap();
    assert_eq!(text(&resource.attributes[0]), "mail");
    stop(&worker);
    let said = worker.stderr();
    assert_eq!(said.matches("the collector answered 401").count(), 1, "{said}");
    assert!(!said.contains("canary"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_values_are_pushed_when_a_worker_stops_also_without_a_listener() {
    let (server, collector) = (RedisServer::start(), collector(200).await);
    let metrics = format!("endpoint = \"{}/\"\ninterval = \"1h\"", collector.uri());
    let worker = launch(&server, "off", &metrics).start();
    run_jobs(&server, 20).await;
    stop(&worker);
    let last = pushes(&collector).await.pop().unwrap();
    let succeeded =
        "streamfleet_jobs_finished_total{queue=\"default\",job_type=\"test\",outcome=\"succeeded\"}";
    assert_eq!(pushed(&last)[succeeded], 20.0);
}
