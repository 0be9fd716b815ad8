//! What becomes of many jobs: the plan, and the outcome.

use std::collections::BTreeMap;

use serde::Serialize;
use streamfleet::Queue;
use streamfleet_engine::admin::{BulkAction, BulkPlan, BulkSelection, TaskState};

use crate::tasks::TaskReport;

/// The plan and its outcome.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct BulkReport {
    /// The queue.
    pub queue: String,
    /// The queue that gets the jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The filter, as the command names it; empty for all jobs.
    pub filter: String,
    /// True if this is only a plan.
    pub dry_run: bool,
    /// How many jobs matched beforehand.
    pub planned: u64,
    /// How many of them have each type, the most frequent first.
    pub types: Vec<BulkCount>,
    /// How many of them are in each state.
    pub states: Vec<BulkCount>,
    /// The first of them.
    pub sample: Vec<BulkSample>,
    /// What else to know beforehand.
    pub remarks: Vec<String>,
    /// How many were cancelled, made due, or moved.
    pub changed: u64,
    /// How many run and were asked to stop.
    pub requested: u64,
    /// How many of those that matched beforehand had ended or moved by themselves.
    pub gone: u64,
    /// How many were left alone, by reason.
    pub kept: BTreeMap<String, u64>,
    /// How many Redis refused to change.
    pub failed: u64,
    /// The last error with which it did, or with which a part of the queue could not be read.
    pub errors: Vec<String>,
    /// How many were left alone because the filter cannot read their payloads.
    pub undecided: u64,
    /// Parts of the queue that the plan could not read, and why.
    pub unread: Vec<String>,
    /// True if the task is not done.
    pub interrupted: bool,
    /// The task that changes the jobs; absent if this is only a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// How many jobs have a type or a state.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct BulkCount {
    /// The type or state. The types beyond a thousand are counted under the empty name.
    pub name: String,
    /// How many jobs have it.
    pub jobs: u64,
}

/// One job of the sample.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct BulkSample {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Its state.
    pub state: &'static str,
}

impl BulkReport {
    /// A report on a selection without a plan.
    pub(super) fn new(queue: &Queue, selection: &BulkSelection) -> Self {
        let to = if let BulkAction::Move(to) = &selection.action { Some(to.to_string()) } else { None };
        let (queue, filter) = (queue.name().to_string(), selection.filter.to_string());
        Self { queue, to, filter, ..Self::default() }
    }

    /// Takes the plan.
    pub(super) fn plan(&mut self, plan: &BulkPlan) {
        let sample = plan.sample.iter().map(|job| BulkSample {
            id: job.id.clone(),
            job_type: job.job_type.clone(),
            state: job.state.as_str(),
        });
        self.planned = plan.jobs;
        self.types = plan.types.iter().map(|(name, jobs)| count(name, *jobs)).collect();
        self.states = plan.states.iter().map(|(state, jobs)| count(state.as_str(), *jobs)).collect();
        self.sample = sample.collect();
        (self.undecided, self.unread) = (plan.undecided, plan.unread.clone());
    }

    /// Takes what a task has done with the jobs so far.
    pub fn take(&mut self, task: &TaskReport) {
        self.task = Some(task.id.clone());
        (self.changed, self.requested, self.kept) = (task.done, task.requested, task.kept.clone());
        (self.failed, self.errors) = (task.failed, task.error.iter().cloned().collect());
        self.undecided = task.undecided;
        self.interrupted = task.task.state != TaskState::Done;
        self.gone = if self.interrupted { 0 } else { self.planned.saturating_sub(task.matched) };
    }
}

fn count(name: &str, jobs: u64) -> BulkCount {
    BulkCount { name: name.to_owned(), jobs }
}
