//! Alerts: what is an incident, that each is told once by the process that sends, and that no sink holds up anything else.

mod commands;
mod delivery;
mod mail;
mod rules;
mod sinks;
pub(crate) mod stand_in;

use std::time::Duration;

use streamfleet::Broker;
use streamfleet::event::Events;
use streamfleet_engine::admin::{IncidentKind, IncidentState, KnownIncident};
use streamfleet_service::alerts::{Alerts, Config, Running, SinkConfig, Watched};

use harness::fleet;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const QUEUE: &str = "default";

/// Rules that look often and take little time, and under which nothing but dead letters is an incident soon.
fn config() -> Config {
    Config::default()
        .every(Duration::from_millis(100))
        .resolve_after(Duration::from_secs(1))
        .quiet_after(Duration::from_secs(10))
        .no_worker_for(24 * HOUR)
        .unserved_for(24 * HOUR)
}

/// Returns a configuration with these sinks.
fn with(sinks: impl IntoIterator<Item = (&'static str, SinkConfig)>) -> Config {
    config().sinks(sinks.into_iter().map(|(name, sink)| (name.parse().unwrap(), sink)))
}

fn watched() -> Watched {
    Watched::new(HOUR).latencies([(QUEUE.parse().unwrap(), HOUR)])
}

/// Starts a process that looks for incidents.
fn start(server: &RedisServer, config: Config) -> Running {
    start_watching(server, config, watched())
}

fn start_watching(server: &RedisServer, config: Config, watched: Watched) -> Running {
    let redis = fleet::config(&server.url()).redis;
    Alerts::new(config, redis, watched).unwrap().start(Events::default())
}

async fn broker(server: &RedisServer) -> Broker {
    Broker::connect(fleet::config(&server.url()).redis).await.unwrap()
}

/// Returns the incidents that are open.
async fn open(broker: &Broker) -> Vec<KnownIncident> {
    let mut found = broker.incidents().open().await.unwrap().incidents;
    found.retain(|known| known.incident.state == IncidentState::Open);
    found
}

/// Waits until an incident of this kind is open.
async fn until_open(broker: &Broker, kind: IncidentKind) -> KnownIncident {
    until_async(&format!("an incident of the kind {kind}"), SOON, async || {
        open(broker).await.into_iter().find(|known| known.incident.kind == kind)
    })
    .await
}

/// Waits until no incident is left that is not over.
async fn until_over(broker: &Broker) {
    until_async("all incidents to be over", SOON, async || {
        broker.incidents().open().await.unwrap().incidents.is_empty()
    })
    .await;
}

/// Writes letters as the fleet does, and has their groups counted.
async fn bury_by_hand(server: &RedisServer, broker: &Broker, letters: &[(&str, &str, u64)]) {
    for (nth, (fingerprint, reason, died_ms)) in letters.iter().enumerate() {
        let (id, died) = (format!("job-{nth}"), died_ms.to_string());
        let fields = [
            "type",
            "test",
            "id",
            &id,
            "payload",
            "{}",
            "dead_reason",
            reason,
            "dead_error",
            "no <b>route</b>",
        ];
        let facts = ["dead_fingerprint", fingerprint, "dead_at_ms", &died];
        server.cmd(&[&["XADD", "sf:{default}:dead", "*"][..], &fields, &facts].concat());
    }
    broker.queue(QUEUE.parse().unwrap()).dead_letters().recount(|_| ()).await.unwrap().unwrap();
}

/// Lets one new cause of death be known.
async fn bury_one(server: &RedisServer, broker: &Broker, fingerprint: &str) {
    bury_by_hand(server, broker, &[(fingerprint, "exhausted", server.now_ms())]).await;
}

/// Takes all letters away.
async fn remove_letters(server: &RedisServer, broker: &Broker) {
    server.cmd(&["DEL", "sf:{default}:dead"]);
    broker.queue(QUEUE.parse().unwrap()).dead_letters().recount(|_| ()).await.unwrap().unwrap();
}
