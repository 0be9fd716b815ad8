//! Moving the jobs of a queue, or those that a filter matches, to another queue: first a plan, and then a task that somebody has
//! confirmed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use streamfleet::job::QueueName;
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::Noted;
use streamfleet_operations::jobs::bulk::{self, Bulk, BulkCount, Change, Planned};
use streamfleet_operations::{Actor, Control, Error};

use super::{Action, Desk};
use crate::bulk::bounded;
use crate::output::counted;
use crate::top::state::conditions;

/// For how long jobs are counted. A plan that takes longer says how many jobs the filter matches only when the task has looked at them.
const LONGEST: Duration = Duration::from_secs(10);

/// How many types a plan names.
const TYPES: usize = 3;

/// Jobs that somebody moves.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::top) struct Move {
    pub(in crate::top) from: QueueName,
    /// The filter as somebody typed it; may be empty.
    filter: String,
    pub(super) to: Option<QueueName>,
    pub(super) plan: Option<Plan>,
}

/// A plan, and what it was made of.
#[derive(Clone)]
pub(in crate::top) struct Plan(Arc<(Bulk, Planned)>);

impl fmt::Debug for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Plan({} jobs)", self.0.1.report.planned)
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Move {
    /// Moves the jobs that a filter matches.
    ///
    /// # Errors
    ///
    /// Says which condition a move cannot have.
    pub(in crate::top) fn new(from: QueueName, filter: String) -> Result<Self, String> {
        let sought = conditions(&filter)?;
        if sought.worker.is_some() || sought.gate.is_some() {
            return Err("a move cannot choose jobs by worker= or gate=: change the filter".to_owned());
        }
        Ok(Self { from, filter, to: None, plan: None })
    }

    /// Sets the queue that gets the jobs.
    pub(super) fn set(&mut self, text: &str) -> Result<(), String> {
        let to = text.parse::<QueueName>().map_err(|error| error.to_string())?;
        if to == self.from {
            return Err(format!("the jobs are in the queue {to} already"));
        }
        self.to = Some(to);
        Ok(())
    }

    /// What it will do.
    pub(super) fn told(&self) -> String {
        let (from, to) = (&self.from, self.to.as_ref().map_or("another queue", QueueName::as_str));
        let which =
            if self.filter.is_empty() { String::new() } else { format!(" that match {}", self.filter) };
        let Some(Plan(plan)) = &self.plan else {
            return format!(
                "Move the jobs of the queue {from}{which}, waiting or due later. A plan comes first."
            );
        };
        let (planned, report) = (&plan.1, &plan.1.report);
        let jobs = if planned.is_counted {
            format!("{} of the queue {from}{which}", counted(report.planned, "job", "jobs"))
        } else {
            format!("all jobs of the queue {from}{which}, too many to count now,")
        };
        format!("Move {jobs} to {to}{}. Those that a worker takes meanwhile stay.", types(&report.types))
    }

    /// Plans it. Returns what somebody must confirm, and what they should know.
    pub(super) async fn plan(&self, desk: &Desk) -> anyhow::Result<(Action, String)> {
        let queue = desk.broker.queue(self.from.clone());
        let to = self.to.clone().ok_or_else(|| anyhow::anyhow!("no queue was chosen"))?;
        // Who confirms the plan has read its remarks.
        let change = Change::Move { to: desk.broker.queue(to), is_sure: true };
        let sought = conditions(&self.filter).map_err(anyhow::Error::msg)?;
        let all = sought.filter.is_empty();
        let bulk = bounded(change, sought.filter, queue.name(), &desk.effective);
        let bulk = Bulk { all, states: sought.states, ..bulk };
        let planned = counted_for_a_while(&queue, &bulk).await?;
        anyhow::ensure!(!planned.is_empty(), "no job matches: nothing is moved");
        let report = &planned.report;
        let undecided = counted(report.undecided, "job stays", "jobs stay");
        let undecided = (report.undecided > 0)
            .then(|| format!("{undecided}, because the filter cannot read the payload"));
        let remarks = report.remarks.iter().chain(&report.unread).cloned().chain(undecided);
        let warning = remarks.collect::<Vec<_>>().join("; ");
        let plan = Some(Plan(Arc::new((bulk, planned))));
        Ok((Action::Move(Box::new(Self { plan, ..self.clone() })), warning))
    }

    /// Begins the task of the plan.
    pub(super) async fn begin(&self, actor: &Actor, desk: &Desk) -> anyhow::Result<Noted<String>> {
        let Some(Plan(plan)) = &self.plan else { anyhow::bail!("there is no plan") };
        let queue = desk.broker.queue(self.from.clone());
        let begun = bulk::begin(&queue, actor, &plan.0, &plan.1).await?;
        Ok(begun.map(|task| format!("the task {} moves them; 7 lists tasks, and u there undoes it", task.id)))
    }
}

/// Plans, and counts the jobs unless that takes too long.
async fn counted_for_a_while(queue: &Queue, bulk: &Bulk) -> Result<Planned, Error> {
    let (stop, progress) = (Shutdown::new(), |_: u64| ());
    let counting = bulk::plan(queue, bulk, Control { stop: &stop, progress: &progress });
    tokio::pin!(counting);
    let planned = tokio::select! {
        biased;
        planned = &mut counting => planned,
        () = tokio::time::sleep(LONGEST) => {
            stop.request();
            counting.await
        }
    };
    if matches!(planned, Err(Error::Stopped)) { bulk::select(queue, bulk).await } else { planned }
}

/// The types that most of the jobs have.
fn types(types: &[BulkCount]) -> String {
    if types.is_empty() {
        return String::new();
    }
    let mut named: Vec<String> =
        types.iter().take(TYPES).map(|one| format!("{} {}", one.jobs, one.name)).collect();
    named.extend((types.len() > TYPES).then(|| format!("{} more types", types.len() - TYPES)));
    format!(" ({})", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_says_what_and_refuses_what_it_cannot_choose() {
        let of = |filter: &str| Move::new("mail".parse().unwrap(), filter.to_owned());
        assert!(of("worker=web-3").unwrap_err().contains("worker="));
        assert!(of("state=gone").is_err());
        let mut moved = of("type=mail.*").unwrap();
        assert!(moved.told().starts_with("Move the jobs of the queue mail that match type=mail.*"));
        assert!(moved.set("mail").unwrap_err().contains("already"));
        assert!(moved.set("no queue").is_err());
        moved.set("bulk").unwrap();
        assert_eq!(moved.to.unwrap().as_str(), "bulk");
    }
}
