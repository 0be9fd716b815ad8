//! What may come in between before a job ends: its timeout, its expiry, and a pause.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{GateName, JobId, JobType, State as JobState};
use streamfleet_engine::admin::{Holdings, Status};
use streamfleet_operations::gates::Standing;
use utoipa_axum::routes;

use super::job::found;
use super::{Answer, Call, Problem, Routes, millis, operations};
use crate::console::app_state::AppState;

pub(super) fn routes() -> Routes {
    Routes::default().operation(&operations::STATUS, routes!(get_prospects))
}

/// What may come in between. What does not apply, or cannot be read, is null.
#[derive(Default, Serialize, utoipa::ToSchema)]
struct JobProspects {
    /// The time of the server's clock, in milliseconds since 1970.
    now_ms: u64,
    /// When the running attempt began, if its worker has reported that.
    started_ms: Option<u64>,
    /// How long an attempt may run, by the job or by the console's configuration of its type.
    timeout_ms: Option<u64>,
    /// When the job expires unless it has started.
    expires_at_ms: Option<u64>,
    /// The gate that somebody has closed before it.
    paused: Option<PausedGate>,
}

/// A gate that somebody has closed.
#[derive(Serialize, utoipa::ToSchema)]
struct PausedGate {
    gate: String,
    by: String,
    reason: String,
    since_ms: u64,
    /// When it opens by itself; null for never.
    until_ms: Option<u64>,
}

/// Shows what may come in between before a job ends.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/jobs/{id}/prospects", tag = "jobs",
    responses((status = 200, description = "What may come in between", body = JobProspects)))]
async fn get_prospects(call: Call) -> Answer {
    let (queue, id) = (call.queue()?, call.path::<JobId>("id")?);
    let status = found(&call.app, &queue, &id).await?;
    let prospects = JobProspects::read(&call.app, (&queue, &status)).await?;
    call.answer(&prospects)
}

impl JobProspects {
    /// Reads them. What cannot be read is missing: the rest is worth seeing without it.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 429 if too many requests read payloads.
    async fn read(app: &AppState, (queue, status): (&Queue, &Status)) -> Result<Self, Problem> {
        let prospects = Self { now_ms: status.now.as_ms(), ..Self::default() };
        if status.state.is_final() {
            return Ok(prospects);
        }
        let [timeout_ms, expires_at_ms] = app.work_limits.read(numbers(queue, status)).await?;
        let job_type = status.job_type.parse::<JobType>().ok();
        let section = job_type.as_ref().and_then(|name| app.effective.config.types.get(name));
        // That of a type with steps is for one step.
        let of_type = section.filter(|section| section.steps.is_none());
        let of_type = of_type.map(|section| millis(section.policy.timeout));
        let timeout_ms = timeout_ms.or(of_type);
        if status.state == JobState::Running {
            return Ok(Self { started_ms: started(app, queue, status).await, timeout_ms, ..prospects });
        }
        let paused = match &job_type {
            Some(job_type) => paused(queue, status, job_type).await,
            None => None,
        };
        Ok(Self { timeout_ms, expires_at_ms, paused, ..prospects })
    }
}

/// The timeout of a job and when it expires, as its fields have them. Its payload comes with these, and is kept only while it is the
/// turn of this request to read.
async fn numbers(queue: &Queue, status: &Status) -> [Option<u64>; 2] {
    let Ok(Some(fields)) = queue.fields(status).await else { return [None; 2] };
    let number =
        |name: &str| -> Option<u64> { std::str::from_utf8(fields.get(name.as_bytes())?).ok()?.parse().ok() };
    ["timeout_ms", "expires_at_ms"].map(number)
}

/// When the running attempt began, as its worker reported it.
async fn started(app: &AppState, queue: &Queue, status: &Status) -> Option<u64> {
    let known = app.known().await.ok()?;
    let since = Holdings::of(&known.workers).since(status.worker.as_deref()?, queue.name(), status.entry?);
    since.map(|since| since.as_ms())
}

/// The gate that somebody has closed before a job: that of its type, that of its queue, or the one it waits at.
async fn paused(queue: &Queue, status: &Status, job_type: &JobType) -> Option<PausedGate> {
    let rules = queue.gates().rules().await.ok()?;
    let waitlist = status.waitlist.as_deref().and_then(|waitlist| waitlist.parse::<GateName>().ok());
    let mut gates = [GateName::of_type(job_type), GateName::queue()].into_iter().chain(waitlist);
    gates.find_map(|gate| match Standing::of(rules.get(&gate)?, None, status.now) {
        Standing::Paused { by, reason, since, until } => Some(PausedGate {
            gate: gate.to_string(),
            by,
            reason,
            since_ms: since.as_ms(),
            until_ms: until.map(|until| until.as_ms()),
        }),
        Standing::Ignored | Standing::Unreadable | Standing::Tripped(_) | Standing::Open => None,
    })
}
