//! Each rule on real state in Redis: what is wrong opens an incident, and what is no longer wrong ends it.

use std::time::Duration;

use streamfleet::job::{Limits, QueueName, Rate, Verdict};
use streamfleet::{FleetConfig, Handler, JobContext, JobError, RawPayload};
use streamfleet_engine::admin::{Action, Filter, IncidentKind, IncidentState, ReplayRules};
use streamfleet_service::alerts::Watched;

use super::{
    HOUR, QUEUE, SOON, broker, bury_by_hand, bury_one, config, open, remove_letters, start, start_watching,
    until_open, until_over, watched,
};
use harness::fleet::{Acts, Running, queue, quick, submit};
use harness::redis_server::RedisServer;
use harness::steps::{Scene, Walks};
use harness::wait::until_async;

/// A handler that runs until its job is cut short.
struct Stuck;

impl Handler for Stuck {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _: RawPayload, _: JobContext) -> Result<(), JobError> {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_without_a_worker_and_a_long_pause_are_incidents() {
    let server = RedisServer::start();
    let (queue, broker) = (queue(&server).await, broker(&server).await);
    let rules = config().no_worker_for(Duration::from_secs(1)).paused_for(Duration::ZERO);
    let alerts = start(&server, rules);
    submit(&queue, "1").await;
    let known = until_open(&broker, IncidentKind::NoWorker).await;
    assert_eq!((known.incident.queue.as_ref().unwrap().as_str(), known.incident.count), (QUEUE, 1));
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    until_over(&broker).await;
    let gates = queue.gates();
    gates.close(&"queue".parse().unwrap(), "ann", "", None).await.unwrap();
    until_open(&broker, IncidentKind::QueuePaused).await;
    gates.open(&"queue".parse().unwrap()).await.unwrap();
    until_over(&broker).await;
    fleet.stop().await;
    alerts.stop().await;
    let past = broker.incidents().past(None, 10).await.unwrap();
    let kinds: Vec<_> = past.iter().map(|past| past.incident.kind).collect();
    assert_eq!(kinds, [IncidentKind::QueuePaused, IncidentKind::NoWorker]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_wrong_type_hides_no_incident_of_another_kind() {
    let server = RedisServer::start();
    let (queue, broker) = (queue(&server).await, broker(&server).await);
    server.cmd(&["XADD", "sf:{default}:dead", "*", "type", "test", "dead_reason", "fatal"]);
    server.cmd(&["SET", "sf:{default}:dead:groups", "x"]);
    let alerts = start(&server, config().no_worker_for(Duration::from_secs(1)));
    submit(&queue, "1").await;
    until_open(&broker, IncidentKind::NoWorker).await;
    alerts.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_beyond_the_objective_is_an_incident() {
    let server = RedisServer::start();
    let (queue, broker) = (queue(&server).await, broker(&server).await);
    let mut one: FleetConfig = harness::fleet::config(&server.url());
    one.worker.queues.get_mut(&QUEUE.parse::<QueueName>().unwrap()).unwrap().concurrency = 1;
    one.worker.drain_timeout = Duration::ZERO;
    let fleet = Running::start_with(one, quick(1), Stuck);
    submit(&queue, "1").await;
    until_async("the first job to run", SOON, async || queue.snapshot().await.unwrap().running() == 1).await;
    submit(&queue, "2").await;
    let latency = Watched::new(HOUR).latencies([(QUEUE.parse().unwrap(), Duration::from_millis(500))]);
    let alerts = start_watching(&server, config(), latency);
    let known = until_open(&broker, IncidentKind::Backlog).await;
    assert!(known.incident.detail.contains("the objective is 500ms"), "{known:?}");
    alerts.stop().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_at_a_gate_is_an_incident() {
    let server = RedisServer::start();
    let (queue, broker) = (queue(&server).await, broker(&server).await);
    let limits = Limits::default().rate("1/h".parse::<Rate>().unwrap());
    queue.gates().set(&"type:test".parse().unwrap(), &limits).await.unwrap();
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    for nth in 0..3 {
        submit(&queue, &nth.to_string()).await;
    }
    until_async("two jobs to wait", SOON, async || queue.snapshot().await.unwrap().in_rooms == 2).await;
    let latency = Watched::new(HOUR).latencies([(QUEUE.parse().unwrap(), Duration::from_millis(500))]);
    let alerts = start_watching(&server, config(), latency);
    let known = until_open(&broker, IncidentKind::Backlog).await;
    assert_eq!(known.incident.count, 2, "{known:?}");
    alerts.stop().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_need_a_person_until_somebody_has_acknowledged_them() {
    let server = RedisServer::start();
    let broker = broker(&server).await;
    let alerts = start(&server, config().quiet_after(Duration::from_secs(1)));
    bury_one(&server, &broker, "00aa").await;
    let known = until_open(&broker, IncidentKind::DeadGroup).await;
    // Longer than it takes until nobody has died for long, and an incident without a cause is over.
    let quiet = server.now_ms() + 3_000;
    until_async("the quiet time", SOON, async || server.now_ms() > quiet).await;
    assert_eq!(open(&broker).await.len(), 1);
    let ann = Action::new("alerts ack", "ann");
    broker.incidents().acknowledge(&known.incident.id, HOUR, &ann).await.unwrap().unwrap();
    until_over(&broker).await;
    alerts.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_no_worker_knows_is_an_incident() {
    let server = RedisServer::start();
    let broker = broker(&server).await;
    let fleet = Running::start(&server.url(), quick(1), Acts::well());
    let alerts = start(&server, config().unserved_for(Duration::from_secs(1)));
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "mail.sned", "payload", "{}"]);
    let known = until_open(&broker, IncidentKind::UnservedType).await;
    assert_eq!((known.incident.key.as_str(), known.incident.count), ("mail.sned", 1));
    alerts.stop().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_that_wait_for_a_person_are_an_incident_and_no_new_cause() {
    let server = RedisServer::start();
    let broker = broker(&server).await;
    let alerts = start(&server, config());
    let now = server.now_ms();
    bury_by_hand(&server, &broker, &[("00aa", "needs_decision", now), ("00aa", "needs_decision", now)]).await;
    let known = until_open(&broker, IncidentKind::NeedsDecision).await;
    assert_eq!(known.incident.count, 2);
    assert!(open(&broker).await.iter().all(|known| known.incident.kind != IncidentKind::DeadGroup));
    remove_letters(&server, &broker).await;
    until_over(&broker).await;
    alerts.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_ends_the_incident_though_the_letter_stays() {
    let scene = Scene::new().await;
    let broker = broker(&scene.server).await;
    let fleet = scene.usual(&Walks::but("charge"));
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "needs_decision");
    let alerts = start(&scene.server, config());
    until_open(&broker, IncidentKind::NeedsDecision).await;
    scene.decide(&job, "charge", Verdict::GiveUp).await.unwrap();
    until_over(&broker).await;
    assert_eq!(scene.reason(&job).await, "fatal");
    let past = broker.incidents().past(None, 10).await.unwrap();
    let kinds: Vec<_> = past.iter().map(|past| past.incident.kind).collect();
    assert_eq!(kinds, [IncidentKind::NeedsDecision], "the job did not die again");
    alerts.stop().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_cause_is_no_news_and_many_deaths_of_it_are() {
    let server = RedisServer::start();
    let (queue, broker) = (queue(&server).await, broker(&server).await);
    let deadly = || {
        Running::start(&server.url(), quick(1), Acts::new(|_, _| Err(JobError::fatal("no route to host"))))
    };
    let dead = async |count: u64| {
        until_async("the deaths", SOON, async || queue.snapshot().await.unwrap().dead == count).await;
    };
    // The same cause, long ago.
    let fleet = deadly();
    submit(&queue, "1").await;
    dead(1).await;
    fleet.stop().await;
    let letter = queue.dead_letters().page(None, 1).await.unwrap().remove(0);
    let fingerprint = letter.text("dead_fingerprint");
    remove_letters(&server, &broker).await;
    let long_ago = server.now_ms() - 24 * 3_600_000;
    bury_by_hand(&server, &broker, &[(&fingerprint, "fatal", long_ago)]).await;
    let rules = config().dead_per_minute(10.0).dead_window(Duration::from_secs(60));
    let alerts = start(&server, rules);
    until_async("the first check", SOON, async || {
        !matches!(server.cmd(&["HLEN", "sf:alerts:{alerts}:seen"]), redis::Value::Int(0))
    })
    .await;
    assert!(open(&broker).await.is_empty());
    let fleet = deadly();
    for nth in 0..30 {
        submit(&queue, &nth.to_string()).await;
    }
    dead(31).await;
    let known = until_open(&broker, IncidentKind::DeadRate).await;
    assert_eq!(known.incident.example.as_ref().unwrap().error, "no route to host");
    assert_eq!(open(&broker).await.len(), 1);
    fleet.stop().await;
    alerts.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_may_ask_for_an_incident_for_each_dead_job() {
    let server = RedisServer::start();
    let (queue, broker) = (queue(&server).await, broker(&server).await);
    let alerts = start_watching(&server, config(), watched().each(["test".parse().unwrap()]));
    bury_one(&server, &broker, "00aa").await;
    let known = until_open(&broker, IncidentKind::DeadJob).await;
    let letter = queue.dead_letters().page(None, 1).await.unwrap().remove(0);
    assert_eq!(known.incident.key, letter.entry.to_string());
    assert_eq!(known.incident.example.as_ref().unwrap().job, "job-0");
    assert_eq!(open(&broker).await.len(), 1, "the cause has no incident of its own");
    queue.dead_letters().drop(letter.entry, &letter.job()).await.unwrap();
    until_over(&broker).await;
    // A letter that was edited is a new entry of the stream, but no new death.
    let edited = ["XADD", "sf:{default}:dead", "*", "type", "test", "id", "edited", "dead_before", "[]"];
    server.cmd(&edited);
    bury_one(&server, &broker, "00ab").await;
    let known = until_open(&broker, IncidentKind::DeadJob).await;
    assert_eq!(known.incident.example.as_ref().unwrap().job, "job-0");
    assert_eq!(open(&broker).await.len(), 1);
    remove_letters(&server, &broker).await;
    until_over(&broker).await;
    // Very many are a few incidents.
    let letters = vec![("00bb", "exhausted", server.now_ms()); 500];
    bury_by_hand(&server, &broker, &letters).await;
    until_async("one incident for the others", SOON, async || {
        open(&broker).await.iter().any(|known| known.incident.key == "*" && known.incident.count == 480)
    })
    .await;
    assert_eq!(open(&broker).await.len(), 21);
    alerts.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_stopped_itself_is_an_incident() {
    let server = RedisServer::start();
    let (queue, broker) = (queue(&server).await, broker(&server).await);
    let fleet =
        Running::start(&server.url(), quick(1), Acts::new(|_, _| Err(JobError::fatal("no route to host"))));
    for nth in 0..3 {
        submit(&queue, &nth.to_string()).await;
    }
    until_async("the deaths", SOON, async || queue.snapshot().await.unwrap().dead == 3).await;
    let alerts = start(&server, config());
    let selection = queue.dead_letters().select(Filter::new()).await.unwrap();
    let rules = ReplayRules::default().canary(1);
    let ann = Action::new("dead replay", "ann");
    let id = queue.tasks().start_replay(&selection, rules, &ann).await.unwrap().value;
    let known = until_open(&broker, IncidentKind::CampaignStopped).await;
    assert_eq!(known.incident.key, id);
    assert_eq!(known.incident.command(), format!("streamfleet tasks show {id} --queue default"));
    alerts.stop().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_nearly_full_is_an_incident_even_if_it_takes_nothing_more() {
    let server =
        RedisServer::builder().args(&["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"]).start();
    let broker = broker(&server).await;
    let alerts = start(&server, config());
    until_async("the first check", SOON, async || {
        !matches!(server.cmd(&["HLEN", "sf:alerts:{alerts}:seen"]), redis::Value::Int(0))
    })
    .await;
    assert!(open(&broker).await.is_empty());
    // From here on, Redis refuses all that needs memory.
    server.cmd(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let known = until_open(&broker, IncidentKind::RedisMemory).await;
    assert_eq!((known.incident.queue.as_ref(), known.incident.state), (None, IncidentState::Open));
    server.cmd(&["CONFIG", "SET", "maxmemory", "100mb"]);
    until_over(&broker).await;
    alerts.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_is_off_never_opens() {
    let server = RedisServer::start();
    let broker = broker(&server).await;
    let alerts = start(&server, config().off([IncidentKind::DeadGroup]));
    bury_one(&server, &broker, "00aa").await;
    bury_by_hand(&server, &broker, &[("00bb", "needs_decision", server.now_ms())]).await;
    until_open(&broker, IncidentKind::NeedsDecision).await;
    assert_eq!(open(&broker).await.len(), 1);
    alerts.stop().await;
}
