//! What helps to find something: the queues that know a job, and the names that a filter may have.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{JobId, QueueName};
use streamfleet_engine::admin::WorkerInfo;
use streamfleet_operations::{Error, List, jobs};
use utoipa_axum::routes;

use super::work_limits::Work;
use super::{Answer, Call, QueryParams, QueuesParams, Routes, operations};
use crate::console::access::Role;

/// How many queues are read at once.
const AT_ONCE: usize = 8;

/// The most names of each kind.
const MAX_NAMES: usize = 500;

/// The most queues whose gates are read.
const MAX_QUEUES: usize = 20;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::STATUS, routes!(find_job))
        .operation(&operations::JOBS, routes!(suggest))
}

/// A queue that knows a job.
#[derive(Serialize, utoipa::ToSchema)]
struct JobPlace {
    queue: String,
    /// The id of the job, also if it was named by its entry.
    id: String,
    #[serde(rename = "type")]
    job_type: String,
    state: &'static str,
    /// Its dead letter, if it is dead.
    dead_letter: Option<String>,
}

/// What is known about all queues that were asked.
#[derive(Serialize, utoipa::ToSchema)]
struct JobPlaceFacts {
    /// The queues that could not be read, and why.
    unread: Vec<String>,
}

type JobPlaces = List<JobPlace, JobPlaceFacts>;

/// Finds the queues that know a job, by its id or the id of its stream entry.
///
/// A job that has neither an id nor a record, and waits in a lane, is not found: look for it in its queue.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs", params(QueuesParams),
    responses((status = 200, description = "The queues", body = JobPlaces)))]
async fn find_job(call: Call, QueryParams(of): QueryParams<QueuesParams>) -> Answer {
    let id = call.path::<JobId>("id")?;
    let names = of.visible(&call).await?;
    let _permit = call.app.work_limits.begin(Work::Search)?;
    let looking: Vec<_> = names.into_iter().map(|name| known(call.app.queue(name), id.clone())).collect();
    let found: Vec<_> = stream::iter(looking).buffered(AT_ONCE).collect().await;
    let (mut items, mut unread) = (Vec::new(), Vec::new());
    for (queue, found) in found {
        match found {
            Ok(place) => items.extend(place),
            Err(error) => unread.push(format!("{}: {error}", queue.name())),
        }
    }
    let facts = JobPlaceFacts { unread };
    call.answer(&JobPlaces { items, next: None, facts, former: None })
}

/// What a queue knows of a job.
async fn known(queue: Queue, id: JobId) -> (Queue, Result<Option<JobPlace>, Error>) {
    let found = jobs::known(&queue, &id).await;
    let place = found.map(|status| {
        status.map(|status| JobPlace {
            queue: queue.name().to_string(),
            id: status.id.to_string(),
            job_type: status.job_type.clone(),
            state: status.state.as_str(),
            dead_letter: status.dead.map(|letter| letter.to_string()),
        })
    });
    (queue, place)
}

/// Names for fields to propose, at most 500 of each kind.
#[derive(Serialize, utoipa::ToSchema)]
struct Suggestions {
    /// The queues that you may see.
    queues: Vec<String>,
    /// The types that live workers of the queues that were asked for know.
    types: Vec<String>,
    /// The gates that these queues have a rule for, of the first 20 queues. Those whose names have values that you may not see are left
    /// out.
    gates: Vec<String>,
    /// The live workers of these queues.
    workers: Vec<String>,
}

/// Proposes names of queues, types, gates and workers.
#[utoipa::path(get, path = "/api/v1/suggestions", tag = "console", params(QueuesParams),
    responses((status = 200, description = "The names", body = Suggestions)))]
async fn suggest(call: Call, QueryParams(of): QueryParams<QueuesParams>) -> Answer {
    of.check(&call)?;
    let known = call.app.known().await?;
    // A name that does not exist yet is being typed.
    let asked = known.queues.iter().filter(|name| of.has(name) && call.person.may(Role::Viewer, name));
    let asked: Vec<QueueName> = asked.cloned().collect();
    let serves = |worker: &&WorkerInfo| listed(worker, "queues").any(|name| is_among(&asked, name));
    let workers: Vec<&WorkerInfo> = known.workers.iter().filter(serves).collect();
    let types: BTreeSet<String> =
        workers.iter().flat_map(|worker| listed(worker, "types")).map(str::to_owned).collect();
    let seen = known.queues.iter().filter(|name| call.person.may(Role::Viewer, name));
    let suggestions = Suggestions {
        queues: seen.take(MAX_NAMES).map(ToString::to_string).collect(),
        types: types.into_iter().take(MAX_NAMES).collect(),
        workers: workers.iter().take(MAX_NAMES).map(|worker| worker.consumer.clone()).collect(),
        gates: gates(&call, &asked).await,
    };
    call.answer(&suggestions)
}

fn listed<'a>(worker: &'a WorkerInfo, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let names = worker.facts.get(name).map_or("", String::as_str);
    names.split(',').filter(|name| !name.is_empty())
}

fn is_among(names: &[QueueName], name: &str) -> bool {
    names.iter().any(|known| known.as_str() == name)
}

/// The gates of the first of these queues. Those of a queue that cannot be read are left out.
async fn gates(call: &Call, names: &[QueueName]) -> Vec<String> {
    let queues = names.iter().take(MAX_QUEUES).map(|name| call.app.queue(name.clone()));
    let reading: Vec<_> = queues.map(rules).collect();
    let found: Vec<Vec<String>> = stream::iter(reading).buffered(AT_ONCE).collect().await;
    let gates: BTreeSet<String> =
        found.into_iter().flatten().filter(|gate| call.about(gate) == *gate).collect();
    gates.into_iter().take(MAX_NAMES).collect()
}

async fn rules(queue: Queue) -> Vec<String> {
    let rules = queue.gates().rules().await;
    rules.map(|rules| rules.iter().map(|rule| rule.gate.to_string()).collect()).unwrap_or_default()
}
