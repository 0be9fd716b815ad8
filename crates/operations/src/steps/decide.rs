//! A person's decision about a step that the fleet cannot decide about.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{JobId, StepName, Verdict};
use streamfleet_engine::admin::{DecideError, Decided, Noted};

use crate::{Actor, Error, STEPS_DECIDE, lookup};

/// A decision about one step.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The job's id, or that of its entry.
    pub job: JobId,
    /// The step.
    pub step: StepName,
    /// What is decided.
    pub verdict: Verdict,
    /// The step's result for later steps, as JSON of up to 16 KiB; only with [`Verdict::Done`].
    pub result: Option<String>,
    /// For how long the record of a job is kept that this ends.
    pub retention: Duration,
}

/// What a decision led to.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Decided)]
#[non_exhaustive]
pub struct StepDecided {
    /// The job.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// The step.
    pub step: String,
    /// What was decided: `done`, `run` or `give-up`.
    pub verdict: &'static str,
    /// What became of the job: `written` if it stays where it is, `replayed` or `done`.
    pub job: &'static str,
}

/// Decides about a step that failed, or that may or may not have done its work. The script that writes the decision also notes it.
///
/// # Errors
///
/// [`Error::NotFound`] if the job has no such step; [`Error::Invalid`] if no step can have the result; [`Error::Conflict`] if the
/// state of the step does not allow the verdict, or has just changed; [`Error::Redis`].
pub async fn decide(queue: &Queue, actor: &Actor, input: &Decision) -> Result<Noted<StepDecided>, Error> {
    let Decision { job, step, verdict, result, retention } = input;
    let id = id_of(queue, job).await?;
    let action = actor.action(&STEPS_DECIDE);
    let decided = queue.steps().decide(&id, (step, *verdict), result.as_deref(), &action, *retention).await;
    let report = |decided| StepDecided {
        id: id.to_string(),
        queue: queue.name().to_string(),
        step: step.to_string(),
        verdict: verdict.as_str(),
        job: match decided {
            Decided::Written => "written",
            Decided::Replayed(_) => "replayed",
            Decided::Done => "done",
        },
    };
    Ok(decided.map_err(refused)?.map(report))
}

/// The id of a job whose steps somebody may have named by the id of its entry.
async fn id_of(queue: &Queue, id: &JobId) -> Result<JobId, Error> {
    let steps = queue.steps().of(id).await;
    if steps.map_err(Error::redis("failed to read the steps"))?.is_some() {
        return Ok(id.clone());
    }
    Ok(lookup::find(queue, id).await?.map_or_else(|| id.clone(), |status| status.id))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other error is about the state of the step")]
fn refused(error: DecideError) -> Error {
    match error {
        DecideError::Redis(error) => Error::redis("failed to write the decision")(error),
        DecideError::BadResult(_) => Error::invalid("result", error.to_string()),
        DecideError::NoLedger { .. } | DecideError::NoStep { .. } => Error::NotFound(error.to_string()),
        error => Error::Conflict(error.to_string()),
    }
}
