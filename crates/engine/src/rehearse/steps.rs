//! The part of a rehearsal for jobs made of steps, batches, and jobs that are cancelled while they run.

use bytes::Bytes;

use super::super::attempt::call::only;
use super::super::{Action, DecideError, Decided, EndedRun, NewRun, StepBegun, StepEnded, StepRun};
use super::{Error, GENERATIONS, Rehearsal, State, expect_same, job, parsed};
use crate::job::{
    BatchId, Burial, DeadReason, Envelope, Parking, Settlement, StepEnd, StepKind, StepName, StepState,
    Verdict,
};
use crate::{Cancellation, Due, NewJob};

/// The plan of the job that is made of steps.
const PLAN: &str = "charge once";

impl Rehearsal<'_> {
    /// Runs a member of a batch whose only step fails, is retried by decision, fails again, and is then declared done.
    /// This completes the batch, and a job follows it.
    pub(super) async fn steps(&self) -> Result<(), Error> {
        let batch: BatchId = "batch".parse().expect("a plain word is a valid batch name");
        let follow =
            Envelope::new([(b"type".as_slice(), b"rehearsal".as_slice()), (b"id", b"followed")].into_iter());
        let follow = self.queue.batch_follower(follow).await?;
        let members = [self.id("stepped")];
        // Named, closed, and named again.
        for members in [&members[..], &[], &members] {
            expect_same("batch", self.queue.batch(&batch, &follow, members).await?, true)?;
        }
        let member = named("stepped", &[("batch", "batch")]);
        self.queue.append(&[member], None, None).await?;
        self.fail_step("1").await?;
        let decided = self.decide(Verdict::Run).await?;
        expect_same("decide", matches!(decided, Decided::Replayed(_)), true)?;
        self.fail_step("2").await?;
        expect_same("decide", self.decide(Verdict::Done).await?, Decided::Done)?;
        let (envelope, follower) = self.read().await?;
        self.apply(&envelope, &follower, &Settlement::Ack).await?;
        let state = self.queue.batch_status(&batch).await?.map(|batch| batch.state);
        expect_same("batched", state.as_deref(), Some("done"))
    }

    /// Reads the job, runs its step, which fails, and buries the job for it.
    async fn fail_step(&self, run: &str) -> Result<(), Error> {
        let (envelope, job) = self.read().await?;
        self.begin(&job).await?;
        let run = StepRun { step: self.step(), kind: StepKind::Once, run: run.into() };
        let new = NewRun { run: run.clone(), plan: PLAN.into(), has_read: true };
        let (steps, lane) = (self.queue.steps(), job.lane);
        let begun = only("step_begin", steps.begin_all(&self.consumer, lane, &[(&job, &new)]).await?)?;
        expect_same("step_begin", begun, StepBegun::Start)?;
        let error = Some(("error", "rehearsed".to_owned()));
        let end = StepEnd { state: StepState::Failed, attempts: 1, delay: None, error, result: None };
        let ended = EndedRun { run, end, dropped: None, next: None };
        let reported = only("step_end", steps.end_all(&self.consumer, lane, &[(&job, &ended)]).await?)?;
        expect_same("step_end", reported.ended, StepEnded::Recorded)?;
        let error = "rehearsed".to_owned();
        let burial = Burial { reason: DeadReason::NeedsDecision, error, attempts: 1 };
        self.apply(&envelope, &job, &Settlement::Bury(burial)).await
    }

    async fn decide(&self, verdict: Verdict) -> Result<Decided, Error> {
        let action = Action::new("rehearsal", "rehearsed");
        let (job, step) = (self.id("stepped"), self.step());
        let decided = self.queue.steps().decide(&job, (&step, verdict), None, &action, GENERATIONS).await;
        decided.map(|decided| decided.value).map_err(|error| {
            let DecideError::Redis(error) = error else {
                return Error::contract("decide", error.to_string());
            };
            error
        })
    }

    fn step(&self) -> StepName {
        "charge".parse().expect("a plain word is a valid step name")
    }

    /// Moves a job to the waiting list of its type, as if this worker did not know the type, and takes it from there.
    pub(super) async fn wait_for_type(&self) -> Result<(), Error> {
        self.queue.append(&[named("now", &[])], None, None).await?;
        let (envelope, job) = self.read().await?;
        let (link, types) = (self.queue.link(), [job.job_type.clone()]);
        self.apply(&envelope, &job, &Settlement::Park(Parking::unknown(&job.job_type))).await?;
        expect_same("types_with_jobs", self.queue.waiting_types(link, &types).await?, types.to_vec())?;
        expect_same("unserved", self.queue.unknown_types(1).await?.len(), 1)?;
        let live = self.broker.live_types(&self.queue).await?;
        self.queue.set_known_types(&live, GENERATIONS).await?;
        self.queue.known_types().await?;
        let taken = self.queue.take(link, &self.consumer, (&job.job_type, 1), None).await?;
        let (envelope, job) = parsed(taken.entries)?;
        self.apply(&envelope, &job, &Settlement::Ack).await
    }

    /// Cancels a job while it runs, and then forgets the request.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        self.queue.append(&[named("stopped", &[])], None, None).await?;
        let (envelope, job) = self.read().await?;
        self.begin(&job).await?;
        let cancelled = self.queue.cancel(&job.id, "the rehearsal", GENERATIONS).await?;
        expect_same("cancel", cancelled, Cancellation::Requested)?;
        let (unwanted, _) = self.queue.cancel_requests(self.queue.link(), &[&job.generation]).await?;
        expect_same("cancels", unwanted, vec![job.generation.clone()])?;
        self.apply(&envelope, &job, &Settlement::Cancel("rehearsed".to_owned())).await?;
        self.queue.forget_cancel_requests(0).await?;
        // The job that was cancelled earlier, while no worker held it.
        expect_same("take_cancelled", self.queue.endings().await?.is_empty(), false)?;
        let state = self.queue.status(&job.id).await?.map(|status| status.state);
        expect_same("status", state, Some(State::Cancelled))
    }
}

/// Creates a job with this id and these additional fields.
fn named(id: &'static str, more: &[(&'static str, &'static str)]) -> NewJob {
    let mut new = job(Due::In(GENERATIONS));
    new.due = Due::Now;
    let field = |(name, value): &(&'static str, &'static str)| {
        (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes()))
    };
    new.fields.extend([("id", id)].iter().chain(more).map(field));
    new
}
