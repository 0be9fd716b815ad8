//! Begins the first step of a job that has no ledger yet, without reading one.

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

    /// Begins the step that comes first. Returns false if there is a ledger all the same: then it must be read, because it
    /// says what comes first. An earlier life may have left it, or the entry may have been delivered to this consumer before.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis refuses for its own reasons, such as a key of another type.
    pub(super) async fn begin_unread(&mut self) -> Result<bool, Error> {
        let (steps, life) = (self.steps, self.delivery.job.life.to_string());
        let Next::Run(at) = steps.plan.next(&self.ledger, &life, self.now, &self.tried) else {
            return Ok(false);
        };
        let (run, plan) = (steps.run(at, &self.run), Arc::clone(&steps.text));
        let new = Arc::new(NewRun { run, plan, has_read: false });
        let begun = self.ask_first(|| self.executor.ledgers.begin(self.delivery, &new)).await;
        match begun {
            Ok(Some(StepBegun::Start)) => {
                self.tried.insert(at);
                self.begun = Some(at);
                Ok(true)
            }
            Ok(Some(StepBegun::Refused)) => Ok(false),
            // A call before this one may have been executed, without an answer.
            Ok(Some(StepBegun::Stale)) => {
                self.report_not_run(&new.run).await;
                Ok(false)
            }
            Ok(None) => {
                self.report_not_run(&new.run).await;
                Ok(true)
            }
            // A call before the one that was refused may have been executed.
            Err(error) => {
                self.report_not_run(&new.run).await;
                Err(error)
            }
        }
    }
}
