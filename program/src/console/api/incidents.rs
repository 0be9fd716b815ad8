//! Incidents: what is wrong with the fleet, who knows of it, what counts as one, and where messages go. Addresses and secrets are never
//! shown.

use axum::Json;
use serde::{Deserialize, Serialize};
use streamfleet::job::EntryId;
use streamfleet_engine::admin::{Incident, IncidentId};
use streamfleet_operations::alerts::{self, IncidentAck, IncidentPage, ListedIncident, Wanted};
use streamfleet_service::alerts::Config;
use utoipa_axum::routes;

use super::failure::failed;
use super::query::{self, wrong};
use super::{Answer, Call, JsonBody, Problem, QueryParams, Routes, millis, operations};
use crate::alerts::{SinkTest, send};
use crate::console::access::Role;
use crate::enqueue::Length;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::ALERTS_LIST, routes!(list_incidents))
        .operation(&operations::ALERTS_LIST, routes!(get_incident))
        .operation(&operations::ALERTS_ACK, routes!(ack_incident))
        .operation(&operations::ALERTS_TEST, routes!(test_sink))
        .operation(&operations::ALERTS_TEST, routes!(get_alerting))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct ListParams {
    /// List also incidents that are over, newest first. About the last 1000 are kept.
    all: bool,
    /// The maximum number of incidents that are over: 1 to 500, 50 unless told otherwise. Needs `all`.
    #[serde(deserialize_with = "query::some_limit")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u64>,
    /// Start after this entry, to get the next page of incidents that are over. Needs `all`.
    #[serde(deserialize_with = "query::parsed")]
    #[param(value_type = Option<String>)]
    after: Option<EntryId>,
}

/// Lists the open incidents, oldest first.
///
/// An incident is listed if you may see its queue. One that is about no queue is listed if you may see all of them. At most 500 are
/// open. A page may have fewer incidents than `limit` although there are more: go on while `next` is not null.
#[utoipa::path(get, path = "/api/v1/incidents", tag = "incidents", params(ListParams),
    responses((status = 200, description = "The incidents", body = IncidentPage)))]
async fn list_incidents(
    call: Call,
    QueryParams(ListParams { all, limit, after }): QueryParams<ListParams>,
) -> Answer {
    if after.is_some() && !all {
        return Err(wrong("after", "it needs all=true: the open incidents have no pages"));
    }
    let wanted = Wanted { open: after.is_none(), past: all.then_some(limit.unwrap_or(query::USUAL)), after };
    let is_shown =
        |incident: &Incident| call.person.check_about(Role::Viewer, incident.queue.as_ref()).is_ok();
    let page = alerts::list(&call.app.broker.incidents(), wanted, is_shown).await?;
    if page.facts.unreadable > 0 {
        tracing::warn!(count = page.facts.unreadable, "incidents of another version are not listed");
    }
    call.answer(&page)
}

/// Shows one incident, also if it is over.
#[utoipa::path(get, path = "/api/v1/incidents/{incident}", tag = "incidents",
    responses((status = 200, description = "The incident", body = ListedIncident)))]
async fn get_incident(call: Call) -> Answer {
    let id = call.path::<IncidentId>("incident")?;
    // Nobody learns whether an incident of a queue exists that they may not see.
    let is_shown =
        |incident: &Incident| call.person.check_about(Role::Viewer, incident.queue.as_ref()).is_ok();
    let shown = alerts::show(&call.app.broker.incidents(), &id, is_shown).await?;
    call.answer(&shown)
}

/// For how long an incident is acknowledged, and why.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewIncidentAck, examples(json!({"for": "2h", "reason": "the mail server is being repaired"})))]
struct Wish {
    /// For how long no reminder is sent, at most 30 days. With 0, reminders are sent again.
    #[serde(rename = "for")]
    time: Length,
    /// Why, for the list of incidents and the audit.
    reason: String,
}

/// Sends no reminders of an incident for a time.
///
/// The message that it is resolved is sent all the same.
#[utoipa::path(post, path = "/api/v1/incidents/{incident}/ack", tag = "incidents", request_body = Wish,
    responses((status = 200, description = "Until when no reminder is sent", body = IncidentAck)))]
async fn ack_incident(call: Call, JsonBody(wish): JsonBody<Wish>) -> Answer {
    let id = call.path::<IncidentId>("incident")?;
    let time = wish.time.read().map_err(|why| Problem::field("/for", why))?;
    let incidents = call.app.broker.incidents();
    let wanted = Wanted { open: true, ..Wanted::default() };
    let found = alerts::find(&incidents, wanted, |incident| incident.id == id).await?;
    let none = || Problem::not_found(format!("there is no open incident {id}"));
    let known = found.open.first().ok_or_else(none)?;
    call.person.check_about(Role::Operator, known.incident.queue.as_ref())?;
    call.done(alerts::acknowledge(&incidents, &call.actor(&wish.reason), &id, time).await)
}

/// Sends a test message to a sink of this console's configuration.
///
/// It needs the role on all queues, since everybody who reads the sink gets the message. If the sink has not taken it, `accepted` is
/// false, and `answer` says why.
#[utoipa::path(post, path = "/api/v1/alerts/sinks/{sink}/test", tag = "incidents",
    responses((status = 200, description = "What the sink answered", body = SinkTest)))]
async fn test_sink(call: Call) -> Answer {
    call.person.check_about(Role::Operator, None)?;
    let sink = call.path::<streamfleet::job::SinkName>("sink")?;
    let none = || Problem::not_found(format!("there is no sink {sink} in the configuration"));
    let sent = send(&call.app.effective, &sink).await.map_err(failed)?.ok_or_else(none)?;
    call.answer(&sent)
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
async fn get_alerting(call: Call) -> Result<Json<Alerting>, Problem> {
    call.person.check_about(Role::Operator, None)?;
    let config = call.app.effective.config.alerts.as_ref();
    let sinks = config.iter().flat_map(|config| &config.sinks);
    let sinks = sinks.map(|(name, sink)| AlertSink { name: name.to_string(), kind: sink.kind.as_str() });
    Ok(Json(Alerting {
        rules: config.map(AlertRules::from),
        sinks: sinks.collect(),
        wrong: call.app.effective.alerts().err().map(|invalid| invalid.to_string()),
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
