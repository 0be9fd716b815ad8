//! Incidents: what is wrong with the fleet, and who knows of it.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::EntryId;
use streamfleet_engine::admin::{Incident, IncidentId};
use streamfleet_operations::alerts::{self, IncidentAck, IncidentPage, ListedIncident, Wanted};
use streamfleet_operations::{self as operations, Actor};
use utoipa_axum::routes;

use super::failure::{done, failed};
use super::json_body::JsonBody;
use super::path_params::PathParams;
use super::privacy::View;
use super::query::{self, QueryParams, wrong};
use crate::alerts::{SinkTest, send};
use crate::console::access::{Person, Role};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::enqueue::Length;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::ALERTS_LIST, routes!(list_incidents))
        .operation(&operations::ALERTS_LIST, routes!(get_incident))
        .operation(&operations::ALERTS_ACK, routes!(ack_incident))
        .operation(&operations::ALERTS_TEST, routes!(test_sink))
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
    State(app): State<AppState>,
    person: Person,
    QueryParams(ListParams { all, limit, after }): QueryParams<ListParams>,
) -> Result<Json<Value>, Problem> {
    if after.is_some() && !all {
        return Err(wrong("after", "it needs all=true: the open incidents have no pages"));
    }
    let wanted = Wanted { open: after.is_none(), past: all.then_some(limit.unwrap_or(query::USUAL)), after };
    let is_shown = |incident: &Incident| person.check_about(Role::Viewer, incident.queue.as_ref()).is_ok();
    let page = alerts::list(&app.broker().incidents(), wanted, is_shown).await?;
    if page.facts.unreadable > 0 {
        tracing::warn!(count = page.facts.unreadable, "incidents of another version are not listed");
    }
    View::of(&person, &app).json(&page)
}

/// Shows one incident, also if it is over.
#[utoipa::path(get, path = "/api/v1/incidents/{incident}", tag = "incidents",
    responses((status = 200, description = "The incident", body = ListedIncident)))]
async fn get_incident(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
) -> Result<Json<Value>, Problem> {
    let id = path.get::<IncidentId>("incident")?;
    // Nobody learns whether an incident of a queue exists that they may not see.
    let is_shown = |incident: &Incident| person.check_about(Role::Viewer, incident.queue.as_ref()).is_ok();
    let shown = alerts::show(&app.broker().incidents(), &id, is_shown).await?;
    View::of(&person, &app).json(&shown)
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
async fn ack_incident(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(wish): JsonBody<Wish>,
) -> Result<Json<Value>, Problem> {
    let id = path.get::<IncidentId>("incident")?;
    let time = wish.time.read().map_err(|why| Problem::field("/for", why))?;
    let incidents = app.broker().incidents();
    let wanted = Wanted { open: true, ..Wanted::default() };
    let found = alerts::find(&incidents, wanted, |incident| incident.id == id).await?;
    let none = || Problem::not_found(format!("there is no open incident {id}"));
    let known = found.open.first().ok_or_else(none)?;
    person.check_about(Role::Operator, known.incident.queue.as_ref())?;
    let actor = Actor::new(person.name(), &wish.reason);
    View::of(&person, &app).json(&done(alerts::acknowledge(&incidents, &actor, &id, time).await)?)
}

/// Sends a test message to a sink of this console's configuration.
///
/// It needs the role on all queues, since everybody who reads the sink gets the message. If the sink has not taken it, `accepted` is
/// false, and `answer` says why.
#[utoipa::path(post, path = "/api/v1/alerts/sinks/{sink}/test", tag = "incidents",
    responses((status = 200, description = "What the sink answered", body = SinkTest)))]
async fn test_sink(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
) -> Result<Json<Value>, Problem> {
    person.check_about(Role::Operator, None)?;
    let sink = path.get::<streamfleet::job::SinkName>("sink")?;
    let none = || Problem::not_found(format!("there is no sink {sink} in the configuration"));
    let sent = send(app.effective(), &sink).await.map_err(failed)?.ok_or_else(none)?;
    View::of(&person, &app).json(&sent)
}
