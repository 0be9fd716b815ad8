//! One step while its handler runs: its context, its timeout, and what cuts it short. It touches no ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::broker::StepRun;
use crate::job::{Failure, FailureKind, Outcome, Retry, StepName};
use crate::traces::{AttemptSpan, within};
use crate::worker::delivery::Delivery;
use crate::worker::executor::{Executor, SETTLE_MARGIN, outcome_within_grace};
use crate::worker::handler::{JobContext, StepView};
use crate::worker::slot_timer::reached;
use crate::worker::steps::Part;

/// A step that is about to run, or runs.
pub(super) struct Handling<'a> {
    pub(super) executor: &'a Executor,
    pub(super) delivery: &'a Arc<Delivery>,
    pub(super) part: &'a Part,
    pub(super) run: StepRun,
    /// The number of runs that counted before this one.
    pub(super) attempts: u32,
    /// What the type, or the job, allows each step.
    pub(super) timeout: Duration,
    /// The results of the steps that are done.
    pub(super) results: Vec<(StepName, Bytes)>,
    /// The steps that must be done before it.
    pub(super) after: Vec<StepName>,
    pub(super) is_first: bool,
    /// Whether other steps of the job run.
    pub(super) is_beside: bool,
}

/// A step whose handler has returned.
pub(super) struct EndedStep {
    /// The index of the step.
    pub(super) at: usize,
    pub(super) run: StepRun,
    pub(super) attempts: u32,
    /// How it ended, or, as an error, why the attempt must end although nothing has begun the step.
    pub(super) outcome: Result<Outcome, Outcome>,
}

impl Handling<'_> {
    /// Runs the handler to its end. It runs again if nothing has begun the step and the attempt may still begin.
    pub(super) async fn handle(self, at: usize) -> EndedStep {
        let outcome = loop {
            let outcome = self.handle_once().await;
            if !(self.is_first && self.delivery.held_lease.take_unbegun()) {
                break Ok(outcome);
            }
            if let Err(refused) = Box::pin(self.executor.ask_again(self.delivery, true)).await {
                break Err(refused);
            }
        };
        EndedStep { at, run: self.run, attempts: self.attempts, outcome }
    }

    /// Calls the handler, under the step's timeout and the attempt's cancellation.
    async fn handle_once(&self) -> Outcome {
        let (held_lease, part) = (&self.delivery.held_lease, self.part);
        let timeout = part.limits.timeout_within(self.timeout);
        let deadline = Instant::now() + timeout;
        let longest = deadline + part.handler.grace() + SETTLE_MARGIN;
        if self.is_beside {
            held_lease.renew_at_least_until(longest);
        } else {
            held_lease.renew_until(longest);
        }
        let token: CancellationToken = held_lease.token().child_token();
        let span = self.span();
        let aware = Arc::new(AtomicBool::new(false));
        let view = StepView {
            name: self.run.step.clone(),
            kind: self.run.kind,
            is_first: self.is_first,
            attempts: self.attempts,
            token: token.clone(),
            aware: Arc::clone(&aware),
            results: self.results.clone(),
            after: self.after.clone(),
            trace: span.as_ref().map(|span| span.context),
        };
        let reports = Arc::clone(&self.executor.reporter.reports);
        let context = JobContext::new(Arc::clone(self.delivery), reports, deadline, true).in_step(view);
        let running = within(span.as_ref(), part.handler.run(context));
        let outcome = self.bounded(running, (timeout, deadline), &token, &aware).await;
        if let Some(span) = span {
            span.end_step(&outcome);
        }
        outcome
    }

    /// Begins the step's span, if the attempt has one.
    fn span(&self) -> Option<AttemptSpan> {
        self.delivery.trace()?;
        self.executor.tracer.as_ref()?.begin_step(&self.run.step, self.attempts)
    }

    /// Runs a handler within the step's timeout and the attempt's cancellation. `aware`: whether it knows, or may know, that it is
    /// cut short.
    async fn bounded(
        &self,
        mut running: BoxFuture<'_, Outcome>,
        (timeout, deadline): (Duration, Instant),
        token: &CancellationToken,
        aware: &AtomicBool,
    ) -> Outcome {
        let held_lease = &self.delivery.held_lease;
        let is_aware = || aware.load(Ordering::Relaxed);
        let cut_short = tokio::select! {
            biased;
            outcome = &mut running => {
                // It may have failed because it saw its cancellation before we did.
                let failed = matches!(outcome, Outcome::Failed(_)) && held_lease.is_cut();
                return if failed && is_aware() { Outcome::Interrupted } else { outcome };
            }
            () = reached(deadline) => {
                token.cancel();
                let error = format!("the handler ran longer than its timeout of {timeout:?}");
                Outcome::Failed(Failure::new(FailureKind::Timeout, error, Retry::Policy))
            }
            () = held_lease.token().cancelled() => Outcome::Interrupted,
        };
        // What the handler says in its grace period counts if it is more than the consequence of our cutting it short.
        match outcome_within_grace(running, self.part.handler.grace()).await {
            Some(outcome @ (Outcome::Done(_) | Outcome::Snoozed(_))) => outcome,
            Some(outcome) if !is_aware() => outcome,
            Some(_) | None => cut_short,
        }
    }
}
