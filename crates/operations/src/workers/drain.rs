//! Keeping one worker from taking jobs, without access to its host, and letting it take them again.

use serde::Serialize;
use streamfleet::Broker;
use streamfleet::job::{ConsumerName, QueueName};
use streamfleet_engine::admin::{Drain, DrainOutcome, Noted, WorkerInfo};

use super::{fact, running};
use crate::{Actor, Error, Operation, WORKERS_DRAIN, WORKERS_RESUME};

/// What a worker is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Take no further job.
    Drain {
        /// Whether the process ends once it runs nothing.
        exit: bool,
    },
    /// Take jobs.
    Resume,
}

impl Order {
    /// `drain` or `resume`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Drain { .. } => "drain",
            Self::Resume => "resume",
        }
    }

    fn operation(self) -> &'static Operation {
        match self {
            Self::Drain { .. } => &WORKERS_DRAIN,
            Self::Resume => &WORKERS_RESUME,
        }
    }

    /// What the audit says.
    fn told(self) -> &'static str {
        match self {
            Self::Drain { exit: true } => "asked to drain and end",
            Self::Drain { exit: false } => "asked to drain",
            Self::Resume => "asked to take jobs",
        }
    }
}

/// What became of a request to a worker.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct WorkerAsked {
    /// The worker.
    pub worker: String,
    /// `drain` or `resume`: what it was asked for.
    pub asked: &'static str,
    /// False if it had been asked for that before. Then nothing is changed, and the audit does not note it.
    pub changed: bool,
    /// By whom, then; absent if nobody had drained it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
    /// Why, then; absent if they did not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_why: Option<String>,
    /// How far it is: `asked`, `draining`, `drained`, `running`, or `gone` if no process has this name any more.
    pub state: &'static str,
    /// How many jobs it runs.
    pub running: u64,
}

impl WorkerAsked {
    /// Notes how far the worker is.
    pub fn look(&mut self, worker: Option<&WorkerInfo>) {
        self.running = worker.map_or(0, running);
        self.state = match worker {
            None => "gone",
            Some(worker) if !worker.has_heard() => "asked",
            Some(worker) => match fact(worker, "state") {
                "draining" => "draining",
                "drained" => "drained",
                _ => "running",
            },
        };
    }
}

/// Asks a worker for something. Its next beat hears of it. The audits of all its queues note it, unless it was asked for that before.
///
/// # Errors
///
/// [`Error::NotFound`] if no live worker has this name; [`Error::Conflict`] if it is of a version that looks for no requests;
/// [`Error::Redis`].
pub async fn ask(
    broker: &Broker,
    actor: &Actor,
    name: &ConsumerName,
    order: Order,
) -> Result<Noted<WorkerAsked>, Error> {
    let none = || Error::NotFound(format!("there is no live worker {name}"));
    let worker = look_up(broker, name).await?.ok_or_else(none)?;
    if !worker.can_drain() {
        let version = fact(&worker, "version");
        return Err(Error::Conflict(format!(
            "the worker {name} has the version {version}, which cannot be drained from elsewhere: send SIGTERM to its process"
        )));
    }
    let outcome = match order {
        Order::Drain { exit } => {
            broker.drain_worker(name, &Drain::new(actor.name(), actor.reason()).exits(exit)).await
        }
        Order::Resume => broker.resume_worker(name, actor.name(), actor.reason()).await,
    };
    let failed = Error::unsure(format!("{name} may or may not be asked to {}", order.word()));
    let asked = WorkerAsked {
        worker: name.to_string(),
        asked: order.word(),
        changed: true,
        asked_by: None,
        asked_why: None,
        state: "asked",
        running: running(&worker),
    };
    match outcome.map_err(failed)? {
        DrainOutcome::Unknown => Err(none()),
        DrainOutcome::Already { by, why } => {
            let [asked_by, asked_why] = [by, why].map(|text| Some(text).filter(|text| !text.is_empty()));
            Ok(Noted::of_nothing(WorkerAsked { changed: false, asked_by, asked_why, ..asked }))
        }
        DrainOutcome::Noted => {
            let action = actor.action(order.operation()).target(name.to_string()).outcome(order.told());
            Ok(broker.noted_in(queues_of(&worker), &action, asked).await)
        }
    }
}

/// Returns what a worker reports about itself; `None` if no live worker has this name.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn look_up(broker: &Broker, name: &ConsumerName) -> Result<Option<WorkerInfo>, Error> {
    broker.worker(name).await.map_err(Error::redis("failed to look up the worker"))
}

/// The queues that a worker serves.
pub fn queues_of(worker: &WorkerInfo) -> impl Iterator<Item = QueueName> + '_ {
    fact(worker, "queues").split(',').filter_map(|name| name.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_is_asked_for_is_an_operation() {
        for order in [Order::Drain { exit: true }, Order::Drain { exit: false }, Order::Resume] {
            assert!(order.operation().name.ends_with(order.word()), "{order:?}");
        }
    }
}
