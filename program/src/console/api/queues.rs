//! Queues: how many jobs they have, and which types.

use serde::{Deserialize, Serialize};
use streamfleet::job::QueueName;
use streamfleet_operations::queues::{self, QueueReport};
use streamfleet_operations::unserved::{self, UnservedType};
use utoipa_axum::routes;

use super::failure::redis;
use super::work_limits::Work;
use super::{Answer, Call, QueryParams, QueuesParams, Routes, millis, names, operations};
use crate::console::app_state::AppState;
use crate::output::List;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::QUEUES, routes!(list_queues))
        .operation(&operations::QUEUES, routes!(get_queue))
        .operation(&operations::QUEUES, routes!(list_types))
}

/// What is known about all queues.
#[derive(Serialize, utoipa::ToSchema)]
struct QueueListFacts {
    /// The servers of a cluster that could not be asked, and why; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
}

/// A type of a queue.
#[derive(Serialize, utoipa::ToSchema)]
struct QueueType {
    #[serde(rename = "type")]
    job_type: String,
    /// True if a live worker knows it; false if its jobs wait because none does.
    served: bool,
}

/// What is known about all types of a queue.
#[derive(Serialize, utoipa::ToSchema)]
struct QueueTypeFacts {
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
    let section = name.and_then(|name| app.effective.config.queues.get(&name).cloned());
    let latency = section.unwrap_or_default().objectives.latency;
    report.objective_ms = Some(millis(latency));
}

type QueueList = List<QueueReport, QueueListFacts>;

/// Counts the jobs of each queue.
#[utoipa::path(get, path = "/api/v1/queues", tag = "queues", params(QueuesParams, MemoryParams),
    responses((status = 200, description = "The queues that you may see", body = QueueList)))]
async fn list_queues(
    call: Call,
    QueryParams((wanted, memory)): QueryParams<(QueuesParams, MemoryParams)>,
) -> Answer {
    let found = names::visible(&call).await?;
    let names = found.queues.into_iter().filter(|name| wanted.has(name)).collect();
    let mut items = queues::list(&call.app.broker, names, memory.memory).await;
    items.iter_mut().for_each(|report| set_objective(&call.app, report));
    let page = QueueList { items, next: None, facts: QueueListFacts { unread: found.unread }, former: None };
    call.answer(&page)
}

/// Counts the jobs of one queue.
#[utoipa::path(get, path = "/api/v1/queues/{queue}", tag = "queues", params(MemoryParams),
    responses((status = 200, description = "The queue", body = QueueReport)))]
async fn get_queue(call: Call, QueryParams(MemoryParams { memory }): QueryParams<MemoryParams>) -> Answer {
    let queue = call.queue()?;
    let name = queue.name().clone();
    let mut report = queues::show(queue, memory).await;
    set_objective(&call.app, &mut report);
    if report.is_empty() {
        names::must_have(&call.app, &name).await?;
    }
    call.answer(&report)
}

type TypeList = List<QueueType, QueueTypeFacts>;

/// Lists the types that the live workers of a queue know, and those that none of them knows.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/types", tag = "queues",
    responses((status = 200, description = "The types", body = TypeList)))]
async fn list_types(call: Call) -> Answer {
    let _permit = call.app.work_limits.begin(Work::Search)?;
    let queue = call.queue()?;
    let known = queue.known_types().await.map_err(redis("failed to ask which types are known"))?;
    let unserved_types = unserved::types(&queue).await;
    if known.is_none() && unserved_types.is_empty() {
        names::must_have(&call.app, queue.name()).await?;
    }
    let served = known.iter().flatten().map(|name| QueueType { job_type: name.to_string(), served: true });
    let unserved = unserved_types.iter().map(|one| &one.job_type);
    let unserved = unserved.map(|name| QueueType { job_type: name.clone(), served: false });
    let mut items: Vec<QueueType> = served.chain(unserved).collect();
    items.sort_by(|one, other| one.job_type.cmp(&other.job_type));
    let facts = QueueTypeFacts { queue: queue.name().to_string(), known: known.is_some(), unserved_types };
    call.answer(&TypeList { items, next: None, facts, former: None })
}
