//! Carrying an action out: the operation that the commands and the API call, with the same actor, reason and audit.

use std::sync::Arc;

use streamfleet::job::{ConsumerName, GateName, JobId, QueueName, StepName};
use streamfleet::schema::Schemas;
use streamfleet::{Broker, Queue, Shutdown};
use streamfleet_engine::admin::{Filter, LetterEdit, Noted, ReplayRules};
use streamfleet_operations::dead::{self, Selected, Sweep};
use streamfleet_operations::gates::{self, Pause};
use streamfleet_operations::jobs::{CancelOutcome, cancel};
use streamfleet_operations::{Actor, Error, steps, tasks, workers};
use streamfleet_service::config::Effective;

use super::{Action, Limit};
use crate::cancel::retention;
use crate::times::Clock;
use streamfleet_sql::LazyDatabase;

/// What actions and reads need besides what they are about.
#[derive(Clone)]
pub(in crate::top) struct Desk {
    pub(in crate::top) broker: Broker,
    /// Only these queues are looked at; all, if there are none.
    pub(in crate::top) names: Arc<[QueueName]>,
    pub(in crate::top) effective: Arc<Effective>,
    /// The database of the history, if there is one.
    pub(in crate::top) history: Option<Arc<LazyDatabase>>,
    /// The queues of the configuration.
    pub(in crate::top) configured: Arc<[QueueName]>,
    /// The configured schemas of types, or why they cannot be read: only an edit needs them.
    pub(in crate::top) schemas: Result<Arc<Schemas>, String>,
    pub(in crate::top) clock: Clock,
}

/// What became of an action, in words.
pub(in crate::top) type Answer = Result<String, Failure>;

/// Why an action was not carried out.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::top) enum Failure {
    /// Somebody must confirm this action, and know this first; may be empty.
    Confirm(Action, String),
    /// It failed.
    Error(String),
}

/// Carries an action out.
pub(in crate::top) async fn perform(action: Action, actor: Actor, desk: Desk) -> Answer {
    if let Action::Move(moved) = &action
        && moved.plan.is_none()
    {
        let (action, warning) =
            moved.plan(&desk).await.map_err(|error| Failure::Error(format!("{error:#}")))?;
        return Err(Failure::Confirm(action, warning));
    }
    match operate(&action, &actor, &desk).await {
        Ok(Noted { value, unnoted: None, .. }) => Ok(value),
        Ok(Noted { value, unnoted: Some(why), .. }) => Ok(format!("{value} (not noted in the audit: {why})")),
        Err(error) => Err(match (error.downcast_ref::<Error>(), action.for_sure()) {
            (Some(Error::Doubtful(doubt)), Some(sure)) => {
                Failure::Confirm(sure, format!("{doubt}. Enter does it all the same."))
            }
            _ => Failure::Error(format!("{error:#}")),
        }),
    }
}

async fn operate(action: &Action, actor: &Actor, desk: &Desk) -> anyhow::Result<Noted<String>> {
    let of = |queue: &QueueName| desk.broker.queue(queue.clone());
    Ok(match action {
        Action::Pause { queue, gate, time, is_sure } => {
            let input = Pause { gate: gate.parse::<GateName>()?, time: *time, is_sure: *is_sure };
            gates::pause(&of(queue), actor, &input).await?.map(|_| format!("{gate} of {queue} is paused"))
        }
        Action::Resume { queue, gate } => {
            let resumed = gates::resume(&of(queue), actor, &gate.parse::<GateName>()?).await?;
            resumed.map(|resumed| {
                let how = if resumed.changed { "is resumed" } else { "was not paused" };
                format!("{gate} of {queue} {how}")
            })
        }
        Action::Limit { queue, gate, limit } => set_limit(&of(queue), actor, gate, *limit).await?,
        Action::Cancel { queue, id } => {
            let retention = retention(queue, &desk.effective);
            let cancelled = cancel(&of(queue), actor, &id.parse::<JobId>()?, retention).await?;
            cancelled.map(|cancelled| format!("{id} {}", outcome(&cancelled.outcome)))
        }
        Action::ReplayJob { queue, id, letter } => replay_job(&of(queue), actor, (id, letter)).await?,
        Action::Replay { queue, group, canary, .. } => {
            let queue = of(queue);
            let letters = Selected::now(&queue, Filter::new().group(group)?, None).await?;
            let rules = ReplayRules::default().canary(*canary);
            let begun = dead::begin_replay(&queue, actor, &letters, rules).await?;
            begun.map(|task| format!("the task {} replays {canary} first; 7 lists tasks", task.id))
        }
        Action::Decide { queue, job, step, verdict } => {
            let retention = retention(queue, &desk.effective);
            let (job, step) = (job.parse::<JobId>()?, step.parse::<StepName>()?);
            let input = steps::Decision { job, step, verdict: *verdict, result: None, retention };
            let decided = steps::decide(&of(queue), actor, &input).await?;
            decided.map(|decided| format!("{} of {}: {}", decided.step, decided.id, decided.verdict))
        }
        Action::Worker { name, order } => {
            let asked = workers::ask(&desk.broker, actor, &name.parse::<ConsumerName>()?, *order).await?;
            asked.map(|asked| {
                let before = if asked.changed { "" } else { " before" };
                format!("{name} was asked to {}{before}", asked.asked)
            })
        }
        Action::Task { queue, id, order } => {
            let changed = tasks::change(&of(queue), actor, id, *order).await?;
            changed.map(|task| format!("the task {id} is {}", task.state))
        }
        Action::UndoMove { queue, id } => {
            let begun = tasks::undo(&of(queue), actor, id).await?;
            begun.map(|task| format!("the task {} moves back what {id} has moved; 7 lists tasks", task.id))
        }
        Action::UndoEdits { queue, letter, .. } => undo_edits(&of(queue), actor, letter, desk).await?,
        Action::Move(moved) => moved.begin(actor, desk).await?,
    })
}

/// Replays one dead letter. Unless its job runs again, this is an error.
async fn replay_job(
    queue: &Queue,
    actor: &Actor,
    (id, letter): (&str, &str),
) -> anyhow::Result<Noted<String>> {
    let mut swept =
        dead::sweep(queue, actor, Sweep::Replay, &[letter.parse::<JobId>()?], &Shutdown::new()).await;
    if let Some(failure) = swept.value.failure.take() {
        return Err(failure.into());
    }
    if swept.value.replayed == 0 {
        let why = swept.value.errors.into_iter().chain(swept.value.remarks).next();
        anyhow::bail!(why.unwrap_or_else(|| format!("{id} was not replayed")));
    }
    Ok(swept.map(|swept| match swept.needs_decision {
        0 => format!("{id} runs again"),
        _ => format!("{id} runs again until a step needs a decision: d decides about it"),
    }))
}

async fn undo_edits(
    queue: &Queue,
    actor: &Actor,
    letter: &str,
    desk: &Desk,
) -> anyhow::Result<Noted<String>> {
    let schemas = desk.schemas.as_ref().map_err(|why| anyhow::Error::msg(why.clone()))?;
    let letter = dead::find(queue.dead_letters(), queue, &letter.parse::<JobId>()?).await?;
    let changes = LetterEdit::default().undo();
    let edited =
        dead::edit(queue, actor, &dead::Edit { letter: &letter, changes: &changes, schemas }).await?;
    Ok(edited.map(|edited| format!("the edits of {} are taken back: it is now {}", edited.id, edited.letter)))
}

async fn set_limit(queue: &Queue, actor: &Actor, gate: &str, limit: Limit) -> anyhow::Result<Noted<String>> {
    let name = gate.parse::<GateName>()?;
    let changed = match limit {
        Limit::Cleared => gates::clear_limits(queue, actor, &name).await?,
        Limit::AtOnce(jobs) => {
            let limits = gates::limits_in_effect(queue, &name).await?.concurrency(jobs);
            gates::set_limits(queue, actor, &name, limits).await?
        }
        Limit::Rate(rate) => {
            let limits = gates::limits_in_effect(queue, &name).await?.rate(rate);
            gates::set_limits(queue, actor, &name, limits).await?
        }
    };
    Ok(changed.map(|changed| format!("limits of {gate} of {}: {}", changed.queue, changed.limits())))
}

/// What became of a job that was to be cancelled.
fn outcome(outcome: &CancelOutcome) -> String {
    match outcome {
        CancelOutcome::Done => "is cancelled".to_owned(),
        CancelOutcome::Requested => "runs, and is asked to stop".to_owned(),
        CancelOutcome::Repeated => "was cancelled before".to_owned(),
        CancelOutcome::Ended(state) => format!("had already ended: {state}"),
        CancelOutcome::Moved(queue) => format!("was moved to the queue {queue}, and goes on there"),
    }
}
