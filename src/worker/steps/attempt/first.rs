//! Begins the first step of an attempt before it runs, and of a job that has no ledger yet without reading one.

use std::sync::Arc;

use super::{Attempt, is_recorded_late};
use crate::broker::{Error, NewRun, StepBegun};
use crate::job::Next;

impl Attempt<'_> {
    /// Returns true if the job's entry shows that none of its steps was begun: it is the first, and no replay.
    pub(super) fn is_unstarted(&self) -> bool {
        let (job, envelope) = (&self.delivery.job, &self.delivery.envelope);
        let is_first = job.is_named_by_entry() || job.is_noted(envelope);
        is_first && envelope.get(b"dead_steps").is_none() && !is_recorded_late()
    }

    /// Begins the step that comes first, if one is ready. Returns false if the ledger must be read before the attempt runs,
    /// because it says why the step may not begin. Although `has_read` is false, there may be a ledger: an earlier generation may
    /// have left it, or the entry may have been delivered to this consumer before.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis refuses for its own reasons, such as a key of another type.
    pub(super) async fn begin_first(&mut self, has_read: bool) -> Result<bool, Error> {
        let (steps, generation) = (self.steps, self.delivery.job.generation.to_string());
        if self.delivery.held_lease.is_cut()
            || self.ledger.dropped(&generation).is_some()
            || is_recorded_late()
        {
            return Ok(true);
        }
        let Next::Run(at) = steps.plan.next(&self.ledger, &generation, self.now, &self.tried) else {
            return Ok(true);
        };
        let (run, plan) = (steps.run(at, &self.run), Arc::clone(&steps.text));
        let new = Arc::new(NewRun { run, plan, has_read });
        let begun = self.ask(|| self.executor.ledgers.begin(self.delivery, &new)).await;
        // A call before the last one may have been executed, without an answer.
        if !matches!(begun, Ok(Some(StepBegun::Start | StepBegun::Refused))) {
            self.report_not_run(&new.run).await;
        }
        let begun = begun?;
        if begun == Some(StepBegun::Start) || begun == Some(StepBegun::Refused) && has_read {
            self.tried.insert(at);
        }
        self.begun = (begun == Some(StepBegun::Start)).then_some(at);
        Ok(!matches!(begun, Some(StepBegun::Refused | StepBegun::Stale)))
    }
}
