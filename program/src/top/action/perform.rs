//! Carrying an action out: the operation that the commands and the API call, with the same actor, reason and audit.

use std::sync::Arc;

use streamfleet::job::{ConsumerName, GateName, JobId, QueueName, StepName};
use streamfleet::{Broker, FleetConfig, Queue};
use streamfleet_engine::admin::{Filter, Noted, ReplayRules};
use streamfleet_operations::dead::{self, Selected};
use streamfleet_operations::gates::{self, Pause};
use streamfleet_operations::jobs::{CancelOutcome, cancel};
use streamfleet_operations::{Actor, Error, steps, tasks, workers};

use super::{Action, Limit};
use crate::times::Clock;

/// What actions and reads need besides what they are about.
#[derive(Clone)]
pub(in crate::top) struct Desk {
    pub(in crate::top) broker: Broker,
    /// Only these queues are looked at; all, if there are none.
    pub(in crate::top) names: Arc<[QueueName]>,
    pub(in crate::top) fleet: Arc<FleetConfig>,
    /// The queues of the configuration.
    pub(in crate::top) configured: Arc<[QueueName]>,
    pub(in crate::top) clock: Clock,
}

/// What became of an action, in words.
pub(in crate::top) type Answer = Result<String, Failure>;

/// Why an action was not carried out.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::top) enum Failure {
    /// It is probably a mistake: somebody must confirm this action.
    Doubt(Action, String),
    /// It failed.
    Error(String),
}

/// Carries an action out.
pub(in crate::top) async fn perform(action: Action, actor: Actor, desk: Desk) -> Answer {
    match operate(&action, &actor, &desk).await {
        Ok(Noted { value, unnoted: None, .. }) => Ok(value),
        Ok(Noted { value, unnoted: Some(why), .. }) => Ok(format!("{value} (not noted in the audit: {why})")),
        Err(error) => Err(match (error.downcast_ref::<Error>(), action.for_sure()) {
            (Some(Error::Doubtful(doubt)), Some(sure)) => Failure::Doubt(sure, doubt.clone()),
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
            let retention = desk.fleet.worker.retention_of(queue);
            let cancelled = cancel(&of(queue), actor, &id.parse::<JobId>()?, retention).await?;
            cancelled.map(|cancelled| format!("{id} {}", outcome(&cancelled.outcome)))
        }
        Action::Replay { queue, group, canary, .. } => {
            let queue = of(queue);
            let letters = Selected::now(&queue, Filter::new().group(group)?, None).await?;
            let rules = ReplayRules::default().canary(*canary);
            let begun = dead::begin_replay(&queue, actor, &letters, rules).await?;
            begun.map(|task| format!("the task {} replays {canary} first; 7 lists tasks", task.id))
        }
        Action::Decide { queue, job, step, verdict } => {
            let retention = desk.fleet.worker.retention_of(queue);
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
    })
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
    Ok(changed.map(|changed| {
        let at_once = changed.concurrency.map(|jobs| format!("{jobs} at once"));
        let limits: Vec<String> = [at_once, changed.rate].into_iter().flatten().collect();
        let limits = if limits.is_empty() { "none".to_owned() } else { limits.join(", ") };
        format!("limits of {gate} of {}: {limits}", changed.queue)
    }))
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
