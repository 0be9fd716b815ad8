//! The alerts of this console's configuration: where messages go, and what counts as an incident. Addresses and secrets are never shown.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use streamfleet_operations as operations;
use streamfleet_service::alerts::Config;
use utoipa_axum::routes;

use crate::console::access::{Person, Role};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

pub(super) fn routes() -> Routes {
    Routes::default().operation(&operations::ALERTS_TEST, routes!(get_alerting))
}

/// What is configured.
#[derive(Serialize, utoipa::ToSchema)]
struct Alerting {
    /// Null if the configuration has no section `[alerts]`: then this console sends nothing.
    rules: Option<AlertRules>,
    /// Where messages go.
    sinks: Vec<AlertSink>,
    /// Why a sink cannot be used, in the words of `check`, which may name a file; null if all can.
    wrong: Option<String>,
}

/// What counts as an incident, and when messages about it are sent.
#[derive(Serialize, utoipa::ToSchema)]
struct AlertRules {
    /// How often queues and servers are checked.
    every_ms: u64,
    /// When the first reminder of an open incident is sent.
    remind_after_ms: u64,
    /// The longest pause between two reminders.
    remind_most_ms: u64,
    /// For how long nothing must be wrong before an incident is resolved.
    resolve_after_ms: u64,
    /// For how long no job must have died of a cause before its acknowledged incident is resolved.
    quiet_after_ms: u64,
    /// How many jobs may die per minute …
    dead_per_minute: f64,
    /// … on average over this time.
    dead_window_ms: u64,
    /// For how long jobs may wait while no worker is live.
    no_worker_for_ms: u64,
    /// For how long jobs may wait while no live worker knows their type.
    unserved_for_ms: u64,
    /// For how long a queue may be paused.
    paused_for_ms: u64,
    /// The share of its memory that Redis may use.
    redis_memory: f64,
    /// The kinds of incidents that never open.
    off: Vec<&'static str>,
}

/// A place where messages go: its name and kind, and nothing else of it.
#[derive(Serialize, utoipa::ToSchema)]
struct AlertSink {
    name: String,
    /// `dingtalk`, `feishu`, `wecom`, `slack`, `webhook` or `mail`.
    kind: &'static str,
}

/// Shows the alerts of this console's configuration.
///
/// It needs the role on all queues, which the configuration is about.
#[utoipa::path(get, path = "/api/v1/alerts", tag = "incidents",
    responses((status = 200, description = "What is configured", body = Alerting)))]
async fn get_alerting(State(app): State<AppState>, person: Person) -> Result<Json<Alerting>, Problem> {
    person.check_about(Role::Operator, None)?;
    let config = app.effective().config.alerts.as_ref();
    let sinks = config.iter().flat_map(|config| &config.sinks);
    let sinks = sinks.map(|(name, sink)| AlertSink { name: name.to_string(), kind: sink.kind.as_str() });
    Ok(Json(Alerting {
        rules: config.map(AlertRules::from),
        sinks: sinks.collect(),
        wrong: app.effective().alerts().err().map(|invalid| invalid.to_string()),
    }))
}

impl From<&Config> for AlertRules {
    fn from(config: &Config) -> Self {
        let mut off: Vec<&'static str> = config.off.iter().map(|kind| kind.as_str()).collect();
        off.sort_unstable();
        off.dedup();
        Self {
            every_ms: millis(config.every),
            remind_after_ms: millis(config.remind_after),
            remind_most_ms: millis(config.remind_most),
            resolve_after_ms: millis(config.resolve_after),
            quiet_after_ms: millis(config.quiet_after),
            dead_per_minute: config.dead_per_minute,
            dead_window_ms: millis(config.dead_window),
            no_worker_for_ms: millis(config.no_worker_for),
            unserved_for_ms: millis(config.unserved_for),
            paused_for_ms: millis(config.paused_for),
            redis_memory: config.redis_memory,
            off,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
