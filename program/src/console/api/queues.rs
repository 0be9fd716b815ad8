//! Queues: how many jobs they have, and which types.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use streamfleet::job::QueueName;
use streamfleet_operations as operations;
use streamfleet_operations::queues::{self, QueueReport};
use streamfleet_operations::unserved::{self, UnservedType};
use utoipa_axum::routes;

use super::failure::redis;
use super::names;
use super::path_params::PathParams;
use super::privacy::View;
use super::query::{QueryParams, QueuesParams};
use super::work_limits::Work;
use crate::console::access::Person;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::output::List;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::QUEUES, routes!(list_queues))
        .operation(&operations::QUEUES, routes!(get_queue))
        .operation(&operations::QUEUES, routes!(list_types))
}

type QueueList = List<QueueReport, Facts>;

/// What is known about all queues.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = QueueListFacts)]
struct Facts {
    /// The servers of a cluster that could not be asked, and why; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
}

type TypeList = List<KnownType, TypeFacts>;

/// A type of a queue.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = QueueType)]
struct KnownType {
    #[serde(rename = "type")]
    job_type: String,
    /// True if a live worker knows it; false if its jobs wait because none does.
    served: bool,
}

/// What is known about all types of a queue.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = QueueTypeFacts)]
struct TypeFacts {
    queue: String,
    /// False if it is not known which types the live workers know.
    known: bool,
    /// Types whose jobs wait because no live worker knows them.
    unserved_types: Vec<UnservedType>,
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct MemoryParams {
    /// Estimate how much memory each queue takes.
    memory: bool,
}

/// Says how long a job of the queue may wait.
pub(super) fn set_objective(app: &AppState, report: &mut QueueReport) {
    let name = report.queue.parse::<QueueName>().ok();
    let section = name.and_then(|name| app.effective().config.queues.get(&name).cloned());
    let latency = section.unwrap_or_default().objectives.latency;
    report.objective_ms = Some(u64::try_from(latency.as_millis()).unwrap_or(u64::MAX));
}

/// Counts the jobs of each queue.
#[utoipa::path(get, path = "/api/v1/queues", tag = "queues", params(QueuesParams, MemoryParams),
    responses((status = 200, description = "The queues that you may see", body = QueueList)))]
async fn list_queues(
    State(app): State<AppState>,
    person: Person,
    QueryParams((wanted, memory)): QueryParams<(QueuesParams, MemoryParams)>,
) -> Result<Json<Value>, Problem> {
    let found = names::visible(&app, &person).await?;
    let names = found.queues.into_iter().filter(|name| wanted.has(name)).collect();
    let mut items = queues::list(app.broker(), names, memory.memory).await;
    items.iter_mut().for_each(|report| set_objective(&app, report));
    let page = QueueList { items, next: None, facts: Facts { unread: found.unread }, former: None };
    View::of(&person, &app).json(&page)
}

/// Counts the jobs of one queue.
#[utoipa::path(get, path = "/api/v1/queues/{queue}", tag = "queues", params(MemoryParams),
    responses((status = 200, description = "The queue", body = QueueReport)))]
async fn get_queue(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(MemoryParams { memory }): QueryParams<MemoryParams>,
) -> Result<Json<Value>, Problem> {
    let queue = path.queue(&app)?;
    let name = queue.name().clone();
    let mut report = queues::show(queue, memory).await;
    set_objective(&app, &mut report);
    if report.is_empty() {
        names::must_have(&app, &name).await?;
    }
    View::of(&person, &app).json(&report)
}

/// Lists the types that the live workers of a queue know, and those that none of them knows.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/types", tag = "queues",
    responses((status = 200, description = "The types", body = TypeList)))]
async fn list_types(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
) -> Result<Json<Value>, Problem> {
    let _permit = app.work_limits().begin(Work::Search)?;
    let queue = path.queue(&app)?;
    let known = queue.known_types().await.map_err(redis("failed to ask which types are known"))?;
    let unserved_types = unserved::types(&queue).await;
    if known.is_none() && unserved_types.is_empty() {
        names::must_have(&app, queue.name()).await?;
    }
    let served = known.iter().flatten().map(|name| KnownType { job_type: name.to_string(), served: true });
    let unserved = unserved_types.iter().map(|one| &one.job_type);
    let unserved = unserved.map(|name| KnownType { job_type: name.clone(), served: false });
    let mut items: Vec<KnownType> = served.chain(unserved).collect();
    items.sort_by(|one, other| one.job_type.cmp(&other.job_type));
    let facts = TypeFacts { queue: queue.name().to_string(), known: known.is_some(), unserved_types };
    View::of(&person, &app).json(&TypeList { items, next: None, facts, former: None })
}
