//! The table of operations: what every door must know of each.
//!
//! It has what people and programs do to a fleet, or look at in it. These are none: `worker`, `dev` and `console`, which serve;
//! `check`, `config`, `bench`, `healthcheck`, `metrics`, `completions` and `man`, which are about the program and its machine; and
//! `top`, which shows and carries out other operations. Of the API, these are none: logins, probes and its description.
//! What the API shows of a part, such as a job's payload, a queue's types or live events, belongs to the operation that shows the
//! whole, and needs its role.

use super::Role;

/// What every door must know of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// Its name: in the audit, and the words of its command.
    pub name: &'static str,
    /// The weakest role that may use it.
    pub role: Role,
    /// What it does to the fleet.
    pub effect: Effect,
    /// Where it is asked for.
    pub doors: Doors,
}

/// Where an operation is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doors {
    /// At the command line and by the API, which do the same.
    Both,
    /// Only at the command line: it runs programs of the machine where it is typed, or reads files there.
    CommandLine,
}

/// What an operation does to the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// It changes nothing, and the audit does not note it.
    None,
    /// It changes something at once.
    Change,
    /// It changes many jobs, which may take long.
    Long,
    /// It adds jobs. The audit does not note it.
    Submission,
}

impl Effect {
    /// Whether the audit notes it.
    pub fn is_noted(self) -> bool {
        matches!(self, Self::Change | Self::Long)
    }
}

macro_rules! operations {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $role:ident, $effect:ident $(, $doors:ident)?;)*) => {
        $($(#[$doc])* pub const $id: Operation = Operation {
            name: $name,
            role: Role::$role,
            effect: Effect::$effect,
            doors: operations!(@doors $($doors)?),
        };)*

        /// All operations.
        pub const OPERATIONS: &[Operation] = &[$($id),*];
    };
    (@doors) => { Doors::Both };
    (@doors $doors:ident) => { Doors::$doors };
}

operations! {
    /// Shows everything that is known about one job.
    STATUS = "status", Viewer, None;
    /// Finds jobs by state, type, payload, header, text or time.
    JOBS = "jobs", Viewer, None;
    /// Lists jobs that ended, from a database.
    HISTORY_LIST = "history list", Viewer, None;
    /// Shows all that the database has about the lives of a job's id.
    HISTORY_SHOW = "history show", Viewer, None;
    /// Counts jobs that ended, by type and state.
    HISTORY_STATS = "history stats", Viewer, None;
    /// Brings jobs that ended back as dead letters, from a database.
    HISTORY_RESTORE = "history restore", Operator, Long;
    /// Runs a job once, to find its mistake. Nothing in Redis changes.
    REPRODUCE = "reproduce", Viewer, None, CommandLine;
    /// Shows the progress of a batch.
    BATCH = "batch", Viewer, None;
    /// Shows the steps of a job.
    STEPS = "steps", Viewer, None;
    /// Cancels one job, or all that a filter matches.
    CANCEL = "cancel", Operator, Long;
    /// Makes one delayed job due, or all that a filter matches.
    RUN_NOW = "run-now", Operator, Long;
    /// Moves all jobs that a filter matches to another queue.
    MOVE = "move", Operator, Long;
    /// Lists delayed jobs, the next due first.
    DELAYED_LIST = "delayed list", Viewer, None;
    /// Changes when a delayed job is due, or its payload.
    DELAYED_EDIT = "delayed edit", Operator, Change;
    /// Lists the incidents.
    ALERTS_LIST = "alerts list", Viewer, None;
    /// Sends no reminders of an incident for a time.
    ALERTS_ACK = "alerts ack", Operator, Change;
    /// Sends a test message to a sink.
    ALERTS_TEST = "alerts test", Operator, None;
    /// Shows what people did.
    AUDIT = "audit", Viewer, None;
    /// Lists the recurring jobs of a queue.
    CRON_LIST = "cron list", Viewer, None;
    /// Adds a recurring job, or replaces one.
    CRON_ADD = "cron add", Operator, Change;
    /// Pauses a recurring job.
    CRON_PAUSE = "cron pause", Operator, Change;
    /// Resumes a recurring job.
    CRON_RESUME = "cron resume", Operator, Change;
    /// Submits a job of a recurring job now.
    CRON_RUN = "cron run", Operator, Change;
    /// Removes a recurring job.
    CRON_REMOVE = "cron remove", Operator, Change;
    /// Lists dead letters.
    DEAD_LIST = "dead list", Viewer, None;
    /// Counts dead letters by what killed their jobs.
    DEAD_GROUPS = "dead groups", Viewer, None;
    /// Shows a dead letter with all its fields.
    DEAD_SHOW = "dead show", Viewer, None;
    /// Writes out dead letters with all their fields.
    DEAD_EXPORT = "dead export", Viewer, None;
    /// Changes a dead letter before it is replayed.
    DEAD_EDIT = "dead edit", Operator, Change;
    /// Runs the jobs of dead letters again.
    DEAD_REPLAY = "dead replay", Operator, Long;
    /// Deletes dead letters and their jobs.
    DEAD_DROP = "dead drop", Operator, Long;
    /// Lists the gates of a queue.
    GATES_LIST = "gates list", Viewer, None;
    /// Sets the limits of a gate.
    GATES_SET = "gates set", Operator, Change;
    /// Removes the limits of a gate that somebody has set.
    GATES_CLEAR = "gates clear", Operator, Change;
    /// Pauses a queue, a type, or a field's value.
    PAUSE = "pause", Operator, Change;
    /// Resumes what was paused.
    RESUME = "resume", Operator, Change;
    /// Counts the jobs of one queue, or of each.
    QUEUES = "queues", Viewer, None;
    /// Cancels the waiting and delayed jobs of a queue, and drops its dead letters.
    QUEUES_PURGE = "queues purge", Admin, Long;
    /// Deletes a queue with everything that it has.
    QUEUES_DELETE = "queues delete", Admin, Long;
    /// Submits and files what the tables of another queue have.
    IMPORT = "import", Admin, Long, CommandLine;
    /// Submits a job, or many.
    ENQUEUE = "enqueue", Submitter, Submission;
    /// Shows what happened in a queue lately.
    STATS = "stats", Viewer, None;
    /// Lists past events of a queue.
    EVENTS = "events", Viewer, None;
    /// Decides about a step that failed, or that may or may not have done its work.
    STEPS_DECIDE = "steps decide", Operator, Change;
    /// Lists the tasks of a queue.
    TASKS_LIST = "tasks list", Viewer, None;
    /// Shows how a task fares.
    TASKS_SHOW = "tasks show", Viewer, None;
    /// Pauses a task.
    TASKS_PAUSE = "tasks pause", Operator, Change;
    /// Continues a task that was paused.
    TASKS_RESUME = "tasks resume", Operator, Change;
    /// Stops a task for good.
    TASKS_STOP = "tasks stop", Operator, Change;
    /// Moves back what a task has moved.
    TASKS_UNDO = "tasks undo", Operator, Long;
    /// Lists the live workers.
    WORKERS_LIST = "workers list", Viewer, None;
    /// Keeps a worker from taking jobs.
    WORKERS_DRAIN = "workers drain", Operator, Change;
    /// Lets a worker that drains take jobs again.
    WORKERS_RESUME = "workers resume", Operator, Change;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_operation_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        assert_eq!(names.len(), OPERATIONS.len());
    }

    #[test]
    fn what_changes_something_needs_more_than_to_look() {
        let changes = OPERATIONS.iter().filter(|operation| operation.effect != Effect::None);
        for operation in changes {
            assert!(operation.role > Role::Viewer, "{}", operation.name);
        }
    }
}
