//! Cancelling all jobs that a filter matches, making them due, or moving them: first a plan, then a task.

mod report;

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::job::{JobType, State};
use streamfleet_engine::admin::{Action, BulkAction, BulkError, BulkSelection, BulkTerms, Filter, Noted};

pub use self::report::{BulkCount, BulkReport, BulkSample};
use crate::tasks::{Plan, TaskReport, start};
use crate::{Actor, CANCEL, Control, Error, MOVE, Operation, RUN_NOW, unserved};

/// The most types about which the workers of another queue are asked.
const MAX_ASKED: usize = 20;

/// What is done to jobs.
#[derive(Clone)]
pub enum Change {
    /// They are cancelled. Running ones are asked to stop.
    Cancel,
    /// Delayed ones are made due.
    RunNow,
    /// Those that wait or are delayed go to another queue.
    Move {
        /// The queue that gets them.
        to: Queue,
        /// Whether that is meant even if nobody seems to have this queue.
        is_sure: bool,
    },
}

/// Which jobs are changed, and how.
#[derive(Clone)]
pub struct Bulk {
    /// What is done to them.
    pub change: Change,
    /// Which jobs.
    pub filter: Filter,
    /// Whether an empty filter means all jobs of the queue.
    pub all: bool,
    /// Only jobs in these states; empty: in all that can be changed in this way.
    pub states: Vec<State>,
    /// How long the records of cancelled jobs are kept.
    pub retention: Duration,
    /// The most jobs that the queue may have to which jobs are moved, by the configuration.
    pub max_depth: Option<u64>,
    /// How many jobs are changed per second, at most.
    pub rate: Option<f64>,
}

/// The jobs that are meant, and what is known about them beforehand.
pub struct Planned {
    selection: BulkSelection,
    /// Why it is probably a mistake.
    doubt: Option<String>,
    /// Whether the plan was made.
    pub is_counted: bool,
    /// The plan. Without one, it has no jobs.
    pub report: BulkReport,
}

impl Planned {
    /// Returns true if the plan was made, and no job matches.
    pub fn is_empty(&self) -> bool {
        self.is_counted && self.report.planned == 0
    }
}

impl Change {
    /// The operation.
    fn operation(&self) -> &'static Operation {
        match self {
            Self::Cancel => &CANCEL,
            Self::RunNow => &RUN_NOW,
            Self::Move { .. } => &MOVE,
        }
    }

    fn action(&self) -> BulkAction {
        match self {
            Self::Cancel => BulkAction::Cancel,
            Self::RunNow => BulkAction::RunNow,
            Self::Move { to, .. } => BulkAction::Move(to.name().clone()),
        }
    }
}

/// Selects the jobs that exist now, and counts none of them.
///
/// # Errors
///
/// [`Error::Invalid`] if nothing or the wrong states are selected, or the jobs are in that queue already; [`Error::Conflict`] if
/// no job can be moved there; [`Error::Redis`].
pub async fn select(queue: &Queue, input: &Bulk) -> Result<Planned, Error> {
    let action = input.change.action();
    check(queue, input, &action)?;
    let states = Some(&input.states[..]).filter(|states| !states.is_empty());
    let selected = queue.bulk().select(action, input.filter.clone(), states).await;
    let selection = selected.map_err(Error::redis("failed to read the clock of Redis"))?;
    let doubt = match &input.change {
        Change::Move { to, .. } => doubt(to).await?,
        Change::Cancel | Change::RunNow => None,
    };
    let report = BulkReport::new(queue, &selection);
    Ok(Planned { selection, doubt, is_counted: false, report })
}

/// Selects the jobs that exist now, and counts them: what would happen.
///
/// # Errors
///
/// The errors of [`select`], and [`Error::Stopped`] if it was stopped before all jobs were counted.
pub async fn plan(queue: &Queue, input: &Bulk, control: Control<'_>) -> Result<Planned, Error> {
    let mut planned = select(queue, input).await?;
    let plan = tokio::select! {
        biased;
        () = control.stop.requested() => return Err(Error::Stopped),
        plan = queue.bulk().plan(&planned.selection, control.progress) => plan,
    };
    planned.report.plan(&plan.map_err(Error::redis("failed to read the jobs"))?);
    planned.is_counted = true;
    if let Change::Move { to, .. } = &input.change {
        let remarks = remarks(queue, to, input.max_depth, &planned.report).await;
        planned.report.remarks = planned.doubt.iter().cloned().chain(remarks).collect();
    }
    Ok(planned)
}

/// Begins a task that changes the jobs of a selection.
///
/// # Errors
///
/// [`Error::Doubtful`] if jobs are to be moved to a queue that nobody seems to have; [`Error::Conflict`] if there are too many tasks;
/// [`Error::Invalid`] if the rate cannot be used; [`Error::Redis`].
pub async fn begin(
    queue: &Queue,
    actor: &Actor,
    input: &Bulk,
    planned: &Planned,
) -> Result<Noted<TaskReport>, Error> {
    if let (Change::Move { is_sure: false, .. }, Some(doubt)) = (&input.change, &planned.doubt) {
        return Err(Error::Doubtful(doubt.clone()));
    }
    let action = target(actor.action(input.change.operation()), input, &planned.selection);
    let terms = BulkTerms::new(actor.name()).retention(input.retention).max_depth(input.max_depth);
    let plan = Plan::Change(&planned.selection, terms.rate(input.rate));
    start(queue, &plan, &action.count(planned.is_counted.then_some(planned.report.planned))).await
}

/// Refuses what nobody can have meant.
fn check(queue: &Queue, input: &Bulk, action: &BulkAction) -> Result<(), Error> {
    if input.filter.is_empty() && !input.all {
        let why = "select jobs by a filter, or say `all` for all jobs of the queue";
        return Err(Error::invalid("filter", why));
    }
    let possible = action.states();
    if let Some(state) = input.states.iter().find(|state| !possible.contains(state)) {
        let names: Vec<&str> = possible.iter().map(|state| state.as_str()).collect();
        return Err(Error::invalid("state", format!("it cannot be {state} here, only {}", names.join(", "))));
    }
    queue.bulk().check(action).map_err(refused)
}

fn refused(error: BulkError) -> Error {
    let why = error.to_string();
    let is_input = matches!(error, BulkError::SameQueue(_));
    if let BulkError::Redis(error) = error {
        return Error::redis("the jobs were not changed")(error);
    }
    if is_input { Error::invalid("to", why) } else { Error::Conflict(why) }
}

/// Why a move to this queue is probably a mistake: no worker has ever joined it, and it has no jobs.
async fn doubt(to: &Queue) -> Result<Option<String>, Error> {
    let failed = || Error::redis("failed to look at the queue that gets the jobs");
    if to.was_joined().await.map_err(failed())? {
        return Ok(None);
    }
    let snapshot = to.snapshot().await.map_err(failed())?;
    let jobs = snapshot.waiting() + snapshot.running() + snapshot.delayed + snapshot.dead;
    Ok((jobs == 0).then(|| format!("no worker serves the queue {}, and it has no jobs", to.name())))
}

/// Remarks on what keeps the jobs from getting to the other queue, or from running there: too many jobs, and types that no live
/// worker of it knows.
async fn remarks(queue: &Queue, to: &Queue, max_depth: Option<u64>, report: &BulkReport) -> Vec<String> {
    let name = to.name();
    let mut remarks = Vec::new();
    match queue.bulk().remaining_depth_of(name, max_depth).await {
        Ok(Some(left)) if left < report.planned => remarks.push(format!(
            "the queue {name} accepts {} at the moment (max_depth); the rest stay",
            further(left)
        )),
        Ok(_) => {}
        Err(error) => remarks.push(format!("the limit of the queue {name} is unknown: {error}")),
    }
    for count in report.types.iter().take(MAX_ASKED) {
        if let Ok(job_type) = count.name.parse::<JobType>() {
            remarks.extend(unserved::remark(to, &job_type).await);
        }
    }
    remarks
}

/// A number of further jobs.
fn further(count: u64) -> String {
    match count {
        0 => "no further jobs".to_owned(),
        1 => "1 further job".to_owned(),
        _ => format!("{count} further jobs"),
    }
}

/// Adds to an action which jobs it is about, as the command names them.
fn target(action: Action, input: &Bulk, selection: &BulkSelection) -> Action {
    let mut target = selection.filter.to_string();
    if target.is_empty() {
        "--all".clone_into(&mut target);
    }
    if !input.states.is_empty() {
        let states: Vec<&str> = selection.states.iter().map(|state| state.as_str()).collect();
        target = format!("--state {} {target}", states.join(","));
    }
    if let Change::Move { to, .. } = &input.change {
        target = format!("--to {} {target}", to.name());
    }
    action.target(target)
}
